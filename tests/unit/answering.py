"""A tiny HTTP server with scripted answers, to see how the wizard takes what servers say."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec


class Answer(msgspec.Struct, frozen=True):
    """What is sent for a path: ``drip`` is repeated after the body, a piece every 0.02 s, without an end."""

    body: str
    status: int = 200
    kind: str = "application/json"
    headers: Mapping[str, str] = {}
    drip: str = ""


@contextlib.contextmanager
def answering(
    routes: Mapping[str, Answer], port: int = 0, certificate: Path | None = None
) -> Iterator[tuple[str, list[tuple[str, dict[str, str]]]]]:
    """Serve the routes, 404 else; yields the root address and every path asked for with its headers.

    With ``certificate``, a file with it and its key, over TLS.
    """
    asked: list[tuple[str, dict[str, str]]] = []
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, dict(self.headers)))
            answer = routes.get(self.path, Answer('{"detail":"Not Found"}', status=404))
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(answer.body.encode())
                while answer.drip and not over.wait(0.02):
                    self.wfile.write(answer.drip.encode())

        def handle(self) -> None:
            with contextlib.suppress(OSError):
                super().handle()

        def log_message(self, *_args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = False
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        # Only in the thread of a request: a client that breaks off must not hold the others.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        scheme = "http" if certificate is None else "https"
        yield f"{scheme}://127.0.0.1:{server.server_address[1]}", asked
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()
