"""Gets what a served model really writes, without a parser in the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from wizard.smoke import trouble
from wizard.smoke.answer import decode
from wizard.smoke.exchange import Exchange, Line
from wizard.smoke.finder.types import RawText
from wizard.smoke.material import CallTask, material
from wizard.smoke.trouble import Trouble

_Shape = TypeVar("_Shape")

_HOPELESS = frozenset({"unreachable", "too-slow", "key-refused", "model-unknown", "engine-dead", "not-ready"})
"""Troubles that another way to the text would meet as well."""


class _Tokens(msgspec.Struct):
    tokens: list[int]


class _Prompt(msgspec.Struct):
    prompt: str


class _Message(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    text: str = ""
    message: _Message = msgspec.field(default_factory=_Message)
    token_ids: list[int] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None


class _Reply(msgspec.Struct):
    choices: list[_Choice]
    prompt_token_ids: list[int] | None = None


class _Entry(msgspec.Struct):
    id: str
    root: str | None = None


class _Models(msgspec.Struct):
    data: list[_Entry]


class Asking:
    """Asks one served model. Every method raises Trouble, or Cancelled."""

    def __init__(self, line: Line, model: str, window: int | None) -> None:
        self._line = line
        self._model = model
        self._window = window

    def checkpoint(self) -> str:
        """What the server says it loaded; empty when it does not say."""
        listed = self._body("/v1/models", None, _Models)
        return next((entry.root or "" for entry in listed.data if entry.id == self._model), "")

    def words(self) -> RawText:
        """Its answer to a plain question."""
        return self._text(material().words.chat, ())

    def call(self, task: CallTask) -> RawText:
        """Its call of a tool; asked once more, more plainly, when the first answer does not name the tool."""
        tools = [{"type": "function", "function": msgspec.to_builtins(tool)} for tool in task.tools]
        raw = self._text(task.prompt, tools)
        return raw if task.wanted in raw.text else self._text(task.again, tools)

    def _text(self, prompt: str, tools: object) -> RawText:
        """By the first way that this server knows."""
        talk: dict[str, object] = {"messages": [{"role": "user", "content": prompt}]}
        talk |= {"tools": tools} if tools else {}
        ways: tuple[Callable[[dict[str, object]], RawText], ...] = (
            self._completed,
            self._as_ids,
            self._untouched,
        )
        first: Trouble | None = None
        for way in ways:
            try:
                return way(talk)
            except Trouble as error:
                first = first or error
                if error.code in _HOPELESS:
                    break
        raise first or trouble.unreadable("", "no way")

    def _completed(self, talk: dict[str, object]) -> RawText:
        """The rendered prompt, given to the completions endpoint: no parser looks at that."""
        ids = self._body("/tokenize", {**talk, "add_generation_prompt": True}, _Tokens).tokens
        choice = self._generated("/v1/completions", {"prompt": ids, "skip_special_tokens": False})[1]
        return RawText(text=choice.text, way="completions", prompt_ids=tuple(ids))

    def _as_ids(self, talk: dict[str, object]) -> RawText:
        """The tokens of a chat answer, whatever a parser made of it."""
        reply, choice = self._generated("/v1/chat/completions", {**talk, "return_token_ids": True})
        if not choice.token_ids:
            raise trouble.unreadable("", "no token_ids")
        # A stop token ends the answer and belongs to no parser; a stop string or the limit leaves none.
        stopped = choice.finish_reason != "length" and not isinstance(choice.stop_reason, str)
        ids = choice.token_ids[:-1] if stopped else choice.token_ids
        text = self._body("/detokenize", {"tokens": ids}, _Prompt).prompt
        return RawText(text=text, way="token ids", prompt_ids=tuple(reply.prompt_token_ids or ()))

    def _untouched(self, talk: dict[str, object]) -> RawText:
        """A chat request most tool parsers leave alone; a reasoning parser does not."""
        request = {**talk, "tool_choice": "none"} if "tools" in talk else talk
        _reply, choice = self._generated("/v1/chat/completions", request)
        return RawText(text=choice.message.content or "", way="tool_choice none")

    def _generated(self, path: str, request: dict[str, object]) -> tuple[_Reply, _Choice]:
        """One answer; asked again with more room when the limit cut it."""
        for limit in (material().max_tokens, material().max_tokens_thinking):
            room = limit if self._window is None else max(1, min(limit, self._window // 2))
            reply = self._body(path, {**request, "max_tokens": room, "temperature": 0}, _Reply)
            if not reply.choices:
                raise trouble.unreadable("", "no choices")
            if reply.choices[0].finish_reason != "length":
                break
        return reply, reply.choices[0]

    def _body(self, path: str, request: dict[str, object] | None, kind: type[_Shape]) -> _Shape:
        exchange = Exchange(self._line, material().find_check("tool-call").deadline_s)
        if request is None:
            return decode(exchange.get(path), kind)
        return decode(exchange.post(path, {"model": self._model, **request}), kind)


def raw_texts(line: Line, model: str, window: int | None) -> tuple[RawText, RawText]:
    """A call and an answer in words of the served model. Raises Trouble, or Cancelled."""
    asking = Asking(line, model, window)
    checkpoint = asking.checkpoint()
    call, words = asking.call(material().find_task("tool-call")), asking.words()
    return (
        msgspec.structs.replace(call, checkpoint=checkpoint),
        msgspec.structs.replace(words, checkpoint=checkpoint),
    )
