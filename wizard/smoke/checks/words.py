"""Requests that want words: a chat, the round trip of a tool's result, and what opencode asks beside."""

from __future__ import annotations

import msgspec

from wizard.i18n import _
from wizard.smoke.answer import Answer, ToolCall
from wizard.smoke.judge import Judgement, arguments_of, judge_text, together
from wizard.smoke.material import CallTask, material
from wizard.smoke.talk import MADE_UP_ID, Message, Talk, called, result, system, user

_FEW_TOKENS = 3


def chat(talk: Talk) -> Judgement:
    """The model can speak at all. Asked twice when it speaks garbage."""
    return _words(talk, [user(material().words.chat)], stream=False)


def title(talk: Talk) -> Judgement:
    """The request with which opencode names a session: a system message, then two of the user."""
    words = material().words
    return _words(talk, [system(words.title_system), *map(user, words.title_user)], stream=True)


def tool_result(talk: Talk) -> Judgement:
    """The second half of the round trip, as opencode sends it: streamed, the tool still offered.

    Without a call to answer a made-up one is sent: the chat template must cope with it either way.
    """
    task = material().find_task("tool-call")
    call = first_call(talk, "tool-call-stream") or first_call(talk, "tool-call") or made_up(task)
    messages = [user(task.prompt), called([call]), result(call, task.result)]
    return _words(talk, messages, task=task, stream=True)


def parallel_results(talk: Talk) -> Judgement:
    """Two calls of one answer come back with their results: some chat templates allow only one."""
    task = material().find_task("tool-call")
    one = made_up(task)
    two = ToolCall(id=MADE_UP_ID[:-1] + "2", name=one.name, arguments=one.arguments)
    messages = [user(task.prompt), called([one, two]), result(one, task.result), result(two, task.result)]
    return _words(talk, messages, task=task, stream=True)


def finish(talk: Talk) -> Judgement:
    """An answer that the limit cuts must say so: opencode takes it for complete else."""
    answer = talk.send(talk.request([user(material().words.count)], _FEW_TOKENS, stream=True))
    if answer.cut:
        return Judgement(status="ok", detail=_("An answer that is cut says so."))
    if answer.completion_tokens is not None and answer.completion_tokens <= _FEW_TOKENS:
        return Judgement(status="skip", detail=_("The model's answer was too short to be cut."))
    return Judgement(
        status="warn",
        detail=_("An answer of at most {count} tokens was asked for; it ends with {reason}.").format(
            count=_FEW_TOKENS, reason=answer.finish_reason
        ),
        hint=_("The server heeds no limit of tokens, or hides that it does: answers may end without notice."),
    )


def first_call(talk: Talk, check: str) -> ToolCall | None:
    """The first call of the last answer another check got, with an id where the server gave none.

    None without a call that can be sent back: broken arguments break the chat template.
    """
    answers: list[Answer] = talk.learned.answers.get(check, [])
    call = next((call for answer in answers[-1:] for call in answer.calls), None)
    if call is None:
        return None
    try:
        sendable = isinstance(arguments_of(call), dict)
    except msgspec.DecodeError:
        sendable = False
    return msgspec.structs.replace(call, id=call.id or MADE_UP_ID) if sendable else None


def made_up(task: CallTask) -> ToolCall:
    """The call a good model makes."""
    return ToolCall(id=MADE_UP_ID, name=task.wanted, arguments=task.expect)


def _words(talk: Talk, messages: list[Message], *, stream: bool, task: CallTask | None = None) -> Judgement:
    """Ask for words, with the task's tools on offer; once more when the answer was garbage or a leak."""
    wanted = (task or material().task[0]).wanted
    judgements = []
    for _try in range(2):
        answer = talk.ask(messages, tools=task.tools if task else (), stream=stream)
        judgements.append(judge_text(answer, wanted))
        if not judgements[-1].again:
            break
    return together(judgements)
