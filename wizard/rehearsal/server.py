"""The HTTP side of the stand-in: the routes a client of vLLM uses, and vLLM's manners in refusing."""

from __future__ import annotations

import contextlib
import hmac
import json
import math
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from wizard.rehearsal.chat import ENGINE_DEAD, Completion, Refused, complete, complete_text, error_body
from wizard.rehearsal.log import Start, say
from wizard.rehearsal.metrics import Metrics
from wizard.rehearsal.wire import text_of, tokenized

_PROMPT_PACE = 100
"""How many times as fast as an answer is written a prompt is read."""
_INTERNAL = "InternalServerError"


def bind(host: str, port: int) -> socket.socket:
    """A socket bound like vLLM's: early, so that a busy port shows before the load, and not yet listening."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


class RehearsalServer(ThreadingHTTPServer):
    """Serves one start; ``serve_forever`` returns when its engine died."""

    daemon_threads = True

    def __init__(self, bound: socket.socket, start: Start) -> None:
        super().__init__(bound.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = bound
        self.start = start
        self.metrics = Metrics(start.options.served_names[0])
        self.dead = False
        self._written = 0
        self._lock = threading.Lock()
        self.server_activate()

    @property
    def pace(self) -> float:
        """Tokens a second of each answer that is being written: together four get twice what one gets."""
        return self.start.options.tokens_per_second / math.sqrt(max(1, self._written))

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """While an answer is being written, the others get less."""
        with self._lock:
            self._written += 1
        try:
            yield
        finally:
            with self._lock:
                self._written -= 1

    def die(self) -> None:
        """The engine dies: nothing is answered any more."""
        fault = self.start.options.fault
        if fault and not self.dead:
            self.dead = True
            self.start.say(fault.lines)

    def handle_error(self, *_connection: Any) -> None:
        """A client that went away is its own affair; anything else is one line in the log."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError):
            say("APIServer ERROR server.py:1", f"{type(error).__name__}: {error}")


class _Handler(BaseHTTPRequestHandler):
    server: RehearsalServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        options = self.server.start.options
        match self.path.partition("?")[0]:
            case "/health":
                self._send(503 if self.server.dead else 200, "")
            case "/version":
                self._send_json(200, {"version": self.server.start.values["version"], "rehearsal": True})
            case "/metrics":
                self._send(200, self.server.metrics.render(), "text/plain; version=0.0.4")
            case "/v1/models" if self._allowed():
                self._send_json(200, _models(options.served_names, options.model, options.window))
            case "/v1/models":
                self._send_json(401, {"error": "Unauthorized"})
            case _:
                self._send_json(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "0")
        body = self.rfile.read(int(length) if length.isdecimal() else 0)
        options = self.server.start.options
        answers: dict[str, Callable[[Any], Completion | dict[str, Any]]] = {
            "/v1/chat/completions": lambda request: complete(request, options),
            "/v1/completions": lambda request: complete_text(request, options),
            "/tokenize": lambda request: tokenized(request, options),
            "/detokenize": lambda request: {"prompt": text_of(request["tokens"])},
        }
        path = self.path.partition("?")[0]
        # As with vLLM, only what is under /v1 asks for the key.
        if path not in answers:
            self._send_json(404, {"detail": "Not Found"})
        elif path.startswith("/v1") and not self._allowed():
            self._send_json(401, {"error": "Unauthorized"})
        else:
            self._answer(answers[path], body)

    def _answer(self, make: Callable[[Any], Completion | dict[str, Any]], body: bytes) -> None:
        try:
            request = json.loads(body)
            made = make(request)
        except Refused as refused:
            self._send_json(refused.status, refused.body)
            return
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            text = f"1 validation error:\n  {{'type': 'json_invalid', 'loc': 'body', 'msg': {str(error)!r}}}"
            self._send_json(400, error_body(400, text, "Bad Request"))
            return
        if not isinstance(made, Completion):
            self._send_json(200, made)
            return
        with self.server.metrics.running():
            self._chat(made, request)

    def _chat(self, completion: Completion, request: dict[str, Any]) -> None:
        options = self.server.start.options
        streamed = bool(request.get("stream"))
        if options.fault and options.fault.at == "serving":
            self._engine_died(streamed)
            return
        self.server.metrics.count(completion, tools=bool(request.get("tools")), streamed=streamed)
        if streamed:
            self._stream(completion, request.get("stream_options") or {})
        else:
            self._send_json(200, completion.whole())

    def _stream(self, completion: Completion, wished: dict[str, Any]) -> None:
        """Send the pieces at the pace of this rehearsal, if it has one."""
        self._open_stream()
        usage, continuous = bool(wished.get("include_usage")), bool(wished.get("continuous_usage_stats"))
        due, before = time.monotonic(), 0
        with self.server.writing():
            for piece, written in completion.pieces(usage, continuous):
                if pace := self.server.pace:
                    read = 0 if before or not written else completion.prompt_tokens / _PROMPT_PACE
                    due += (read + written - before) / pace
                    time.sleep(max(0.0, due - time.monotonic()))
                before = written
                self._event(json.dumps(piece, ensure_ascii=False))
        self._event("[DONE]")

    def _engine_died(self, streamed: bool) -> None:
        """Answer as a request in flight is answered when the engine dies, then let the server leave."""
        self.server.die()
        body = error_body(500, ENGINE_DEAD, _INTERNAL)
        if streamed:
            self._open_stream()
            self._event(json.dumps(body))
            self._event("[DONE]")
        else:
            self._send_json(500, body)
        self.wfile.flush()
        self.server.shutdown()

    def _open_stream(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()

    def _event(self, data: str) -> None:
        self.wfile.write(f"data: {data}\n\n".encode())

    def _send_json(self, status: int, body: dict[str, Any]) -> None:
        self._send(status, json.dumps(body, ensure_ascii=False), "application/json")

    def _send(self, status: int, body: str, content_type: str = "text/plain") -> None:
        content = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _allowed(self) -> bool:
        """Whether the request carries one of the keys; without keys everything is allowed."""
        keys = self.server.start.options.api_keys
        given = self.headers.get("Authorization", "").encode()
        return not keys or any(hmac.compare_digest(given, f"Bearer {key}".encode()) for key in keys)

    def version_string(self) -> str:
        """What the Server header says: no version of Python for strangers."""
        return "rehearsal"

    def log_message(self, format: str, *args: Any) -> None:
        """The access log, as uvicorn writes it."""
        host, port = self.client_address[:2]
        say("stdout", f"INFO:     {host}:{port} - {format % args}".removesuffix(" -"))

    def log_error(self, format: str, *args: Any) -> None:
        """Malformed requests get their answer; the log is not their place."""


def _models(names: tuple[str, ...], root: str, window: int) -> dict[str, Any]:
    entries = [
        {
            "id": name,
            "object": "model",
            "owned_by": "rehearsal",
            "root": root,
            "parent": None,
            "max_model_len": window,
        }
        for name in names
    ]
    return {"object": "list", "data": entries}
