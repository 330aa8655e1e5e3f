"""One pass over a text of any size: the few lines worth reading are found by their words, then read."""

from __future__ import annotations

import codecs
import functools
import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping

import msgspec

from wizard.diagnosis.answers import answer_lines, verdict_in
from wizard.diagnosis.faultbase import Matcher, log_words
from wizard.diagnosis.lines import Said, finder, what_it_says
from wizard.logtext import GOES_ON_LINES, LINE_LIMIT, Record, read_line

_PIECE_LIMIT = 4 << 20
"""Bytes without an end of line after which they are taken for a line."""
_LEAD = 1024
"""What is kept before a word in a line longer than ``LINE_LIMIT``."""
_RECORDS = 4096
"""Lines that may name a cause are kept up to this number: the last ones count."""
_HITS = 5
"""Lines kept of each signature, the last ones."""
_WHOLE = 1 << 20
"""Up to this size a text may be one answer of a server, a stream of it, or a report."""
_EXCERPT_LINES = 60
_CROWD = _HITS + 1
"""Lines looked at of many that differ in numbers and identifiers only, at the beginning and at the end."""
_SAMPLE = 256
"""Bytes at the beginning that tell how a text is encoded."""
_FIGURES = b"0123456789abcdef"
"""What numbers and the identifiers of requests are written with."""


class Hit(msgspec.Struct, frozen=True):
    """A line that holds a signature, the groups of its pattern, and the stage of the start it was in."""

    matcher: Matcher
    record: Record
    groups: Mapping[str, str]
    stage: str


class Scan(msgspec.Struct):
    """What one pass found. Line numbers count from 1; 0 is none."""

    lines: int = 0
    size: int = 0
    """Bytes."""
    last_hits: dict[int, deque[Hit]] = {}
    """The last few lines of each signature, by the identity of its matcher: older starts count for less."""
    records: list[Record] = []
    """Lines that may name a cause, or open a block of errors, in their order."""
    serving: int = 0
    """The last line that only a running server writes."""
    failure: Record | None = None
    """The last line that tells of a failure as a whole."""
    stopping: int = 0
    """The line that began an orderly stop, since the last start."""
    begun: int = 0
    """The line in which the last start began."""
    stage: str = ""
    progress: int = 0
    """The last line that shows the start to go on."""
    troubled: list[Record] = []
    """The last lines that tell of an error that nobody understands."""
    first_seen: dict[str, int] = {}
    """Lines in which words stood first that signatures ask for."""
    facts: dict[str, str] = {}
    start: str = ""
    """The last line in which vLLM repeats its arguments."""
    tail: bytes = b""
    """The end of the text, for its last line, and that line's number."""
    tail_number: int = 0

    seen: int = 0
    """How many lines held a signature, those included that are not kept."""

    @property
    def hits(self) -> Iterator[Hit]:
        """The lines that hold a signature."""
        return (hit for same in self.last_hits.values() for hit in same)

    @property
    def excerpt(self) -> bool:
        """Whether the text is short and no log of a start: something a person pasted or wrote."""
        return self.lines <= _EXCERPT_LINES and not (self.begun or self.stage or self.serving)


class Scanner:
    """Scans a text that comes in pieces, as a file or a running server gives it; holds little of it."""

    def __init__(self) -> None:
        self.found = Scan()
        self._rest = b""
        self._head = b""
        self._owed = 0
        self._decoder: codecs.IncrementalDecoder | None = None

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes. What follows the last end of line waits for the rest of its line."""
        if not self.found.size:
            self._decoder = _decoder(chunk)
        self.found.size += len(chunk)
        if self._decoder is not None:
            chunk = self._decoder.decode(chunk).encode()
        if self.found.size <= _WHOLE:
            self._head += chunk
        self._rest += chunk
        end = self._rest.rfind(b"\n") + 1
        if not end and len(self._rest) > _PIECE_LIMIT:
            end = len(self._rest)
        if end:
            piece, self._rest = self._rest[:end], self._rest[end:]
            self._scan(piece)

    def finish(self) -> Scan:
        """The scan of the whole text, its last line included."""
        if self._rest:
            piece, self._rest = self._rest, b""
            self._scan(piece)
            self.found.lines += not piece.endswith(b"\n")
        if self.found.size <= _WHOLE:
            if (verdict := verdict_in(self._head)) is not None:
                self.found = _emptied(self.found, served=verdict == "pass")
            for record in answer_lines(self._head):
                self._read(record)
        return self.found

    def _scan(self, piece: bytes) -> None:
        found, first = self.found, self.found.lines + 1
        plain = _colours().sub(b"", piece) if b"\x1b" in piece else piece
        self._take_following(plain, 0, first)
        unharmed = found.failure is None
        number, counted, broken = first, 0, len(plain)
        for start, end, at in _worth_reading(plain):
            number += plain.count(b"\n", counted, start)
            counted = start
            goes_on = self._read(_record(plain, start, end, at, number))
            if goes_on:
                self._owed = GOES_ON_LINES
                self._take_following(plain, end + 1, number + 1)
            if found.failure is not None and broken == len(plain):
                broken = start
        if unharmed:
            self._note_serving(plain, broken, first)
        found.lines += piece.count(b"\n")
        if text := plain.rstrip():
            found.tail = text[-LINE_LIMIT:]
            found.tail_number = first + text.count(b"\n")

    def _note_serving(self, piece: bytes, end: int, first: int) -> None:
        """Lines that a running server writes are by far the most: of a piece only the last is looked at."""
        at = max(piece.rfind(words, 0, end) for words in _serving())
        if at >= 0:
            self.found.serving = max(self.found.serving, first + piece.count(b"\n", 0, at))

    def _take_following(self, piece: bytes, start: int, number: int) -> None:
        """Keep the lines that go on with an error named before them, possibly in the piece before."""
        while self._owed and start < len(piece):
            end = piece.find(b"\n", start)
            end = len(piece) if end < 0 else end
            self.found.records.append(_record(piece, start, end, start, number))
            self._owed -= 1
            start, number = end + 1, number + 1

    def _read(self, record: Record) -> bool:
        """Note what a line says; whether the lines after it belong to it."""
        found, said = self.found, what_it_says(record)
        for word in said.marks:
            found.first_seen.setdefault(word, record.number)
        if said.begins:
            found.stopping, found.begun, found.stage = 0, record.number, ""
        if said.stage:
            found.stage, found.progress = said.stage, record.number
        for matcher, groups in said.hits:
            same = found.last_hits.setdefault(id(matcher), deque(maxlen=_HITS))
            same.append(Hit(matcher, record, groups, found.stage))
            found.seen += 1
        if said.begins or said.opens or said.cause:
            found.records.append(record)
            del found.records[:-_RECORDS]
        self._note_state(record, said)
        found.facts.update(said.facts)
        found.start = said.start or found.start
        return said.cause and said.goes_on

    def _note_state(self, record: Record, said: Said) -> None:
        found = self.found
        if said.ready:
            found.serving = found.progress = record.number
        elif said.stopping:
            found.stopping = record.number
        elif said.failure and not found.stopping:
            found.failure = record
        elif said.trouble:
            found.troubled = [*found.troubled[-_HITS:], record]


def _emptied(found: Scan, *, served: bool) -> Scan:
    """The scan of a text whose single lines mean nothing."""
    return Scan(
        lines=found.lines,
        size=found.size,
        tail=found.tail,
        tail_number=found.tail_number,
        serving=found.lines if served else 0,
    )


def _decoder(begin: bytes) -> codecs.IncrementalDecoder | None:
    """What makes UTF-8 of a text that Windows redirected into a file: UTF-16, with its mark or without."""
    wide = begin[1:_SAMPLE:2]
    if begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return codecs.getincrementaldecoder("utf-16")(errors="replace")
    if len(wide) > 1 and 2 * wide.count(0) > len(wide):
        return codecs.getincrementaldecoder("utf-16-le")(errors="replace")
    return None


def _worth_reading(piece: bytes) -> Iterator[tuple[int, int, int]]:
    """Beginning and end of the lines that hold words of the fault base, and where the first of these is."""
    find = finder().finditer
    for begin, stop in _runs(piece):
        for match in find(piece, begin, stop):
            at, end = match.span()
            yield _start(piece, at), end, at


def _runs(piece: bytes) -> Iterator[tuple[int, int]]:
    """Where the lines to look at begin and end, neighbours taken together.

    Of a crowd of lines that differ in numbers and identifiers only, the first and the last ones are looked
    at: finding a word costs far more than knowing a line again, and logs say the same thousands of times.
    """
    shapes: dict[bytes, list[int]] = defaultdict(list)
    for place, shape in enumerate(piece.translate(None, _FIGURES).split(b"\n")):
        shapes[shape].append(place)
    crowds = (same for same in shapes.values() if len(same) > 2 * _CROWD)
    skipped = {place for same in crowds for place in same[_CROWD:-_CROWD]}
    if not skipped:
        yield 0, len(piece)
        return
    at = begin = 0
    for place, line in enumerate(piece.split(b"\n")):
        end = at + len(line) + 1
        if place in skipped:
            if begin < at:
                yield begin, at
            begin = end
        at = end
    if begin < len(piece):
        yield begin, len(piece)


def last_line(found: Scan) -> Record | None:
    """The last line that says something; None in an empty text."""
    line = re.split(rb"[\r\n]", found.tail)[-1]
    return _record(line, 0, len(line), 0, found.tail_number) if line else None


def _start(piece: bytes, at: int) -> int:
    """Where the line around ``at`` begins; what a progress bar overwrote is a line of its own."""
    start = piece.rfind(b"\n", 0, at) + 1
    return max(start, piece.rfind(b"\r", start, at) + 1)


def _record(piece: bytes, start: int, end: int, at: int, number: int) -> Record:
    """The line from ``start`` to ``end``; of a very long one what lies around ``at``."""
    if end - start > LINE_LIMIT:
        start = max(start, at - _LEAD)
    return read_line(piece[start : min(end, start + LINE_LIMIT)].decode("utf-8", errors="replace"), number)


@functools.cache
def _serving() -> tuple[bytes, ...]:
    return tuple(words.encode() for words in log_words().serving)


@functools.cache
def _colours() -> re.Pattern[bytes]:
    return re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
