"""The HTTP client for a vLLM server. httpx and ssl are imported only when a request is really made."""

from __future__ import annotations

import ipaddress
import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl

    import httpx


_Result = TypeVar("_Result")

_HEARING_S = 0.1
"""How often a cancel is looked for while a server is silent."""


class TooLateError(Exception):
    """A request did not come to its end within its deadline."""


class GivenUpError(Exception):
    """A request was cancelled."""


def bounded(ask: Callable[[], _Result], ends: float, cancel: threading.Event | None = None) -> _Result:
    """The result of ``ask``, which must be there when the monotonic clock shows ``ends``.

    It runs in a thread of its own, so a server that sends a byte now and then, or never, cannot hold us; a
    request that was given up ends with its client, or by its time-out. Raises TooLateError, GivenUpError, or
    what ``ask`` raises.
    """
    box: queue.SimpleQueue[tuple[_Result | None, Exception | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            box.put((ask(), None))
        except Exception as error:  # noqa: BLE001 - handed over and raised where somebody waits for it
            box.put((None, error))

    threading.Thread(target=work, name="request", daemon=True).start()
    while True:
        if cancel is not None and cancel.is_set():
            raise GivenUpError
        left = ends - time.monotonic()
        if left <= 0:
            raise TooLateError
        try:
            result, error = box.get(timeout=left if cancel is None else min(left, _HEARING_S))
        except queue.Empty:
            continue
        if error is not None:
            raise error
        return result  # type: ignore[return-value]


def is_loopback(url: str) -> bool:
    """Whether a URL names this very machine: such calls must never go through a proxy."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def client(base_url: str, api_key: str | None = None, timeout_s: float = 30.0) -> httpx.Client:
    """A client for a server root or its ``/v1``; proxies of the environment are ignored on loopback.

    Redirects are not followed: a key must never travel to a host the user did not name.
    """
    import httpx

    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    return httpx.Client(
        base_url=base_url,
        headers=headers,
        timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, 5.0)),
        trust_env=not is_loopback(base_url),
        verify=_certificates(base_url),
    )


def is_distrust(error: BaseException) -> bool:
    """Whether a connection failed because nobody known here vouches for the server's certificate."""
    return "CERTIFICATE_VERIFY_FAILED" in str(error)


def _certificates(base_url: str) -> ssl.SSLContext:
    """Authorities that everybody knows, those of this system, and those that ``SSL_CERT_FILE`` names.

    None of them where nothing is encrypted: reading them takes some 40 ms for every client, and a context
    without any refuses every certificate, so nothing could be encrypted unseen.
    """
    import ssl

    import httpx

    if urlsplit(base_url).scheme != "https":
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


def server_root(base_url: str) -> str:
    """The address of the server itself: the base URL without a trailing ``/v1``."""
    return base_url.rstrip("/").removesuffix("/v1")
