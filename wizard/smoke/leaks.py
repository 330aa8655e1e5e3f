"""Calls and thoughts that came as text: how they look, and which parsers would have read them."""

from __future__ import annotations

import re

import msgspec

from wizard.catalog import LeakMarker, leak_markers
from wizard.smoke.material import material


class Leak(msgspec.Struct, frozen=True, kw_only=True):
    """A call that came as text: how it looked, and the parsers that read such text (none: no parser does)."""

    looks: str
    parsers: tuple[str, ...]
    start: int
    """Where in the text it begins."""


def find_leak(text: str, tool: str) -> Leak | None:
    """A tool call written in ``text``, or None. ``tool`` is the name the call would have."""
    found = [leak for leak in leak_markers() if leak.kind == "tool" and leak.marker in text]
    unread = next((leak.marker for leak in found if not leak.parsers), None)
    if unread is not None:
        # <tools> around a call hides whatever is inside: what would read the inside does not matter.
        return Leak(looks=unread, parsers=(), start=text.index(unread))
    for shape in material().shape:
        written = re.search(shape.pattern.replace("$tool", re.escape(tool)), text)
        if written and shape.tagged == bool(found):
            return Leak(looks=shape.id, parsers=shape.parsers, start=written.start())
    if not found:
        return None
    longest = found[0].marker
    return Leak(looks=longest, parsers=_common_parsers(found), start=text.index(longest))


def _common_parsers(found: list[LeakMarker]) -> tuple[str, ...]:
    """The parsers that read every tag found; when none does, those of the longest tag."""
    common = [name for name in found[0].parsers if all(name in leak.parsers for leak in found)]
    return tuple(common) or found[0].parsers


def thoughts_in(text: str) -> str:
    """The tag of a thought that stands in ``text``, or nothing."""
    return next(
        (leak.marker for leak in leak_markers() if leak.kind == "reasoning" and leak.marker in text), ""
    )
