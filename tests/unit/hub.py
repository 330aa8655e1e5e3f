"""A hub on a loopback port that speaks the real one's dialect, and goes wrong where a test says so."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPO = "org/tiny"
LARGE = 1000
"""Files from this size on are what the hub calls large: known by their SHA-256, delivered from elsewhere."""


class Fault:
    """What goes wrong with the next ``times`` answers for the content of a file, or for an address."""

    def __init__(self, times: int = 1, **fields: Any) -> None:
        self.times = times
        self.cut_after: int | None = fields.get("cut_after")
        self.status: int | None = fields.get("status")
        self.headers: dict[str, str] = fields.get("headers", {})
        self.content: bytes | None = fields.get("content")
        self.ignores_range: bool = fields.get("ignores_range", False)
        self.bytes_per_s: int | None = fields.get("bytes_per_s")
        self.until: threading.Event | None = fields.get("until")


class Hub(ThreadingHTTPServer):
    """One repository. ``asked`` holds method, path and range of every request."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, files: Mapping[str, bytes], gated: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = dict(files)
        self.gated = gated
        self.token: str | None = None
        self.faults: dict[str, Fault] = {}
        self.asked: list[tuple[str, str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def ranges(self, name: str) -> list[str | None]:
        """The ranges that were asked of a file's content."""
        return [part for method, path, part in self.asked if method == "GET" and path.endswith(f"/{name}")]


@contextmanager
def serving(files: Mapping[str, bytes], gated: bool = False) -> Iterator[Hub]:
    hub = Hub(files, gated)
    thread = threading.Thread(target=hub.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join()


def git_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def etag(content: bytes) -> str:
    return sha256(content) if len(content) >= LARGE else git_id(content)


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.asked.append((self.command, path, self.headers.get("Range")))
        fault = next(
            (found for key, found in self.server.faults.items() if key in path and self._hits(key, found)),
            None,
        )
        if fault is not None and fault.status is not None:
            self._send(fault.status, fault.content or b"", fault.headers)
        elif path.startswith("/api/models/"):
            self._api(path, fault)
        elif path.startswith("/cdn/"):
            self._content(path.removeprefix("/cdn/"), fault)
        elif "/resolve/" in path:
            self._resolve(path.split("/", 5)[-1] if path.count("/") > 4 else "", fault)
        else:
            self._send(404, b"", {})

    def _hits(self, key: str, fault: Fault) -> bool:
        if fault.times <= 0 or (self.command == "HEAD" and not key.startswith("HEAD")):
            return False
        fault.times -= 1
        return True

    def _api(self, path: str, fault: Fault | None) -> None:
        if not path.startswith(f"/api/models/{REPO}"):
            self._send(404, b'{"error":"Repository not found"}', {"X-Error-Code": "RepoNotFound"})
            return
        if fault is not None and fault.content is not None:
            self._send(200, fault.content, {})
            return
        siblings = [
            {
                "rfilename": name,
                "size": len(content),
                "blobId": git_id(content),
                **(
                    {"lfs": {"sha256": sha256(content), "size": len(content), "pointerSize": 134}}
                    if len(content) >= LARGE
                    else {}
                ),
            }
            for name, content in self.server.files.items()
        ]
        gated = "manual" if self.server.gated else False
        told = {
            "id": REPO,
            "modelId": REPO,
            "sha": COMMIT,
            "private": False,
            "gated": gated,
            "siblings": siblings,
            "tags": [],
            "downloads": 0,
        }
        self._send(200, json.dumps(told).encode(), {"Content-Type": "application/json"})

    def _resolve(self, name: str, fault: Fault | None) -> None:
        token = self.headers.get("Authorization")
        if self.server.gated and token != f"Bearer {self.server.token}":
            self._send(401 if token is None else 403, b"", {"X-Error-Code": "GatedRepo"})
            return
        content = self.server.files.get(name)
        if content is None:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
        elif len(content) >= LARGE:
            known = {
                "X-Repo-Commit": COMMIT,
                "X-Linked-Etag": f'"{sha256(content)}"',
                "X-Linked-Size": str(len(content)),
                "Location": f"/cdn/{name}",
            }
            self._send(302, b"", known)
        else:
            self._content(name, fault)

    def _content(self, name: str, fault: Fault | None) -> None:
        whole = self.server.files[name]
        content = whole if fault is None or fault.content is None else fault.content
        headers = {"ETag": f'"{etag(whole)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        asked = self.headers.get("Range")
        status, first = 200, 0
        if asked is not None and not (fault and fault.ignores_range):
            low, _dash, high = asked.removeprefix("bytes=").partition("-")
            first, last = int(low), min(int(high or len(content)), len(content) - 1)
            if first >= len(content):
                self._send(416, b"", {"Content-Range": f"bytes */{len(content)}"})
                return
            headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
            status, content = 206, content[first : last + 1]
        self._send(status, content, headers, fault)

    def _send(
        self, status: int, content: bytes, headers: Mapping[str, str], fault: Fault | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "HEAD":
            return
        try:
            self._write(content, fault)
        except OSError:
            self.close_connection = True

    def _write(self, content: bytes, fault: Fault | None) -> None:
        if fault is None or (fault.cut_after is None and fault.bytes_per_s is None and fault.until is None):
            self.wfile.write(content)
            return
        end = len(content) if fault.cut_after is None else fault.cut_after
        step = max(1, (fault.bytes_per_s or 1 << 30) // 50)
        for start in range(0, end, step):
            self.wfile.write(content[start : min(end, start + step)])
            self.wfile.flush()
            if fault.bytes_per_s:
                time.sleep(0.02)
        if fault.until is not None:
            fault.until.wait(20)
        if fault.cut_after is not None:
            self.close_connection = True
            self.connection.shutdown(2)
