"""A log reads the same however it grows, and whatever is in it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from wizard.serve.tail import LogTail

PIECES = st.lists(
    st.one_of(
        st.binary(max_size=30),
        st.sampled_from([b"\n", b"\r", b"\r\n", b"line", b"\xc3", b"\xa9", b"\x1b[31m", b"x" * 9000]),
    ),
    max_size=30,
)


def read_grown(pieces: list[bytes]) -> list[tuple[int, str]]:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        tail = LogTail(log)
        lines = list(tail.read())
        for piece in pieces:
            with log.open("ab") as file:
                file.write(piece)
            lines += tail.read()
        return lines + list(tail.read(final=True))


@given(PIECES)
def test_the_pieces_a_log_grows_by_do_not_matter(pieces: list[bytes]) -> None:
    assert read_grown(pieces) == read_grown([b"".join(pieces)])


@given(PIECES)
def test_every_line_is_inert_short_and_numbered_as_in_the_file(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    for number, text in read_grown(pieces):
        assert 1 <= number <= whole.count(b"\n") + 1
        assert len(text) <= 8192
        assert all(character == "\t" or ord(character) >= 32 for character in text)


def test_a_line_that_is_being_written_is_not_read_yet(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"whole\nhal")
    tail = LogTail(log)
    assert list(tail.read()) == [(1, "whole")]
    with log.open("ab") as file:
        file.write(b"f\n")
    assert list(tail.read()) == [(2, "half")]
    assert list(tail.read(final=True)) == []
