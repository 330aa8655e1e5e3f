"""What the parser finder found: a table of parsers, what the model wrote, and whether to start anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import DataTable, Static

from screens import wording
from screens.parsers import outcome_lines, raw_lines, telling
from screens.widgets.checklist import COLOURS
from screens.widgets.modals import DecideModal
from wizard.i18n import N_, _
from wizard.plan import PlanEdit
from wizard.smoke.finder import Candidate, ParserSearch
from wizard.text import one_line

TITLES = (N_("verdict"), N_("parser"), N_("what it makes of the text"))
NAMES = 18
"""Columns of the longest name of a parser, nearly: others are cut."""


class ParserTable(DataTable[Content]):
    """Parsers that found something in the text, best first."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, cursor_type="row", cell_padding=0, zebra_stripes=False)

    def fill(self, candidates: Sequence[Candidate], width: int) -> None:
        """Draw candidates on a screen of a width."""
        self.clear(columns=True)
        widths = (8, NAMES, max(20, width - 8 - NAMES - 4))
        for title, room in zip(TITLES, widths, strict=True):
            self.add_column(_(title), width=room)
        for candidate in telling(candidates):
            status = "ok" if candidate.ok else "fail"
            self.add_row(
                Content.styled(wording.status_word(status), f"bold {COLOURS[status]}"),
                Content(one_line(candidate.parser, NAMES - 1)),
                Content(one_line(candidate.detail, widths[2])),
            )


class FinderModal(DecideModal, inherit_bindings=True):
    """The search on a page. Returns ``start`` where the found parser shall be used, ``leave``, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pagedown", "scroll(1)", N_("further down"), show=False),
        Binding("pageup", "scroll(-1)", N_("further up"), show=False),
    ]

    def __init__(self, search: ParserSearch, edit: PlanEdit | None) -> None:
        answers = {"start": _("Use it, and start vLLM again")} if edit is not None else {}
        super().__init__(_("Which parser reads this model?"), "", {**answers, "leave": _("Close")})
        self.add_class("wide")
        self._search = search
        self._edit = edit

    def compose_question(self) -> ComposeResult:
        """What the model wrote, the outcome, the table; it scrolls as a whole."""
        with VerticalScroll(id="window-text", can_focus=False):
            yield Static("\n".join(raw_lines(self._search)), markup=False)
            yield Static("\n".join(outcome_lines(self._search, self._edit)), markup=False)
            table = ParserTable(id="parsers")
            # The arrows and Enter belong to the buttons here.
            table.can_focus = False
            yield table

    def on_mount(self) -> None:
        """Fill the table, as wide as the window."""
        width = min(76, self.app.size.width) - 4
        self.query_one(ParserTable).fill(self._search.candidates, width)

    def action_scroll(self, pages: int) -> None:
        """A page of the text up or down."""
        text = self.query_one("#window-text", VerticalScroll)
        text.scroll_relative(y=pages * text.size.height, animate=False)
