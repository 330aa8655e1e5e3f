"""How large a checkpoint's weights are, counted from its config.json."""

from __future__ import annotations

from collections.abc import Mapping

from wizard.memory.kv import GIB
from wizard.memory.layout import cache_layout
from wizard.memory.shape import ModelShape, read_shape
from wizard.memory.types import AttentionLayers, CacheLayers, LatentLayers, StateLayers

_PLAIN_BITS = 16
"""Embeddings, the output head and routers stay in 16 bit whatever the format of the rest."""


def weights_gib(config: Mapping[str, object], bits: float = _PLAIN_BITS) -> float | None:
    """GiB of all weights, ``bits`` a quantized one (scales included).

    None where counting would be guessing: unknown architectures, and checkpoints with more than a language
    model in them. Draft layers for speculation, which vLLM does not load by itself, are left out.
    """
    shape, layout = read_shape(config), cache_layout(config)
    if shape is None or layout is None or shape.vision_config is not None:
        return None
    mixers = [_mixer(shape, layers) for layers in layout.buckets]
    body = _feed_forward(shape)
    if body is None or None in mixers:
        return None
    quantized = body + sum(mixer or 0 for mixer in mixers)
    plain = shape.vocab_size * shape.hidden_size * (1 if shape.tie_word_embeddings else 2)
    plain += shape.num_hidden_layers * shape.hidden_size * shape.experts
    return (quantized * bits + plain * _PLAIN_BITS) / 8 / GIB


def _mixer(shape: ModelShape, layers: CacheLayers) -> int | None:
    """Parameters of the attention, or what stands for it, in all layers of a bucket."""
    match layers:
        case AttentionLayers():
            queries = shape.num_attention_heads * shape.head_size
            keys = shape.kv_heads * shape.head_size
            # The families with linear attention gate the output of their full attention: twice the queries.
            gate = queries if shape.linear_num_value_heads else 0
            return layers.layers * shape.hidden_size * (2 * queries + 2 * keys + gate)
        case LatentLayers():
            return _latent(shape, layers)
        case StateLayers():
            return _linear(shape, layers)


def _latent(shape: ModelShape, layers: LatentLayers) -> int | None:
    plain, rope, value = shape.qk_nope_head_dim, shape.qk_rope_head_dim, shape.v_head_dim
    if plain is None or rope is None or value is None or shape.kv_lora_rank is None:
        return None
    heads, hidden, rank = shape.num_attention_heads, shape.hidden_size, shape.q_lora_rank
    into = heads * (plain + rope)
    queries = hidden * into if rank is None else rank * (hidden + into)
    unpack = shape.kv_lora_rank * heads * (plain + value)
    return layers.layers * (queries + hidden * layers.width + unpack + heads * value * hidden)


def _linear(shape: ModelShape, layers: StateLayers) -> int:
    keys, values = layers.groups * layers.state_dim, layers.heads * layers.head_dim
    # In: query, key, value and its gate, two figures a head for the decay. Out: the values.
    return layers.layers * shape.hidden_size * (2 * keys + 3 * values + 2 * layers.heads)


def _feed_forward(shape: ModelShape) -> int | None:
    """Parameters of the dense layers and the experts, routers aside."""
    dense = shape.intermediate_size or 0
    if not shape.experts:
        return shape.num_hidden_layers * _gated(shape, dense) if dense else None
    width = shape.expert_width
    if width is None:
        return None
    shared = shape.shared_expert_intermediate_size or (shape.n_shared_experts or 0) * width
    dense_layers = shape.first_k_dense_replace or 0
    sparse = _gated(shape, shape.experts * width + shared)
    return dense_layers * _gated(shape, dense) + (shape.num_hidden_layers - dense_layers) * sparse


def _gated(shape: ModelShape, width: int) -> int:
    """Up, gate and down."""
    return 3 * shape.hidden_size * width
