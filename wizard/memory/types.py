"""Memory of one GPU and the KV cache in it. All sizes are per GPU; GiB are binary."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from wizard.catalog import Origin


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The vLLM settings that decide about memory; ``None`` means vLLM's default for the version."""

    vllm_version: str
    gpu_memory_utilization: float | None = None
    max_model_len: int | None = None
    kv_cache_dtype: str = "auto"
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    enforce_eager: bool = False
    quantization: str | None = None


class MemoryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How the memory of one GPU is split, GiB, and where each figure comes from."""

    total_gib: float
    requested_gib: float
    weights_gib: float | None
    activation_gib: float | None
    graphs_gib: float | None
    available_kv_gib: float | None
    gpu_memory_utilization: float
    origins: Mapping[str, Origin]


class KvPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The KV cache as vLLM will report it, for one GPU and one window length.

    ``max_model_len_fit`` is the longest window of which one request fits, tokens.
    """

    max_model_len: int
    bytes_per_token: int
    block_size: int
    bytes_per_block: int
    blocks_per_request: int
    cache_tokens: int
    max_concurrency: float
    needed_gib: float
    max_model_len_fit: int
