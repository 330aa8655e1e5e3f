"""From a fault to the next start: a remedy applied to the plan, and judged by what comes of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from wizard import receipt
from wizard.catalog import vllm_facts
from wizard.diagnosis import Diagnosis, Finding, Remedy, diagnose_file, diagnose_text, edit_of
from wizard.errors import UsageError
from wizard.flow import attempts
from wizard.flow.hearing import StartFailed, known_values
from wizard.flow.journey import Attempt, Journey, Step, forget, need
from wizard.flow.places import prepare
from wizard.flow.prompt import limits_here
from wizard.flow.serving import launch, stop_server
from wizard.flow.weights import LaunchEvent
from wizard.i18n import _
from wizard.plan import LaunchPlan, apply, difference, take_back
from wizard.serve import Event

_AUTOMATIC = ("flag", "env", "operation")
"""Kinds of remedies that are carried out unasked, where they change the plan or start it once more."""


class Cured(Event, frozen=True, kw_only=True, tag="cure"):
    """A remedy was applied and vLLM is started again: attempt ``attempt`` of at most ``limit``."""

    attempt: int
    limit: int
    fault: str
    remedy: str
    effect: str
    until: str
    difference: tuple[str, ...]
    plan: str


def cause_in(found: Diagnosis) -> Finding | None:
    """The finding to act on: the most likely error."""
    return next((one for one in found.findings if one.severity == "error"), None)


def preview(journey: Journey, remedy: Remedy) -> tuple[str, ...]:
    """The difference a remedy would make to the next start; empty for one outside the plan."""
    return difference(need(journey.plan), need(_changed(journey, remedy).plan))


def apply_remedy(journey: Journey, finding: Finding, remedy: Remedy) -> Journey:
    """The settled journey with a remedy in its plan, noted as tried: ready for the next start.

    Raises UsageError for a remedy that lies outside the plan: it is told as steps, never carried out here.
    """
    if not attempts.applicable(remedy):
        raise UsageError(
            _("This remedy lies outside the plan: it is for you to carry out."), " · ".join(remedy.commands)
        )
    noted = Attempt(
        plan=attempts.uncured_id(need(journey.plan)),
        fault=finding.fault,
        remedy=attempts.key_of_remedy(remedy),
        title=remedy.title,
        edit=edit_of(remedy),
        when=receipt.now(),
    )
    return attempts.note(_changed(journey, remedy), noted)


def settle(journey: Journey, found: Diagnosis) -> Journey:
    """The journey after a start or a test that failed: what the last remedy did is known and kept now.

    With the same fault once more it did not help and is taken back; with another one it stays.
    """
    journey, finding = prepare(journey), cause_in(found)
    last = journey.attempts[-1] if journey.attempts else None
    if last is None or last.outcome != "tried":
        return journey
    if finding is None or last.fault != finding.fault:
        return attempts.judged(journey, "changed")
    journey = attempts.judged(journey, "failed")
    if last.edit is None:
        return journey
    return _with_plan(journey, take_back(need(journey.plan), last.edit))


def green(journey: Journey) -> Journey:
    """The journey whose server works: its last remedy helped, and the count begins anew."""
    return msgspec.structs.replace(attempts.judged(journey, "helped"), attempts=())


def confirm(journey: Journey) -> Journey:
    """The journey after something went well: its remedies helped, unless a smoke test still has to say so."""
    proved = journey.smoke is not None and journey.smoke.verdict == "pass"
    waits = journey.server is None or (owes_smoke(journey) and not proved)
    return journey if waits else green(journey)


def may_apply(journey: Journey, remedy: Remedy) -> bool:
    """Whether a remedy is offered to be carried out from here, by the answers and by what was tried."""
    allowed = journey.answers.serve.cure != "never" and not attempts.exhausted(journey)
    return allowed and attempts.applicable(remedy)


def owes_smoke(journey: Journey) -> bool:
    """Whether a remedy was applied that decides about tool calls: only a smoke test says that it works."""
    tools = vllm_facts().tool_flags
    edits = [attempt.edit for attempt in journey.attempts if attempt.edit is not None]
    return any(flag in tools for edit in edits for flag in (*edit.set, *edit.unset))


def explain_smoke(journey: Journey) -> Diagnosis:
    """The diagnosis of a failed smoke test: of the checks that failed, else of the server's log.

    Checks that went well are left out: some of them provoke errors on purpose, and quote them.
    """
    plan, machine = journey.plan, journey.machine
    values = known_values(journey)
    report = need(journey.smoke)
    failed = tuple(check for check in report.checks if check.status == "fail")
    text = msgspec.json.encode(msgspec.structs.replace(report, checks=failed))
    found = diagnose_text(text, plan=plan, machine=machine, values=values)
    if cause_in(found) is None and journey.run is not None:
        try:
            return diagnose_file(Path(journey.run.log), plan=plan, machine=machine)
        except UsageError:
            return found
    return found


def with_smoke_fault(journey: Journey) -> Journey:
    """The journey back at the launch, with the diagnosis of its failed smoke test: there it is cured."""
    found = explain_smoke(journey)
    return msgspec.structs.replace(settle(journey, found), diagnosis=found, step=Step.LAUNCH)


def bring_up(
    journey: Journey,
    emit: Callable[[LaunchEvent], None],
    test: Callable[[Journey], Journey],
    cancel: threading.Event,
    *,
    prove: bool = False,
) -> Journey:
    """Launch vLLM, and where the answers agree cure what goes wrong, up to three times.

    ``test``, the smoke test, runs with ``prove``, and after any cure that touches tool calls. Its report may
    say "fail": then nothing more can be done from here. Raises as ``launch`` and ``test`` do; a server that
    was started here does not outlive an error.
    """
    while True:
        try:
            journey = launch(journey, emit, cancel)
        except StartFailed as error:
            next_try = _next(journey, error.diagnosis, emit)
            if next_try is None:
                raise
            journey = next_try
            continue
        if not (prove or owes_smoke(journey)):
            return confirm(journey)
        try:
            journey = test(journey)
        except BaseException:
            if journey.started_here:
                stop_server(journey)
            raise
        if need(journey.smoke).verdict != "fail":
            return confirm(journey)
        next_try = _next(journey, explain_smoke(journey), emit) if journey.started_here else None
        if next_try is None:
            return journey
        journey = next_try


def _next(journey: Journey, found: Diagnosis, emit: Callable[[LaunchEvent], None]) -> Journey | None:
    """The journey with the best remedy that may be applied unasked; None: none may, or enough were tried."""
    finding = cause_in(found)
    if finding is None:
        return None
    journey = settle(journey, found)
    if journey.answers.serve.cure != "safe" or attempts.exhausted(journey):
        return None
    usable = (
        remedy
        for remedy in attempts.offered(journey, finding)
        if remedy.kind in _AUTOMATIC and remedy.certain and not remedy.manual and attempts.applicable(remedy)
    )
    remedy = next(usable, None)
    if remedy is None:
        return None
    before = need(journey.plan)
    journey = apply_remedy(journey, finding, remedy)
    after = need(journey.plan)
    emit(
        Cured(
            seconds=0.0,
            attempt=len(journey.attempts),
            limit=attempts.LIMIT,
            fault=finding.fault,
            remedy=remedy.title,
            effect=remedy.effect,
            until=remedy.until,
            difference=difference(before, after),
            plan=after.id,
        )
    )
    return journey


def _changed(journey: Journey, remedy: Remedy) -> Journey:
    """The journey with a remedy in its plan, and whatever follows from the plan forgotten."""
    edit = edit_of(remedy)
    plan = need(journey.plan)
    return _with_plan(journey, plan if edit is None else apply(plan, edit))


def _with_plan(journey: Journey, plan: LaunchPlan) -> Journey:
    """The journey with another plan; opencode's limits follow its window."""
    journey = forget(journey, Step.LAUNCH)
    window = plan.flag("--max-model-len") or ""
    if journey.choice is None or journey.budget is None or not window.isdecimal():
        return msgspec.structs.replace(journey, plan=plan)
    found = limits_here(journey, int(window), thinks=journey.choice.thinks, vllm_version=plan.vllm_version)
    budget = msgspec.structs.replace(journey.budget, max_model_len=int(window), opencode=found)
    return msgspec.structs.replace(journey, plan=msgspec.structs.replace(plan, limits=found), budget=budget)
