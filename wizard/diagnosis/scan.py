"""One pass over a text of any size: the few lines worth reading are found by their literals, then read."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator

import msgspec

from wizard.diagnosis.faultbase import Matcher, fault_base, matchers
from wizard.diagnosis.types import Fault
from wizard.logtext import (
    GOES_ON_LINES,
    LINE_LIMIT,
    Record,
    begins_start,
    goes_on,
    names_cause,
    opens_block,
    read_line,
    reports_failure,
)

_PIECE_LIMIT = 4 << 20
"""Bytes without an end of line after which they are taken for a line."""
_LEAD = 1024
"""What is kept before a literal in a line longer than ``LINE_LIMIT``."""
_RECORDS = 4096
"""Lines that may name a cause are kept up to this number: the last ones count."""
_HITS = 5


class Hit(msgspec.Struct, frozen=True):
    """A line that shows a fault, and the groups of its pattern that took part."""

    fault: Fault
    record: Record
    groups: dict[str, str]


class Scan(msgspec.Struct):
    """What one pass found. Line numbers count from 1; 0 is none."""

    lines: int = 0
    size: int = 0
    """Bytes."""
    hits: list[Hit] = []
    records: list[Record] = []
    """Lines that may name a cause, or open a block of errors, in their order."""
    serving: int = 0
    """The last line that only a running server writes."""
    failure: Record | None = None
    """The last line that tells of a failure as a whole."""
    stopping: int = 0
    """The line that began an orderly stop, since the last start."""
    owed: int = 0
    """Lines that still belong to an error named before."""
    tail: bytes = b""
    """The end of the text, for its last line, and that line's number."""
    tail_number: int = 0
    arguments: dict[str, str] = {}
    """Model and port, as vLLM repeats its arguments."""


def scan(chunks: Iterable[bytes]) -> Scan:
    """Scan a text that comes in pieces, as a file is read; only the lines worth it are held in memory."""
    found = Scan()
    for first, piece in _pieces(chunks, found):
        plain = _colours().sub(b"", piece) if b"\x1b" in piece else piece
        _scan_piece(plain, first, found)
        if text := plain.rstrip():
            found.tail = text[-LINE_LIMIT:]
            found.tail_number = first + text.count(b"\n")
    return found


def last_line(found: Scan) -> Record | None:
    """The last line that says something; None in an empty text."""
    line = found.tail.rpartition(b"\n")[2]
    return _record(line, 0, len(line), 0, found.tail_number) if line else None


def _pieces(chunks: Iterable[bytes], found: Scan) -> Iterator[tuple[int, bytes]]:
    """Pieces of whole lines with the number of their first line; counts lines and bytes on the way."""
    rest = b""
    for chunk in chunks:
        found.size += len(chunk)
        rest += chunk
        end = rest.rfind(b"\n") + 1
        if end:
            piece, rest = rest[:end], rest[end:]
            yield found.lines + 1, piece
            found.lines += piece.count(b"\n")
        elif len(rest) > _PIECE_LIMIT:
            yield found.lines + 1, rest
            rest = b""
    if rest:
        yield found.lines + 1, rest
        found.lines += 1


def _scan_piece(piece: bytes, first: int, found: Scan) -> None:
    _take_following(piece, 0, first, found)
    serving = _serving()
    number, counted, done = first, 0, 0
    for match in _finder().finditer(piece):
        at = match.start()
        if at < done:
            continue
        start, end = _line(piece, at)
        number += piece.count(b"\n", counted, start)
        counted = start
        if match.group() in serving:
            # Such lines are by far the most: nothing else of them is read.
            found.serving = found.serving if found.failure else number
            continue
        done = end + 1
        record = _record(piece, start, end, at, number)
        _read(record, found)
        if names_cause(record) and goes_on(record.text):
            found.owed = GOES_ON_LINES
            _take_following(piece, end + 1, number + 1, found)
        del found.records[:-_RECORDS]


def _line(piece: bytes, at: int) -> tuple[int, int]:
    end = piece.find(b"\n", at)
    return piece.rfind(b"\n", 0, at) + 1, len(piece) if end < 0 else end


def _record(piece: bytes, start: int, end: int, at: int, number: int) -> Record:
    """The line from ``start`` to ``end``; of a very long one what lies around ``at``."""
    if end - start > LINE_LIMIT:
        start = max(start, at - _LEAD)
    return read_line(piece[start : min(end, start + LINE_LIMIT)].decode("utf-8", errors="replace"), number)


def _take_following(piece: bytes, start: int, number: int, found: Scan) -> None:
    """Keep the lines that go on with an error named before them, possibly in the piece before."""
    while found.owed and start < len(piece):
        end = piece.find(b"\n", start)
        end = len(piece) if end < 0 else end
        found.records.append(_record(piece, start, end, start, number))
        found.owed -= 1
        start, number = end + 1, number + 1


def _read(record: Record, found: Scan) -> None:
    """Note what a line says: a fault, a landmark of the log, the name of an error."""
    if _marks().harmless.search(record.text):
        return
    shown: set[str] = set()
    for matcher in matchers():
        if matcher.fault.id in shown or matcher.literal not in record.text:
            continue
        if (groups := _groups(matcher, record)) is not None:
            shown.add(matcher.fault.id)
            _note_hit(Hit(matcher.fault, record, groups), found)
    if begins_start(record):
        found.stopping = 0
        found.records.append(record)
    elif opens_block(record) or names_cause(record):
        found.records.append(record)
    _note_state(record, found)
    _note_arguments(record, found)


def _note_state(record: Record, found: Scan) -> None:
    marks = _marks()
    if marks.ready.search(record.text):
        found.serving = record.number
    elif marks.stopping.search(record.text):
        found.stopping = record.number
    elif not found.stopping and (reports_failure(record) or marks.crash.search(record.text)):
        found.failure = record


def _groups(matcher: Matcher, record: Record) -> dict[str, str] | None:
    if matcher.pattern is None:
        return {}
    match = matcher.pattern.search(record.text)
    return None if match is None else {name: text for name, text in match.groupdict().items() if text}


def _note_hit(hit: Hit, found: Scan) -> None:
    """Keep the last few hits of a fault: an older start in the same log counts for less."""
    same = [known for known in found.hits if known.fault is hit.fault]
    if len(same) >= _HITS:
        found.hits.remove(same[0])
    found.hits.append(hit)


def _note_arguments(record: Record, found: Scan) -> None:
    if "non-default args" not in record.text:
        return
    base = fault_base()
    for pattern in (base.model, base.port):
        if match := re.search(pattern, record.text):
            found.arguments.update(match.groupdict())


@functools.cache
def _finder() -> re.Pattern[bytes]:
    """Finds every literal in one pass. RE2, because the standard library tries each one at each place."""
    import re2  # type: ignore[import-untyped]

    base = fault_base()
    literals = dict.fromkeys((*(matcher.literal for matcher in matchers()), *base.landmarks, *base.serving))
    pattern = b"|".join(re2.escape(literal.encode()) for literal in literals)
    compiled: re.Pattern[bytes] = re2.compile(pattern)
    return compiled


@functools.cache
def _serving() -> frozenset[bytes]:
    return frozenset(words.encode() for words in fault_base().serving)


class _Marks(msgspec.Struct, frozen=True):
    ready: re.Pattern[str]
    crash: re.Pattern[str]
    stopping: re.Pattern[str]
    harmless: re.Pattern[str]


@functools.cache
def _marks() -> _Marks:
    base = fault_base()
    lists = (base.ready, base.crash, base.stopping, base.harmless)
    return _Marks(*(re.compile("|".join(patterns)) for patterns in lists))


@functools.cache
def _colours() -> re.Pattern[bytes]:
    return re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
