"""A server, read from what its log says of it."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from wizard.adopt.arguments import read_arguments
from wizard.adopt.assemble import Found, make_adopted
from wizard.adopt.types import Adopted, require_file
from wizard.catalog import vllm_facts
from wizard.errors import RefusedError, UsageError
from wizard.i18n import _
from wizard.logtext import read_line
from wizard.plan import AdoptedFrom
from wizard.plan.words import ServerCall

_MARKS = (b"non-default args: {", b"args: Namespace(")
_AROUND = 64 << 10
"""Bytes before the line in which the banner with the version stands, and after it with the window."""
_LONGEST = 256 << 10


def adopt_log(path: Path) -> Adopted:
    """The last start in a log of vLLM of any version, whoever carried its lines.

    Raises UsageError when the file cannot be read, RefusedError when it does not hold vLLM's arguments.
    """
    try:
        before, line, after = _last_start(path)
    except OSError as error:
        raise UsageError(
            _("Cannot read {path}: {reason}.").format(path=path, reason=error.strerror or error),
            _("Name a log of vLLM that holds its start."),
        ) from error
    version, _window = facts_of(before)
    later_version, window = facts_of(after)
    adopted = adopt_line(line, version=version or later_version, window=window, name=str(path))
    if adopted is None:
        raise RefusedError(
            _("{path} does not say with which arguments vLLM was started.").format(path=path),
            _("Give a log that begins with the start of vLLM: it repeats them in its first lines."),
        )
    return adopted


def adopt_line(
    line: str, *, version: str | None = None, window: int | None = None, name: str = "-"
) -> Adopted | None:
    """The server of the line in which vLLM repeats its arguments; None for any other line."""
    said = read_arguments(line)
    if said is None:
        return None
    command = ("vllm", "serve", said.model) if said.model else ("vllm", "serve")
    unread = (_("A log shows neither variables of the environment nor how vLLM was called."), *said.unread)
    origin = AdoptedFrom(kind="log", name=name, secrets=said.secrets, in_command=said.secrets, unread=unread)
    call = ServerCall(command=command, model=said.model, options=said.options)
    return make_adopted(Found(call=call, origin=origin, version=version, window=window))


def facts_of(lines: Iterable[str]) -> tuple[str | None, int | None]:
    """The version and the window, tokens, that lines of a log name last; None where they name none."""
    patterns = {entry.id: entry.patterns for entry in vllm_facts().milestone}
    version = window = None
    for line in lines:
        version = _told(patterns["started"], line) or version
        window = _told(patterns["window"], line) or window
    return version, int(window) if window else None


def _last_start(path: Path) -> tuple[list[str], str, list[str]]:
    """The lines before the last one with arguments, that one, and those after it, without their carriers."""
    require_file(path)
    with path.open("rb") as file:
        if not path.stat().st_size:
            return [], "", []
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            at = max(text.rfind(mark) for mark in _MARKS)
            if at < 0:
                return [], "", []
            start = text.rfind(b"\n", 0, at) + 1
            end = text.find(b"\n", at)
            end = len(text) if end < 0 else end
            before, after = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
            line = text[start : min(end, start + _LONGEST)]
    return list(_lines(before)), next(_lines(line, _LONGEST), ""), list(_lines(after))


def _lines(text: bytes, limit: int | None = None) -> Iterator[str]:
    for raw in re.split(rb"[\r\n]+", text):
        yield read_line(raw.decode("utf-8", errors="replace"), limit=limit).text


def _told(patterns: Iterable[str], line: str) -> str | None:
    found = (re.search(pattern, line) for pattern in patterns)
    return next((match["value"] for match in found if match), None)
