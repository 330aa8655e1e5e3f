"""A proxy on loopback that passes requests on to a server and keeps what was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

_HOP_HEADERS = {"connection", "content-length", "host", "transfer-encoding", "accept-encoding"}


class Recorder:
    """The requests that went through, oldest first."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.requests: list[dict[str, Any]] = []


@contextmanager
def recorder(server: str) -> Iterator[Recorder]:
    """Records chat requests to ``server`` (a base URL ending in /v1) made to the recorder's own base URL."""
    kept = Recorder("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept.requests.append(json.loads(body))
            headers = {
                name: value for name, value in self.headers.items() if name.lower() not in _HOP_HEADERS
            }
            url = server.removesuffix("/v1") + self.path
            with (
                httpx.Client(trust_env=False, timeout=120) as client,
                client.stream("POST", url, content=body, headers=headers) as answer,
            ):
                self.send_response(answer.status_code)
                self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
                self.end_headers()
                for piece in answer.iter_bytes():
                    self.wfile.write(piece)
                    self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            """Silent: the test's own output is what counts."""

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.base_url = f"http://127.0.0.1:{listener.server_address[1]}/v1"
    thread = threading.Thread(target=listener.serve_forever, daemon=True)
    thread.start()
    try:
        yield kept
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()
