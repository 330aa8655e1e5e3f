"""Step Model: what works on this machine, best first, with the reasons of every verdict."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import DataTable, Static

from screens import wording
from screens.base import COMMON_KEYS, StepScreen
from screens.moves import Move
from screens.widgets.checklist import COLOURS
from screens.widgets.modals import AskModal, ReadModal
from wizard import flow
from wizard.compat import Row
from wizard.flow import Journey, Step
from wizard.i18n import N_, _

COLUMNS = (
    (N_("model"), 0),
    (N_("variant"), 9),
    (N_("weights"), 7),
    (N_("context"), 7),
    (N_("parser"), 11),
    (N_("verdict"), 7),
)
"""Title and width of each column; the first takes what is left."""
EDGES = 3
"""Columns that belong to no cell: the margins of the body and the scroll bar."""


class ModelScreen(StepScreen, inherit_bindings=False):
    """The compatibility matrix as a table."""

    STEP = Step.MODEL
    HEADLINE = N_("Best for coding on this machine first")
    HELP = N_(
        "Each line is a checkpoint with its verdict for this machine and this vLLM: OK, WARN or NO. "
        "Below the table stand the reasons of the highlighted line. "
        "Context is the longest window that fits. The parser reads the model's tool calls: "
        "without one opencode cannot work with it."
    )
    CSS_PATH = "model.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "all", N_("show what cannot run"), id="all"),
        Binding("o", "other", N_("other model or folder"), id="other"),
        *COMMON_KEYS,
    ]

    def __init__(self, journey: Journey) -> None:
        super().__init__(journey)
        self._all = False
        self._leaving = False

    def compose_body(self) -> ComposeResult:
        """The table over the reasons."""
        yield DataTable(id="rows", cursor_type="row", cell_padding=1, zebra_stripes=False)
        yield Static(id="reasons", markup=False)

    def begin(self) -> None:
        """Rate the models, unless that was done before."""
        if not self.journey.rows:
            self.perform(_("Rating models for this machine…"), flow.rate_models)

    def on_resize(self) -> None:
        """The column of names takes the room there is."""
        self.show()

    def show(self) -> None:
        """Draw the rows, the chosen one highlighted."""
        table = self.query_one("#rows", DataTable)
        kept = self._highlighted()
        table.clear(columns=True)
        taken = sum(width for _title, width in COLUMNS) + 2 * len(COLUMNS) + EDGES
        for title, width in COLUMNS:
            table.add_column(_(title), width=width or max(16, self.size.width - taken))
        rows = self._rows()
        for row in rows:
            *cells, verdict = wording.row_cells(row)
            coloured = Content.styled(verdict, f"bold {COLOURS[row.verdict]}")
            table.add_row(*(Content(cell) for cell in cells), coloured)
        table.move_cursor(row=rows.index(kept) if kept in rows else self._chosen(rows))
        table.focus()

    def _rows(self) -> tuple[Row, ...]:
        """What can run; everything when asked for, or when nothing can."""
        rows = self.journey.rows
        possible = tuple(row for row in rows if row.verdict != "no")
        return rows if self._all or not possible else possible

    def _chosen(self, rows: tuple[Row, ...]) -> int:
        choice = self.journey.choice
        if choice is None:
            return 0
        return next((n for n, row in enumerate(rows) if row.checkpoint == choice.checkpoint), 0)

    def _highlighted(self) -> Row | None:
        table = self.query_one("#rows", DataTable)
        rows = self._rows()
        return rows[table.cursor_row] if 0 <= table.cursor_row < min(len(rows), table.row_count) else None

    @on(DataTable.RowHighlighted)
    def _tell(self) -> None:
        row = self._highlighted()
        if row is None:
            return
        word = wording.status_word(row.verdict)
        lines = [f"{word}  {row.checkpoint}", *(f"- {reason.text}" for reason in row.reasons)]
        self.query_one("#reasons", Static).update("\n".join(lines))
        self.refresh_bindings()

    @on(DataTable.RowSelected)
    def _selected(self) -> None:
        self.action_next()

    def action_next(self) -> None:
        """Take the highlighted model, if it can run here."""
        row = self._highlighted()
        if row is None or self.busy:
            return
        if row.verdict == "no":
            self.app.push_screen(ReadModal(_("This cannot run here"), self.reasons()))
            return
        wanted = self.journey.answers.model
        self._take(msgspec.structs.replace(wanted, id=row.model, variant=row.variant, path=None))

    def _take(self, wanted: flow.ModelAnswers) -> None:
        journey = flow.answer(self.journey, Step.MODEL, model=wanted)
        if journey.choice is not None:
            self.finish(Move.NEXT, journey)
            return
        self.journey, self._leaving = journey, True
        self.perform(_("Taking this model…"), lambda start: flow.choose_model(flow.rate_models(start)))

    def done(self) -> None:
        """Rows to look at, or a choice to go on with."""
        if self._leaving and self.journey.choice is not None:
            self.finish(Move.NEXT)
        else:
            self.show()

    def failed(self, error: BaseException) -> None:
        """A model that cannot be taken: show the rows again under the error."""
        super().failed(error)
        if self._leaving:
            self._leaving = False
            self.begin()

    def ready(self) -> bool:
        """Whether there are rows."""
        return bool(self.journey.rows)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is something to show only where something works and something else does not."""
        if action == "all":
            return len({row.verdict == "no" for row in self.journey.rows}) == 2
        return super().check_action(action, parameters)

    def reasons(self) -> list[str]:
        """The reasons of the highlighted row, with where each was read."""
        row = self._highlighted() if self.is_mounted else None
        return [wording.sourced(reason.text, reason.source) for reason in row.reasons] if row else []

    def action_all(self) -> None:
        """Show or hide what cannot run."""
        self._all = not self._all
        self.show()

    @work
    async def action_other(self) -> None:
        """Ask for a checkpoint outside the table."""
        wanted = self.journey.answers.model
        questions = (
            (_("Name on the hub, as in owner/name"), wanted.id or ""),
            (_("or a folder with a checkpoint"), wanted.path or ""),
        )
        given = await self.app.push_screen_wait(AskModal(_("Another model"), questions))
        if given is not None:
            name, folder = (text or None for text in given)
            self._take(msgspec.structs.replace(wanted, id=name, path=folder, variant=None))
