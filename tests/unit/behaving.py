"""A server with a good model behind it, which answers the whole smoke test right, and ways to spoil that.

The table is ``tests/data/behaviours.toml``: what is spoilt, how, and what the test must say then.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import socket
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec

from wizard.smoke.material import material

DATA = Path(__file__).parents[1] / "data" / "behaviours.toml"
WINDOW = 32768
HOLD_S = 5.0
FREE = {
    "arguments-optional": [{}],
    "many-tools": [{"query": "launch plan"}],
    "parallel": [{"a": 1, "b": 2}, {"a": 3, "b": 4}],
    "choice": [{"a": 2, "b": 3}],
    "opencode-prompt": [{"content": "hello from the test", "filePath": "first.txt"}],
}
"""What a good model calls where the task leaves it free."""


class Behaviour(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row: on which requests, how (a function of this module, or a reply), and what must come of it."""

    id: str
    what: str
    on: str
    about: str = ""
    """Only requests that offer this tool."""
    first: int = 0
    """Only so many times; 0: always."""
    how: str = ""
    value: Any = None
    status: int = 0
    body: str | None = None
    headers: dict[str, str] = {}
    deadline_s: float = 0.0
    """Of the first expected check, where the behaviour makes us wait."""
    expect: dict[str, str]
    verdict: str
    says: str = ""
    """Stands in what the first expected check tells."""


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file."""

    behaviour: tuple[Behaviour, ...]


def table() -> tuple[Behaviour, ...]:
    return msgspec.toml.decode(DATA.read_bytes(), type=Table).behaviour


@dataclass
class Draft:
    """An answer before it is sent: a document, or the chunks of a stream."""

    document: Any = None
    chunks: list[Any] | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    done: str = "data: [DONE]\n\n"
    body: bytes | None = None
    """In the place of what document or chunks would give."""
    piece: int = 0
    """Bytes of one write; 0: everything at once."""
    then: str = ""
    """``hold``, ``reset``, ``repeat`` after the body; ``raw``: the body holds the head too."""
    promised: int | None = None
    """A length in the head that is not that of the body."""

    def encoded(self) -> bytes:
        if self.body is not None:
            return self.body
        if self.chunks is None:
            return json.dumps(self.document, ensure_ascii=False).encode()
        events = "".join(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n" for chunk in self.chunks)
        return (events + self.done).encode()


def good(request: dict[str, Any]) -> Draft:
    """What vLLM answers with a model that does as it is told."""
    if request["model"] != "tiny":
        return refusal(404, f"The model `{request['model']}` does not exist.", "NotFoundError")
    last = request["messages"][-1]
    words = len(last["content"].split())
    if words > WINDOW:
        return refusal(
            400,
            f"This model's maximum context length is {WINDOW} tokens. However, your prompt contains at least "
            f"{WINDOW + 1} input tokens, which exceeds this limit even without any output tokens.",
        )
    calls = calls_for(request)
    finish = "tool_calls" if calls else "stop"
    content = None if calls else "The sum is 42."
    if request["max_tokens"] <= 3:
        content, finish = "1\n2", "length"
    return drafted(request, content, calls, finish)


def drafted(request: dict[str, Any], content: str | None, calls: list[Any], finish: str) -> Draft:
    """An answer in vLLM's shape, plain or streamed as the request wants it."""
    usage = {"prompt_tokens": 600, "completion_tokens": 40, "total_tokens": 640}
    if not request.get("stream"):
        message: dict[str, Any] = {"role": "assistant", "content": content, "reasoning": None}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return Draft(document={"object": "chat.completion", "choices": [choice], "usage": usage})
    deltas: list[Any] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": part} for part in re.findall(r"(?s).{1,5}", content or "")]
    for index, call in enumerate(calls):
        function = {"name": call["function"]["name"]}
        deltas.append({"content": None, "tool_calls": [{**call, "index": index, "function": function}]})
        for part in re.findall(r"(?s).{1,9}", call["function"]["arguments"]):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    chunks.append({"choices": [], "usage": usage})
    return Draft(chunks=chunks)


def refusal(status: int, message: str, kind: str = "BadRequestError") -> Draft:
    return Draft(status=status, document={"error": {"message": message, "type": kind, "code": status}})


def calls_for(request: dict[str, Any]) -> list[Any]:
    """The calls a good model makes."""
    choice = request.get("tool_choice")
    last = request["messages"][-1]
    if "tools" not in request or choice == "none" or last["role"] != "user":
        return []
    task = next(task for task in material().task if last["content"] in (task.prompt, task.again))
    name = choice["function"]["name"] if isinstance(choice, dict) else task.wanted
    wanted = [json.loads(task.expect)] if task.expect else FREE[task.id]
    return [
        {
            "id": f"chatcmpl-tool-{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
        }
        for number, arguments in enumerate(wanted)
    ]


def kinds(request: dict[str, Any]) -> set[str]:
    """What a row may call this request. Those that are odd on purpose have a name of their own only."""
    if request["model"] != "tiny":
        return {"stranger"}
    if len(request["messages"][-1]["content"].split()) > WINDOW:
        return {"over-long"}
    if request["max_tokens"] in (3, WINDOW):
        return {"short" if request["max_tokens"] == 3 else "whole-window"}
    tools = request.get("tools")
    wants = "words"
    if tools and request.get("tool_choice") == "auto":
        wants = "results" if request["messages"][-1]["role"] == "tool" else "calls"
    elif tools:
        wants = "choice"
    if not request.get("stream"):
        return {"chats", wants, f"plain-{wants}"}
    return {"chats", wants, f"streamed-{wants}", "streams"}


class Spoiler:
    """Spoils the answers a row means."""

    def __init__(self, row: Behaviour) -> None:
        self.row = row
        self.left = row.first
        self.seen_counters = False

    def models(self, draft: Draft) -> Draft:
        return self._spoilt(draft, {}) if self.row.on in ("models", "everything") else draft

    def metrics(self, draft: Draft) -> Draft:
        """A row about the counters changes all pages but the first."""
        if self.row.on != "metrics" or (self.row.how and not self.seen_counters):
            self.seen_counters = True
            return draft
        return self._spoilt(draft, {})

    def chat(self, request: dict[str, Any]) -> Draft:
        row, draft = self.row, good(request)
        offered = [tool["function"]["name"] for tool in request.get("tools", [])]
        meant = row.on in kinds(request) | {"everything"} and (not row.about or row.about in offered)
        if not meant or (row.first and self.left == 0):
            return draft
        self.left -= 1
        return self._spoilt(draft, request)

    def _spoilt(self, draft: Draft, request: dict[str, Any]) -> Draft:
        row = self.row
        if row.body is not None or row.status:
            draft = Draft(status=row.status or 200, body=(row.body or "").encode())
        draft.headers |= row.headers
        return HOW[row.how](draft, row.value, request) if row.how else draft


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


class Serving(ThreadingHTTPServer):
    """A running server: how it behaves, and what it was asked."""

    daemon_threads = False

    def __init__(self, row: Behaviour | None, key: str, detokenized: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spoiler = Spoiler(row) if row else None
        self.key = key
        self.detokenized = detokenized
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.keys: list[str] = []
        self.root = f"http://127.0.0.1:{self.server_address[1]}"
        self.over = threading.Event()

    def handle_error(self, *_connection: Any) -> None:
        """A client that went away, and a connection that was torn down on purpose."""

    def shutdown_request(self, request: Any) -> None:
        with contextlib.suppress(OSError):
            super().shutdown_request(request)


class _Handler(BaseHTTPRequestHandler):
    server: Serving

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        if self.path == "/metrics":
            draft = Draft(body=b'vllm:num_requests_running{engine="0"} 0.0\n')
            self._send(self.server.spoiler.metrics(draft) if self.server.spoiler else draft)
        elif self.path != "/v1/models":
            self._send(Draft(status=404, document={"detail": "Not Found"}))
        elif self._allowed():
            draft = Draft(document={"data": [{"id": "tiny", "max_model_len": WINDOW}]})
            self._send(self.server.spoiler.models(draft) if self.server.spoiler else draft)

    def do_POST(self) -> None:
        self.server.paths.append(self.path)
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/detokenize":
            self._send(Draft(document={"prompt": self.server.detokenized}))
        elif self._allowed():
            self.server.requests.append(request)
            draft = self.server.spoiler.chat(request) if self.server.spoiler else good(request)
            if self.server.detokenized and request.get("return_token_ids"):
                draft.document["choices"][0]["token_ids"] = [1, 2]
            self._send(draft)

    def _allowed(self) -> bool:
        given = self.headers.get("Authorization", "")
        self.server.keys.append(given)
        if self.server.key and given != f"Bearer {self.server.key}":
            self._send(Draft(status=401, document={"error": "Unauthorized"}))
            return False
        return True

    def _send(self, draft: Draft) -> None:
        self.close_connection = True
        if draft.then == "silent":
            self.server.over.wait(HOLD_S)
            return
        if draft.then not in ("raw", "reset-at-once"):
            self._send_head(draft)
        with contextlib.suppress(OSError):
            self._send_body(draft)
        if draft.then.startswith("reset"):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

    def _send_head(self, draft: Draft) -> None:
        kind = "application/json" if draft.chunks is None else "text/event-stream; charset=utf-8"
        self.send_response(draft.status)
        for name, value in ({"Content-Type": kind} | draft.headers).items():
            self.send_header(name, value)
        if draft.promised is not None:
            self.send_header("Content-Length", str(draft.promised))
        self.end_headers()

    def _send_body(self, draft: Draft) -> None:
        body = draft.encoded()
        size = draft.piece or len(body) or 1
        for start in range(0, len(body), size):
            self.wfile.write(body[start : start + size])
        while draft.then == "repeat" and not self.server.over.wait(0.01):
            self.wfile.write(body)
        if draft.then == "hold":
            self.server.over.wait(HOLD_S)

    def log_message(self, *_args: Any) -> None:
        return


@contextlib.contextmanager
def behaving(row: Behaviour | None = None, *, key: str = "", detokenized: str = "") -> Iterator[Serving]:
    """A server that behaves as the row says; without one it is good.

    ``key``: asked for by /v1. ``detokenized``: what the model itself wrote, where the server tells.
    """
    server = Serving(row, key, detokenized)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
