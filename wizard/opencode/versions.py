"""Versions of opencode and vLLM as they report them; one that cannot be read counts as unknown."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version


def before(version: str | None, boundary: str) -> bool:
    """Whether a version is older than another; an unknown one is taken for a current one."""
    known = _known(version)
    return known is not None and known < Version(boundary)


def major(version: str | None) -> int:
    """The first number of a version, 0 for an unknown one."""
    known = _known(version)
    return 0 if known is None else known.major


def _known(version: str | None) -> Version | None:
    try:
        return Version(version) if version else None
    except InvalidVersion:
        return None
