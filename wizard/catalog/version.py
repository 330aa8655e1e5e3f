"""Whether a version of vLLM or opencode has reached the one something holds from."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version


def reached(version: str | None, since: str) -> bool:
    """Whether ``version`` is ``since`` or later. Candidates count as their release.

    An unknown or unreadable version counts as the newest.
    """
    try:
        return version is None or Version(Version(version).base_version) >= Version(since)
    except InvalidVersion:
        return True
