"""The table of models: as wide as the terminal, names cut in the middle, parser and verdict never."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import DataTable, Input

from screens import model_words
from screens.widgets.checklist import COLOURS
from wizard.flow import Line
from wizard.i18n import N_, _
from wizard.text import one_line, shortened

TITLES = (
    N_("model"),
    N_("variant"),
    N_("GiB"),
    N_("context"),
    N_("parser"),
    N_("verdict"),
    N_("disk"),
)
MODEL, VARIANT, GIB, CONTEXT, _PARSER, VERDICT, DISK = range(len(TITLES))
NUMBERS = (GIB, CONTEXT)
"""Columns that are set to the right."""
FIRST_TO_GO = (DISK, CONTEXT)
"""Columns that are left out, in this order, where the terminal is too narrow for the names."""
GAP = 1
"""Columns between two cells."""
NAMES = 24
"""Columns that the names of model and variant have at least."""
EDGES = 3
"""Columns that belong to no cell: the margins of the body and the scroll bar."""


class ModelTable(DataTable[Content]):
    """Lines of the matrix."""

    def __init__(self) -> None:
        super().__init__(id="rows", cursor_type="row", cell_padding=0, zebra_stripes=False)
        self._widths: Mapping[int, int] = {}

    def fit(self, lines: Sequence[Line], width: int) -> None:
        """Make the columns wide enough for these, on a screen of a width; they stay while one filters."""
        cells = [model_words.cells(line) for line in lines]
        widths = {
            number: max([len(_(title)), *(len(texts[number]) for texts in cells)])
            for number, title in enumerate(TITLES)
        }
        for number in FIRST_TO_GO:
            if _left(widths, width) < NAMES:
                del widths[number]
        left = max(NAMES, _left(widths, width))
        variant = min(widths[VARIANT], max(left * 3 // 10, left - widths[MODEL]))
        self._widths = widths | {MODEL: left - variant, VARIANT: variant}

    def fill(self, lines: Sequence[Line], at: int) -> None:
        """Draw lines, with the cursor on one of them."""
        self.clear(columns=True)
        for number, room in self._widths.items():
            self.add_column(_set(_(TITLES[number]), number, room), width=room + GAP)
        for line in lines:
            cells = model_words.cells(line)
            self.add_row(*(_cell(line, cells[number], number, room) for number, room in self._widths.items()))
        self.move_cursor(row=at)


class FilterField(Input):
    """Where a filter is typed; Enter and the arrow lead to what was found."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("down,enter", "app.focus_next", show=False)]


def _left(widths: Mapping[int, int], width: int) -> int:
    """What the other columns leave to the names."""
    others = sum(room for number, room in widths.items() if number not in (MODEL, VARIANT))
    return width - EDGES - others - GAP * len(widths)


def _cell(line: Line, text: str, number: int, room: int) -> Content:
    # The size is in the middle of a model's name; checkpoints of one model differ at their ends.
    cut = one_line if number == MODEL and not line.inset else shortened
    shown = _set(cut(text, room), number, room)
    style = f"bold {COLOURS[line.candidate.row.verdict]}" if number == VERDICT else ""
    return Content.styled(shown, style)


def _set(text: str, number: int, room: int) -> str:
    return text.rjust(room) if number in NUMBERS else text
