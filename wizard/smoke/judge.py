"""What an answer proves: a call, words, a call that leaked as text, or one that a parser swallowed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import msgspec

from wizard.i18n import _
from wizard.smoke.answer import Answer, ToolCall
from wizard.smoke.leaks import Leak, find_leak, thoughts_in
from wizard.smoke.material import CallTask, Tool, material
from wizard.smoke.sanity import nonsense
from wizard.smoke.types import SmokeStatus

_CHARS_PER_TOKEN = 3
"""A token holds at least about this much, so thoughts are not counted as too few tokens."""
_NAMED = 6
"""How many parsers are named when many would read a format."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The result of looking at one answer. ``again``: asking once more, more plainly, may help.

    ``suspect``: the model may have written it so, and no parser be to blame.
    """

    status: SmokeStatus
    detail: str
    hint: str = ""
    again: bool = False
    suspect: bool = False


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
    if broken := _nonsense(answer):
        return broken
    if answer.cut:
        return _cut_off()
    if broken := (_swallowed(answer) if answer.silent else None) or _endless(answer):
        return broken
    if answer.silent:
        return Judgement(
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
    if broken := _nonsense(answer):
        return broken
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
    return _endless(answer) or Judgement(status="ok", detail=_with_thoughts(answer))


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
    return Judgement(status="fail", detail=detail.format(looks=leak.looks), hint=hint, again=True)


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
    misread = _("The parser misreads the model: start vLLM with the one of the model's family.")
    if answer.unusable:
        return Judgement(status="fail", detail=answer.unusable, hint=misread, again=True)
    for call in answer.calls:
        problem = _problem(call, task.tools)
        if problem and answer.cut:
            return _cut_off()
        if problem:
            return Judgement(status="fail", detail=problem, hint=misread, again=True, suspect=True)
    ids = [call.id for call in answer.calls if call.id]
    if len(set(ids)) < len(ids):
        return Judgement(
            status="fail",
            detail=_("Two calls have the same id: a client cannot tell their results apart."),
            hint=_("Another version of vLLM, or of the parser, may give every call an id of its own."),
        )
    if broken := _endless(answer):
        return broken
    call = answer.calls[0]
    shown = f"{call.name} {call.arguments}"
    if all(call.name != task.wanted for call in answer.calls):
        return Judgement(
            status="warn",
            detail=_("Asked for {wanted}, the model called {shown}.").format(wanted=task.wanted, shown=shown),
            hint=_("The format is right: the model is weak with tools."),
            again=True,
        )
    if task.expect and not any(_as_wanted(call, task) for call in answer.calls):
        return Judgement(
            status="warn",
            detail=_("Asked for {wanted}, the call says {shown}.").format(wanted=task.expect, shown=shown),
            hint=_("The format is right: the model copies badly, or the parser changes what it writes."),
            again=True,
            suspect=True,
        )
    if leak := find_leak(answer.content, task.wanted):
        shown = _("{shown}, and {looks} left in the text").format(shown=shown, looks=leak.looks)
    return Judgement(status="ok", detail=shown)


def together(tries: Sequence[Judgement]) -> Judgement:
    """One judgement on the same question asked once or twice: what went wrong only once proves nothing."""
    first, last = tries[0], tries[-1]
    statuses = {judgement.status for judgement in tries}
    if statuses == {"fail", "ok"}:
        detail = _("One of two answers was right; the other: {detail}").format(detail=first.detail)
        return Judgement(status="warn", detail=detail, hint=first.hint)
    if statuses == {"fail", "warn"}:
        failed = first if first.status == "fail" else last
        return msgspec.structs.replace(failed, status="warn")
    return last


def wrote_it(raw: str, task: CallTask) -> bool:
    """Whether the model's own text holds the call that was wanted, in any format: then a parser lost it."""
    pieces = [task.wanted, *_leaves(msgspec.json.decode(task.expect))] if task.expect else []
    return bool(pieces) and all(any(form in raw for form in _written(piece)) for piece in pieces)


def _written(piece: str) -> tuple[str, ...]:
    """The ways to write a text: as it is, or as JSON with as few or as many escapes as can be."""
    return piece, json.dumps(piece, ensure_ascii=False)[1:-1], json.dumps(piece)[1:-1]


def _leaves(value: object) -> list[str]:
    """The keys and values of a JSON document as text."""
    match value:
        case dict():
            return [leaf for key, inner in value.items() for leaf in (str(key), *_leaves(inner))]
        case list():
            return [leaf for inner in value for leaf in _leaves(inner)]
        case str():
            return [value]
    return [msgspec.json.encode(value).decode()]


def _as_wanted(call: ToolCall, task: CallTask) -> bool:
    """Whether the arguments are those asked for. White space around a text proves nothing either way."""
    return _trimmed(arguments_of(call)) == _trimmed(msgspec.json.decode(task.expect))


def arguments_of(call: ToolCall) -> object:
    """The arguments, decoded; none at all are an empty object, as opencode reads them.

    Raises msgspec.DecodeError.
    """
    return msgspec.json.decode(call.arguments) if call.arguments.strip() else {}


def _trimmed(value: object) -> object:
    match value:
        case dict():
            return {key: _trimmed(inner) for key, inner in value.items()}
        case list():
            return [_trimmed(inner) for inner in value]
        case str():
            return value.strip()
    return value


def _problem(call: ToolCall, tools: Iterable[Tool]) -> str:
    """What is wrong with a call, or nothing."""
    tool = next((tool for tool in tools if tool.name == call.name), None)
    if tool is None:
        return _("The call names a tool that was not offered: {name}.").format(name=call.name or _("no name"))
    try:
        arguments = arguments_of(call)
    except msgspec.DecodeError:
        return _("The arguments of the call are not JSON: {arguments}").format(arguments=call.arguments)
    if not isinstance(arguments, dict):
        return _("The arguments of the call are not an object: {arguments}").format(arguments=call.arguments)
    import jsonschema

    error = next(jsonschema.Draft202012Validator(tool.parameters).iter_errors(arguments), None)
    if error is not None:
        return _("The arguments do not fit the tool: {reason}.").format(reason=error.message)
    return ""


def _nonsense(answer: Answer) -> Judgement | None:
    """The judgement on a text that is none."""
    seen = nonsense(answer.content or answer.reasoning)
    if not seen:
        return None
    return Judgement(
        status="fail",
        detail=_("The model answers garbage: {seen}.").format(seen=seen),
        hint=_(
            "Weights, quantization or attention kernel do not fit this GPU, or the KV cache format costs "
            "too much: try without --kv-cache-dtype, another attention backend, or another variant."
        ),
        again=True,
    )


def _endless(answer: Answer) -> Judgement | None:
    """The judgement on a finish reason after which opencode asks again, and again."""
    reason = answer.finish_reason
    calls_without = reason in ("tool_calls", "function_call") and not answer.calls
    if reason in material().finish_reasons and not calls_without:
        return None
    if reason is None:
        detail = _("The answer has no finish reason: opencode would ask again without end.")
    elif calls_without:
        detail = _("The finish reason is {reason}, but no call came: opencode would ask again without end.")
    else:
        detail = _(
            "The finish reason is {reason}: opencode does not know it and would ask again without end."
        )
    return Judgement(
        status="fail",
        detail=detail.format(reason=reason),
        hint=_("Check that the address is vLLM's own and not that of a proxy or of another program."),
    )


def _cut_off() -> Judgement:
    return Judgement(
        status="warn",
        detail=_("The answer was cut off before the model came to the point."),
        hint=_("The model thinks for long: give it a larger answer limit, or turn thinking off."),
    )


def _with_thoughts(answer: Answer) -> str:
    """The beginning of the text; thoughts that a missing reasoning parser left in it are pointed out."""
    if tag := thoughts_in(answer.content):
        return _(
            "Answered, with its thoughts in the text ({looks}): a reasoning parser would hide them."
        ).format(looks=tag)
    return _("Answered: {text}").format(text=answer.content.strip())
