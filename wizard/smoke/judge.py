"""What an answer proves: a call, words, a call that leaked as text, or one that a parser swallowed."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from wizard.catalog import LeakMarker, leak_markers
from wizard.i18n import _
from wizard.smoke.answer import Answer, ToolCall
from wizard.smoke.material import CallTask, Tool, material
from wizard.smoke.types import SmokeStatus

_CHARS_PER_TOKEN = 3
"""A token holds at least about this much, so thoughts are not counted as too few tokens."""
_NAMED = 6
"""How many parsers are named when many would read a format."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The result of looking at one answer. ``again``: asking once more, more plainly, may help."""

    status: SmokeStatus
    detail: str
    hint: str = ""
    again: bool = False


class Leak(msgspec.Struct, frozen=True, kw_only=True):
    """A call that came as text: how it looked, and the parsers that read such text (none: no parser does)."""

    looks: str
    parsers: tuple[str, ...]
    start: int
    """Where in the text it begins."""


def judge_call(answer: Answer, task: CallTask) -> Judgement:
    """Whether the answer is a proper call of the tool that was asked for."""
    if answer.calls:
        return _judge_calls(answer, task)
    if leak := find_leak(answer.content, task.wanted):
        return _cut_off() if _half_written(answer, leak) else _leaked(leak, answer)
    if leak := find_leak(answer.reasoning, task.wanted):
        return Judgement(
            status="fail",
            detail=_("The call ended up in the reasoning: {looks}.").format(looks=leak.looks),
            hint=_("The reasoning parser does not fit the model: change or remove --reasoning-parser."),
        )
    if answer.cut:
        return _cut_off()
    if answer.silent:
        return _swallowed(answer) or Judgement(
            status="warn",
            detail=_("The model answered nothing."),
            hint=_("Try again; if it persists, the parser or the chat template does not fit the model."),
            again=True,
        )
    return Judgement(
        status="warn",
        detail=_("The model answered in words instead of calling the tool."),
        hint=_(
            "Nothing is wrong with the format: the model is weak with tools. Try another one if it persists."
        ),
        again=True,
    )


def judge_text(answer: Answer, wanted: str) -> Judgement:
    """Whether the answer is words for a person. ``wanted`` is the tool whose call would be a leak."""
    if answer.calls:
        return Judgement(
            status="warn",
            detail=_("The model called a tool again instead of answering."),
            hint=_("Weak models do; with opencode it may go round in circles."),
        )
    if leak := find_leak(answer.content, wanted):
        return _leaked(leak, answer)
    if answer.cut and answer.silent:
        return _cut_off()
    if answer.silent and answer.reasoning.strip():
        return Judgement(
            status="fail",
            detail=_("The whole answer ended up in the reasoning: a client shows no text."),
            hint=_("The reasoning parser does not fit the model: change or remove --reasoning-parser."),
        )
    if answer.silent:
        return _swallowed(answer) or Judgement(
            status="fail",
            detail=_("The answer is empty."),
            hint=_("Check the chat template and the checkpoint: the model itself may be broken."),
        )
    if answer.finish_reason is None:
        return Judgement(
            status="fail",
            detail=_("The answer has no finish reason: opencode would ask again without end."),
            hint=_("Check that the address is vLLM's own and not that of a proxy or of another program."),
        )
    return Judgement(status="ok", detail=_with_thoughts(answer))


def find_leak(text: str, tool: str) -> Leak | None:
    """A tool call written in ``text``, or None. ``tool`` is the name the call would have."""
    found = [leak for leak in leak_markers() if leak.kind == "tool" and leak.marker in text]
    unread = next((leak.marker for leak in found if not leak.parsers), None)
    if unread is not None:
        # <tools> around a call hides whatever is inside: what would read the inside does not matter.
        return Leak(looks=unread, parsers=(), start=text.index(unread))
    for shape in material().shape:
        written = re.search(shape.pattern.replace("$tool", re.escape(tool)), text)
        if written and shape.tagged == bool(found):
            return Leak(looks=shape.id, parsers=shape.parsers, start=written.start())
    if not found:
        return None
    longest = found[0].marker
    return Leak(looks=longest, parsers=_common_parsers(found), start=text.index(longest))


def _common_parsers(found: list[LeakMarker]) -> tuple[str, ...]:
    """The parsers that read every tag found; when none does, those of the longest tag."""
    common = [name for name in found[0].parsers if all(name in leak.parsers for leak in found)]
    return tuple(common) or found[0].parsers


def _half_written(answer: Answer, leak: Leak) -> bool:
    """Whether the limit ended the answer inside a call, which then comes as text from a good parser too."""
    return answer.cut and "</" not in answer.content[leak.start :]


def _leaked(leak: Leak, answer: Answer) -> Judgement:
    if answer.streamed:
        detail = _("The call came as text ({looks}): opencode would print it and do nothing.")
    else:
        detail = _("The call came as text ({looks}), not as a tool call.")
    if not leak.parsers:
        hint = _("No parser of vLLM reads this format: choose another model, or add a parser plugin.")
    else:
        names = ", ".join(leak.parsers[:_NAMED])
        more = len(leak.parsers) - _NAMED
        if more > 0:
            names = _("{names} and {count} more").format(names=names, count=more)
        hint = _("Parsers that read this format: {names}. Start vLLM with the one of the model's family.")
        hint = hint.format(names=names)
    return Judgement(status="fail", detail=detail.format(looks=leak.looks), hint=hint)


def _swallowed(answer: Answer) -> Judgement | None:
    """The judgement when tokens were generated and none arrived: a parser took them for its own."""
    thoughts = answer.reasoning_tokens
    if thoughts is None:
        thoughts = len(answer.reasoning) // _CHARS_PER_TOKEN
    unseen = (answer.completion_tokens or 0) - thoughts
    if unseen < material().swallowed_tokens:
        return None
    return Judgement(
        status="fail",
        detail=_(
            "The answer was swallowed: {count} tokens were generated, but no text and no call came."
        ).format(count=unseen),
        hint=_("The tool-call parser does not fit the model: start vLLM with the one of the model's family."),
    )


def _judge_calls(answer: Answer, task: CallTask) -> Judgement:
    """Every call must name an offered tool and carry arguments that fit its schema."""
    for call in answer.calls:
        problem = _problem(call, task.tools)
        if problem and answer.cut:
            return _cut_off()
        if problem:
            return Judgement(
                status="fail",
                detail=problem,
                hint=_("The parser misreads the model: start vLLM with the one of the model's family."),
            )
    call = answer.calls[0]
    shown = f"{call.name} {call.arguments}"
    if all(call.name != task.wanted for call in answer.calls):
        return Judgement(
            status="warn",
            detail=_("Asked for {wanted}, the model called {shown}.").format(wanted=task.wanted, shown=shown),
            hint=_("The format is right: the model is weak with tools."),
            again=True,
        )
    if leak := find_leak(answer.content, task.wanted):
        shown = _("{shown}, and {looks} left in the text").format(shown=shown, looks=leak.looks)
    return Judgement(status="ok", detail=shown)


def _problem(call: ToolCall, tools: Iterable[Tool]) -> str:
    """What is wrong with a call, or nothing."""
    tool = next((tool for tool in tools if tool.name == call.name), None)
    if tool is None:
        return _("The call names a tool that was not offered: {name}.").format(name=call.name or _("no name"))
    try:
        arguments = msgspec.json.decode(call.arguments)
    except msgspec.DecodeError:
        return _("The arguments of the call are not JSON: {arguments}").format(arguments=call.arguments)
    if not isinstance(arguments, dict):
        return _("The arguments of the call are not an object: {arguments}").format(arguments=call.arguments)
    import jsonschema

    error = next(jsonschema.Draft202012Validator(tool.parameters).iter_errors(arguments), None)
    if error is not None:
        return _("The arguments do not fit the tool: {reason}.").format(reason=error.message)
    return ""


def _cut_off() -> Judgement:
    return Judgement(
        status="warn",
        detail=_("The answer was cut off before the model came to the point."),
        hint=_("The model thinks for long: give it a larger answer limit, or turn thinking off."),
    )


def _with_thoughts(answer: Answer) -> str:
    """The beginning of the text; thoughts that a missing reasoning parser left in it are pointed out."""
    left = [leak for leak in leak_markers() if leak.kind == "reasoning" and leak.marker in answer.content]
    if left:
        return _(
            "Answered, with its thoughts in the text ({looks}): a reasoning parser would hide them."
        ).format(looks=left[0].marker)
    return _("Answered: {text}").format(text=answer.content.strip())
