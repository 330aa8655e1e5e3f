"""Printing: data to stdout, everything else to stderr. The only module that writes to either."""

from __future__ import annotations

import io
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from wizard.cli.options import current
from wizard.errors import WizardError
from wizard.text import inert, one_line

_LONGEST_ERROR = 1000
"""Characters of an error; what a stranger put into a name is cut."""

_NARROWEST = 40
"""Columns; on less, paragraphs are left to the terminal to break."""

_redrawn = False
"""The cursor stands behind a line that may be written over."""

if TYPE_CHECKING:
    from rich.table import Table


def prepare() -> None:
    """Make the streams bear what they must: any character, and having been closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, io.TextIOWrapper(io.FileIO(os.devnull, "w")))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def document(value: object) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def event(value: object) -> None:
    """One JSON document on one line of stdout, at once."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def raw(content: bytes) -> None:
    """Bytes on stdout exactly as they are: a file's content that was asked for."""
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def say(text: str = "") -> None:
    """A line for a person: stdout, or stderr when stdout belongs to JSON. Nothing in it steers a terminal."""
    _leave_redrawn()
    stream = sys.stderr if current().json else sys.stdout
    stream.write(inert(text) + "\n")
    stream.flush()


def paragraph(text: str, begins: str = "") -> None:
    """Like ``say``, broken at spaces to the terminal's width, or 80 columns, and set in behind ``begins``."""
    width = max(_NARROWEST, shutil.get_terminal_size().columns)
    lines = textwrap.wrap(
        inert(text),
        width,
        initial_indent=begins,
        subsequent_indent=" " * len(begins),
        break_long_words=False,
        break_on_hyphens=False,
    )
    say("\n".join(lines) or begins.rstrip())


def redraws() -> bool:
    """Whether a line can be written over: on a terminal that is no mere printer."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not current().plain


def redraw(text: str) -> None:
    """Write a line over the one before, of the same kind; the next ``say`` begins below it."""
    global _redrawn
    width = max(1, shutil.get_terminal_size().columns - 1)
    sys.stdout.write(f"\r{one_line(text, width)}\x1b[K")
    sys.stdout.flush()
    _redrawn = True


def _leave_redrawn() -> None:
    global _redrawn
    if _redrawn:
        sys.stdout.write("\n")
        sys.stdout.flush()
        _redrawn = False


def complain(error: WizardError) -> None:
    """An error: one line on stderr, what, where and what to do, then its evidence, indented.

    With JSON asked for it is also the last document on stdout.
    """
    _leave_redrawn()
    evidence = tuple(one_line(line) for line in getattr(error, "evidence", ()))
    sys.stderr.write(one_line(str(error), _LONGEST_ERROR) + "\n")
    for line in evidence:
        sys.stderr.write(f"  {line}\n")
    if current().json:
        told = {"message": inert(error.message), "hint": inert(error.hint), "evidence": evidence}
        event({"event": "error", "error": told | {"exit_code": error.exit_code}})


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A plain table for a person; cells are inert and take no markup."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid: Table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        grid.add_column(Text(heading), overflow="fold")
    for row in rows:
        grid.add_row(*(Text(inert(cell)) for cell in row))
    Console(highlight=False, no_color=True, force_terminal=False).print(grid)
