"""Judges what a parser made of a text, and ranks the parsers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from wizard.catalog import leak_markers
from wizard.checkpoint import split_thought
from wizard.i18n import _
from wizard.smoke.finder.types import Asked, Candidate, FoundCall, RawText, Reading, Trial
from wizard.text import inert, one_line

_NAME = re.compile(r"[A-Za-z_][\w.:-]{0,99}")
_DETAIL = 160


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict before it becomes a candidate."""

    ok: bool
    detail: str
    exact: bool = False
    clean: bool = False


def judge(trial: Trial, raw: RawText, asked: Asked | None) -> Candidate:
    """A tool-call parser: the right call, whole and streamed alike, and nothing of it left in the text."""
    verdict = _unusable(trial) or _judge_calls(trial, raw, asked)
    calls = trial.streamed.calls or trial.whole.calls
    return Candidate(
        parser=trial.parser,
        extracted=bool(calls),
        ok=verdict.ok,
        detail=one_line(verdict.detail, _DETAIL),
        calls=tuple(FoundCall(name=inert(call.name), arguments=inert(call.arguments)) for call in calls),
        exact=verdict.exact,
        clean=verdict.clean,
    )


def judge_thought(trial: Trial, raw: RawText) -> Candidate:
    """A reasoning parser: the thought taken out, the answer left in, whole and streamed alike."""
    verdict = _unusable(trial) or _judge_thought(trial, raw)
    return Candidate(
        parser=trial.parser,
        extracted=bool(trial.whole.reasoning.strip() or trial.streamed.reasoning.strip()),
        ok=verdict.ok,
        detail=one_line(verdict.detail, _DETAIL),
        exact=verdict.exact,
        clean=verdict.clean,
    )


def ranked(candidates: Iterable[Candidate], preferred: Sequence[str]) -> tuple[Candidate, ...]:
    """Best first: usable, exact, nothing left over, something extracted; then as ``preferred`` has them."""
    places = {parser: place for place, parser in reversed(list(enumerate(preferred)))}

    def rank(candidate: Candidate) -> tuple[object, ...]:
        qualities = (candidate.ok, candidate.exact, candidate.clean, candidate.extracted)
        place = places.get(candidate.parser, len(preferred))
        return (*(not quality for quality in qualities), place, candidate.parser)

    return tuple(sorted(candidates, key=rank))


def only_exact(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Where one parser finds the arguments that were asked for, another that finds others is wrong.

    Where none does, it is the model that made up its own.
    """
    if not any(candidate.ok and candidate.exact for candidate in candidates):
        return tuple(candidates)
    return tuple(
        msgspec.structs.replace(
            candidate, ok=False, detail=_("Other arguments: {detail}").format(detail=candidate.detail)
        )
        if candidate.ok and not candidate.exact
        else candidate
        for candidate in candidates
    )


def _unusable(trial: Trial) -> Judgement | None:
    """Why there is nothing to judge."""
    if trial.hung:
        return Judgement(ok=False, detail=_("It did not come to an end, and was cut off."))
    if trial.problem:
        return Judgement(
            ok=False, detail=_("It cannot be used with this model: {reason}").format(reason=trial.problem)
        )
    problem = trial.whole.problem or trial.streamed.problem
    if problem:
        return Judgement(ok=False, detail=_("It broke: {reason}").format(reason=problem))
    return None


def _judge_calls(trial: Trial, raw: RawText, asked: Asked | None) -> Judgement:
    whole, streamed = trial.whole, trial.streamed
    if not whole.calls and not streamed.calls:
        return Judgement(ok=False, detail=_no_call(trial))
    if not streamed.calls:
        return Judgement(ok=False, detail=_("Only a whole answer gives a call; a streamed one loses it."))
    if not whole.calls:
        return Judgement(ok=False, detail=_("Only a streamed answer gives a call; a whole one loses it."))
    shown = "; ".join(f"{call.name} {call.arguments}" for call in streamed.calls)
    for call in (*whole.calls, *streamed.calls):
        problem = _problem(call, raw, asked)
        if problem:
            return Judgement(ok=False, detail=problem)
    if [_meaning(call) for call in whole.calls] != [_meaning(call) for call in streamed.calls]:
        return Judgement(ok=False, detail=_("Whole and streamed differ: {call}").format(call=shown))
    left = _left_over(whole, streamed, asked)
    if left:
        text = _("Right, but {left} is left in the text: {call}")
        return Judgement(ok=False, detail=text.format(left=left, call=shown))
    exact = asked is None or any(_meaning(call) == (asked.wanted, asked.arguments) for call in whole.calls)
    clean = not (whole.content.strip() or streamed.content.strip())
    return Judgement(ok=True, exact=exact, clean=clean, detail=shown)


def _no_call(trial: Trial) -> str:
    if trial.whole.content.strip() and trial.streamed.content.strip():
        return _("It sees no call: the text stays as it is.")
    if trial.whole.content.strip():
        return _("It sees no call, and loses the text of a streamed answer.")
    return _("It swallows the text: no call and no words.")


def _problem(call: FoundCall, raw: RawText, asked: Asked | None) -> str:
    """What is wrong with a call, or nothing."""
    if not _NAME.fullmatch(call.name):
        return _("No name of a tool: {name}").format(name=call.name or "-")
    arguments = _decoded(call.arguments)
    if not isinstance(arguments, dict):
        return _("Arguments that are no JSON object: {arguments}").format(arguments=call.arguments or "-")
    if asked is None:
        strange = next((value for value in _values(arguments) if value not in raw.text), None)
        if call.name not in raw.text or strange is not None:
            return _("Not what the text says: {call}").format(call=f"{call.name} {call.arguments}")
        return ""
    tool = next((tool for tool in asked.tools if tool.name == call.name), None)
    if tool is None:
        return _("A tool that was not offered: {name}").format(name=call.name)
    import jsonschema

    error = next(jsonschema.Draft202012Validator(tool.parameters).iter_errors(arguments), None)
    return "" if error is None else _("Arguments that do not fit: {reason}").format(reason=error.message)


def _values(arguments: object) -> Iterable[str]:
    """The words and whole numbers in arguments, which a model must have written just so."""
    if isinstance(arguments, Mapping):
        for value in arguments.values():
            yield from _values(value)
    elif isinstance(arguments, list):
        for value in arguments:
            yield from _values(value)
    elif isinstance(arguments, str):
        yield from re.findall(r"\w+", arguments)
    elif isinstance(arguments, int) and not isinstance(arguments, bool):
        yield str(arguments)


def _meaning(call: FoundCall) -> tuple[str, object]:
    decoded = _decoded(call.arguments)
    return call.name, call.arguments if decoded is None else decoded


def _decoded(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def _left_over(whole: Reading, streamed: Reading, asked: Asked | None) -> str:
    """A piece of call markup that a client would show as text, or nothing."""
    marks = [leak.marker for leak in leak_markers() if leak.kind == "tool"]
    marks += [mark.replace("<", "</", 1) for mark in marks if mark.startswith("<") and "|" not in mark]
    for content in (whole.content, streamed.content):
        thought = split_thought(content)
        text = thought.rest if thought else content
        found = next((mark for mark in marks if mark in text), None)
        if found:
            return found
        if asked is not None and f'"{asked.wanted}"' in text:
            return f'"{asked.wanted}"'
    return ""


def _judge_thought(trial: Trial, raw: RawText) -> Judgement:
    whole, streamed = trial.whole, trial.streamed
    thought = split_thought(raw.text)
    if thought is not None and not thought.closed:
        return Judgement(
            ok=False, detail=_("The model never came to the end of its thought: nothing is proved.")
        )
    if not whole.content.strip() or not streamed.content.strip():
        return Judgement(ok=False, detail=_("It swallows the answer: nothing is left to show."))
    alike = _squeezed(whole.content) == _squeezed(streamed.content)
    if not alike or _squeezed(whole.reasoning) != _squeezed(streamed.reasoning):
        return Judgement(ok=False, detail=_("Whole and streamed differ."))
    if thought is None:
        clean = not whole.reasoning.strip()
        if clean:
            return Judgement(ok=True, clean=True, detail=_("It leaves the answer alone."))
        return Judgement(ok=False, detail=_("It takes a part of the answer for a thought."))
    if _squeezed(whole.content) != _squeezed(thought.rest):
        return Judgement(ok=False, detail=_("It leaves the thought in the answer."))
    if _squeezed(whole.reasoning) != _squeezed(thought.thought):
        return Judgement(ok=True, clean=False, detail=_("The answer is right, the thought is not."))
    return Judgement(ok=True, exact=True, clean=True, detail=_("Thought and answer are told apart."))


def _squeezed(text: str) -> str:
    return " ".join(text.split())
