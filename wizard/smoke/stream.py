"""Server-sent events, cut as the standard says and as opencode's client cuts them."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterable, Iterator


def events(pieces: Iterable[bytes]) -> Iterator[str]:
    """The data of every event in a body that comes in ``pieces``; comments and other fields are passed over.

    A byte order mark is dropped and broken UTF-8 becomes U+FFFD, as in browsers. An event that the end of the
    body cuts off before its empty line does not count.
    """
    data: list[str] = []
    for line in _lines(pieces):
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            yield "\n".join(data)
            data = []


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Lines without their ends, given out as soon as they are complete.

    Only CR, LF and CRLF end a line: U+2028 and its kin, where str.splitlines cuts too, may stand in JSON.
    """
    characters = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
    decoder = io.IncrementalNewlineDecoder(characters, translate=True)
    waiting: list[str] = []
    for piece in pieces:
        *complete, rest = decoder.decode(piece).split("\n")
        if complete:
            yield "".join((*waiting, complete[0]))
            yield from complete[1:]
            waiting = []
        waiting.append(rest)
    yield from "".join((*waiting, decoder.decode(b"", final=True))).split("\n")
