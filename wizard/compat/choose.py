"""From the matrix, or from a checkpoint the user names, to the choice that is served."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from wizard.catalog import Model, ParserKind, model, parsers
from wizard.compat.groups import gpu_groups
from wizard.compat.types import Choice, Reason, Row
from wizard.errors import CorruptDataError, RefusedError, UnknownNameError, UsageError
from wizard.i18n import _
from wizard.machine import Machine
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
        raise RefusedError(
            _("No model of the catalogue works on this machine."),
            _("`vllm-opencode models` shows why for each of them."),
        )
    return choose(best, runtime, wishes)


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
    return Choice(
        model=row.model,
        variant=row.variant,
        checkpoint=checkpoint,
        served_model_name=wishes.served_name or served_name(row.checkpoint),
        quantization=row.quantization,
        parser=pick_parser("tool", wishes.parser, row.parser, runtime),
        reasoning_parser=pick_parser("reasoning", wishes.reasoning_parser, row.reasoning_parser, runtime),
        thinks=entry.thinks,
        weights_gib=row.weights_gib,
        config=entry.config,
        context=entry.context,
        gpus=row.gpus,
        tensor_parallel_size=row.tensor_parallel_size,
        pipeline_parallel_size=row.pipeline_parallel_size,
        args=(*entry.args, *variant.args),
        reasons=row.reasons,
    )


def choose_checkpoint(
    name: str, machine: Machine, runtime: Runtime, wishes: Wishes, allowed: Sequence[int] | None = None
) -> Choice:
    """A checkpoint outside the catalogue: a local folder, read here, or a hub id, taken at its word.

    Raises UsageError when the folder is not a checkpoint or no parser is named.
    """
    checkpoint = wishes.path or name
    folder = Path(checkpoint).expanduser() if wishes.path else None
    config = {} if folder is None else read_config(folder / "config.json")
    weights = None if folder is None else _weights_gib(folder)
    if wishes.parser == "auto":
        raise UsageError(
            _("{model} is not in the catalogue, so its tool-call parser is not known.").format(model=name),
            _("Name it with [model] parser, or choose a model of `vllm-opencode models`."),
        )
    groups = gpu_groups(machine, allowed)
    group = groups[0] if groups else None
    reason = Reason(
        code="not-in-catalogue",
        text=_("{model} is not in the catalogue: nothing is promised about it.").format(model=name),
        source="catalogue",
    )
    return Choice(
        model=name,
        variant="",
        checkpoint=checkpoint,
        served_model_name=wishes.served_name or served_name(name),
        quantization="",
        parser=pick_parser("tool", wishes.parser, None, runtime),
        reasoning_parser=pick_parser("reasoning", wishes.reasoning_parser, None, runtime),
        thinks=wishes.reasoning_parser not in ("auto", "none"),
        weights_gib=weights,
        config=config,
        context=_context(config),
        gpus=group.indices if group else (),
        tensor_parallel_size=1,
        pipeline_parallel_size=1,
        args=(),
        reasons=(reason, *_no_gpu(runtime, group is not None)),
    )


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


def _weights_gib(folder: Path) -> float:
    return sum(part.stat().st_size for part in folder.glob("*.safetensors")) / 2**30


def _context(config: dict[str, object]) -> int | None:
    text_config = config.get("text_config")
    fields = text_config if isinstance(text_config, dict) else config
    longest = fields.get("max_position_embeddings")
    return longest if isinstance(longest, int) else None


def _no_gpu(runtime: Runtime, found: bool) -> tuple[Reason, ...]:
    if found or runtime.cpu_build:
        return ()
    text = _("No usable GPU was found, and this vLLM is not a CPU build.")
    return (Reason(code="no-gpu", text=text, source="NVML", refuses=runtime.kind != "rehearsal"),)
