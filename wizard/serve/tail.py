"""Reads what is appended to a log, line by line, without holding more than a piece of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from wizard.text import inert

_PIECE = 1 << 20
_LINE_LIMIT = 8192


class LogTail:
    """The lines of a growing file. A carriage return ends a line too: progress bars are written over it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self._number = 1

    def read(self, *, final: bool = False) -> Iterator[tuple[int, str]]:
        """The lines that were completed since the last call: number in the file, counted from 1, and text.

        ``final`` also gives a last line without an end. A log that does not exist yet has no lines.
        """
        while piece := self.piece():
            yield from self.lines(piece)
        if final:
            yield from self.last()

    def last(self) -> Iterator[tuple[int, str]]:
        """A last line without an end, if there is one."""
        if self._rest:
            yield self._number, _text(self._rest)
            self._rest = b""

    def piece(self) -> bytes:
        """The next bytes, a megabyte at most; none when nothing was appended."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                piece = file.read(_PIECE)
        except OSError:
            return b""
        self._offset += len(piece)
        return piece

    def lines(self, piece: bytes, newest: int | None = None) -> Iterator[tuple[int, str]]:
        """The lines that a piece completes; with ``newest`` only so many, of those the last."""
        *lines, rest = (self._rest + piece).split(b"\n")
        if newest is not None and len(lines) > newest:
            self._number += len(lines) - newest
            lines = lines[-newest:]
        for line in lines:
            yield from self._parts(line.rstrip(b"\r"))
            self._number += 1
        *parts, rest = rest.split(b"\r")
        for part in parts:
            yield from self._parts(part)
        # Without an end in sight the rest of the line is dropped, not gathered.
        self._rest = rest[:_LINE_LIMIT]

    def _parts(self, line: bytes) -> Iterator[tuple[int, str]]:
        for part in line.split(b"\r"):
            if part:
                yield self._number, _text(part)


def _text(line: bytes) -> str:
    return inert(line[:_LINE_LIMIT].decode("utf-8", errors="replace")).rstrip()
