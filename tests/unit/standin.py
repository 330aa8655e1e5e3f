"""Starts the stand-in server as a real process, and tiny HTTP servers that answer by script."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import wizard
from wizard.rehearsal import command
from wizard.serve import Server

ROOT = Path(wizard.__file__).parents[1]
DEADLINE_S = 20.0
TOOLS = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")


class Standin:
    """A running stand-in and what it printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._timer = threading.Timer(DEADLINE_S, process.kill)
        self._timer.daemon = True
        self._timer.start()

    def read_until(self, pattern: str) -> re.Match[str]:
        """The match in the first line from here that fits; fails when the process ends without one."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"no line like {pattern!r} in:\n" + "\n".join(self.lines))

    def read_to_end(self) -> int:
        """Read all that is left; returns the exit code."""
        assert self.process.stdout is not None
        self.lines.extend(line.rstrip("\n") for line in self.process.stdout)
        return self.process.wait(DEADLINE_S)

    def close(self) -> None:
        self._timer.cancel()
        self.process.kill()
        self.process.wait(DEADLINE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextlib.contextmanager
def started(*options: str, env: dict[str, str] | None = None) -> Iterator[Standin]:
    """The stand-in for a model called tiny, on a port the system chooses, without any pace."""
    argv = [
        *command(),
        "serve",
        "org/tiny",
        "--served-model-name",
        "tiny",
        "--port",
        "0",
        "--rehearsal-pace",
        "0",
    ]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("VLLM_")}
    process = subprocess.Popen(
        [*argv, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        env={**clean, "PYTHONPATH": str(ROOT), **(env or {})},
    )
    standin = Standin(process)
    try:
        yield standin
    finally:
        standin.close()


@contextlib.contextmanager
def serving(*options: str, env: dict[str, str] | None = None) -> Iterator[tuple[str, Standin]]:
    """As ``started``, once it answers: its root address and itself."""
    with started(*options, env=env) as standin:
        root = standin.read_until(r"Starting vLLM server on (\S+)")[1]
        standin.read_until(r"Application startup complete\.")
        yield root, standin


def server_at(root: str, *, model: str = "tiny", window: int | None = None) -> Server:
    return Server(
        base_url=f"{root}/v1",
        served_names=(model,),
        model=model,
        max_model_len=window,
        version="0.33.0",
        started_by="rehearsal",
    )


class Reply:
    """What a scripted server sends: a status, a body in pieces, and how it misbehaves after them.

    ``pace_s`` passes between two pieces, ``hold`` keeps the line open until it is set, ``cut`` promises more
    than comes, ``forever`` is sent again and again.
    """

    def __init__(
        self,
        *pieces: str,
        status: int = 200,
        pace_s: float = 0.0,
        hold: threading.Event | None = None,
        cut: bool = False,
        forever: str = "",
    ) -> None:
        self.pieces = pieces
        self.status = status
        self.pace_s = pace_s
        self.hold = hold
        self.cut = cut
        self.forever = forever


def plain(
    content: str | None = None, *, tool_calls: Any = None, finish: str = "stop", tokens: int = 40
) -> Reply:
    """A plain answer as vLLM 0.32 sends it: ``tool_calls`` is absent without a call."""
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None, "reasoning": None}
    if tool_calls:
        message["tool_calls"] = tool_calls
    body = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 600, "completion_tokens": tokens, "total_tokens": 600 + tokens},
    }
    return Reply(json.dumps(body))


def streamed(*deltas: dict[str, Any], finish: str | None = "stop", tokens: int = 40) -> Reply:
    """A streamed answer: vLLM's empty first delta, the given ones, the finish, the usage."""
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in ({"role": "assistant", "content": ""}, *deltas)
    ]
    if finish:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        usage = {"prompt_tokens": 600, "completion_tokens": tokens, "total_tokens": 600 + tokens}
        chunks.append({"choices": [], "usage": usage})
    events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return Reply(*events, *(["data: [DONE]\n\n"] if finish else []))


@contextlib.contextmanager
def scripted(
    answer: Callable[[dict[str, Any]], Reply], window: int = 32768
) -> Iterator[tuple[str, list[Any]]]:
    """A server whose chat answers come from ``answer``; yields its root and the requests it got."""
    asked: list[Any] = []
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            entry = {"id": "tiny", "owned_by": "vllm", "max_model_len": window}
            self._send(Reply(json.dumps({"object": "list", "data": [entry]})))

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(request)
            self._send(answer(request))

        def _send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            if reply.cut:
                self.send_header("Content-Length", "100000")
            self.end_headers()
            with contextlib.suppress(OSError):
                for piece in reply.pieces:
                    self.wfile.write(piece.encode())
                    self.wfile.flush()
                    over.wait(reply.pace_s)
                while reply.forever and not over.wait(0.02):
                    self.wfile.write(reply.forever.encode())
            if reply.hold is not None:
                reply.hold.wait(DEADLINE_S)

        def log_message(self, *_args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()
