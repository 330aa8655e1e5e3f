"""vLLM's KV-cache arithmetic: from a layout and free memory to the figures vLLM will report.

Source: vLLM 0.33.0 vllm/v1/core/kv_cache_planning.py and vllm/v1/kv_cache_interface.py; what differs between
versions is in assets/memory.toml.
"""

from __future__ import annotations

import bisect
import math

import msgspec

from wizard.catalog import memory_facts, reached, vllm_facts
from wizard.errors import UnknownNameError
from wizard.i18n import _
from wizard.memory.types import (
    AttentionLayers,
    CacheLayers,
    CacheLayout,
    EngineSettings,
    KvPlan,
    LatentLayers,
    StateLayers,
)

GIB = 1 << 30
_NO_LIMIT = 1 << 24
"""Longest window looked for when the checkpoint states none, tokens."""


class _Group(msgspec.Struct, frozen=True, kw_only=True):
    """Layers of one bucket, in ``count`` groups with a block table each; blocks of ``block_size`` tokens."""

    layers: CacheLayers
    count: int
    block_size: int


class _Pool(msgspec.Struct, frozen=True, kw_only=True):
    """All groups draw blocks of one size in bytes from one pool; every group of a request needs its own."""

    block_size: int
    bytes_per_block: int
    bytes_per_token: int
    groups: tuple[_Group, ...]
    in_flight_tokens: int
    caches_states: bool
    """Prefix caching is on for models with linear attention."""
    context_ranks: int

    def blocks_per_request(self, window: int) -> int:
        """Blocks the longest possible request takes with this window."""
        return sum(group.count * self._blocks(group, window) for group in self.groups)

    def _blocks(self, group: _Group, window: int) -> int:
        match group.layers:
            case StateLayers(checkpoint_blocks=extra):
                return 2 + extra if self.caches_states else 1
            case AttentionLayers(window=int(length)):
                held = min(length - 1 + self.in_flight_tokens, window)
                return _ceil_div(held, group.block_size) + 1
            case AttentionLayers(chunk=int(length)):
                return _ceil_div(min(length + self.in_flight_tokens, window), group.block_size)
            case _:
                return _ceil_div(_ceil_div(window, self.context_ranks), group.block_size)


def kv_plan(
    layout: CacheLayout, settings: EngineSettings, available_kv_gib: float, max_model_len: int
) -> KvPlan:
    """What vLLM reports for a window of ``max_model_len`` tokens and this much memory for the cache.

    ``max_concurrency`` below 1 means vLLM refuses to start. Speculative decoding is not counted. Sliding
    windows also depend on ``max_num_batched_tokens``: fill it with ``on_gpu`` first, else the largest
    of vLLM's defaults is taken.
    Raises UnknownNameError for a cache type vLLM does not know.
    """
    pool = _pool(layout, settings)
    blocks = _blocks_in(pool, available_kv_gib)
    request = pool.blocks_per_request(max_model_len)
    concurrency = blocks / request
    return KvPlan(
        max_model_len=max_model_len,
        bytes_per_token=pool.bytes_per_token,
        block_size=pool.block_size,
        bytes_per_block=pool.bytes_per_block,
        groups=sum(group.count for group in pool.groups),
        num_blocks=blocks,
        blocks_per_request=request,
        cache_tokens=int(concurrency * max_model_len),
        max_concurrency=concurrency,
        needed_gib=request * pool.bytes_per_block / GIB,
        max_model_len_fit=_longest(pool, blocks, layout.context, 1),
    )


def longest_window(
    layout: CacheLayout, settings: EngineSettings, available_kv_gib: float, *, concurrency: int = 1
) -> int:
    """The longest window of which ``concurrency`` requests fit at once, tokens; 0 when no token does.

    Never longer than the checkpoint's own context.
    """
    pool = _pool(layout, settings)
    return _longest(pool, _blocks_in(pool, available_kv_gib), layout.context, concurrency)


def read_bytes(layout: CacheLayout, settings: EngineSettings, tokens: int) -> float:
    """Bytes of the cache that one GPU reads for the next token of a request of ``tokens``, all its layers.

    Layers with linear attention also write their state back. What is counted is the whole model's cache,
    whatever the stages of a pipeline: a token goes through all of them. Raises UnknownNameError for a cache
    type vLLM does not know.
    """
    read = 0.0
    for layers in layout.buckets:
        match layers:
            case StateLayers():
                read += 2 * layers.layers * _state_bytes(layers, settings)
            case AttentionLayers(window=int(length)) | AttentionLayers(chunk=int(length)):
                read += layers.layers * min(length, tokens) * _token_bytes(layers, settings)
            case _:
                read += layers.layers * tokens * _token_bytes(layers, settings)
    return read


def _longest(pool: _Pool, blocks: int, context: int | None, concurrency: int) -> int:
    # One block is never handed out. Older versions forget it: a request that needs every block then waits for
    # ever (https://github.com/vllm-project/vllm/pull/47272), so it is not counted for them either.
    windows = range(1, min(context or _NO_LIMIT, _NO_LIMIT) + 1)
    return bisect.bisect_right(
        windows, blocks - 1, key=lambda window: pool.blocks_per_request(window) * concurrency
    )


def _blocks_in(pool: _Pool, available_kv_gib: float) -> int:
    return max(0, int(available_kv_gib * GIB)) // pool.bytes_per_block


def _pool(layout: CacheLayout, settings: EngineSettings) -> _Pool:
    facts, stages = memory_facts(), settings.pipeline_parallel_size
    base = _block_size(layout, settings)
    if all(_whole(layers) for layers in layout.buckets):
        # All need the same number of tokens: one group, whatever the layers' sizes.
        pages = [math.ceil(base * _token_bytes(layers, settings)) for layers in layout.buckets]
        counts = [_ceil_div(layers.layers, stages) for layers in layout.buckets]
        length, page = 1, sum(map(int.__mul__, counts, pages))
        groups = [_Group(layers=layout.buckets[0], count=1, block_size=base)]
    else:
        length = _group_length([layers.layers for layers in layout.buckets], facts.group_growth)
        page = max(_page_bytes(layers, settings, base) for layers in layout.buckets)
        groups = [
            _Group(
                layers=layers,
                count=_ceil_div(layers.layers, length),
                block_size=base * _times_as_long(page, _page_bytes(layers, settings, base)),
            )
            for layers in layout.buckets
        ]
    growing = [layers for layers in layout.buckets if _whole(layers)] or [
        layers for layers in layout.buckets if not isinstance(layers, StateLayers)
    ]
    token = sum(_ceil_div(layers.layers, stages) * _token_bytes(layers, settings) for layers in growing)
    return _Pool(
        block_size=base,
        bytes_per_block=_ceil_div(length, stages) * page,
        bytes_per_token=math.ceil(token / settings.decode_context_parallel_size),
        groups=tuple(groups),
        in_flight_tokens=_in_flight_tokens(settings),
        caches_states=reached(settings.vllm_version, facts.hybrid_prefix_caching_since),
        context_ranks=settings.decode_context_parallel_size,
    )


def _whole(layers: CacheLayers) -> bool:
    """Whether these layers keep something for every token of the context."""
    if isinstance(layers, AttentionLayers):
        return layers.window is None and layers.chunk is None
    return isinstance(layers, LatentLayers)


def _block_size(layout: CacheLayout, settings: EngineSettings) -> int:
    """Tokens of a block: vLLM's default, or as many as it takes for a block to hold a state."""
    facts, step = memory_facts(), vllm_facts().block_size
    latent = [layers for layers in layout.buckets if isinstance(layers, LatentLayers)]
    if any(layers.indexed for layers in latent):
        return facts.indexed_block_size
    state = max((_state_bytes(layers, settings) for layers in _states(layout)), default=0)
    token = max((_token_bytes(layers, settings) for layers in layout.buckets), default=0.0)
    if not state or not token:
        return _latent_block_size(settings) if latent else step
    step = facts.latent_block_step if latent else step
    return step * math.ceil(state / (step * token))


def _latent_block_size(settings: EngineSettings) -> int:
    """Tokens of a block of compressed vectors, as the kernel for this GPU and type wants it."""
    capability = settings.capability or 0
    for entry in memory_facts().latent_block:
        fits = not entry.kv_dtypes or settings.kv_cache_dtype in entry.kv_dtypes
        if fits and entry.capability_min <= capability <= entry.capability_max:
            return entry.block_size
    return vllm_facts().block_size


def _states(layout: CacheLayout) -> list[StateLayers]:
    return [layers for layers in layout.buckets if isinstance(layers, StateLayers)]


def _page_bytes(layers: CacheLayers, settings: EngineSettings, block_size: int) -> int:
    """Bytes of one block in one layer."""
    if isinstance(layers, StateLayers):
        return _state_bytes(layers, settings)
    return math.ceil(block_size * _token_bytes(layers, settings))


def _times_as_long(largest: int, page: int) -> int:
    """Blocks of layers that keep less are made longer until they are as large, or padded where that fails."""
    return largest // page if largest % page == 0 else 1


def _group_length(lengths: list[int], growth: float) -> int:
    shortest, longest = min(lengths), max(lengths)
    return longest if longest < growth * shortest else shortest


def _token_bytes(layers: CacheLayers, settings: EngineSettings) -> float:
    """Bytes of one token in one layer of one GPU."""
    element = _element_bytes(settings.kv_cache_dtype)
    match layers:
        case AttentionLayers():
            # With more GPUs than heads the heads are copied.
            heads = max(1, layers.kv_heads // settings.tensor_parallel_size)
            return heads * (layers.head_dim + (layers.value_dim or layers.head_dim)) * element
        case LatentLayers(indexed=True):
            facts = memory_facts()
            plain = settings.kv_cache_dtype in facts.indexed_plain_types
            return (layers.width * element if plain else facts.indexed_packed_bytes) + facts.index_bytes
        case LatentLayers():
            return layers.width * element
        case StateLayers():
            return 0.0


def _state_bytes(layers: StateLayers, settings: EngineSettings) -> int:
    """Bytes of one request's state in one layer of one GPU."""
    tensor = settings.tensor_parallel_size
    # Every GPU needs whole groups for its heads: what cannot be divided is copied.
    groups = layers.groups if layers.groups % tensor == 0 else tensor
    inputs = _ceil_div(layers.heads * layers.head_dim + 2 * groups * layers.state_dim, tensor)
    matrices = _ceil_div(layers.heads, tensor) * layers.head_dim * layers.state_dim
    return (layers.kernel - 1) * inputs * 2 + matrices * layers.recurrent_bytes


def _in_flight_tokens(settings: EngineSettings) -> int:
    """Tokens that may be scheduled and not yet done with: their blocks cannot be given back."""
    batch = settings.max_num_batched_tokens or max(
        default.max_num_batched_tokens for default in vllm_facts().batch_default
    )
    counted = reached(settings.vllm_version, memory_facts().in_flight_batches_since)
    return batch * (settings.pipeline_parallel_size + 1 if counted else 1)


def _element_bytes(dtype: str) -> float:
    known = {name: entry.bytes for entry in memory_facts().kv_dtype for name in entry.names}
    if dtype not in known:
        raise UnknownNameError(_("KV cache type"), dtype, known)
    return known[dtype]


def _ceil_div(amount: int, size: int) -> int:
    return -(-amount // size)
