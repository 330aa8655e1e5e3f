"""From the matrix, or from a checkpoint the user names, to the choice that is served."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from wizard.catalog import Model, ParserKind, model, parsers
from wizard.compat.table import in_force
from wizard.compat.types import Choice, Reason, Row
from wizard.errors import CorruptDataError, RefusedError, UnknownNameError, UsageError
from wizard.i18n import _
from wizard.runtime import Runtime


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What the user said about the model; ``auto`` and None leave it to the catalogue."""

    variant: str | None = None
    path: str | None = None
    served_name: str | None = None
    parser: str = "auto"
    reasoning_parser: str = "auto"


def choose_best(rows: Sequence[Row], runtime: Runtime, wishes: Wishes) -> Choice:
    """The best row that works. Raises RefusedError when none does."""
    best = next((row for row in rows if row.verdict != "no"), None)
    if best is None and all(not row.gpus for row in rows):
        raise RefusedError(
            _("No usable GPU was found on this machine."),
            _("`vllm-opencode detect` shows why. To practise without one: vllm-opencode --simulate gb10"),
        )
    if best is None:
        if (cache := _cache_at_fault(rows)) is not None:
            raise RefusedError(cache.text, _("Leave the type of the KV cache to vLLM: auto."))
        raise RefusedError(
            _("No model of the catalogue works on this machine."),
            _("`vllm-opencode models` shows why for each of them."),
        )
    return choose(best, runtime, wishes)


def _cache_at_fault(rows: Sequence[Row]) -> Reason | None:
    """Why the KV cache asked for cannot be, where that alone rules out a row."""
    for row in rows:
        refusing = [reason for reason in row.reasons if reason.refuses]
        if [reason.code for reason in refusing] == ["cache-type-impossible"]:
            return refusing[0]
    return None


def find_row(rows: Sequence[Row], entry: Model, name: str, variant: str | None = None) -> Row:
    """The row of a model: the variant asked for, else the checkpoint that ``name`` is, else its best one.

    Raises UnknownNameError for a variant the model does not have.
    """
    own = [row for row in rows if row.model == entry.id]
    if variant is None:
        named = name.lower()
        if named in (known.lower() for known in (entry.id, entry.name, *entry.aliases)):
            return own[0]
        return next((row for row in own if named in _checkpoint_names(row)), own[0])
    wanted = variant.lower()
    for row in own:
        if wanted in (row.variant.lower(), row.quantization.lower(), *_checkpoint_names(row)):
            return row
    raise UnknownNameError(
        _("variant of {model}").format(model=entry.name), variant, [row.variant for row in own]
    )


def _checkpoint_names(row: Row) -> tuple[str, str]:
    return row.checkpoint.lower(), row.checkpoint.lower().rpartition("/")[2]


def choose(row: Row, runtime: Runtime, wishes: Wishes) -> Choice:
    """A row with the user's wishes laid over it; a verdict of ``no`` stays visible in the reasons."""
    entry = model(row.model)
    variant = next(variant for variant in entry.variants if variant.id == row.variant)
    checkpoint = wishes.path or row.checkpoint
    parser = pick_parser("tool", wishes.parser, row.parser, runtime)
    return Choice(
        model=row.model,
        variant=row.variant,
        checkpoint=checkpoint,
        architecture=entry.architecture,
        served_model_name=wishes.served_name or served_name(row.checkpoint),
        quantization=row.quantization,
        parser=parser,
        family_parser=row.parser,
        reasoning_parser=pick_parser("reasoning", wishes.reasoning_parser, row.reasoning_parser, runtime),
        thinks=entry.thinks,
        weights_gib=row.weights_gib,
        download_gib=row.download_gib,
        config=entry.config,
        context=entry.context,
        gpus=row.gpus,
        tensor_parallel_size=row.tensor_parallel_size,
        pipeline_parallel_size=row.pipeline_parallel_size,
        args=(*entry.args, *variant.args),
        env=entry.env,
        reasons=(*row.reasons, *_calls_lost(entry, parser)),
    )


def _calls_lost(entry: Model, parser: str | None) -> tuple[Reason, ...]:
    """The parser the user named is one that is known to lose this model's calls."""
    if parser not in entry.unreadable_by:
        return ()
    text = _("Parser {parser} does not read the tool calls of {model}; {right} does.").format(
        parser=parser, model=entry.name, right=entry.tool_parser
    )
    return in_force((Reason(code="wrong-parser", text=text, source=entry.source, refuses=True),))


def served_name(checkpoint: str) -> str:
    """A short lower-case name that keeps the family in it: opencode chooses behaviour by such parts."""
    tail = checkpoint.rstrip("/").rpartition("/")[2]
    return re.sub(r"[^a-z0-9._-]+", "-", tail.lower()).strip("-") or "model"


def pick_parser(kind: ParserKind, wish: str, known: str | None, runtime: Runtime) -> str | None:
    """The parser to use: the catalogue's for ``auto``, none for ``none``, else the named one.

    Raises UnknownNameError when the runtime, or the tables where it was not asked, do not know the name.
    """
    if wish == "auto":
        return known
    if wish == "none":
        return None
    asked = runtime.tool_parsers if kind == "tool" else runtime.reasoning_parsers
    names = asked or tuple(entry.name for entry in parsers(kind))
    if wish not in names:
        what = _("tool-call parser") if kind == "tool" else _("reasoning parser")
        raise UnknownNameError(what, wish, names)
    return wish


def read_config(file: Path) -> dict[str, object]:
    """A checkpoint's config.json. Raises UsageError when it cannot be read, else CorruptDataError."""
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            _("Cannot read {file}: {reason}.").format(file=file, reason=error.strerror),
            _("A checkpoint is a folder that holds config.json and the weights."),
        ) from error
    except (ValueError, RecursionError) as error:
        raise CorruptDataError(
            _("{file} is not valid JSON: {reason}.").format(file=file, reason=error),
            _("Is it the config.json of a checkpoint?"),
        ) from error
    if not isinstance(config, dict):
        raise CorruptDataError(_("{file} does not hold a JSON object.").format(file=file))
    return config
