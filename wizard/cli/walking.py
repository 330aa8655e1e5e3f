"""The whole way: ``setup`` without screens, and the wizard with them."""

from __future__ import annotations

import os
import sys
import threading
from typing import Annotated

import msgspec
import typer

from wizard.cli import output
from wizard.cli.events import show_check, show_event
from wizard.cli.journeys import consent, journey
from wizard.cli.looking import AnswersOption
from wizard.cli.options import current
from wizard.cli.serving import CureOption
from wizard.cli.signals import like_interrupt
from wizard.cli.speed import show_speed, show_tuning
from wizard.errors import UsageError, WizardError
from wizard.fetch import FetchProgress, FetchWaiting
from wizard.flow import (
    CheckEvent,
    ChosenEvent,
    ConfigEvent,
    DoneEvent,
    NoteEvent,
    ProofEvent,
    SpeedEvent,
    StepEvent,
    Tried,
    Trying,
    clear_progress,
    resume,
    run_setup,
)
from wizard.i18n import _
from wizard.serve import Event
from wizard.text import shell_join


class SilencedError(WizardError):
    """The reader of the output went away in the middle of a set-up."""

    exit_code = 1


def setup(
    answers: AnswersOption = None,
    yes: Annotated[bool, typer.Option("--yes", help=_("Go on without asking."))] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help=_("Show what would be done."))] = False,
    resuming: Annotated[
        bool, typer.Option("--resume", help=_("Go on with the answers of last time."))
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help=_("Forget an unfinished set-up."))] = False,
    cure: CureOption = False,
) -> int:
    """The whole wizard without screens. 0: proved and written; 1: refused, or something does not work."""
    if resuming and (fresh or answers is not None):
        raise UsageError(
            _("--resume goes on with the answers of last time: leave --answers and --fresh out.")
        )
    start = journey(answers)
    if resuming:
        kept, notice = resume()
        if kept is None:
            raise UsageError(notice or _("There is nothing to resume."), _("Run setup without --resume."))
        start = msgspec.structs.replace(start, answers=kept.answers)
    elif fresh:
        clear_progress()

    if cure:
        serve = msgspec.structs.replace(start.answers.serve, cure="safe")
        start = msgspec.structs.replace(start, answers=msgspec.structs.replace(start.answers, serve=serve))

    def agree(summary: ChosenEvent) -> None:
        question = _("Start {model} and write opencode's configuration?")
        consent(question.format(model=summary.served_model_name), yes)

    like_interrupt(hangup=not start.answers.serve.detach or start.simulated)
    done = run_setup(start.answers, emit=_show, consent=agree, cancel=threading.Event(), dry_run=dry_run)
    proof = done.proof
    return 1 if proof is not None and proof.status == "failed" else 0


def _show(happened: object) -> None:
    try:
        _print(happened)
    except BrokenPipeError:
        raise SilencedError(
            _("Nobody reads the output any more: the set-up was stopped."),
            _("Run it again, with its output into a file."),
        ) from None


def _print(happened: object) -> None:
    if isinstance(happened, Event | FetchProgress | FetchWaiting):
        show_event(happened)
    elif current().json:
        output.event(happened)
    else:
        _say(happened)


def _say(happened: object) -> None:
    match happened:
        case StepEvent(title=title):
            output.say(f"== {title}")
        case ChosenEvent():
            _say_chosen(happened)
        case NoteEvent(text=text):
            output.say(text)
        case CheckEvent(check=check):
            show_check(check)
        case SpeedEvent(speed=speed):
            show_speed(speed)
        case Trying() | Tried():
            show_tuning(happened)
        case ConfigEvent(path=path, action=action, diff=diff):
            output.say(f"{path}: {action}")
            output.say(diff)
        case ProofEvent(proof=proof):
            output.say(
                _("Proof with opencode: {status}. {detail}").format(status=proof.status, detail=proof.detail)
            )
            for line in (proof.evidence, proof.hint):
                if line:
                    output.say(f"      {line}")
        case DoneEvent():
            _say_done(happened)
        case _:
            pass


def _say_chosen(summary: ChosenEvent) -> None:
    minutes = _("unknown") if summary.start_minutes is None else f"{summary.start_minutes:g}"
    disk = _("unknown") if summary.free_disk_gib is None else f"{summary.free_disk_gib:.0f} GiB"
    output.say(
        _(
            "To download: {download:.0f} GiB (free: {free}). A start takes about {minutes} minutes (assumed)."
        ).format(download=summary.download_gib or 0.0, free=disk, minutes=minutes)
    )
    window = _("as vLLM finds it") if summary.max_model_len is None else f"{summary.max_model_len:,}"
    output.say(
        _("{checkpoint} as {name}, parser {parser}, window {window}").format(
            checkpoint=summary.checkpoint,
            name=summary.served_model_name,
            parser=summary.parser,
            window=window,
        )
    )
    for reason in summary.reasons:
        output.say(f"  - {reason.text}")
    output.say(shell_join(summary.command))


def _say_done(done: DoneEvent) -> None:
    results = done.receipt.results
    if done.scratch:
        output.say(
            _("Rehearsal: nothing of this machine was touched. Everything is in {path}").format(
                path=done.scratch
            )
        )
    output.say(_("opencode's configuration: {path}").format(path=results.get("opencode_config")))
    output.say(_("Receipt: {path}").format(path=done.path))
    if not done.scratch:
        output.say(_("Start with: cd PROJECT; {command}").format(command=results.get("opencode_command")))


def wizard() -> int:
    """Open the wizard; without a terminal say how to do without it."""
    plain = current().plain or bool(os.environ.get("ACCESSIBLE")) or os.environ.get("TERM") == "dumb"
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            _("The wizard needs a terminal."),
            _("Without one: vllm-opencode setup --answers FILE --yes (see --help)."),
        )
    from screens import run_app, run_plain

    start = journey()
    return run_plain(start) if plain else run_app(start, output.say)
