"""Memory of one GPU and the KV cache in it. All sizes are per GPU; GiB are binary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

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


class AttentionLayers(msgspec.Struct, frozen=True, kw_only=True):
    """Layers that keep a key and a value for every token, of the whole window or of the last ``window``."""

    layers: int
    kv_heads: int
    head_dim: int
    window: int | None = None


class LatentLayers(msgspec.Struct, frozen=True, kw_only=True):
    """Layers that keep one compressed vector of ``width`` elements a token (MLA), whole on every GPU."""

    layers: int
    width: int


class StateLayers(msgspec.Struct, frozen=True, kw_only=True):
    """Layers with linear attention: a state of fixed size a request, however long it is."""

    layers: int
    convolution_elements: int
    recurrent_elements: int
    recurrent_bytes: int
    """Bytes of one element of the recurrent state; the convolution is kept in 16 bit."""


CacheLayers: TypeAlias = AttentionLayers | LatentLayers | StateLayers


class CacheLayout(msgspec.Struct, frozen=True, kw_only=True):
    """What an architecture keeps for a request: layers that cache alike, in buckets.

    ``context`` is the longest window the checkpoint states, tokens.
    """

    buckets: tuple[CacheLayers, ...]
    context: int | None = None


class MemoryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How the memory of one GPU is split, GiB, and where each figure comes from.

    ``requested`` is ``weights + activation + graphs + other + available_kv``. A figure without an origin is
    what the user asked for.
    """

    total_gib: float
    """What CUDA sees of the GPU: a little less than NVML counts."""
    requested_gib: float
    weights_gib: float | None
    activation_gib: float | None
    graphs_gib: float | None
    other_gib: float
    """CUDA's own share and, with several GPUs, NCCL's buffers."""
    available_kv_gib: float | None
    """Left for the KV cache; negative: missing. None when weights or shape are unknown."""
    gpu_memory_utilization: float
    origins: Mapping[str, Origin]


class KvPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The KV cache as vLLM will report it, for one GPU and one window length.

    ``max_model_len_fit`` is the longest window of which one request fits, tokens.
    """

    max_model_len: int
    bytes_per_token: int
    """What one more token of a long request takes."""
    block_size: int
    bytes_per_block: int
    num_blocks: int
    blocks_per_request: int
    cache_tokens: int
    max_concurrency: float
    needed_gib: float
    max_model_len_fit: int
