"""Ways to spoil a good answer, by the names that ``tests/data/behaviours.toml`` uses."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from typing import Any

from goodmodel import Draft, calls_for, drafted

How = Callable[[Draft, Any, dict[str, Any]], Draft]
HOW: dict[str, How] = {}


def how(function: How) -> How:
    HOW[function.__name__] = function
    return function


def _deltas(draft: Draft) -> list[Any]:
    return [choice["delta"] for chunk in draft.chunks or [] for choice in chunk["choices"]]


def _call_pieces(draft: Draft) -> list[Any]:
    return [piece for delta in _deltas(draft) for piece in delta.get("tool_calls", [])]


def _functions(draft: Draft) -> list[Any]:
    if draft.chunks is None:
        return [call["function"] for call in draft.document["choices"][0]["message"].get("tool_calls", [])]
    return [piece["function"] for piece in _call_pieces(draft)]


@how
def content(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    """Other words, and no call."""
    return drafted(request, value, [], "stop")


@how
def zeros_without_an_end(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    """What a small model writes under a grammar that wants a number: that number until its room is used."""
    if request["tool_choice"] == "none":
        return draft
    if request["tool_choice"] != "required":
        made = calls_for(request)
        made[0]["function"]["arguments"] = '{"a": 1' + "0" * (request["max_tokens"] - 7)
        return drafted(request, None, made, "length")
    started = '[{"name": "add", "parameters": {"a": 1'
    return drafted(request, started + "0" * (request["max_tokens"] - len(started)), [], "length")


@how
def reasoning(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    """Everything in the reasoning."""
    made = drafted(request, None, [], "stop")
    if made.chunks is None:
        made.document["choices"][0]["message"]["reasoning"] = value
    else:
        made.chunks.insert(1, {"choices": [{"index": 0, "delta": {"reasoning": value}}]})
    return made


@how
def arguments(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    """Other arguments, of every call."""
    made = [{**call, "function": {**call["function"], "arguments": value}} for call in calls_for(request)]
    return drafted(request, None, made, "tool_calls")


@how
def arguments_twice_encoded(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    text = calls_for(request)[0]["function"]["arguments"]
    return arguments(draft, json.dumps(text), request)


@how
def arguments_as_object(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    made = [
        {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
        for call in calls_for(request)
    ]
    if not request.get("stream"):
        return drafted(request, None, made, "tool_calls")
    return Draft(chunks=[{"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, **made[0]}]}}]}])


@how
def cut_pieces(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    """Arguments in pieces of so many characters."""
    head, *rest = _call_pieces(draft)
    text = "".join(piece["function"]["arguments"] for piece in rest)
    parts = [
        {"index": 0, "function": {"arguments": text[at : at + value]}} for at in range(0, len(text), value)
    ]
    deltas = [{"tool_calls": [piece]} for piece in (head, *parts)]
    draft.chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas] + (draft.chunks or [])[
        -2:
    ]
    return draft


@how
def bytewise(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    draft.piece = value
    return draft


@how
def rename(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    for function in _functions(draft):
        if "name" in function:
            function["name"] = value
    return draft


@how
def name_late(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    pieces = _call_pieces(draft)
    pieces[1]["function"]["name"] = pieces[0]["function"].pop("name")
    return draft


@how
def name_again(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    pieces = _call_pieces(draft)
    for piece in pieces:
        piece["function"]["name"] = pieces[0]["function"]["name"]
    return draft


@how
def same_ids(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    for piece in _call_pieces(draft):
        if "id" in piece:
            piece["id"] = "same"
    return draft


@how
def without(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    """Pieces of calls without this field."""
    for piece in _call_pieces(draft):
        piece.pop(value, None)
    return draft


@how
def whole_without_index(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    deltas = [{"tool_calls": [call]} for call in calls_for(request)]
    draft.chunks = [{"choices": [{"delta": delta}]} for delta in deltas] + (draft.chunks or [])[-2:]
    return draft


@how
def finish(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    """Another finish reason; without a value none at all."""
    for chunk in draft.chunks or [draft.document]:
        for choice in chunk["choices"]:
            if choice.get("finish_reason"):
                choice["finish_reason"] = value
    return draft


@how
def usage(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    """No usage, or null."""
    chunks = draft.chunks or []
    draft.chunks = chunks[:-1] if value == "missing" else [*chunks[:-1], {"choices": [], "usage": None}]
    return draft


@how
def tokens(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    """Answered all the same, with so many tokens of prompt counted."""
    made = drafted(request, "a", [], "stop")
    made.document["usage"]["prompt_tokens"] = value
    return made


@how
def keep(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    """Only this share of the body, in percent, then the end."""
    body = draft.encoded()
    draft.body = body[: len(body) * value // 100]
    return draft


@how
def lying_length(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    draft.promised = len(draft.encoded()) + value
    return draft


@how
def stall(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    """So many percent of the body, then silence."""
    draft = keep(draft, value, request)
    draft.then = "hold"
    return draft


@how
def silent(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    """Not even a head."""
    return Draft(body=b"", then="silent")


@how
def reset(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    """The connection is torn down after so many percent of the body; at 0 before any head."""
    if not value:
        return Draft(body=b"", then="reset-at-once")
    draft = keep(draft, value, request)
    draft.then = "reset"
    return draft


@how
def raw(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    """These bytes are all that comes."""
    return Draft(body=value.encode(), then="raw")


@how
def compressed(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    """Really compressed, or only said to be."""
    body = draft.encoded()
    draft.body = {"gzip": gzip.compress, "deflate": zlib.compress}.get(value, lambda same: same)(body)
    draft.headers["Content-Encoding"] = value.removeprefix("not-")
    return draft


@how
def edited(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    """The bytes of the body with each first of a pair replaced by the second."""
    body = draft.encoded()
    for old, new in value:
        body = body.replace(old.encode(), new.encode())
    draft.body = body
    return draft


@how
def before(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    draft.body = value.encode() + draft.encoded()
    return draft


@how
def after(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    draft.body = draft.encoded() + value.encode()
    return draft


@how
def no_done(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    draft.done = ""
    return draft


@how
def one_chunk(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    """The whole answer in a single event, as servers that do not stream send it."""
    delta = {"tool_calls": [{"index": n, **call} for n, call in enumerate(calls_for(request))]}
    usage = {"prompt_tokens": 600, "completion_tokens": 40, "total_tokens": 640}
    draft.chunks = [{"choices": [{"delta": delta, "finish_reason": "tool_calls"}], "usage": usage}]
    return draft


@how
def bad_bytes(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    """A byte that begins no character, in the place of a blank."""
    draft.body = draft.encoded().replace(b"sum is", b"sum\xffis").replace(b"sum \xe2", b"sum ")
    return draft


@how
def deep(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    return Draft(body=b'{"choices": ' + b"[" * value)


@how
def arguments_allowed(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    """Other arguments, where calls are allowed."""
    return arguments(draft, value, request) if calls_for(request) else draft


@how
def arguments_despite(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    """A call, whatever the choice allows."""
    asked = request if isinstance(request["tool_choice"], dict) else {**request, "tool_choice": "required"}
    return drafted(request, None, calls_for(asked), "tool_calls")


@how
def big(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    """So many megabytes of blanks around it."""
    body = draft.encoded()
    draft.body = body[:-1] + b" " * (value * 2**20) + body[-1:]
    return draft


@how
def repeat(draft: Draft, value: Any, request: dict[str, Any]) -> Draft:
    """This, again and again."""
    return Draft(body=value.encode(), then="repeat")
