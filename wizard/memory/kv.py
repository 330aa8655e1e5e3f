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


class _Pool(msgspec.Struct, frozen=True, kw_only=True):
    """All groups draw blocks of one size from one pool; every group of a request needs its own."""

    block_size: int
    bytes_per_block: int
    bytes_per_token: int
    groups: tuple[tuple[CacheLayers, int], ...]
    """Each bucket and the number of groups it was cut into."""
    in_flight_tokens: int
    state_blocks: int

    def blocks_per_request(self, window: int) -> int:
        """Blocks the longest possible request takes with this window."""
        return sum(count * self._blocks(layers, window) for layers, count in self.groups)

    def _blocks(self, layers: CacheLayers, window: int) -> int:
        if isinstance(layers, StateLayers):
            return self.state_blocks
        if isinstance(layers, AttentionLayers) and layers.window is not None:
            held = min(layers.window - 1 + self.in_flight_tokens, window)
            return _ceil_div(held, self.block_size) + 1
        return _ceil_div(window, self.block_size)


def kv_plan(
    layout: CacheLayout, settings: EngineSettings, available_kv_gib: float, max_model_len: int
) -> KvPlan:
    """What vLLM reports for a window of ``max_model_len`` tokens and this much memory for the cache.

    ``max_concurrency`` below 1 means vLLM refuses to start. Speculative decoding is not counted. Sliding
    windows also depend on ``max_num_batched_tokens``: fill it with ``with_defaults`` first, else the largest
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


def _longest(pool: _Pool, blocks: int, context: int | None, concurrency: int) -> int:
    # One block is never handed out. Older versions forget it: a request that needs every block then waits for
    # ever (https://github.com/vllm-project/vllm/pull/47272), so it is not counted for them either.
    windows = range(1, (context or _NO_LIMIT) + 1)
    return bisect.bisect_right(
        windows, blocks - 1, key=lambda window: pool.blocks_per_request(window) * concurrency
    )


def _blocks_in(pool: _Pool, available_kv_gib: float) -> int:
    return max(0, int(available_kv_gib * GIB)) // pool.bytes_per_block


def _pool(layout: CacheLayout, settings: EngineSettings) -> _Pool:
    facts = memory_facts()
    tensor, stages = settings.tensor_parallel_size, settings.pipeline_parallel_size
    element = _element_bytes(settings.kv_cache_dtype)
    growing = [layers for layers in layout.buckets if not isinstance(layers, StateLayers)]
    token = max((_token_bytes(layers, tensor, element) for layers in growing), default=0.0)
    states = [layers for layers in layout.buckets if isinstance(layers, StateLayers)]
    state = max((_state_bytes(layers, tensor) for layers in states), default=0)

    # A block of attention is made as long as it takes to hold a state; states are then padded to its size.
    step = vllm_facts().block_size
    block_size = step if not (state and token) else max(step, step * math.ceil(state / (step * token)))
    page = math.ceil(block_size * token) if token else state

    length = _group_length([layers.layers for layers in layout.buckets], facts.group_growth)
    unbounded = [layers for layers in growing if getattr(layers, "window", None) is None] or growing
    return _Pool(
        block_size=block_size,
        bytes_per_block=_ceil_div(length, stages) * page,
        bytes_per_token=math.ceil(sum(_ceil_div(layers.layers, stages) for layers in unbounded) * token),
        groups=tuple((layers, _ceil_div(layers.layers, length)) for layers in layout.buckets),
        in_flight_tokens=_in_flight_tokens(settings),
        state_blocks=2 if reached(settings.vllm_version, facts.hybrid_prefix_caching_since) else 1,
    )


def _group_length(lengths: list[int], growth: float) -> int:
    shortest, longest = min(lengths), max(lengths)
    return longest if longest < growth * shortest else shortest


def _token_bytes(layers: CacheLayers, tensor: int, element: float) -> float:
    """Bytes of one token in one layer of one GPU."""
    match layers:
        case AttentionLayers():
            # With more GPUs than heads the heads are copied.
            return max(1, layers.kv_heads // tensor) * 2 * layers.head_dim * element
        case LatentLayers():
            return layers.width * element
        case StateLayers():
            return 0.0


def _state_bytes(layers: StateLayers, tensor: int) -> int:
    """Bytes of one request's state in one layer of one GPU."""
    convolution = _ceil_div(layers.convolution_elements, tensor) * 2
    return convolution + _ceil_div(layers.recurrent_elements, tensor) * layers.recurrent_bytes


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
