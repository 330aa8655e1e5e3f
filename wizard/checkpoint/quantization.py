"""Which weight format a config.json describes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from wizard.catalog import StoredFormat, checkpoint_facts


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What the file says of its weights. ``methods`` are its names for the format, the closest first."""

    methods: tuple[str, ...]
    bits: int | None = None
    kind: str | None = None
    activations: bool | None = None


def stored_format(config: Mapping[str, object], modelopt: Mapping[str, object]) -> Stored:
    """Of config.json, of its text part, or of ModelOpt's own file; else the 16 or 32 bit type."""
    text = _table(config.get("text_config"))
    described = (
        _table(config.get("quantization_config"))
        or _table(text.get("quantization_config"))
        or _table(config.get("compression_config"))
        or _table(modelopt.get("quantization"))
    )
    if not described:
        dtype = (
            config.get("dtype") or config.get("torch_dtype") or text.get("dtype") or text.get("torch_dtype")
        )
        return Stored(methods=(_name(dtype),) if isinstance(dtype, str) else ())
    algorithm, method = described.get("quant_algo"), described.get("quant_method")
    # Only ModelOpt writes an algorithm, and its FP8 is not everybody's.
    own = f"modelopt {algorithm}" if isinstance(algorithm, str) else None
    names = tuple(
        _name(name) for name in (described.get("format"), own, algorithm, method) if isinstance(name, str)
    )
    group = next(iter(_table(described.get("config_groups")).values()), None)
    if group is not None:
        weights = _table(_table(group).get("weights"))
        return Stored(
            methods=names,
            bits=_count(weights.get("num_bits")),
            kind=_text(weights.get("type")),
            activations=bool(_table(group).get("input_activations")),
        )
    bits = _count(described.get("bits")) or _count(described.get("w_bit"))
    if described.get("load_in_4bit") is True:
        bits = 4
    if described.get("load_in_8bit") is True:
        bits = 8
    return Stored(methods=names, bits=bits)


def known_format(stored: Stored) -> StoredFormat | None:
    """The entry of the table that describes it best; None for a format the table does not hold."""
    for method in stored.methods:
        for entry in checkpoint_facts().stored:
            if method in entry.methods and _fits(entry, stored):
                return entry
    return None


def weight_format(config: Mapping[str, object]) -> str | None:
    """Id of the weight format a config.json describes; None for one the table does not hold."""
    entry = known_format(stored_format(config, {}))
    return entry.quantization if entry is not None else None


def _fits(entry: StoredFormat, stored: Stored) -> bool:
    asked = ((entry.bits, stored.bits), (entry.kind, stored.kind), (entry.activations, stored.activations))
    return all(wanted is None or wanted == said for wanted, said in asked)


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _name(value: str) -> str:
    return value.lower().removeprefix("torch.")


def _text(value: object) -> str | None:
    return value.lower() if isinstance(value, str) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
