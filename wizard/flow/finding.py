"""The parser finder on the way: look for parsers that fit, put them into the plan, start and test again."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable

import msgspec

from wizard.checkpoint import detect_parsers, read_checkpoint
from wizard.errors import RefusedError, ServerError, WizardError
from wizard.flow.journey import Cancelled, Journey, Step, forget, need
from wizard.flow.qualify import smoke_test
from wizard.flow.serving import key_of, launch
from wizard.flow.weights import LaunchEvent
from wizard.i18n import _
from wizard.plan import LaunchPlan, PlanEdit, apply, describe
from wizard.runtime import Runtime, find_runtimes
from wizard.smoke import SmokeCheck
from wizard.smoke.exchange import Line
from wizard.smoke.finder import (
    Candidate,
    ParserSearch,
    RawText,
    Setting,
    Subject,
    asked_call,
    raw_texts,
    search_parsers,
)
from wizard.smoke.trouble import Cancelled as Stopped

TOOL_FLAG, REASONING_FLAG, AUTO_FLAG = "--tool-call-parser", "--reasoning-parser", "--enable-auto-tool-choice"


def find_parsers(journey: Journey, cancel: threading.Event) -> ParserSearch:
    """Ask the running server for a call, and try the parsers of the installed vLLM over it.

    Raises ServerError where the model cannot be asked, Cancelled.
    """
    server = need(journey.server)
    line = Line(server.base_url, key_of(journey.answers), cancel)
    try:
        with contextlib.closing(line):
            call, words = raw_texts(line, server.model, server.max_model_len)
    except Stopped:
        raise Cancelled(_("The search for a parser was stopped.")) from None
    search = search_parsers(
        call,
        words,
        asked_call(),
        runtime=None if server.started_by == "rehearsal" else _installed(journey, server.version, cancel),
        subject=_subject(journey, call.checkpoint, cancel),
        setting=_setting(journey.plan, call.checkpoint),
        cancel=cancel,
    )
    if cancel.is_set():
        raise Cancelled(_("The search for a parser was stopped."))
    return search


def read_with_parsers(journey: Journey, text: str, cancel: threading.Event) -> ParserSearch:
    """As ``find_parsers``, over a text somebody has; ``[model]`` may name the model that wrote it."""
    raw = RawText(text=text, way="text")
    checkpoint = journey.answers.model.path or journey.answers.model.id or ""
    return search_parsers(
        raw,
        raw,
        None,
        runtime=_installed(journey, None, cancel),
        subject=_subject(journey, checkpoint, cancel),
        setting=Setting(checkpoint=checkpoint),
        cancel=cancel,
    )


def parser_edit(journey: Journey, search: ParserSearch) -> PlanEdit | None:
    """The change of the plan that the search calls for; None: nothing to change, or no plan of ours."""
    plan = journey.plan
    if plan is None:
        return None
    wanted: dict[str, str | None] = {}
    unset: tuple[str, ...] = ()
    if search.best is not None and not _fits(plan.flag(TOOL_FLAG), search.candidates):
        wanted[TOOL_FLAG] = search.best
        if AUTO_FLAG not in (option.flag for option in plan.options):
            wanted[AUTO_FLAG] = None
    thinking = plan.flag(REASONING_FLAG)
    if search.reasoning and not _fits(thinking, search.reasoning):
        if search.reasoning_best is not None:
            wanted[REASONING_FLAG] = search.reasoning_best
        elif thinking is not None and not search.thinks:
            unset = (REASONING_FLAG,)
    if not wanted and not unset:
        return None
    names = ", ".join(str(wanted[flag]) for flag in (TOOL_FLAG, REASONING_FLAG) if flag in wanted)
    title = _("The parser that fits: {parser}").format(parser=names) if names else _("No reasoning parser")
    return PlanEdit(origin="parser finder", title=title, set=wanted, unset=unset)


def with_parsers(
    journey: Journey,
    edit: PlanEdit,
    *,
    emit: Callable[[LaunchEvent], None],
    on_check: Callable[[SmokeCheck], None],
    cancel: threading.Event,
) -> Journey:
    """Put the edit into the plan, stop the old server, start and test again. Ask for consent before.

    Raises what ``launch`` raises, and RefusedError for a server that somebody else started.
    """
    if journey.plan is None or not (journey.started_here or journey.run):
        raise RefusedError(
            _("This server was not started from here: it cannot be started anew."),
            _("Start it again with: {options}").format(options=options_of(edit)),
        )
    return smoke_test(launch(edited(journey, edit), emit, cancel), on_check, cancel)


def mended(
    journey: Journey,
    *,
    say: Callable[[str], None],
    agree: Callable[[Journey], None],
    emit: Callable[[LaunchEvent], None],
    test: Callable[[Journey], Journey],
    cancel: threading.Event,
) -> Journey:
    """After a failed test of a server started here: started and tested anew with the parsers that fit.

    ``agree`` is asked with the changed journey and raises to stop. Without a parser that fits, ``say`` is
    told the ways on, and the journey stays as it is; so it does where the answers forbid every cure.
    """
    failed = journey.smoke is not None and journey.smoke.verdict == "fail"
    if not failed or not journey.started_here or journey.answers.serve.cure == "never":
        return journey
    try:
        search = find_parsers(journey, cancel)
    except ServerError:
        # The test has said already what is wrong with the server.
        return journey
    edit = parser_edit(journey, search)
    if edit is None:
        for advice in search.advice:
            say(f"{advice.title}: {advice.detail}")
        return journey
    text = _("{title}. vLLM is started again with this change: {change}")
    say(text.format(title=edit.title, change=", ".join(describe(edit))))
    changed = edited(journey, edit)
    agree(changed)
    return test(launch(changed, emit, cancel))


def edited(journey: Journey, edit: PlanEdit) -> Journey:
    """The journey with the edit in its plan and its answers, and what it changes forgotten."""
    plan = apply(need(journey.plan), edit)
    tool, reasoning = plan.flag(TOOL_FLAG), plan.flag(REASONING_FLAG)
    plan = msgspec.structs.replace(plan, parser=tool, reasoning_parser=reasoning)
    model = msgspec.structs.replace(
        journey.answers.model,
        parser=tool or journey.answers.model.parser,
        reasoning_parser=reasoning or journey.answers.model.reasoning_parser,
    )
    answers = msgspec.structs.replace(journey.answers, model=model)
    return msgspec.structs.replace(forget(journey, Step.LAUNCH), plan=plan, answers=answers)


def options_of(edit: PlanEdit) -> str:
    """The edit as words of a command line; what is unset is not in them."""
    return " ".join(f"{flag} {value}" if value else flag for flag, value in edit.set.items())


def _fits(name: str | None, candidates: Iterable[Candidate]) -> bool:
    """Whether a parser that is configured is among those that may be used."""
    return any(candidate.parser == name and candidate.ok for candidate in candidates)


def _installed(journey: Journey, version: str | None, cancel: threading.Event) -> Runtime | None:
    """The vLLM whose parsers are tried: the journey's own, else an installed one, of that version if any."""
    if journey.simulated:
        return None
    if journey.runtime is not None:
        return journey.runtime if journey.runtime.kind not in ("assumed", "rehearsal") else None
    working = [runtime for runtime in find_runtimes(cancel=cancel) if not runtime.problem]
    same = [runtime for runtime in working if runtime.version == version]
    return next(iter((*same, *working)), None)


def _subject(journey: Journey, checkpoint: str, cancel: threading.Event) -> Subject:
    server, plan = journey.server, journey.plan
    names = [plan.model, plan.checkpoint] if plan is not None else []
    names += [server.model] if server is not None else []
    names += [checkpoint, journey.answers.model.id or ""]
    guess = None
    # What lies on another machine says nothing here: only the order of equals suffers.
    with contextlib.suppress(WizardError):
        found = read_checkpoint(checkpoint, offline=True, cancel=cancel)
        names += [found.model_type, found.architecture]
        guess = detect_parsers(found, version=server.version if server else None, cancel=cancel)
    return Subject(
        names=tuple(dict.fromkeys(name for name in names if name)),
        version=server.version if server is not None else None,
        guess=(guess.tool_parser,) if guess and guess.tool_parser else (),
        reasoning_guess=(guess.reasoning_parser,) if guess and guess.reasoning_parser else (),
    )


def _setting(plan: LaunchPlan | None, checkpoint: str) -> Setting:
    """What the plan starts the server with; for a server of others only its checkpoint is known."""
    if plan is None:
        return Setting(checkpoint=checkpoint)
    flags = {option.flag for option in plan.options}
    try:
        kwargs = msgspec.json.decode(plan.flag("--default-chat-template-kwargs") or "{}")
    except msgspec.DecodeError:
        kwargs = {}
    return Setting(
        checkpoint=plan.flag("--tokenizer") or plan.checkpoint,
        trust_remote_code="--trust-remote-code" in flags,
        plugin=plan.flag("--tool-parser-plugin") or "",
        template_kwargs=kwargs,
    )
