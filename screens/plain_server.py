"""The questions from the launch on: the start, the live test, the configuration, the end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import msgspec

from screens import estimates, failing, figures, pace, parsers, results, wording
from screens.dialogue import Dialogue
from screens.lookups import look_at_trouble
from screens.moves import Move, Outcome
from wizard import flow
from wizard.errors import LaunchError, RefusedError
from wizard.fetch import FetchProgress, progress_words
from wizard.flow import Journey, LaunchEvent, Step, Tried, Trying, TuningEvent
from wizard.i18n import _
from wizard.serve import Milestone, Progress
from wizard.smoke import SmokeCheck

PLAIN_WIDTH = 78
"""Columns of a remedy."""


def launch(dialogue: Dialogue, journey: Journey) -> Outcome:
    """The plan, and the start."""
    plan = flow.need(journey.plan)
    if journey.server is not None:
        dialogue.say(results.server_line(journey.server))
        dialogue.choose(_("vLLM runs. And now?"), [("next", _("Go on"))], "next")
        return Outcome(Move.NEXT, journey)
    dialogue.say(*wording.plan_verdict(plan, journey.simulated))
    dialogue.say(*wording.chosen_lines(flow.chosen(journey)), *wording.command_lines(plan))
    dialogue.choose(_("And now?"), [("start", _("Start vLLM"))], "start", wording.plan_reasons(plan))
    dialogue.say(_("Starting vLLM… Ctrl-C stops it."))
    try:
        journey = flow.confirm(flow.launch(journey, _follow(dialogue), threading.Event()))
    except flow.StartFailed as error:
        failed = _failed(dialogue, journey, error)
        if failed is None:
            dialogue.say(*error.evidence)
            raise
        return failed
    except LaunchError as error:
        dialogue.say(*error.evidence)
        raise
    except RefusedError as error:
        if plan.runtime_kind == "assumed":
            raise RefusedError(error.message, wording.install_hint()) from error
        raise
    dialogue.say(results.server_line(flow.need(journey.server)), *estimates.compared_lines(journey))
    return Outcome(Move.NEXT, journey)


def _failed(dialogue: Dialogue, journey: Journey, error: flow.StartFailed) -> Outcome | None:
    """Why the start failed and what to do; a remedy is applied to the plan. None: nobody knows why."""
    finding = flow.cause_in(error.diagnosis)
    if finding is None:
        return None
    journey = flow.settle(journey, error.diagnosis)
    offered = flow.offered(journey, finding)
    dialogue.say(error.message, *failing.failure_lines(error, finding))
    for number, remedy in enumerate(offered, 1):
        dialogue.say(failing.remedy_text(number, remedy, PLAIN_WIDTH))
        dialogue.say(*(f"{failing.INDENT}$ {command}" for command in remedy.commands))
    dialogue.say(*failing.failure_foot(error, finding, journey))
    usable = {
        str(number): remedy for number, remedy in enumerate(offered, 1) if flow.may_apply(journey, remedy)
    }
    options = [(number, _("Apply {number} to the plan").format(number=number)) for number in usable]
    options += [("again", _("Back to the plan")), ("report", _("Write a report for somebody who helps"))]
    picked = dialogue.choose(_("And now?"), options, options[0][0])
    if picked == "report":
        path = flow.write_fault_report(journey, error.diagnosis, error.log)
        dialogue.say(_("Written: {path}. Read it before you send it.").format(path=path))
    elif picked in usable:
        dialogue.say(*flow.preview(journey, usable[picked]))
        journey = flow.apply_remedy(journey, finding, usable[picked])
    return Outcome(Move.GO, journey)


def _follow(dialogue: Dialogue) -> Callable[[LaunchEvent], None]:
    told = -1

    def follow(event: LaunchEvent) -> None:
        nonlocal told
        if isinstance(event, Milestone):
            dialogue.say(f"{figures.clock(event.seconds)}  {event.title}  {event.detail}".rstrip())
        elif isinstance(event, Progress) and event.done == event.total:
            dialogue.say(f"{figures.clock(event.seconds)}  {event.done}/{event.total}")
        elif isinstance(event, FetchProgress) and (tenth := 10 * event.done // max(1, event.total)) > told:
            told = tenth
            dialogue.say(progress_words(event))

    return follow


def smoke(dialogue: Dialogue, journey: Journey) -> Outcome:
    """Do tool calls work?"""
    dialogue.say(_("Asking the model…"))

    def tell(check: SmokeCheck) -> None:
        word, kind = wording.status_word(check.status), "" if check.required else _(" (not required)")
        dialogue.say(f"{word}  {check.title}{kind}: {check.detail} {check.hint}".rstrip())

    journey = flow.smoke_test(journey, tell, threading.Event())
    report = flow.need(journey.smoke)
    dialogue.say(results.smoke_summary(report), *pace.speed_lines(report.speed))
    dialogue.say(*pace.cost_lines(report.speed))
    options = [("next", _("Go on")), ("again", _("Test again"))]
    if costs := flow.tunable(journey):
        names = ", ".join(cost.option for cost in costs)
        options.append(("tune", _("Try whether it is faster without {options}").format(options=names)))
    if report.verdict == "fail":
        options = [("again", _("Test again")), ("skip", _("Go on without proof"))]
    if report.verdict != "pass":
        options.append(("find", _("Find the parser that fits")))
    why = [f"{check.title}: {check.evidence}" for check in report.checks if check.evidence]
    picked = dialogue.choose(_("And now?"), options, options[0][0], why)
    if picked == "tune":
        return Outcome(Move.NEXT, _tuned(dialogue, journey))
    if picked == "find":
        return Outcome(Move.GO, _with_parsers(dialogue, journey))
    moves = {"next": Move.NEXT, "again": Move.GO, "skip": Move.SKIP}
    return Outcome(moves[picked], journey)


def _tuned(dialogue: Dialogue, journey: Journey) -> Journey:
    """Leave options out one by one; whatever does not help is taken back."""

    def hear(happened: TuningEvent) -> None:
        if isinstance(happened, Trying):
            dialogue.say(pace.trying_line(happened))
        elif isinstance(happened, Tried):
            dialogue.say(pace.attempt_line(happened.attempt))

    tuned = flow.tune(journey, hear, threading.Event())
    dialogue.say(*pace.speed_lines(flow.need(tuned.smoke).speed))
    return tuned


def _with_parsers(dialogue: Dialogue, journey: Journey) -> Journey:
    """Try every parser over what the model writes; the one that fits goes into the plan, with a yes."""
    dialogue.say(_("Trying every parser over what the model writes…"))
    search = flow.find_parsers(journey, threading.Event())
    edit = flow.parser_edit(journey, search)
    dialogue.say(*parsers.raw_lines(search))
    for candidate in parsers.telling(search.candidates):
        word = wording.status_word("ok" if candidate.ok else "fail")
        dialogue.say(f"{word}  {candidate.parser}: {candidate.detail}")
    dialogue.say(*parsers.outcome_lines(search, edit))
    if edit is None or not dialogue.agreed(_("Use it, and start vLLM again?"), True):
        return journey
    started = flow.launch(flow.edited(journey, edit), _follow(dialogue), threading.Event())
    return flow.forget(started, Step.SMOKE)


def opencode(dialogue: Dialogue, journey: Journey) -> Outcome:
    """What opencode is told."""
    journey = flow.plan_configuration(journey, unproven=Step.SMOKE in journey.skipped)
    change = flow.need(journey.change)
    dialogue.say(*results.change_lines(change), change.diff)
    options = [
        ("write", _("Write it and prove it")),
        ("ticks", _("Change what is written")),
        ("skip", _("Leave opencode alone")),
    ]
    if flow.client_missing(journey):
        options.append(("install", _("Install opencode first (npm, some 200 MB)")))
    match dialogue.choose(_("And now?"), options, "write", results.why_lines(change)):
        case "ticks":
            return Outcome(Move.GO, _ticked(dialogue, journey))
        case "install":
            return Outcome(Move.GO, flow.install_client(journey, threading.Event()))
        case "skip":
            return Outcome(Move.SKIP, journey)
    journey = flow.write_configuration(journey)
    dialogue.say(_("WRITTEN to {path}").format(path=change.path))
    if journey.answers.opencode.proof:
        journey = flow.prove(journey, threading.Event())
        dialogue.say(*results.confirmed_lines(flow.need(journey.change)))
        dialogue.say(*results.proof_lines(flow.need(journey.proof)))
    return Outcome(Move.NEXT, journey)


def _ticked(dialogue: Dialogue, journey: Journey) -> Journey:
    given = journey.answers.opencode
    wanted: dict[str, Any] = {
        "default_model": dialogue.agreed(_("Make it the default model?"), given.default_model),
        "globals": "yes"
        if dialogue.agreed(_("Also set what touches all providers?"), given.globals == "yes")
        else "no",
        "private": dialogue.agreed(_("Nothing leaves the house?"), given.private),
    }
    folder = flow.project_folder(journey)
    if folder is not None:
        question = _("Only for the project in {folder}?").format(folder=folder)
        wanted["project"] = folder if dialogue.agreed(question, given.project is not None) else None
    journey = flow.answer(journey, Step.OPENCODE, opencode=msgspec.structs.replace(given, **wanted))
    known = next(filter(None, flow.key_places(journey.answers)), "")
    if not known:
        return journey
    question = _("Where does opencode find the key: a file, or the name of a variable")
    return flow.name_key(journey, dialogue.text(question, known))


def diagnose(dialogue: Dialogue, journey: Journey) -> Outcome:
    """What a log says."""
    dialogue.say(_("Looking…"))
    journey = look_at_trouble(journey)
    diagnosis = flow.need(journey.diagnosis)
    dialogue.say(results.diagnosis_line(diagnosis))
    for finding in diagnosis.findings:
        dialogue.say(f"{finding.title} ({finding.fault})", *results.finding_lines(finding))
    if diagnosis.verdict == "healthy":
        return Outcome(Move.NEXT, journey)
    options = [
        ("again", _("Look again: something was changed")),
        ("report", _("Write a report for somebody who helps")),
        ("next", _("Finish")),
    ]
    while (picked := dialogue.choose(_("And now?"), options, "again")) == "report":
        path = flow.write_fault_report(journey, diagnosis, flow.log_named(journey))
        dialogue.say(_("Written: {path}. Read it before you send it.").format(path=path))
    return Outcome(Move.GO if picked == "again" else Move.NEXT, journey)


def done(dialogue: Dialogue, journey: Journey) -> Outcome:
    """What to type, what runs where."""
    flow.finish(journey)
    dialogue.say(*results.done_lines(journey))
    return Outcome(Move.NEXT, journey)
