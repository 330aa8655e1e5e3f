"""Requests that want tool calls, of every kind that opencode depends on."""

from __future__ import annotations

from collections.abc import Sequence, Set

import msgspec

from wizard.i18n import _
from wizard.smoke.answer import Answer
from wizard.smoke.checks.words import made_up
from wizard.smoke.judge import Judgement, judge_call, together, wrote_it
from wizard.smoke.leaks import find_leak
from wizard.smoke.material import CallTask, material
from wizard.smoke.talk import Message, Talk, called, result, spoke, system, user


def plain_call(talk: Talk) -> Judgement:
    """The simplest call, without streaming."""
    return _call(talk, material().find_task("tool-call"), stream=False)


def first_streamed(talk: Talk) -> Judgement:
    """The same call, streamed as opencode has it."""
    return _call(talk, material().find_task("tool-call"))


def streamed_call(talk: Talk) -> Judgement:
    """The call of the task that is named like the check."""
    return _call(talk, material().find_task(talk.spec.id))


def parallel(talk: Talk) -> Judgement:
    """Two calls in one answer; a model that makes one after the other is slower, not wrong."""
    judgement = streamed_call(talk)
    count = len(talk.learned.answers[talk.spec.id][-1].calls)
    if judgement.status == "ok" and count < 2:
        return Judgement(status="ok", detail=_("One call at a time: the model makes no two at once."))
    if judgement.status == "ok":
        return Judgement(status="ok", detail=_("{count} calls in one answer.").format(count=count))
    return judgement


def history(talk: Talk) -> Judgement:
    """A call in a later turn, after a call, its result and an answer in words."""
    before = material().find_task("tool-call")
    call = made_up(before)
    earlier = [
        system(material().filling.sentences[0]),
        user(before.prompt),
        called([call]),
        result(call, before.result),
        spoke(material().words.between),
    ]
    return _call(talk, material().find_task(talk.spec.id), earlier)


def opencode_prompt(talk: Talk) -> Judgement:
    """A request of the shape and the size of opencode's: a long system message first, ten tools."""
    filling, window = material().filling, talk.learned.window
    if window is not None and window < filling.tokens:
        return Judgement(
            status="skip",
            detail=_("opencode's prompt and an answer need {tokens} tokens; the window is smaller.").format(
                tokens=f"{filling.tokens:,}"
            ),
        )
    opening = filling.sentences[0]
    return _call(
        talk, material().find_task(talk.spec.id), [system(filling.text(opening, filling.characters))]
    )


def choice_none(talk: Talk) -> Judgement:
    """Tools on offer that must not be used."""
    answer, task = _chosen(talk, "none")
    if answer.calls:
        return Judgement(
            status="fail",
            detail=_("A tool was called although none was allowed: {name}.").format(
                name=answer.calls[0].name
            ),
            hint=_("The server ignores tool_choice. opencode never sends this one; other clients may."),
        )
    if answer.silent or find_leak(answer.content, task.wanted):
        detail = _("No call came, but no words either: the model tried to make one all the same.")
        return Judgement(status="warn", detail=detail)
    return Judgement(status="ok", detail=_("No call came when none was allowed."))


def choice_required(talk: Talk) -> Judgement:
    """A call the server must enforce, of any tool."""
    answer, task = _chosen(talk, "required")
    return _enforced(answer, task, {tool.name for tool in task.tools})


def choice_named(talk: Talk) -> Judgement:
    """A call the server must enforce, of one tool among several: not the one the words ask for."""
    task = material().find_task("choice")
    named = next(tool.name for tool in task.tools if tool.name != task.wanted)
    answer, task = _chosen(talk, {"type": "function", "function": {"name": named}})
    return _enforced(answer, msgspec.structs.replace(task, wanted=named), {named})


def _chosen(talk: Talk, choice: object) -> tuple[Answer, CallTask]:
    task = material().find_task("choice")
    return talk.ask([user(task.prompt)], tools=task.tools, choice=choice), task


def _enforced(answer: Answer, task: CallTask, allowed: Set[str]) -> Judgement:
    """The server decides here that a call comes, and of which tool; its arguments are still the model's.

    A small model that is held to the grammar may write one number for ever: no sign of broken weights.
    """
    if answer.cut and not answer.silent:
        return Judgement(
            status="warn",
            detail=_("The server held the model to a call, and the model did not bring it to an end."),
            hint=_("The model is weak with tools. opencode never sends this; other clients may."),
        )
    judgement = judge_call(answer, task)
    if answer.cut:
        return judgement
    if not answer.calls or any(call.name not in allowed for call in answer.calls):
        return Judgement(
            status="fail",
            detail=judgement.detail,
            hint=_("The server does not enforce tool_choice. opencode never sends this; other clients may."),
        )
    if judgement.status != "fail":
        return judgement
    return msgspec.structs.replace(
        judgement, status="warn", hint=_("The tool is the one that was chosen: the model is weak with it.")
    )


def _call(talk: Talk, task: CallTask, earlier: Sequence[Message] = (), *, stream: bool = True) -> Judgement:
    """Ask for a call, and once more in plainer words when the first answer was not right.

    One that is wrong both times is the parser's fault only if the model itself wrote it right.
    """
    judgements = []
    for prompt in (task.prompt, task.again):
        messages = [*earlier, user(prompt)]
        judgements.append(judge_call(talk.ask(messages, tools=task.tools, stream=stream), task))
        if not judgements[-1].again:
            break
    judgement = together(judgements)
    return _blamed(talk, task, messages, judgement) if judgement.suspect else judgement


def _blamed(talk: Talk, task: CallTask, messages: Sequence[Message], judgement: Judgement) -> Judgement:
    """The judgement once the model's own text was looked at; unchanged where the server does not show it."""
    request = talk.request(messages, material().max_tokens, tools=task.tools)
    raw = talk.exchange.raw(request) if task.expect else None
    if raw is None:
        return judgement
    talk.note("", f"raw={raw!r}")
    if wrote_it(raw, task):
        return msgspec.structs.replace(
            judgement,
            status="fail",
            hint=_("The model wrote it right, the parser changed it: start vLLM with the one of its family."),
        )
    return msgspec.structs.replace(
        judgement,
        status="warn",
        hint=_("The model itself wrote it so: it is weak with tools, or its quantization costs too much."),
    )
