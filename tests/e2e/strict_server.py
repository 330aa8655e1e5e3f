"""A scripted server that keeps to its window as vLLM does: what does not fit is refused, never shortened.

Tokens are counted by one stated rule, four bytes of what the model reads for a token: texts, arguments of
calls, and the tools as JSON. opencode's first request, 30,400 bytes of these, has 7,100 tokens by Qwen's
tokenizer: 4.3 bytes each.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BYTES_PER_TOKEN = 4
Call = tuple[str, dict[str, str]]
"""A tool and its arguments."""
ANSWER_TOKENS = 60


@dataclass
class StrictServer:
    """What was asked of it, and how often it had to refuse."""

    window: int
    calls: tuple[Call, ...]
    """Made one after the other, a step each."""
    base_url: str = ""
    main: int = 0
    summaries: int = 0
    refused: list[str] = field(default_factory=list)
    largest: int = 0
    """Tokens of the longest prompt."""


def tokens(request: dict[str, Any]) -> int:
    """The prompt's tokens, by the rule of this module."""
    read = [json.dumps(request.get("tools", []), ensure_ascii=False, separators=(",", ":"))]
    for message in request["messages"]:
        content = message.get("content") or ""
        parts = content if isinstance(content, list) else [{"text": content}]
        read += [part.get("text", "") for part in parts]
        read += [call["function"]["arguments"] for call in message.get("tool_calls") or ()]
    return len("".join(read).encode()) // BYTES_PER_TOKEN


@contextmanager
def strict_server(window: int, calls: tuple[Call, ...]) -> Iterator[StrictServer]:
    """Serves a model that makes these calls, one a step, and then says that it is done."""
    state = StrictServer(window, calls)
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                refusal, events = _judge(state, request)
            if refusal is not None:
                body = {"error": {"message": refusal, "type": "BadRequestError", "code": 400}}
                self._send(400, "application/json", json.dumps(body).encode())
                return
            lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
            self._send(200, "text/event-stream", lines.encode())

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Silent: the test's own output is what counts."""

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.base_url = f"http://127.0.0.1:{listener.server_address[1]}/v1"
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


def _judge(state: StrictServer, request: dict[str, Any]) -> tuple[str | None, list[dict[str, Any]]]:
    """The words of a refusal, or the pieces of a streamed answer."""
    prompt, asked = tokens(request), request["max_tokens"]
    if prompt + asked > state.window:
        refusal = (
            f"This model's maximum context length is {state.window} tokens. However, you requested {asked} "
            f"output tokens and your prompt contains at least {prompt} input tokens, for a total of at least "
            f"{prompt + asked} tokens. Please reduce the length of the input prompt or the number of "
            "requested output tokens."
        )
        state.refused.append(refusal)
        return refusal, []
    if not request.get("tools"):
        state.summaries += 1
        return None, _chunks({"content": "The work goes on, one part after the other."}, "stop", prompt)
    state.main += 1
    state.largest = max(state.largest, prompt)
    if state.main > len(state.calls):
        return None, _chunks({"content": "Everything is done."}, "stop", prompt)
    tool, arguments = state.calls[state.main - 1]
    call = {
        "index": 0,
        "id": f"call_{state.main:04}",
        "type": "function",
        "function": {"name": tool, "arguments": json.dumps(arguments)},
    }
    return None, _chunks({"tool_calls": [call]}, "tool_calls", prompt)


def _chunks(delta: dict[str, Any], finish: str, prompt: int) -> list[dict[str, Any]]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "strict"}
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": ANSWER_TOKENS,
        "total_tokens": prompt + ANSWER_TOKENS,
    }
    return [
        head | {"choices": [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None}]},
        head | {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
        head | {"choices": [], "usage": usage},
    ]
