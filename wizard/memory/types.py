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
    decode_context_parallel_size: int = 1
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    enforce_eager: bool = False
    capability: int | None = None
    """Ten times the compute capability of the GPU; None: not known."""
    quantization: str | None = None


class AttentionLayers(msgspec.Struct, frozen=True, kw_only=True):
    """Layers that keep a key and a value for every token, of the whole context or of a part of it."""

    layers: int
    kv_heads: int
    head_dim: int
    value_dim: int | None = None
    """Width of a value head; None: that of a key head."""
    window: int | None = None
    """Only the last so many tokens are kept."""
    chunk: int | None = None
    """Only the tokens of the chunk that is worked on are kept, chunks of so many."""


class LatentLayers(msgspec.Struct, frozen=True, kw_only=True):
    """Layers that keep one compressed vector of ``width`` elements a token (MLA), whole on every GPU."""

    layers: int
    width: int
    indexed: bool = False
    """With an index beside the vector, for sparse attention."""


class StateLayers(msgspec.Struct, frozen=True, kw_only=True):
    """Layers with linear attention: a state of fixed size a request, however long it is.

    A matrix of ``head_dim`` by ``state_dim`` a head, and the last ``kernel`` - 1 inputs of a convolution over
    the heads and two vectors of ``state_dim`` a group.
    """

    layers: int
    heads: int
    head_dim: int
    groups: int
    state_dim: int
    kernel: int
    recurrent_bytes: int = 2
    """Bytes of one element of the matrices; the convolution is kept in 16 bit."""
    checkpoint_blocks: int = 0
    """Blocks a request keeps beside the usual ones where prefixes are cached."""


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
    errors: Mapping[str, float] = {}
    """How far a figure may be off, GiB up or down; what was measured or asked for has none."""


class KvPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The KV cache as vLLM will report it, for one GPU and one window length.

    ``max_model_len_fit`` is the longest window of which one request fits, tokens.
    """

    max_model_len: int
    bytes_per_token: int
    """What one more token of a long request takes."""
    block_size: int
    bytes_per_block: int
    groups: int
    """Groups of layers that each take blocks of their own for a request."""
    num_blocks: int
    blocks_per_request: int
    cache_tokens: int
    max_concurrency: float
    needed_gib: float
    max_model_len_fit: int
