"""A proxy on loopback that lets nothing through and keeps who was to be contacted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class Outside:
    """The hosts that were asked for, oldest first, and how a program is told about the proxy."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.hosts: list[str] = []

    def environ(self) -> dict[str, str]:
        """Variables for a program whose every contact with another machine goes to the proxy."""
        named = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), self.address)
        direct = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
        return named | direct | {"npm_config_proxy": self.address, "npm_config_https_proxy": self.address}


@contextmanager
def outside() -> Iterator[Outside]:
    """Listens until the block ends."""
    kept = Outside("")

    class Handler(BaseHTTPRequestHandler):
        def _refuse(self) -> None:
            target = self.path if "//" in self.path else f"//{self.path}"
            kept.hosts.append(urlsplit(target).hostname or self.path)
            self.send_error(403, "nothing goes out here")

        do_CONNECT = do_GET = do_POST = do_HEAD = do_PUT = _refuse

        def log_message(self, format: str, *args: object) -> None:
            """Silent: the test's own output is what counts."""

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.address = f"http://127.0.0.1:{listener.server_address[1]}"
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield kept
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()
