"""A server that answers the whole smoke test right, but for what a row of a table spoils.

The table is ``tests/data/behaviours.toml``: what is spoilt, how, and what the test must say then.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
from goodmodel import WINDOW, Draft, good
from spoiling import HOW

DATA = Path(__file__).parents[1] / "data" / "behaviours.toml"
HOLD_S = 5.0


class Behaviour(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row: on which requests, how (a function of ``spoiling``, or a reply), and what must come of it."""

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
