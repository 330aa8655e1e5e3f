"""The HTTP client for a vLLM server. httpx is imported only when a request is really made."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx


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
    )


def server_root(base_url: str) -> str:
    """The address of the server itself: the base URL without a trailing ``/v1``."""
    return base_url.rstrip("/").removesuffix("/v1")
