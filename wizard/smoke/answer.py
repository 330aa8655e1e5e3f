"""Answers of the chat interface, put together from a plain body or from the pieces of a stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from wizard.i18n import _
from wizard.smoke import trouble
from wizard.smoke.stream import events
from wizard.text import one_line

_Body = TypeVar("_Body")
_EXTRACT = 500
"""Characters of an answer that are kept as evidence."""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call as the server parsed it; ``arguments`` is the JSON text, untouched."""

    id: str
    name: str
    arguments: str


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What the server counted, tokens; None where it does not say."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    completion_tokens_details: _TokenDetails | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One complete answer."""

    content: str
    reasoning: str
    calls: tuple[ToolCall, ...]
    finish_reason: str | None
    completion_tokens: int | None
    reasoning_tokens: int | None = None
    usage: Usage | None = None
    streamed: bool = False
    unusable: str = ""
    """Why opencode's client would give up on a stream that can be read otherwise."""

    @property
    def cut(self) -> bool:
        """Whether the limit of tokens ended it."""
        return self.finish_reason == "length"

    @property
    def silent(self) -> bool:
        """Whether it holds nothing a client would show."""
        return not self.content.strip() and not self.calls

    def extract(self) -> str:
        """The telling parts on one line, safe to show."""
        calls = [f"{call.name}({call.arguments})" for call in self.calls]
        parts = [
            "streamed" if self.streamed else "plain",
            f"content={self.content!r}" if self.content else "content=null",
            f"tool_calls={calls}",
            f"finish_reason={self.finish_reason}",
            f"completion_tokens={self.completion_tokens}",
        ]
        if self.reasoning:
            parts.insert(2, f"reasoning={self.reasoning[:60]!r}")
        return one_line(" ".join(parts), _EXTRACT)


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    function: _Function = msgspec.field(default_factory=_Function)
    id: str | None = None
    index: int | None = None


class _Message(msgspec.Struct):
    """A message, or the part of one that a streamed piece adds. vLLM before 0.16 says reasoning_content."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    message: _Message | None = None
    delta: _Message | None = None
    finish_reason: str | None = None
    token_ids: list[int] | None = None


class _TokenDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: int | None = None


class _Reply(msgspec.Struct):
    """A plain body or a streamed chunk; ``error`` instead of choices when something broke."""

    choices: list[_Choice] = []
    usage: Usage | None = None
    error: object = None


class _Entry(msgspec.Struct):
    id: str
    max_model_len: int | None = None


class ModelList(msgspec.Struct):
    """The body of ``/v1/models``."""

    data: list[_Entry]

    @property
    def names(self) -> tuple[str, ...]:
        """The served names."""
        return tuple(entry.id for entry in self.data)

    def window(self, name: str) -> int | None:
        """The max model len of a served name, tokens; None when the server does not say."""
        return next((entry.max_model_len for entry in self.data if entry.id == name), None)


def decode(body: bytes | str, kind: type[_Body]) -> _Body:
    """A body as ``kind``; a byte order mark and broken UTF-8 are borne, as opencode's client bears them.

    Raises Trouble when it is not JSON or not of that form.
    """
    text = body.decode("utf-8-sig", errors="replace") if isinstance(body, bytes) else body
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        raise trouble.unreadable(text, str(error)) from error


def from_plain(body: bytes) -> Answer:
    """The answer in a plain body. Raises Trouble, also for an error that came with status 200."""
    reply = decode(body, _Reply)
    if reply.error is not None:
        raise trouble.refused(200, body.decode(errors="replace"))
    if not reply.choices or reply.choices[0].message is None:
        raise trouble.unreadable(body.decode(errors="replace"), "no choices")
    parts = _Parts(streamed=False)
    parts.add(reply.choices[0].message)
    parts.finish_reason = reply.choices[0].finish_reason
    parts.usage = reply.usage
    return parts.answer()


def token_ids(body: bytes) -> list[int] | None:
    """The generated tokens in a plain body that was asked to name them; None when it does not."""
    choices = decode(body, _Reply).choices
    return choices[0].token_ids if choices else None


def from_stream(pieces: Iterable[bytes]) -> Answer:
    """The answer in the bytes of a server-sent stream.

    Raises Trouble for an error inside the stream, for broken JSON and for a stream that just stops.
    """
    parts = _Parts(streamed=True)
    for data in events(pieces):
        if data.strip() == "[DONE]":
            continue
        reply = decode(data, _Reply)
        if reply.error is not None:
            raise trouble.refused(200, data)
        parts.usage = reply.usage or parts.usage
        for choice in reply.choices[:1]:
            parts.add(choice.delta or _Message())
            parts.finish_reason = choice.finish_reason or parts.finish_reason
    if parts.finish_reason is None:
        raise trouble.unfinished(parts.answer().extract())
    return parts.answer()


class _Parts:
    """Collects one answer piece by piece."""

    def __init__(self, *, streamed: bool) -> None:
        self.streamed = streamed
        self.content: list[str] = []
        self.reasoning: list[str] = []
        self.calls: dict[int, ToolCall] = {}
        self.finish_reason: str | None = None
        self.usage: Usage | None = None
        self.unusable = ""

    def add(self, message: _Message) -> None:
        """Add what one message or piece says. Plain bodies give calls no index: there their place counts."""
        self.content.append(message.content or "")
        self.reasoning.append(message.reasoning or message.reasoning_content or "")
        for place, call in enumerate(message.tool_calls or []):
            if not self.streamed:
                self._add_call(place, call)
            else:
                # As opencode's client does it: a piece without an index begins a call of its own.
                self._add_call(len(self.calls) if call.index is None else call.index, call)

    def answer(self) -> Answer:
        """What was collected."""
        usage = self.usage or Usage()
        details = usage.completion_tokens_details or _TokenDetails()
        return Answer(
            content="".join(self.content),
            reasoning="".join(self.reasoning),
            calls=tuple(self.calls[index] for index in sorted(self.calls)),
            finish_reason=self.finish_reason,
            completion_tokens=usage.completion_tokens,
            reasoning_tokens=details.reasoning_tokens,
            usage=self.usage,
            streamed=self.streamed,
            unusable=self.unusable,
        )

    def _add_call(self, index: int, call: _Call) -> None:
        known = self.calls.get(index)
        if known is None:
            known = ToolCall(id="", name="", arguments="")
            self._note_beginning(call)
        self.calls[index] = ToolCall(
            id=known.id or call.id or "",
            name=known.name or call.function.name or "",
            arguments=known.arguments + (call.function.arguments or ""),
        )

    def _note_beginning(self, call: _Call) -> None:
        """opencode's client ends the whole answer when a streamed call begins without its id or its name."""
        if not self.streamed or self.unusable:
            return
        if call.id is None:
            self.unusable = _("A streamed call begins without an id: opencode's client gives up on it.")
        elif call.function.name is None:
            self.unusable = _("A streamed call begins without a name: opencode's client gives up on it.")
