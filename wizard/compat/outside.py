"""A checkpoint outside the catalogue: read, understood, rated like a row of the matrix, and chosen."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from wizard import paths
from wizard.catalog import Model, Variant, vllm_facts
from wizard.checkpoint import Checkpoint, ParserGuess, detect_parsers, read_checkpoint
from wizard.compat.choose import Wishes, pick_parser, served_name
from wizard.compat.groups import GpuGroup, gpu_groups
from wizard.compat.matrix import rate
from wizard.compat.table import in_force
from wizard.compat.types import Choice, Reason, Row
from wizard.errors import RefusedError, UnknownParserError, UsageError
from wizard.i18n import _
from wizard.machine import Machine
from wizard.memory import EngineSettings, cache_layout
from wizard.runtime import Runtime
from wizard.text import one_line


def choose_checkpoint(
    name: str,
    machine: Machine,
    runtime: Runtime,
    wishes: Wishes,
    allowed: Sequence[int] | None = None,
    *,
    settings: EngineSettings | None = None,
    offline: bool = False,
    cancel: threading.Event | None = None,
) -> Choice:
    """A checkpoint outside the catalogue, a local folder or a hub id, with what its own files tell.

    With its parser named, a hub id that cannot be looked up is taken at its word. Raises RefusedError when
    the hub cannot be asked or ``cancel`` is set, UnknownParserError when its parser is to be found and cannot
    be, UsageError when it is no checkpoint or damaged.
    """
    target = name if wishes.path is None else str(_folder(wishes.path))
    reasons = [_not_in_catalogue(name)]
    found: Checkpoint | None = None
    try:
        found = read_checkpoint(target, offline=offline, cancel=cancel)
    except RefusedError as error:
        if wishes.parser == "auto":
            raise
        reasons.append(Reason(code="not-read", text=error.message, source="hub"))
    guess = None
    if found is not None:
        reasons += _told_by(found)
        if "auto" in (wishes.parser, wishes.reasoning_parser):
            guess = detect_parsers(
                found,
                version=runtime.version,
                tool_parsers=runtime.tool_parsers,
                reasoning_parsers=runtime.reasoning_parsers,
            )
            reasons += _parsers_found(name, guess, wishes)
    tool = pick_parser("tool", wishes.parser, guess.tool_parser if guess else None, runtime)
    thought = guess.reasoning_parser if guess else None
    thinking = pick_parser("reasoning", wishes.reasoning_parser, thought, runtime)
    choice = Choice(
        model=name,
        variant="",
        checkpoint=target,
        architecture=found.architecture if found else "",
        served_model_name=wishes.served_name or served_name(name),
        quantization=found.quantization if found else "",
        parser=tool,
        family_parser=guess.tool_parser if guess else None,
        reasoning_parser=thinking,
        thinks=thinking is not None,
        weights_gib=found.weights_gib if found else None,
        config=found.config if found else {},
        context=found.context if found else None,
        gpus=(),
        tensor_parallel_size=1,
        pipeline_parallel_size=1,
        args=guess.args if guess is not None and tool == guess.tool_parser else (),
        reasons=tuple(reasons),
    )
    own = settings or EngineSettings(vllm_version=runtime.version or vllm_facts().newest)
    return _placed(choice, found, machine, runtime, own, gpu_groups(machine, allowed))


def _told_by(found: Checkpoint) -> Iterator[Reason]:
    """What its files say besides; a folder that lacks weight files is not completed by anybody."""
    source = _("its own files")
    for note in found.notes:
        yield Reason(code="checkpoint-note", text=note, source=source)
    if found.missing:
        lost = found.place == "folder"
        reason = Reason(code="weights-missing", text=found.missing, source=source, refuses=lost)
        yield from in_force((reason,))
    if not found.quantization:
        text = _("Whether vLLM reads its weight format, and whether this GPU runs it, is not known here.")
        yield Reason(code="format-unknown", text=text, source=source, doubts=True)


def _placed(
    choice: Choice,
    found: Checkpoint | None,
    machine: Machine,
    runtime: Runtime,
    settings: EngineSettings,
    groups: Sequence[GpuGroup],
) -> Choice:
    """On the GPUs it fits best, with the reasons of the matrix; where too little is known, on the first."""
    row = None
    if found is not None and groups and not runtime.cpu_build:
        row = _row(choice, found, machine, runtime, settings, groups)
    if row is None:
        first = groups[0].indices if groups else ()
        reasons = (*choice.reasons, *_no_gpu(runtime, bool(groups)))
        return msgspec.structs.replace(choice, gpus=first, reasons=reasons)
    # Going without a parser is the user's own wish here.
    rated = tuple(reason for reason in row.reasons if reason.code != "no-parser")
    return msgspec.structs.replace(
        choice,
        gpus=row.gpus,
        tensor_parallel_size=row.tensor_parallel_size,
        pipeline_parallel_size=row.pipeline_parallel_size,
        reasons=(*choice.reasons, *rated),
    )


def _row(
    choice: Choice,
    found: Checkpoint,
    machine: Machine,
    runtime: Runtime,
    settings: EngineSettings,
    groups: Sequence[GpuGroup],
) -> Row | None:
    """The checkpoint as the matrix rates it; None when its size, format or window is not known."""
    if found.weights_gib is None or not found.quantization or found.context is None:
        return None
    source = _("its own files")
    variant = Variant(
        id="",
        checkpoint=choice.checkpoint,
        quantization=found.quantization,
        weights_gib=found.weights_gib,
        weights_origin=found.weights_origin,
        source=source,
    )
    entry = Model(
        id=choice.model,
        name=choice.model,
        context=found.context,
        architecture=found.architecture,
        tool_parser=choice.parser,
        reasoning_parser=choice.reasoning_parser,
        config=found.config,
        variants=(variant,),
        source=source,
    )
    return rate(machine, runtime, settings, groups, entry, variant, cache_layout(found.config))


def _folder(path: str) -> Path:
    """What the user named as a folder. Raises UsageError when it is none."""
    folder = paths.expanded(path)
    if not folder.is_dir():
        raise UsageError(
            _("There is no folder {folder}.").format(folder=one_line(path)),
            _("Name a folder that holds config.json and the weights, or an id of the hub."),
        )
    return folder


def _not_in_catalogue(name: str) -> Reason:
    text = _("{model} is not in the catalogue: nothing is promised about it.").format(model=name)
    return Reason(code="not-in-catalogue", text=text, source="catalogue")


def _parsers_found(name: str, guess: ParserGuess, wishes: Wishes) -> list[Reason]:
    """How those left to us were found, and how sure. Raises UnknownParserError without one for tools."""
    reasons = []
    if wishes.parser == "auto":
        if guess.tool_parser is None:
            raise UnknownParserError(
                _("The tool-call parser of {model} is not known. {why}").format(model=name, why=guess.why),
                _("Name it with [model] parser; the smoke test says whether it reads the model's calls."),
            )
        if guess.sureness == "sure":
            reasons.append(Reason(code="parser-derived", text=guess.why, source=guess.source))
        else:
            text = _("{why} That is likely, not sure: the smoke test will tell.").format(why=guess.why)
            reasons.append(Reason(code="parser-likely", text=text, source=guess.source, doubts=True))
    if wishes.reasoning_parser == "auto" and guess.reasoning_parser is not None:
        text = _("It thinks before it answers, in the form that {parser} reads.")
        text = text.format(parser=guess.reasoning_parser)
        reasons.append(Reason(code="reasoning-derived", text=text, source="chat template"))
    return reasons


def _no_gpu(runtime: Runtime, found: bool) -> tuple[Reason, ...]:
    if found or runtime.cpu_build:
        return ()
    text = _("No usable GPU was found, and this vLLM is not a CPU build.")
    return in_force((Reason(code="no-gpu", text=text, source="NVML", refuses=runtime.kind != "rehearsal"),))
