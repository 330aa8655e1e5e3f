"""Whether a version of vLLM or opencode has reached the one something holds from."""

from __future__ import annotations

import functools

from packaging.version import InvalidVersion, Version


def reached(version: str | None, since: str) -> bool:
    """Whether ``version`` is ``since`` or later; candidates and builds (``0.19.1+cu129``) count as releases.

    An unknown or unreadable version counts as the newest.
    """
    release = _release(version)
    return release is None or release >= _parsed(since)


def within(version: str | None, since: str | None, until: str | None) -> bool:
    """Whether ``version`` lies between these two, both included; None leaves an end open. As ``reached``."""
    release = _release(version)
    if release is None:
        return until is None
    return (since is None or release >= _parsed(since)) and (until is None or release <= _parsed(until))


def is_version(text: str) -> bool:
    """Whether a text is a version, as Python packages write theirs."""
    return _release(text) is not None


@functools.cache
def _release(version: str | None) -> Version | None:
    try:
        return None if version is None else Version(Version(version).base_version)
    except InvalidVersion:
        return None


@functools.cache
def _parsed(version: str) -> Version:
    return Version(version)
