"""Requests to the server under test: each with a deadline that holds, and a cancel that is heard at once."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from wizard.http import GivenUpError, TooLateError, bounded, client, server_root
from wizard.smoke import trouble
from wizard.smoke.answer import Answer, ModelList, decode, from_plain, from_stream
from wizard.smoke.trouble import Cancelled

if TYPE_CHECKING:
    import httpx

_Result = TypeVar("_Result")

_LARGEST_BODY = 8 * 2**20


class Exchange:
    """The line to one server. ``restart_clock`` gives the next requests a common deadline."""

    def __init__(self, base_url: str, api_key: str | None, cancel: threading.Event | None) -> None:
        self._root = server_root(base_url)
        self._api_key = api_key
        self._cancel = cancel
        self._http: httpx.Client | None = None
        self._deadline_s = 0.0
        self._ends = 0.0
        self.names: tuple[str, ...] = ()
        """The served names, once ``models`` was asked."""

    def close(self) -> None:
        """Let go of the client; a request that was given up ends now."""
        if self._http is not None:
            self._http.close()

    def restart_clock(self, deadline_s: float) -> None:
        """From now, everything together may take ``deadline_s`` seconds."""
        self._deadline_s = deadline_s
        self._ends = time.monotonic() + deadline_s

    def models(self) -> ModelList:
        """What is served. Raises Trouble, or Cancelled."""
        found = self._bounded(lambda: decode(self._body("GET", "/v1/models"), ModelList))
        self.names = found.names
        return found

    def chat(self, request: dict[str, object]) -> Answer:
        """The answer to a chat request, streamed if it says so. Raises Trouble, or Cancelled."""
        if request.get("stream"):
            return self._bounded(lambda: self._streamed(request))
        return self._bounded(lambda: from_plain(self._body("POST", "/v1/chat/completions", request)))

    def get(self, path: str) -> bytes:
        """The body at a path. Raises Trouble, or Cancelled."""
        return self._bounded(lambda: self._body("GET", path))

    def post(self, path: str, request: dict[str, object]) -> bytes:
        """The body that answers a request. Raises Trouble, or Cancelled."""
        return self._bounded(lambda: self._body("POST", path, request))

    def _body(self, method: str, path: str, request: dict[str, object] | None = None) -> bytes:
        with self._open(method, path, request) as response:
            return _read(response)

    def _streamed(self, request: dict[str, object]) -> Answer:
        asked_at = time.monotonic()
        with self._open("POST", "/v1/chat/completions", request) as response:
            return from_stream(response.iter_lines(), asked_at)

    @contextlib.contextmanager
    def _open(self, method: str, path: str, request: dict[str, object] | None) -> Iterator[httpx.Response]:
        """An answer with status 200, not yet read. Raises Trouble for any other."""
        left = max(self._ends - time.monotonic(), 0.001)
        if self._http is None:
            self._http = client(self._root, self._api_key)
        # A connection of its own for every request: one kept open may be closed by the server just then.
        headers = {"Connection": "close"}
        with self._http.stream(method, path, json=request, headers=headers, timeout=left) as response:
            if response.status_code != 200:
                text = _read(response).decode(errors="replace")
                raise trouble.refused(response.status_code, text, self.names)
            yield response

    def _bounded(self, ask: Callable[[], _Result]) -> _Result:
        """The result of ``ask`` within the deadline that runs. Raises Trouble, or Cancelled."""
        try:
            return bounded(ask, self._ends, self._cancel)
        except TooLateError:
            raise trouble.too_slow(self._deadline_s) from None
        except GivenUpError:
            raise Cancelled from None
        except Exception as error:
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> Exception:
        """httpx's errors as ours; anything else unchanged."""
        import httpx

        reason = f"{type(error).__name__}: {error}"
        match error:
            case (
                httpx.ConnectError()
                | httpx.ConnectTimeout()
                | httpx.UnsupportedProtocol()
                | httpx.InvalidURL()
                # What urllib raises for an address that is none.
                | ValueError()
            ):
                return trouble.unreachable(self._root, reason)
            case httpx.TimeoutException():
                return trouble.too_slow(self._deadline_s)
            case httpx.HTTPError():
                return trouble.broken_off(reason)
        return error


def _read(response: httpx.Response) -> bytes:
    """The body, cut where no honest answer goes on."""
    body = b""
    for piece in response.iter_bytes():
        body += piece
        if len(body) > _LARGEST_BODY:
            break
    return body
