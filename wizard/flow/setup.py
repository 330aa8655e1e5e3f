"""The whole chain without screens: the same steps the screens take, one after the other."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

import msgspec

from wizard.catalog import vllm_facts
from wizard.compat import Reason
from wizard.errors import RefusedError, UsageError
from wizard.fetch import Presence, presence
from wizard.flow import client, cure, finding, prepare, records, serving
from wizard.flow.answers import Answers
from wizard.flow.journey import Journey, Step, need
from wizard.flow.places import receipt_path
from wizard.flow.qualify import smoke_test
from wizard.flow.selection import missing_gib
from wizard.flow.tuning import TuningEvent, tunable, tune
from wizard.flow.weights import order_of
from wizard.i18n import N_, _
from wizard.opencode import Proof
from wizard.receipt import Receipt
from wizard.smoke import SmokeCheck, Speed


class StepEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="step"):
    """A step began."""

    step: str
    title: str


class ChosenEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="chosen"):
    """What was chosen, before anything is touched: the express road shows exactly this.

    Sizes are GiB; ``start_minutes`` is a rough guess (assumed) of a start with the weights on disk.
    """

    model: str
    variant: str
    checkpoint: str
    served_model_name: str
    parser: str | None
    reasoning_parser: str | None
    max_model_len: int | None
    limits: dict[str, int]
    weights_gib: float | None
    download_gib: float | None
    free_disk_gib: float | None
    start_minutes: float | None
    reasons: tuple[Reason, ...]
    plan: str
    command: tuple[str, ...]


class NoteEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="note"):
    """Something a person should know that is neither progress nor failure."""

    text: str


class CheckEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="check"):
    """A smoke check came in."""

    check: SmokeCheck


class SpeedEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="speed"):
    """How fast the server answered, beside how fast it could."""

    speed: Speed


class ConfigEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="configuration"):
    """How opencode's configuration changes."""

    path: str
    action: str
    diff: str


class ProofEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="proof"):
    """What the real opencode did with the configuration."""

    proof: Proof


class DoneEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="done"):
    """The end of the road: the receipt, where it lies, and the scratch folder of a simulation."""

    receipt: Receipt
    path: str
    scratch: str | None


TITLES: dict[Step, str] = {
    Step.START: N_("Start"),
    Step.MACHINE: N_("Machine"),
    Step.RUNTIME: N_("Runtime"),
    Step.MODEL: N_("Model"),
    Step.BUDGET: N_("Budget"),
    Step.LAUNCH: N_("Launch"),
    Step.SMOKE: N_("Smoke test"),
    Step.OPENCODE: N_("opencode"),
    Step.DIAGNOSE: N_("Diagnosis"),
    Step.DONE: N_("Done"),
}
"""The name of each step, for the step bar and for events."""

Emit = Callable[[object], None]
Consent = Callable[[ChosenEvent], None]
"""Asks before anything is touched; raises to stop."""


def choose_for_me(journey: Journey, emit: Emit) -> Journey:
    """The express road: machine, runtime, model and budget in one go. Looks, changes nothing."""
    for step, work in (
        (Step.MACHINE, prepare.look_at_machine),
        (Step.RUNTIME, prepare.find_runtime),
        (Step.MODEL, lambda found: prepare.choose_model(prepare.rate_models(found))),
        (Step.BUDGET, prepare.make_plan),
    ):
        emit(StepEvent(step=step.value, title=_(TITLES[step])))
        journey = work(journey)
    return msgspec.structs.replace(journey, step=Step.LAUNCH)


def chosen(journey: Journey) -> ChosenEvent:
    """What a planned journey will do, with disk and time first."""
    plan = need(journey.plan)
    choice = need(journey.choice)
    machine = need(journey.machine)
    found = Presence(state="absent") if journey.simulated else presence(order_of(journey))
    nothing = journey.simulated or found.state == "whole"
    return ChosenEvent(
        model=choice.model,
        variant=choice.variant,
        checkpoint=choice.checkpoint,
        served_model_name=plan.served_model_name,
        parser=plan.parser,
        reasoning_parser=plan.reasoning_parser,
        max_model_len=journey.budget.max_model_len if journey.budget else None,
        limits={name: getattr(need(plan.limits), name) for name in ("context", "input", "output")},
        weights_gib=choice.weights_gib,
        download_gib=0.0 if nothing else choice.files_gib and missing_gib(choice.files_gib, found),
        free_disk_gib=next((disk.free_gib for disk in machine.disks if disk.purpose == "models"), None),
        start_minutes=start_minutes(choice.weights_gib),
        reasons=choice.reasons,
        plan=plan.id,
        command=plan.argv,
    )


def start_minutes(weights_gib: float | None) -> float | None:
    """A guess, from the size of the weights, of how long a start takes once they are on disk."""
    if weights_gib is None:
        return None
    pace = vllm_facts().start_pace
    return round(pace.fixed_minutes + weights_gib / pace.gib_per_minute, 1)


def run_setup(
    answers: Answers, *, emit: Emit, consent: Consent, cancel: threading.Event, dry_run: bool = False
) -> Journey:
    """Go the whole road of the answers and return the journey at its end.

    Raises what the steps raise: RefusedError for a plan that cannot work or a failed smoke test, LaunchError
    for a vLLM that does not come up. Then, and when interrupted, nothing of ours is left running.
    """
    journey = Journey(answers=answers)
    if answers.start.mode == "troubleshoot":
        raise UsageError(
            _("Troubleshooting is not a set-up."),
            _("Use: vllm-opencode diagnose FILE, or vllm-opencode doctor."),
        )
    if answers.start.mode == "connect":
        emit(StepEvent(step=Step.START.value, title=_(TITLES[Step.START])))
        return _write(_proved(serving.connect(journey), emit, cancel), emit, cancel, dry_run)
    journey = choose_for_me(journey, emit)
    summary = chosen(journey)
    emit(summary)
    if refused := need(journey.plan).refused:
        raise RefusedError(
            _("The plan is refused: {reason}").format(reason=refused[0].text),
            _("`vllm-opencode models` shows what works here, `vllm-opencode detect` what this machine is."),
        )
    if (summary.download_gib or 0.0) > (summary.free_disk_gib or math.inf):
        text = _("The weights take {download:.0f} GiB, and only {free:.0f} GiB are free where models go.")
        emit(NoteEvent(text=text.format(download=summary.download_gib, free=summary.free_disk_gib)))
    if dry_run:
        return journey
    if not journey.simulated:
        consent(summary)
    records.save_progress(journey)
    emit(StepEvent(step=Step.LAUNCH.value, title=_(TITLES[Step.LAUNCH])))

    def test(running: Journey) -> Journey:
        return _tested(running, emit, cancel)

    journey = cure.bring_up(journey, emit, test, cancel, prove=not answers.smoke.skip)
    try:
        journey = _mended(journey, emit, consent, test, cancel)
        journey = _proved(journey, emit, cancel)
        journey = _write(journey, emit, cancel, dry_run)
    except BaseException:
        if journey.started_here:
            serving.stop_server(journey)
        raise
    if journey.simulated or (journey.started_here and not answers.serve.detach):
        journey = serving.stop_server(journey)
    return journey


def _mended(
    journey: Journey,
    emit: Emit,
    consent: Consent,
    test: Callable[[Journey], Journey],
    cancel: threading.Event,
) -> Journey:
    """The journey after the parser finder, which looks for another parser where the test failed."""

    def agree(changed: Journey) -> None:
        if not changed.simulated:
            consent(chosen(changed))

    def say(text: str) -> None:
        emit(NoteEvent(text=text))

    return finding.mended(journey, say=say, agree=agree, emit=emit, test=test, cancel=cancel)


def _tested(journey: Journey, emit: Emit, cancel: threading.Event) -> Journey:
    emit(StepEvent(step=Step.SMOKE.value, title=_(TITLES[Step.SMOKE])))
    journey = smoke_test(journey, lambda check: emit(CheckEvent(check=check)), cancel)
    emit(SpeedEvent(speed=need(journey.smoke).speed))
    records.keep_verdict(journey)
    return journey


def _tuned(journey: Journey, emit: Emit, cancel: threading.Event) -> Journey:
    """The journey after tuning, where the answers ask for it and there is something to try."""
    if not journey.answers.smoke.tune:
        return journey
    if not tunable(journey):
        emit(NoteEvent(text=_("Nothing to tune: no option costs speed, or this server is not ours to stop.")))
        return journey
    tuned = tune(journey, lambda happened: emit(_as_event(happened)), cancel, leave=cancel)
    emit(SpeedEvent(speed=need(tuned.smoke).speed))
    return tuned


def _as_event(happened: TuningEvent) -> object:
    return CheckEvent(check=happened) if isinstance(happened, SmokeCheck) else happened


def _proved(journey: Journey, emit: Emit, cancel: threading.Event) -> Journey:
    """The live test of a running server, unless the answers leave it out; then tuning, if they ask for it."""
    if journey.answers.smoke.skip:
        emit(NoteEvent(text=_("The smoke test was skipped: nothing proves that tool calls work.")))
        return msgspec.structs.replace(journey, skipped=(*journey.skipped, Step.SMOKE))
    if journey.smoke is None:
        journey = _tested(journey, emit, cancel)
    return _tuned(journey, emit, cancel)


def _write(journey: Journey, emit: Emit, cancel: threading.Event, dry_run: bool) -> Journey:
    """From a tested server to a proved configuration and the final receipt."""
    answers = journey.answers
    emit(StepEvent(step=Step.OPENCODE.value, title=_(TITLES[Step.OPENCODE])))
    journey = client.plan_configuration(journey)
    change = need(journey.change)
    emit(ConfigEvent(path=change.path, action=change.action, diff=change.diff))
    for text in change.contacts:
        emit(NoteEvent(text=text))
    if dry_run:
        return journey
    journey = client.confirm_configuration(client.write_configuration(journey))
    records.save_progress(journey)
    if confirmed := need(journey.change).confirmed:
        emit(NoteEvent(text=f"{confirmed.detail} {confirmed.hint}".rstrip()))
    if answers.opencode.proof:
        journey = client.prove(journey, cancel)
        emit(ProofEvent(proof=need(journey.proof)))
    journey = msgspec.structs.replace(journey, step=Step.DONE)
    emit(DoneEvent(receipt=records.finish(journey), path=str(receipt_path(journey)), scratch=journey.scratch))
    return journey
