"""Lets the installed opencode say how long its first prompt is, with everything the user added to it.

opencode is started as the user would start it, but asks a listener of ours instead of a model: the request
that comes holds its own prompt and tools, the user's instructions, and the tools of the user's MCP servers.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from wizard.catalog import opencode_facts
from wizard.child import run_child
from wizard.errors import RefusedError
from wizard.http import client, server_root
from wizard.i18n import _
from wizard.opencode.binary import client_environ
from wizard.opencode.extras import tokens_of
from wizard.serve import Server

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler

_PROVIDER = "vllm-opencode-measure"
_WINDOW = 1_000_000
"""Declared to opencode, so that it never tidies up."""
_BODY_LIMIT = 16 << 20
_ANSWER = (
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "ok"}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}},
)


class PromptSize(msgspec.Struct, frozen=True, kw_only=True):
    """opencode's first prompt as it was really sent."""

    tokens: int
    tools: int
    """How many tools it describes."""
    origin: Literal["measured", "computed"]
    """Counted by the server's own tokenizer, or from the size in bytes."""


def measure_prompt(
    binary: str,
    *,
    server: Server | None = None,
    model: str | None = None,
    api_key: str | None = None,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
    cancel: threading.Event | None = None,
    deadline_s: float = 60.0,
) -> PromptSize:
    """Start opencode once in ``cwd`` (None: an empty folder) and count what it sends first.

    The name of the model, ``model`` or the server's, chooses between opencode's own prompts. A running
    ``server`` counts the tokens. MCP servers of the user start as they do for any session; no session of it
    is kept. Raises RefusedError when no request comes within ``deadline_s`` seconds.
    """
    name = model or (server.model if server else "model")
    with tempfile.TemporaryDirectory(prefix="vllm-opencode-measure-") as scratch, _listening() as (url, kept):
        folder = Path(scratch)
        variables = client_environ(url, environ) | {
            "OPENCODE_CONFIG_CONTENT": json.dumps(_configuration(url, name)),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_STATE_HOME": str(folder / "state"),
        }
        project = cwd or folder / "project"
        project.mkdir(exist_ok=True)
        command = [binary, "run", "--title", "measure", "-m", f"{_PROVIDER}/{name}", "ok"]
        ended = run_child(command, variables, deadline_s, cancel, project)
    request = next((body for body in kept if body.get("tools")), None) or next(iter(kept), None)
    if request is None:
        raise RefusedError(
            _("opencode sent no request that could be measured: {reason}").format(
                reason=ended.cut_short or _("it ended with exit code {code}").format(code=ended.code)
            ),
            _("Try it in a terminal: opencode run hello"),
        )
    counted = None if server is None else _counted(server, request, api_key)
    tools = request.get("tools")
    return PromptSize(
        tokens=_estimated(request) if counted is None else counted,
        tools=len(tools) if isinstance(tools, list) else 0,
        origin="computed" if counted is None else "measured",
    )


def _configuration(url: str, name: str) -> dict[str, object]:
    """A provider that is our listener, laid over the user's configuration for this one start."""
    model = {"limit": {"context": _WINDOW, "output": 1024}}
    block = {"npm": opencode_facts().package, "options": {"baseURL": url}, "models": {name: model}}
    return {"enabled_providers": [_PROVIDER], "provider": {_PROVIDER: block}}


def _estimated(request: Mapping[str, object]) -> int:
    """Tokens from the bytes of messages and tools."""
    text = json.dumps([request.get("messages"), request.get("tools")], ensure_ascii=False)
    return tokens_of(len(text.encode()))


def _counted(server: Server, request: Mapping[str, object], api_key: str | None) -> int | None:
    """What vLLM's own tokenizer and chat template make of it; None where it does not tell."""
    import httpx

    body = {"model": server.model, "add_generation_prompt": True}
    body |= {name: request[name] for name in ("messages", "tools") if name in request}
    try:
        with client(server_root(server.base_url), api_key) as http:
            answer = http.post("/tokenize", json=body)
            count = answer.json().get("count") if answer.status_code == httpx.codes.OK else None
    except (httpx.HTTPError, ValueError, AttributeError):
        return None
    return count if isinstance(count, int) and count > 0 else None


@contextmanager
def _listening() -> Iterator[tuple[str, list[dict[str, object]]]]:
    """A server on loopback that answers every request with one word: its base URL, what was asked."""
    from http.server import ThreadingHTTPServer

    kept: list[dict[str, object]] = []
    listener = ThreadingHTTPServer(("127.0.0.1", 0), _handler(kept))
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.server_address[1]}/v1", kept
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


def _handler(kept: list[dict[str, object]]) -> type[BaseHTTPRequestHandler]:
    from http.server import BaseHTTPRequestHandler

    class Handler(BaseHTTPRequestHandler):
        """Keeps the body, answers as a stream."""

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            try:
                body = json.loads(self.rfile.read(min(length, _BODY_LIMIT)))
            except ValueError:
                body = None
            if isinstance(body, dict):
                kept.append(body)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for piece in _ANSWER:
                whole = {"id": "0", "object": "chat.completion.chunk", "created": 0, "model": "", **piece}
                self.wfile.write(f"data: {json.dumps(whole)}\n\n".encode())
            self.wfile.write(b"data: [DONE]\n\n")

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is printed."""

    return Handler
