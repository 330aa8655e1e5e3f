"""Requests to the server under test: each with a deadline that holds, and a cancel that is heard at once.

Every one goes to the base URL the user gave: redirects are not followed, and no other address is known here.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

import msgspec

from wizard.http import GivenUpError, TooLateError, bounded, client, server_root
from wizard.smoke import trouble
from wizard.smoke.answer import Answer, ModelList, decode, from_plain, from_stream, token_ids
from wizard.smoke.stream import events
from wizard.smoke.trouble import Cancelled

if TYPE_CHECKING:
    import httpx

_Result = TypeVar("_Result")

_LARGEST_BODY = 8 * 2**20
_CHAT = "/v1/chat/completions"


class Line:
    """The line to one server: a client for all requests, made with the first of them."""

    def __init__(self, base_url: str, api_key: str | None, cancel: threading.Event | None) -> None:
        self.root = server_root(base_url)
        self.cancel = cancel
        self.names: tuple[str, ...] = ()
        """The served names, once they were asked for."""
        self._api_key = api_key
        self._http: httpx.Client | None = None
        self._making = threading.Lock()

    @property
    def has_key(self) -> bool:
        """Whether requests carry an API key."""
        return bool(self._api_key)

    @property
    def http(self) -> httpx.Client:
        """The client. Raises what httpx raises for an address that is none."""
        with self._making:
            if self._http is None:
                self._http = client(self.root, self._api_key)
            return self._http

    def close(self) -> None:
        """Let go of the client; a request that was given up ends now."""
        with self._making:
            if self._http is not None:
                self._http.close()

    def covered(self, text: str) -> str:
        """The text without the key, should a server have repeated it."""
        return text.replace(self._api_key, "***") if self._api_key else text


class _Detokenized(msgspec.Struct):
    prompt: str


class Exchange:
    """The requests of one check, which may take ``deadline_s`` seconds together.

    All raise Trouble, or Cancelled.
    """

    def __init__(self, line: Line, deadline_s: float) -> None:
        self._line = line
        self._deadline_s = deadline_s
        self._ends = time.monotonic() + deadline_s

    def models(self, key: str | None = None) -> ModelList:
        """What is served; with ``key``, what is served to somebody who has that one."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        found = self._bounded(lambda: decode(self._body("GET", "/v1/models", headers=headers), ModelList))
        self._line.names = self._line.names or found.names
        return found

    def chat(self, request: dict[str, object]) -> Answer:
        """The answer to a chat request, streamed if it says so."""
        if request.get("stream"):
            return self._bounded(lambda: self._streamed(request))
        return self._bounded(lambda: from_plain(self._body("POST", _CHAT, request)))

    def raw(self, request: dict[str, object]) -> str | None:
        """What the model itself writes when asked this, with no parser in between; None where nobody can say.

        vLLM names the generated tokens and turns them back into text; other servers, and old ones, do not.
        """
        plain: dict[str, object] = {**request, "stream": False, "return_token_ids": True}
        plain.pop("stream_options", None)

        def ask() -> str | None:
            tokens = token_ids(self._body("POST", _CHAT, plain))
            if not tokens:
                return None
            body = self._body("POST", "/detokenize", {"model": request["model"], "tokens": tokens})
            return decode(body, _Detokenized).prompt

        try:
            return self._bounded(ask)
        except trouble.Trouble:
            return None

    def leave(self, request: dict[str, object]) -> None:
        """Begin a streamed answer, and close the connection when its first piece is there."""

        def ask() -> None:
            with self._open("POST", _CHAT, request) as response:
                first = next(events(_limited(response)), None)
                if first is None:
                    raise trouble.unfinished("")
                decode(first, dict)

        self._bounded(ask)

    def metrics(self) -> str:
        """The page of counters, Prometheus' text."""
        return self._bounded(lambda: self._body("GET", "/metrics").decode(errors="replace"))

    def pause(self, seconds: float) -> None:
        """Wait a moment, but never beyond the deadline."""
        left = max(0.0, min(seconds, self._ends - time.monotonic()))
        if (self._line.cancel or threading.Event()).wait(left):
            raise Cancelled
        if time.monotonic() >= self._ends:
            raise trouble.too_slow(self._deadline_s)

    def get(self, path: str) -> bytes:
        """The body at a path."""
        return self._bounded(lambda: self._body("GET", path))

    def post(self, path: str, request: dict[str, object]) -> bytes:
        """The body that answers a request."""
        return self._bounded(lambda: self._body("POST", path, request))

    def _body(
        self,
        method: str,
        path: str,
        request: dict[str, object] | None = None,
        headers: dict[str, str] | None = None,
    ) -> bytes:
        with self._open(method, path, request, headers) as response:
            return _read(response)

    def _streamed(self, request: dict[str, object]) -> Answer:
        with self._open("POST", _CHAT, request) as response:
            return from_stream(_limited(response))

    @contextlib.contextmanager
    def _open(
        self, method: str, path: str, request: dict[str, object] | None, headers: dict[str, str] | None = None
    ) -> Iterator[httpx.Response]:
        """An answer with status 200, not yet read. Raises Trouble for any other."""
        left = max(self._ends - time.monotonic(), 0.001)
        # A connection of its own for every request: one kept open may be closed by the server just then.
        sent = {"Connection": "close", **(headers or {})}
        with self._line.http.stream(method, path, json=request, headers=sent, timeout=left) as response:
            if response.status_code != 200:
                text = _read(response).decode(errors="replace")
                raise trouble.refused(response.status_code, text, self._line.names)
            yield response

    def _bounded(self, ask: Callable[[], _Result]) -> _Result:
        """The result of ``ask`` within the deadline that runs. Raises Trouble, or Cancelled."""
        try:
            return bounded(ask, self._ends, self._line.cancel)
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
                return trouble.unreachable(self._line.root, reason)
            case httpx.TimeoutException():
                return trouble.too_slow(self._deadline_s)
            case httpx.DecodingError():
                return trouble.unreadable("", reason)
            case httpx.HTTPError():
                return trouble.broken_off(reason)
        return error


def _read(response: httpx.Response) -> bytes:
    """The body, cut where no honest answer goes on."""
    body = bytearray()
    for piece in response.iter_bytes():
        body += piece
        if len(body) > _LARGEST_BODY:
            break
    return bytes(body)


def _limited(response: httpx.Response) -> Iterable[bytes]:
    """The pieces of a stream. Raises Trouble where no honest answer goes on."""
    length = 0
    for piece in response.iter_bytes():
        length += len(piece)
        if length > _LARGEST_BODY:
            raise trouble.unreadable("", f"more than {_LARGEST_BODY:,} bytes")
        yield piece
