"""Printing: data to stdout, everything else to stderr. The only module that writes to either."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from wizard.cli.options import current
from wizard.errors import WizardError
from wizard.text import inert

if TYPE_CHECKING:
    from rich.table import Table


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
    stream = sys.stderr if current().json else sys.stdout
    stream.write(inert(text) + "\n")
    stream.flush()


def complain(error: WizardError) -> None:
    """An error for a person, on stderr: what, where, what to do; then its evidence, indented."""
    sys.stderr.write(inert(str(error)) + "\n")
    for line in getattr(error, "evidence", ()):
        sys.stderr.write("  " + inert(line) + "\n")


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
    Console(highlight=False, soft_wrap=False).print(grid)
