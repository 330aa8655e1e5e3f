"""Which layers of a model keep what in the KV cache, read from its config.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from wizard.catalog import LayerFields, LayerKind, Layout, StateFields, memory_facts
from wizard.memory.shape import read_shape, text_fields
from wizard.memory.types import AttentionLayers, CacheLayers, CacheLayout, LatentLayers, StateLayers

_WIDE_STATES = {"float32": 4}
"""Bytes of an element of a state; every other type vLLM keeps it in has two."""

_FEED_FORWARD = ("mlp", "moe")
"""Layers that keep nothing."""

_Fields = Mapping[str, object]


def cache_layout(config: Mapping[str, object]) -> CacheLayout | None:
    """The layout of the checkpoint with this config.json, or None when its architecture is not understood.

    Nothing is guessed: only architectures of the tables are read, and only if all their fields are there.
    """
    shape, known = read_shape(config), known_layout(config)
    kinds = layer_kinds(config)
    if shape is None or known is None or kinds is None:
        return None
    fields = text_fields(config)
    layers = [
        _layer(kind, _own_fields(fields, place, len(kinds)), known)
        for place, kind in enumerate(kinds)
        if kind not in _FEED_FORWARD
    ]
    if not layers or None in layers:
        return None
    buckets = Counter(layer for layer in layers if layer is not None)
    return CacheLayout(
        buckets=tuple(_times(layer, count) for layer, count in buckets.items()),
        context=shape.max_position_embeddings,
    )


def known_layout(config: Mapping[str, object]) -> Layout | None:
    """The table's entry for the checkpoint's architecture."""
    shape = read_shape(config)
    layouts = memory_facts().layout
    return next((entry for entry in layouts if shape and shape.architecture in entry.architectures), None)


def layer_kinds(config: Mapping[str, object]) -> Sequence[LayerKind] | None:
    """What every layer keeps, first to last; None when a layer is of a kind nobody described."""
    shape, known = read_shape(config), known_layout(config)
    if shape is None or known is None:
        return None
    return _kinds(text_fields(config), known, shape.num_hidden_layers)


def _kinds(fields: _Fields, known: Layout, layers: int) -> Sequence[LayerKind] | None:
    if any(fields.get(name) is not None for name in known.unless):
        return None
    listed = next((fields[name] for name in known.listed if fields.get(name)), None)
    if listed is not None:
        return _listed(listed, fields, known, layers)
    windowed = _counted(fields, ("sliding_window",)) and fields.get("use_sliding_window") is not False
    if windowed and known.other is None:
        return ["window"] * layers if known.window_when_set else None
    if known.other is None:
        return [known.main] * layers
    every = _counted(fields, known.full_every_fields) or known.full_every
    if every is None:
        return None
    other = known.other
    return [known.main if (place + 1) % every == 0 else other for place in range(layers)]


def _listed(listed: object, fields: _Fields, known: Layout, layers: int) -> Sequence[LayerKind] | None:
    """The checkpoint's own list of what its layers keep; the last ones may share what earlier ones keep."""
    if not isinstance(listed, list | tuple | str) or len(listed) != layers:
        return None
    names = {**memory_facts().layer_names, **known.names}
    understood = {known.main, known.other, *_FEED_FORWARD} | ({"window"} if known.window_when_set else set())
    kinds = [kind for name in listed if (kind := names.get(str(name))) in understood and kind is not None]
    kept = layers - (_counted(fields, ("num_kv_shared_layers",)) or 0)
    return kinds[:kept] if len(kinds) == layers else None


def _own_fields(fields: _Fields, place: int, layers: int) -> _Fields:
    """The fields of one layer: newer checkpoints list what differs, by the layer's number."""
    own = fields.get("per_layer_config")
    if not isinstance(own, Mapping):
        return fields
    for name in (str(place), f"{place:0{len(str(layers - 1))}}"):
        if isinstance(differing := own.get(name), Mapping):
            return {**fields, **differing}
    return fields


def _layer(kind: LayerKind, fields: _Fields, known: Layout) -> CacheLayers | None:
    """One layer; None when a field is missing."""
    match kind:
        case "latent" | "indexed":
            rank, rope = _counted(fields, ("kv_lora_rank",)), _counted(fields, ("qk_rope_head_dim",))
            if rank is None or rope is None:
                return None
            return LatentLayers(layers=1, width=rank + rope, indexed=kind == "indexed")
        case "state":
            return None if known.state is None else _state(fields, known.state)
        case "window":
            own = known.window_fields or known.fields
            window = _counted(fields, own.length)
            return None if window is None else _attention(fields, own, window=window)
        case "chunk":
            chunk = _counted(fields, known.fields.chunk)
            return None if chunk is None else _attention(fields, known.fields, chunk=chunk)
        case _:
            return _attention(fields, known.fields)


def _attention(
    fields: _Fields, names: LayerFields, *, window: int | None = None, chunk: int | None = None
) -> AttentionLayers | None:
    heads, width = _counted(fields, names.kv_heads), _counted(fields, names.head_dim)
    if width is None:
        hidden, queries = _counted(fields, ("hidden_size",)), _counted(fields, ("num_attention_heads",))
        width = hidden // queries if hidden and queries else None
    if heads is None or width is None:
        return None
    value = _counted(fields, names.value_dim)
    return AttentionLayers(
        layers=1,
        kv_heads=heads,
        head_dim=width,
        value_dim=None if value == width else value,
        window=window,
        chunk=chunk,
    )


def _state(fields: _Fields, names: StateFields) -> StateLayers | None:
    sizes = [
        _counted(fields, (name,))
        for name in (names.heads, names.head_dim, names.groups, names.state_dim, names.kernel)
    ]
    if None in sizes:
        return None
    heads, head_dim, groups, state_dim, kernel = (size or 0 for size in sizes)
    dtype = fields.get(names.dtype) or names.default_dtype
    return StateLayers(
        layers=1,
        heads=heads,
        head_dim=head_dim,
        groups=groups,
        state_dim=state_dim,
        kernel=kernel,
        recurrent_bytes=_WIDE_STATES.get(str(dtype), 2),
        checkpoint_blocks=names.checkpoint_blocks,
    )


def _counted(fields: _Fields, names: Sequence[str]) -> int | None:
    """The first of these fields that is set, if it is a positive whole number."""
    for name in names:
        value = fields.get(name)
        if value is not None:
            return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
    return None


def _times(layer: CacheLayers, count: int) -> CacheLayers:
    return msgspec.structs.replace(layer, layers=count)
