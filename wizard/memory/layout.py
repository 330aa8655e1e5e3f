"""Which layers of a model keep what in the KV cache, read from its config.json."""

from __future__ import annotations

from collections.abc import Mapping

from wizard.catalog import Layout, memory_facts
from wizard.memory.shape import ModelShape, read_shape
from wizard.memory.types import AttentionLayers, CacheLayers, CacheLayout, LatentLayers, StateLayers

_FULL = "full_attention"
_ELEMENT_BYTES = {"float32": 4}
"""Of the recurrent state; every other type vLLM keeps it in has two bytes."""


def cache_layout(config: Mapping[str, object]) -> CacheLayout | None:
    """The layout of the checkpoint with this config.json, or None when its architecture is not understood.

    Nothing is guessed: only architectures of the tables are read, and only if all their fields are there.
    """
    shape = read_shape(config)
    if shape is None:
        return None
    layouts = memory_facts().layout
    known = next((entry for entry in layouts if shape.architecture in entry.architectures), None)
    if known is None:
        return None
    buckets = _buckets(shape, known)
    if buckets is None:
        return None
    return CacheLayout(buckets=buckets, context=shape.max_position_embeddings)


def _buckets(shape: ModelShape, known: Layout) -> tuple[CacheLayers, ...] | None:
    match known.kind:
        case "full":
            return _full(shape)
        case "latent":
            return _latent(shape)
        case "sliding":
            return _sliding(shape, known.full_every)
        case "linear":
            return _linear(shape, known.full_every)


def _full(shape: ModelShape) -> tuple[CacheLayers, ...] | None:
    if shape.sliding_window is not None and shape.use_sliding_window is not False:
        return None
    return (_attention(shape, shape.num_hidden_layers),)


def _latent(shape: ModelShape) -> tuple[CacheLayers, ...] | None:
    # Sparse attention keeps an index beside the vectors, in a format of its own.
    if shape.latent_width is None or shape.index_topk is not None:
        return None
    return (LatentLayers(layers=shape.num_hidden_layers, width=shape.latent_width),)


def _sliding(shape: ModelShape, full_every: int) -> tuple[CacheLayers, ...] | None:
    split = _split(shape, "sliding_attention", shape.sliding_window_pattern or full_every)
    if split is None or shape.sliding_window is None:
        return None
    full, windowed = split
    return _present(_attention(shape, full), _attention(shape, windowed, shape.sliding_window))


def _linear(shape: ModelShape, full_every: int) -> tuple[CacheLayers, ...] | None:
    split = _split(shape, "linear_attention", shape.full_attention_interval or full_every)
    key_heads, value_heads = shape.linear_num_key_heads, shape.linear_num_value_heads
    key_dim, value_dim = shape.linear_key_head_dim, shape.linear_value_head_dim
    kernel = shape.linear_conv_kernel_dim
    if split is None or not (key_heads and value_heads and key_dim and value_dim and kernel):
        return None
    full, linear = split
    state = StateLayers(
        layers=linear,
        convolution_elements=(kernel - 1) * (2 * key_heads * key_dim + value_heads * value_dim),
        recurrent_elements=value_heads * value_dim * key_dim,
        recurrent_bytes=_ELEMENT_BYTES.get(shape.mamba_ssm_dtype or "", 2),
    )
    return _present(_attention(shape, full), state)


def _attention(shape: ModelShape, layers: int, window: int | None = None) -> AttentionLayers:
    return AttentionLayers(layers=layers, kv_heads=shape.kv_heads, head_dim=shape.head_size, window=window)


def _present(*buckets: CacheLayers) -> tuple[CacheLayers, ...]:
    return tuple(bucket for bucket in buckets if bucket.layers > 0)


def _split(shape: ModelShape, other: str, full_every: int) -> tuple[int, int] | None:
    """How many layers have full attention and how many the ``other`` kind; None when there are more kinds."""
    layers = shape.num_hidden_layers
    if shape.layer_types is None:
        return layers // full_every, layers - layers // full_every
    full = shape.layer_types.count(_FULL)
    if full + shape.layer_types.count(other) != layers or len(shape.layer_types) != layers:
        return None
    return full, layers - full
