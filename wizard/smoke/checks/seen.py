"""What all the answers together show; these checks ask nothing."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from wizard.catalog import leak_markers
from wizard.i18n import _, ngettext
from wizard.smoke.answer import Answer, ToolCall
from wizard.smoke.judge import Judgement, arguments_of
from wizard.smoke.leaks import find_leak, thoughts_in
from wizard.smoke.material import material
from wizard.smoke.sanity import broken_characters, nonsense
from wizard.smoke.talk import Talk


def stream_equals_plain(talk: Talk) -> Judgement:
    """The same request must give the same call both ways."""
    plain, streamed = _last_call(talk, "tool-call"), _last_call(talk, "tool-call-stream")
    if plain is None and streamed is None:
        return Judgement(status="skip", detail=_("No call came either way."))
    if plain is None or streamed is None:
        return Judgement(
            status="fail",
            detail=_("A call came one way only."),
            hint=_("opencode always streams: a parser that works only without streaming is of no use to it."),
        )
    if _same(plain, streamed):
        return Judgement(status="ok", detail=_("The same call both ways."))
    shown = _("Plain {plain}, streamed {streamed}.")
    return Judgement(status="warn", detail=shown.format(plain=_shown(plain), streamed=_shown(streamed)))


def usage(talk: Talk) -> Judgement:
    """opencode compacts by the counts that end a stream; without them its history outgrows the window."""
    streams = [(check, answer) for check, answer in _answers(talk) if answer.streamed]
    if not streams:
        return _nothing_seen()
    without = [(check, answer) for check, answer in streams if not _counted(answer)]
    if not without:
        return Judgement(
            status="ok",
            detail=ngettext(
                "Counts came with the one stream.", "Counts came with all {n} streams.", len(streams)
            ).format(n=len(streams)),
        )
    _show(talk, *without[0])
    return Judgement(
        status="fail",
        detail=_("Counts came with {counted} of {all} streams.").format(
            counted=len(streams) - len(without), all=len(streams)
        ),
        hint=_("opencode cannot see its window fill up: something between vLLM and here drops the usage."),
    )


def leaks(talk: Talk) -> Judgement:
    """No answer may hold the tags of a wire format, nor thoughts among its words."""
    found = list(_answers(talk))
    if not found:
        return _nothing_seen()
    tools = [task.wanted for task in material().task]
    for check, answer in found:
        leak = next(filter(None, (find_leak(answer.content, tool) for tool in tools)), None)
        if leak is not None and not answer.cut:
            _show(talk, check, answer)
            return Judgement(
                status="fail",
                detail=_("{looks} stood in the text of: {check}.").format(
                    looks=leak.looks, check=_title(check)
                ),
                hint=_("The tool-call parser does not fit the model."),
            )
    for check, answer in found:
        if tag := thoughts_in(answer.content):
            _show(talk, check, answer)
            readers = next(leak.parsers for leak in leak_markers() if leak.marker == tag)
            return Judgement(
                status="warn",
                detail=_("Thoughts stood in the text of: {check} ({tag}).").format(
                    check=_title(check), tag=tag
                ),
                hint=_(
                    "opencode shows them as the answer and sends them back: add a --reasoning-parser, "
                    "such as {names}."
                ).format(names=", ".join(readers[:3])),
            )
    return Judgement(status="ok", detail=_("No tags in any answer."))


def garbage(talk: Talk) -> Judgement:
    """Broken weights or kernels show as one sign for ever; broken bytes as signs that stand for none."""
    found = list(_answers(talk))
    if not found:
        return _nothing_seen()
    spoilt = [
        (check, answer, seen)
        for check, answer in found
        if (seen := nonsense(answer.content or answer.reasoning))
    ]
    if spoilt:
        check, answer, seen = spoilt[0]
        _show(talk, check, answer)
        return Judgement(
            status="fail" if len(spoilt) > 1 else "warn",
            detail=_("{seen} in {count} of {all} answers, first in: {check}.").format(
                seen=seen, count=len(spoilt), all=len(found), check=_title(check)
            ),
            hint=_(
                "Try another attention backend, an unquantized KV cache, or another variant of the model."
            ),
        )
    for check, answer in found:
        if broken_characters(answer.content + "".join(call.arguments for call in answer.calls)):
            _show(talk, check, answer)
            return Judgement(
                status="warn",
                detail=_("Bytes that are no characters came in: {check}.").format(check=_title(check)),
                hint=_(
                    "The stream cuts characters in two, or the model writes broken ones: edits would "
                    "spoil files."
                ),
            )
    return Judgement(status="ok", detail=_("All answers are text."))


def _answers(talk: Talk) -> Iterator[tuple[str, Answer]]:
    """Every answer of the checks before, with the check that got it."""
    for spec in material().check:
        if not spec.odd:
            for answer in talk.learned.answers.get(spec.id, ()):
                yield spec.id, answer


def _counted(answer: Answer) -> bool:
    """Whether prompt and whole were counted: opencode goes by the whole."""
    return answer.usage is not None and bool(answer.usage.prompt_tokens and answer.usage.total_tokens)


def _show(talk: Talk, check: str, answer: Answer) -> None:
    """Keep the answer of another check as evidence."""
    talk.note(_title(check), answer.extract())


def _title(check: str) -> str:
    return _(material().find_check(check).title)


def _nothing_seen() -> Judgement:
    return Judgement(status="skip", detail=_("No answer came that could be looked at."))


def _last_call(talk: Talk, check: str) -> ToolCall | None:
    return next((call for answer in talk.learned.answers.get(check, [])[-1:] for call in answer.calls), None)


def _same(one: ToolCall, other: ToolCall) -> bool:
    """Equal name and equal arguments, however the JSON is spaced."""
    try:
        equal = arguments_of(one) == arguments_of(other)
    except msgspec.DecodeError:
        equal = one.arguments == other.arguments
    return one.name == other.name and equal


def _shown(call: ToolCall) -> str:
    return f"{call.name} {call.arguments}"
