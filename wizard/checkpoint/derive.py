"""From a checkpoint's files to what is known of it: architecture, weight format, size, window, template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wizard.catalog import Origin, checkpoint_facts, quantization
from wizard.checkpoint import files as small
from wizard.checkpoint.files import Files
from wizard.checkpoint.quantization import known_format, stored_format
from wizard.checkpoint.types import Checkpoint
from wizard.i18n import _, ngettext
from wizard.memory import weights_gib
from wizard.text import inert, one_line

_GIB = 2**30
_ABSURD = 2**60
"""Bytes, or a factor: no checkpoint states as much."""


def derive(files: Files) -> Checkpoint:
    """Everything the files tell. Raises CorruptDataError for a damaged one."""
    config = files.table(small.CONFIG)
    tokenizer = files.table(small.TOKENIZER)
    stored = stored_format(config, files.table(small.MODELOPT))
    entry = known_format(stored)
    format_id = entry.quantization if entry is not None else ""
    notes = [*files.notes]
    if not format_id:
        said = one_line(" ".join(stored.methods), 80) or _("nothing")
        notes.append(_("Its weight format is not known here: config.json says {name}.").format(name=said))
    shards = _shards(files)
    gib, origin = _weights(files, config, format_id, not shards.issubset(files.sizes), notes)
    if gib is not None and entry is not None and entry.halved:
        gib, origin = gib / 2, "computed"
    return Checkpoint(
        name=one_line(files.name),
        place=files.place,
        architecture=_architecture(config),
        model_type=_text(config.get("model_type")),
        quantization=format_id,
        weights_gib=gib,
        weights_origin=origin,
        parameters=files.parameters,
        context=_context(config, notes),
        config=config,
        template=_template(files, tokenizer),
        tokens=dict(_tokens(tokenizer)),
        marks=tuple(entry.file for entry in checkpoint_facts().no_template if entry.file in files.sizes),
        notes=tuple(notes),
        missing=_missing(shards, files),
    )


def _architecture(config: Mapping[str, object]) -> str:
    named = config.get("architectures")
    return _text(named[0]) if isinstance(named, list) and named else ""


def _shards(files: Files) -> set[str]:
    """The weight files that the index names."""
    mapped = files.table(small.INDEX).get("weight_map")
    return {part for part in mapped.values() if isinstance(part, str)} if isinstance(mapped, dict) else set()


def _missing(shards: set[str], files: Files) -> str:
    missing = sorted(shards.difference(files.sizes))
    if not missing:
        return ""
    return ngettext(
        "{missing} of its {total} weight files is not here: {name}.",
        "{missing} of its {total} weight files are not here; the first is {name}.",
        len(missing),
    ).format(missing=len(missing), total=len(shards), name=one_line(missing[0], 80))


def _weights(
    files: Files, config: Mapping[str, object], format_id: str, missing: bool, notes: list[str]
) -> tuple[float | None, Origin]:
    """GiB on disk: what the index says, else the files themselves, else counted from the architecture."""
    found = files.weights()
    if not found and not missing:
        notes.append(_("No weights that vLLM loads are here."))
    metadata = files.table(small.INDEX).get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if 0 < (size := _number(total, 0.0)) < _ABSURD:
        return size / _GIB, "measured"
    # Several files for llama.cpp are as a rule the same model in several sizes.
    if found and not missing and (len(found) == 1 or not any(name.endswith(".gguf") for name in found)):
        return sum(found.values()) / _GIB, "measured"
    if not format_id:
        return None, "computed"
    return weights_gib(config, quantization(format_id).bits), "computed"


def _context(config: Mapping[str, object], notes: list[str]) -> int | None:
    """The window as vLLM derives it, tokens; None when the file names none."""
    facts = checkpoint_facts()
    fields = {**config, **_table(config.get("text_config"))}
    stated = [count for key in facts.context_keys if (count := _count(fields.get(key)))]
    if not stated:
        return None
    window = min(stated)
    kind, factor, original = _scaling(fields)
    if kind in facts.original_rope:
        return _count(fields.get("original_max_position_embeddings")) or original or window
    scaled = kind in facts.scaled_rope or any(
        family in _text(config.get("model_type")) for family in facts.scaled_families
    )
    if not scaled and 1 < factor < _ABSURD:
        return int(window * factor)
    if scaled and original is not None and window <= original < window * factor:
        note = _(
            "Its positions are scaled from {original} tokens by {factor:g}, but its window is given as "
            "{window}: newer vLLM takes the window as it stands."
        )
        notes.append(note.format(original=original, factor=factor, window=window))
    return window


def _scaling(fields: Mapping[str, object]) -> tuple[str, float, int | None]:
    """Kind, factor and original window of the position scaling; of several kinds of layers the largest."""
    described = _table(fields.get("rope_parameters")) or _table(fields.get("rope_scaling"))
    each = [table for value in described.values() if (table := _table(value))] or [described]
    found = [(_text(one.get("rope_type") or one.get("type")) or "default", one) for one in each]
    kind, chosen = max(found, key=lambda pair: _number(pair[1].get("factor")))
    return kind, _number(chosen.get("factor")), _count(chosen.get("original_max_position_embeddings"))


def _template(files: Files, tokenizer: Mapping[str, object]) -> str:
    """The template vLLM takes when tools are offered; one of its own for tools comes first."""
    kept = tokenizer.get("chat_template")
    named = dict(_named_templates(kept)) if isinstance(kept, list) else {}
    plain = kept if isinstance(kept, str) else ""
    processor = files.table(small.TEMPLATE_JSON).get("chat_template")
    return (
        files.text(small.TOOL_TEMPLATE)
        or files.text(small.TEMPLATE)
        or named.get("tool_use", "")
        or named.get("default", "")
        or plain
        or (processor if isinstance(processor, str) else "")
    )


def _named_templates(kept: Sequence[object]) -> Iterator[tuple[str, str]]:
    for entry in kept:
        table = _table(entry)
        name, template = table.get("name"), table.get("template")
        if isinstance(name, str) and isinstance(template, str):
            yield name, template


def _tokens(tokenizer: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Special tokens, which are strings or tables with the string inside."""
    for name, value in tokenizer.items():
        content = _table(value).get("content", value)
        if name.endswith("_token") and isinstance(content, str):
            yield name, content


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return inert(value)[:200] if isinstance(value, str) else ""


def _count(value: object) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and isinstance(value, int) and value > 0 else None


def _number(value: object, otherwise: float = 1.0) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else otherwise
