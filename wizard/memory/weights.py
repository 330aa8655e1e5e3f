"""How large a checkpoint's weights are, counted from its config.json, and how much of them a token takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from wizard.catalog import LayerKind
from wizard.memory.kv import GIB
from wizard.memory.layout import cache_layout, known_layout, layer_kinds
from wizard.memory.shape import ModelShape, read_shape
from wizard.memory.types import AttentionLayers, CacheLayers, LatentLayers, StateLayers

_PLAIN_BITS = 16
"""Embeddings, the output head and routers stay in 16 bit whatever the format of the rest."""


class _Parts(msgspec.Struct, frozen=True, kw_only=True):
    """Bits of a checkpoint's weights by how a token uses them."""

    always: float
    """Attention, dense layers, shared experts, routers and the output head: read for every token."""
    routed: float
    """All routed experts: a token goes through some of them."""
    table: float
    """The table of embeddings, of which a token looks up one row; 0: it is the output head too."""

    @property
    def whole(self) -> float:
        return self.always + self.routed + self.table


def weights_gib(config: Mapping[str, object], bits: float = _PLAIN_BITS) -> float | None:
    """GiB of all weights, ``bits`` a quantized one (scales included).

    None where counting would be guessing: unknown architectures, and checkpoints with more than a language
    model in them. Draft layers for speculation, which vLLM does not load by itself, are left out.
    """
    parts = _parts(config, bits)
    return None if parts is None else parts.whole / 8 / GIB


def read_share(config: Mapping[str, object], bits: float = _PLAIN_BITS, sequences: int = 1) -> float | None:
    """The part of all weights that is read from memory for one more token of each of ``sequences``.

    Every token reads everything but the table of embeddings and the experts it is not sent to. Tokens of
    several sequences share what they have in common; which experts they take is counted as if each were as
    likely as any other. None where ``weights_gib`` has no figure.
    """
    parts, shape = _parts(config, bits), read_shape(config)
    if parts is None or shape is None:
        return None
    missed = (1 - shape.active_experts / shape.experts) ** sequences if shape.experts else 0.0
    return (parts.always + parts.routed * (1 - missed)) / parts.whole


def _parts(config: Mapping[str, object], bits: float) -> _Parts | None:
    shape, layout, known = read_shape(config), cache_layout(config), known_layout(config)
    kinds = layer_kinds(config)
    if shape is None or layout is None or known is None or kinds is None:
        return None
    unread = not shape.experts and any("expert" in name and config[name] for name in config)
    if shape.vision_config is not None or not known.countable or unread:
        return None
    mixers = [_mixer(shape, layers) for layers in layout.buckets]
    forward = _feed_forward(shape, kinds, 3 if known.gated else 2)
    if forward is None or None in mixers:
        return None
    body, routed = forward
    mixed = sum(mixer or 0 for mixer in mixers)
    quantized, plain = (body, mixed) if _attention_is_plain(config) else (body + mixed, 0)
    table = shape.vocab_size * shape.hidden_size
    plain += table + shape.num_hidden_layers * shape.hidden_size * shape.experts
    return _Parts(
        always=quantized * bits + plain * _PLAIN_BITS,
        routed=routed * bits,
        table=0.0 if shape.tie_word_embeddings else table * _PLAIN_BITS,
    )


def _attention_is_plain(config: Mapping[str, object]) -> bool:
    """Whether the checkpoint leaves its whole attention out of its weight format."""
    described = config.get("quantization_config")
    left_out = described.get("modules_to_not_convert") if isinstance(described, Mapping) else None
    return isinstance(left_out, list | tuple) and any(str(name).endswith("attn") for name in left_out)


def _mixer(shape: ModelShape, layers: CacheLayers) -> int | None:
    """Parameters of the attention, or what stands for it, in all layers of a bucket."""
    match layers:
        case AttentionLayers():
            value_dim = layers.value_dim or layers.head_dim
            queries = shape.num_attention_heads * layers.head_dim
            outputs = shape.num_attention_heads * value_dim
            keys = layers.kv_heads * (layers.head_dim + value_dim)
            # The families with linear attention gate the output of their full attention: twice the queries.
            gate = queries if shape.linear_num_value_heads else 0
            return layers.layers * shape.hidden_size * (queries + outputs + keys + gate)
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


def _feed_forward(shape: ModelShape, kinds: Sequence[LayerKind], matrices: int) -> tuple[int, int] | None:
    """Parameters of the dense layers with the shared experts, and of the routed experts; routers aside."""
    dense_layers, sparse_layers = _feed_forward_layers(shape, kinds)
    dense, width = shape.intermediate_size or 0, shape.expert_width or 0
    if (dense_layers and not dense) or (sparse_layers and not width) or shape.moe_latent_size is not None:
        return None
    shared = shape.shared_expert_intermediate_size or shape.moe_shared_expert_intermediate_size
    shared = shared or shape.shared_experts * width
    unit = matrices * shape.hidden_size
    always = unit * (dense_layers * dense + sparse_layers * shared)
    return always, unit * sparse_layers * shape.experts * width


def _feed_forward_layers(shape: ModelShape, kinds: Sequence[LayerKind]) -> tuple[int, int]:
    """How many layers have one wide feed-forward, and how many experts."""
    if "mlp" in kinds or "moe" in kinds:
        return kinds.count("mlp"), kinds.count("moe")
    layers = shape.num_hidden_layers
    if not shape.experts:
        return layers, 0
    if shape.mlp_layer_types is not None:
        sparse = shape.mlp_layer_types.count("sparse")
    else:
        sparse = (layers - shape.dense_layers) // (shape.decoder_sparse_step or 1)
    return layers - sparse, sparse
