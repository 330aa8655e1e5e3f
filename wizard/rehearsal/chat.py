"""Chat answers in the shapes of vLLM: whole, in pieces, refused, and spoilt by a fault."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from wizard.rehearsal.answers import CHARS_PER_TOKEN, Answer, Call, answer, prompt_tokens
from wizard.rehearsal.options import Options
from wizard.rehearsal.wire import spoken, text_of, written

ENGINE_DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
_PIECE = 12
"""Characters of text or arguments in one streamed piece."""


class Refused(Exception):
    """A request vLLM refuses: the HTTP status and its own error body."""

    def __init__(
        self, status: int, message: str, kind: str = "BadRequestError", param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = error_body(status, message, kind, param)


@dataclass(frozen=True)
class Completion:
    """One answer, ready to be sent whole or in pieces."""

    id: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    text: str
    call: Call | None
    finish_reason: str

    def whole(self) -> dict[str, Any]:
        """The body of a plain answer. Without a call ``tool_calls`` is absent, as in vLLM."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None, "reasoning": None}
        if self.call:
            function = {"name": self.call.name, "arguments": json.dumps(self.call.arguments)}
            message["tool_calls"] = [{"id": self._call_id(), "type": "function", "function": function}]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self.finish_reason}
        return {**self._head("chat.completion"), "choices": [choice], "usage": self._usage()}

    def pieces(self, include_usage: bool, continuous: bool = False) -> Iterator[tuple[dict[str, Any], int]]:
        """The chunks of a streamed answer in vLLM's order, each with the tokens written by then."""
        yield self._counted(self._chunk({"role": "assistant", "content": ""}), 0, continuous)
        for piece in self._call_pieces(self.call) if self.call else ():
            yield self._counted(piece, self.completion_tokens, continuous)
        for start in range(0, len(self.text), _PIECE):
            text = self.text[start : start + _PIECE]
            written = min(self.completion_tokens, max(1, (start + len(text)) // CHARS_PER_TOKEN))
            yield self._counted(self._chunk({"content": text}), written, continuous)
        last = self._chunk({}, self.finish_reason)
        yield self._counted(last, self.completion_tokens, continuous)
        if include_usage:
            usage = {**self._head("chat.completion.chunk"), "choices": [], "usage": self._usage()}
            yield usage, self.completion_tokens

    def _counted(self, chunk: dict[str, Any], written: int, continuous: bool) -> tuple[dict[str, Any], int]:
        return ({**chunk, "usage": self._usage(written)} if continuous else chunk), written

    def _call_pieces(self, call: Call) -> Iterator[dict[str, Any]]:
        first = {"id": self._call_id(), "type": "function", "index": 0, "function": {"name": call.name}}
        yield self._chunk({"content": None, "tool_calls": [first]})
        arguments = json.dumps(call.arguments)
        for start in range(0, len(arguments), _PIECE):
            piece = {"index": 0, "function": {"arguments": arguments[start : start + _PIECE]}}
            yield self._chunk({"content": None, "tool_calls": [piece]})

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {**self._head("chat.completion.chunk"), "choices": [choice]}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": int(time.time()), "model": self.model}

    def _usage(self, written: int | None = None) -> dict[str, int]:
        completion = self.completion_tokens if written is None else written
        return {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + completion,
            "completion_tokens": completion,
        }

    def _call_id(self) -> str:
        return f"chatcmpl-tool-{self.id[-16:]}"


def complete(request: dict[str, Any], options: Options) -> Completion:
    """The answer to a chat request. Raises Refused as vLLM would."""
    check(request, options)
    entire = _without_end(answer(request), request)
    found = _cut(entire, request)
    text, call = _spoil(found, options, bool(request.get("stream")))
    finish = "tool_calls" if call else "stop"
    if call is not None and isinstance(request.get("tool_choice"), dict):
        finish = "stop"
    if found is not entire:
        finish = "length"
    return Completion(
        id=f"chatcmpl-{secrets.token_hex(8)}",
        model=request.get("model") or options.served_names[0],
        prompt_tokens=prompt_tokens(request),
        completion_tokens=found.tokens,
        text=text,
        call=call,
        finish_reason=finish,
    )


def check(request: dict[str, Any], options: Options) -> None:
    """Refuse what vLLM refuses, in its order: model, limits, prompt, tools."""
    _check_model(request, options)
    messages = request.get("messages")
    if (
        not isinstance(messages, list)
        or not messages
        or not all(isinstance(entry, dict) for entry in messages)
    ):
        raise Refused(
            400, "1 validation error:\n  {'type': 'missing', 'loc': 'body.messages'}", "Bad Request"
        )
    _check_limit(request, options.window)
    if prompt_tokens(request) > options.window:
        # vLLM stops counting one beyond the window.
        counted = options.window + 1
        text = (
            f"This model's maximum context length is {options.window} tokens. However, your prompt contains "
            f"at least {counted} input tokens, which exceeds this limit even without any output tokens. "
            f"Please reduce the length of the input prompt. (parameter=input_tokens, value={counted})"
        )
        raise Refused(400, text, param="input_tokens")
    _check_tools(request, options)


def error_body(status: int, message: str, kind: str, param: str | None = None) -> dict[str, Any]:
    """vLLM's error object."""
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


def _check_model(request: dict[str, Any], options: Options) -> None:
    model = request.get("model")
    if model and model not in options.served_names:
        aliases = ", ".join(options.served_names)
        text = f"The model `{model}` does not exist. Valid aliases: {aliases}."
        raise Refused(404, text, "NotFoundError", "model")


def _check_limit(request: dict[str, Any], window: int) -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        value = request.get(name)
        if value is None:
            continue
        if value < 1:
            raise Refused(400, f"{name} must be at least 1, got {value}. (parameter={name}, value={value})")
        if value > window:
            text = (
                f"{name}={value} cannot be greater than max_model_len={window}. "
                f"Please request fewer output tokens. (parameter={name}, value={value})"
            )
            raise Refused(400, text, param=name)


def _check_tools(request: dict[str, Any], options: Options) -> None:
    tools = request.get("tools")
    if tools is None:
        return
    if not tools:
        text = (
            "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely."
        )
        raise Refused(400, f"{text} (parameter=tools)", param="tools")
    choice = request.get("tool_choice") or "auto"
    if choice == "auto" and not (options.auto_tools and options.tool_parser):
        text = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
        raise Refused(400, text)
    if choice != "none" and not options.tool_parser:
        name = f'"{choice}"' if isinstance(choice, str) else f'function "{choice["function"]["name"]}"'
        raise Refused(400, f"tool_choice={name} requires --tool-call-parser to be set")


def complete_text(request: dict[str, Any], options: Options) -> dict[str, Any]:
    """The answer to a completion: the raw text for a prompt that is a rendered chat. Raises Refused."""
    prompt = request.get("prompt")
    try:
        chat = json.loads(text_of(prompt)) if isinstance(prompt, list) else None
    except ValueError as error:
        raise Refused(400, f"prompt: {error}", param="prompt") from error
    if not isinstance(chat, dict):
        chat = {"messages": [{"role": "user", "content": str(prompt)}]}
    _check_model(request, options)
    made = answer(chat)
    return {
        "id": f"cmpl-{secrets.token_hex(8)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": request.get("model") or options.served_names[0],
        "choices": [
            {"index": 0, "text": written(made, options), "finish_reason": "stop", "stop_reason": None}
        ],
        "usage": {"prompt_tokens": len(prompt or ""), "completion_tokens": made.tokens},
    }


def _spoil(found: Answer, options: Options, streamed: bool) -> tuple[str, Call | None]:
    """The text and the call after a fault of the answers: only calls are spoilt."""
    fault = options.fault.answer if options.fault else ""
    if found.call is None or not fault:
        return found.text, found.call
    read = fault == "unread" and options.tool_parser in spoken(options).parsers
    if read or (fault == "stream-leak" and not streamed):
        return found.text, found.call
    return "" if fault == "swallowed" else written(found, options), None


def _without_end(found: Answer, request: dict[str, Any]) -> Answer:
    """A sentence said again and again where the request forbids an end."""
    limit = request.get("max_completion_tokens") or request.get("max_tokens")
    if not request.get("ignore_eos") or limit is None or found.call is not None:
        return found
    return replace(found, text=f"{found.text} " * (1 + (limit + 1) * CHARS_PER_TOKEN // len(found.text)))


def _cut(found: Answer, request: dict[str, Any]) -> Answer:
    """A sentence no longer than ``max_tokens``; calls are short and stay whole."""
    limit = request.get("max_completion_tokens") or request.get("max_tokens")
    if limit is None or found.call is not None or found.tokens <= limit:
        return found
    return replace(found, text=found.text[: limit * CHARS_PER_TOKEN])
