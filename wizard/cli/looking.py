"""Commands that look: detect, plan, doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wizard.adopt import adopt
from wizard.cli import output
from wizard.cli.journeys import journey, with_runtime
from wizard.cli.options import current
from wizard.errors import UnknownNameError, UsageError
from wizard.flow import (
    choose_model,
    dictate_machine,
    examine,
    find_runtime,
    look_at_machine,
    make_plan,
    need,
    rate_models,
    record_machine,
)
from wizard.i18n import _
from wizard.machine import Check, Machine
from wizard.plan import FORMATS, Instruction, LaunchPlan
from wizard.plan import document as plan_document

AnswersOption = Annotated[Path | None, typer.Option("--answers", help=_("The answers file, TOML."))]


def detect(
    record: Annotated[
        str | None,
        typer.Option(
            "--record",
            metavar="FILE",
            help=_("Also write this machine down, redacted; - writes that, and nothing else, to the output."),
        ),
    ] = None,
) -> int:
    """What this machine is. 0: nothing in the way; 1: a check failed."""
    if record == "-":
        looked, written = dictate_machine(journey())
        output.raw(written)
        return _failed(looked.checks)
    looked = look_at_machine(journey()) if record is None else record_machine(journey(), _file(record))
    machine = need(looked.machine)
    if current().json:
        output.document({"machine": machine, "checks": looked.checks})
    else:
        _say_machine(machine)
        _say_checks(looked.checks)
    if record is not None:
        output.paragraph(
            _(
                "Recorded in {path}, without host name, UUIDs, paths and telling names of programs. "
                "Read it before you send it."
            ).format(path=record)
        )
    return _failed(looked.checks)


def plan(
    model: Annotated[str | None, typer.Option("--model", help=_("A model of the catalogue."))] = None,
    answers: AnswersOption = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="SOURCE",
            help=_("Read a vLLM that somebody else started: pid:N, container:N, unit:N, log:F, compose:F."),
        ),
    ] = None,
    format: Annotated[
        str, typer.Option("--format", help=_("How the plan is written: shell or json."))
    ] = "shell",
) -> int:
    """The launch plan. 0: it can be started; 1: it is refused."""
    if format not in (*FORMATS, "json"):
        raise UnknownNameError(_("format"), format, [*FORMATS, "json"])
    if source is not None:
        if model is not None or answers is not None:
            raise UsageError(_("--from reads a plan as it is: leave --model and --answers away."))
        made = adopt(source, files_only=current().simulate is not None).plan
    else:
        start = journey(answers, model={"id": model})
        made = need(make_plan(choose_model(rate_models(with_runtime(start)))).plan)
    if current().json or format == "json":
        output.document(plan_document(made))
    else:
        output.say(FORMATS[format](made))
        _say_reasons(made)
    return 1 if made.refused else 0


def doctor(
    base_url: Annotated[
        str | None, typer.Option("--base-url", help=_("Address of a running vLLM, with /v1."))
    ] = None,
    answers: AnswersOption = None,
) -> int:
    """Host, runtime, server and opencode's configuration. 0: all well; 1: a check failed."""
    found = examine(find_runtime(look_at_machine(journey(answers, start={"base_url": base_url}))))
    if current().json:
        output.document({"checks": found})
    else:
        _say_checks(found)
    return _failed(found)


def _file(record: str) -> Path:
    if not record:
        raise UsageError(
            _("--record needs the name of a file."),
            _("Such as: --record machine.json; or - to print it."),
        )
    return Path(record)


def say_instructions(told: tuple[Instruction, ...]) -> None:
    """What a person does, in its order; commands and the content of files stand on lines of their own."""
    for step in told:
        output.say(step.text)
        if step.file:
            output.say(f"  {step.file}")
        for text in (step.content, *step.commands):
            for line in text.splitlines():
                output.say(f"    {line}")


def _failed(found: tuple[Check, ...]) -> int:
    return 1 if any(check.status == "fail" for check in found) else 0


def _say_machine(machine: Machine) -> None:
    if machine.simulated:
        output.say(_("Recorded machine {name}: nothing here is this host.").format(name=machine.simulated))
    output.paragraph(
        _("{product} · {arch} · {os} · driver {driver} · CUDA {cuda}").format(
            product=machine.product or machine.hostname or "?",
            arch=machine.arch,
            os=machine.os,
            driver=machine.driver or "-",
            cuda=machine.cuda or "-",
        )
    )
    for gpu in machine.gpus:
        if not gpu.memory_mib:
            output.say(_("GPU {index}  {name}  memory unknown").format(index=gpu.index, name=gpu.name or "?"))
            continue
        output.say(
            _("GPU {index}  {name}  cc {capability}  {kind} {memory:.1f} GiB, {free:.1f} free").format(
                index=gpu.index,
                name=gpu.name,
                capability=gpu.compute_capability,
                kind=_("unified") if gpu.unified else _("memory"),
                memory=gpu.memory_mib / 1024,
                free=gpu.memory_free_mib / 1024,
            )
        )
    for group in machine.nvlink_groups:
        output.paragraph(_("NVLink joins GPUs {group}").format(group=", ".join(map(str, group))))


def _say_checks(found: tuple[Check, ...]) -> None:
    words = {"ok": _("OK"), "warn": _("WARN"), "fail": _("FAIL"), "skip": _("SKIP")}
    for check in found:
        output.paragraph(check.detail, f"{words[check.status]:<5} {check.id:<14} ")
        if check.status not in ("warn", "fail"):
            continue
        for line in check.hint.splitlines():
            output.paragraph(line, f"{'':<21}")
        for number, line in enumerate(check.command.splitlines()):
            output.say(f"{'':<20} {' ' if number else '$'} {line}")


def _say_reasons(made: LaunchPlan) -> None:
    output.say()
    for text in made.adopted_from.unread if made.adopted_from is not None else ():
        output.say(_("Not read: {text}").format(text=text))
    for reason in made.reasons:
        output.say(f"{reason.subject:<26} {reason.why}")
    for warning in made.warnings:
        output.say(_("Note: {text}").format(text=warning.text))
    for refusal in made.refused:
        output.say(_("Refused: {text}").format(text=refusal.text))
