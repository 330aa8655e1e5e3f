"""Step Model: what works on this machine, best first, with the reasons of every verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import DataTable, Input, Label, Static

from screens import model_words
from screens.base import COMMON_KEYS, StepScreen
from screens.moves import Move
from screens.naming import name_model
from screens.widgets.modals import ReadModal
from screens.widgets.modeltable import FilterField, ModelTable
from wizard import flow
from wizard.fetch import Presence
from wizard.flow import Candidate, Journey, Line, Step
from wizard.i18n import N_, _


class ModelScreen(StepScreen, inherit_bindings=False):
    """The compatibility matrix as a table, a line a model."""

    STEP = Step.MODEL
    HEADLINE = N_("Best for coding on this machine first")
    HELP = N_(
        "Each line is the best variant of a model, with its verdict here: OK, WARN or NO; +3 says that [v] "
        "shows three more. Below stand the reasons of the highlighted line, what decides first. Context is "
        "the longest window that fits. The parser reads the model's tool calls: without one opencode cannot "
        "work with it. A filter takes any words: names, makers, formats, parsers, OK, WARN, NO, on disk."
    )
    CSS_PATH = "model.tcss"
    AUTO_FOCUS = "#rows"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash,f", "filter", N_("filter"), id="filter"),
        Binding("escape", "clear", N_("no filter"), show=False),
        Binding("v", "variants", N_("variants"), id="variants"),
        Binding("a", "all", N_("show what cannot run"), id="all"),
        Binding("a", "possible", N_("hide what cannot run"), id="possible"),
        Binding("o", "other", N_("other model"), id="other"),
        Binding("x", "stop", N_("stop"), id="stop"),
        *COMMON_KEYS,
    ]

    def __init__(self, journey: Journey) -> None:
        super().__init__(journey)
        self._there: Mapping[str, Presence] | None = None
        self._candidates: tuple[Candidate, ...] = ()
        self._lines: tuple[Line, ...] = ()
        self._filter = ""
        self._all = False
        self._opened: frozenset[str] = frozenset()
        self._leaving = False
        self._reading = False

    def compose_body(self) -> ComposeResult:
        """The filter over the table over the reasons."""
        with Horizontal(id="finder"):
            yield Label(_("Filter"), markup=False)
            yield FilterField(id="filter", compact=True)
            yield Static(id="count", markup=False)
        yield ModelTable()
        yield Static(id="reasons", markup=False)

    def begin(self) -> None:
        """Rate the models, unless that was done before; what is on disk is looked at every time."""
        if self.journey.rows:
            self._look_at_disk()
        else:
            self.perform(_("Rating models for this machine…"), flow.rate_models)

    @work(exclusive=True, group="disk")
    async def _look_at_disk(self) -> None:
        """A slow disk keeps nobody waiting: the marks come when they are known."""
        self._there = await asyncio.to_thread(flow.weights_on_disk, self.journey.rows, self.journey)
        self.show()

    def on_resize(self) -> None:
        """The columns of names take the room there is."""
        self.show()

    def show(self) -> None:
        """Draw the rows; the highlighted one stays, at first that is the chosen one."""
        kept = self._highlighted()
        self._candidates = flow.candidates(self.journey, self._there)
        chosen = next((each for each in self._candidates if flow.is_chosen(each, self.journey.choice)), None)
        if not self._lines and chosen is not None:
            self._reveal(chosen)
        models = {candidate.row.model for candidate in self._candidates}
        every = flow.model_lines(self._candidates, everything=True, opened=models)
        self.query_one(ModelTable).fit(every, self.size.width)
        self._fill(kept or chosen)

    def _reveal(self, chosen: Candidate) -> None:
        """Show more where the chosen variant would not be seen."""
        self._all = chosen.row.verdict == "no"
        lines = flow.model_lines(self._candidates, everything=self._all)
        if all(line.candidate is not chosen for line in lines):
            self._opened = frozenset({chosen.row.model})

    def _fill(self, kept: Candidate | None) -> None:
        """The lines that are wanted now, the cursor on the one to keep or on the best."""
        self._lines = flow.model_lines(self._candidates, self._filter, self._all, self._opened)
        same = (kept.row.model, kept.row.variant) if kept else None
        at = [(line.candidate.row.model, line.candidate.row.variant) for line in self._lines]
        self.query_one(ModelTable).fill(self._lines, at.index(same) if same in at else 0)
        found = flow.matching(self._candidates, self._filter)
        self.query_one("#count", Static).update(model_words.counted(self._candidates, found, self._filter))
        self._tell()

    def _highlighted(self) -> Candidate | None:
        at = self.query_one(ModelTable).cursor_row
        return self._lines[at].candidate if 0 <= at < len(self._lines) else None

    @on(DataTable.RowHighlighted)
    def _tell(self) -> None:
        candidate = self._highlighted()
        lines: tuple[str, ...] = ()
        if candidate is not None:
            reasons = model_words.because(candidate.row.reasons, self.journey.runtime)
            lines = (*model_words.head(candidate, self.journey), *(f"- {reason}" for reason in reasons))
        elif self._filter:
            lines = (_("Nothing matches this filter. [Esc] takes it away."),)
        self.query_one("#reasons", Static).update("\n".join(lines))
        self.refresh_bindings()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._filter = event.value
        self._fill(None)

    @on(DataTable.RowSelected)
    def _selected(self) -> None:
        self.action_next()

    def action_next(self) -> None:
        """Take the highlighted model, if it can run here."""
        candidate = self._highlighted()
        if candidate is None or self.busy:
            return
        if candidate.row.verdict == "no":
            self.app.push_screen(ReadModal(_("This cannot run here"), self.reasons()))
            return
        journey = flow.take_row(self.journey, candidate.row)
        if journey.choice is not None:
            self.finish(Move.NEXT, journey)
            return
        self._leaving = True
        self.perform(_("Taking this model…"), lambda _now: flow.choose_model(journey))

    def done(self) -> None:
        """Rows to look at, or a choice to go on with."""
        if self._leaving and self.journey.choice is not None:
            self.finish(Move.NEXT)
        else:
            self.show()
            self._look_at_disk()

    def failed(self, error: BaseException) -> None:
        """A model that cannot be taken: what stood here before still does, under the error."""
        self._leaving = False
        super().failed(error)

    @property
    def busy(self) -> bool:
        """Whether rows are rated, or another model is read."""
        return self._reading or super().busy

    def ready(self) -> bool:
        """Whether there is a row to take."""
        return bool(self._lines)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What would change nothing is not offered; while a model is read it can only be stopped."""
        if action == "stop":
            return self._reading
        if action in ("filter", "variants", "all", "possible", "other") and self._reading:
            return False
        if action in ("all", "possible"):
            both = len({row.verdict == "no" for row in self.journey.rows}) == 2
            return both and self._all is (action == "possible")
        if action == "variants":
            candidate = self._highlighted() if self.is_mounted else None
            models = [each.row.model for each in self._candidates]
            return candidate is not None and models.count(candidate.row.model) > 1
        return super().check_action(action, parameters)

    def reasons(self) -> list[str]:
        """The reasons of the highlighted row, with code and source."""
        candidate = self._highlighted() if self.is_mounted else None
        return model_words.in_full(candidate.row.reasons) if candidate else []

    def action_filter(self) -> None:
        """Type what to look for."""
        self.query_one(FilterField).focus()

    def action_clear(self) -> None:
        """Take the filter away and go back to the table."""
        kept = self._highlighted()
        field = self.query_one(FilterField)
        self._filter = ""
        with field.prevent(Input.Changed):
            field.value = ""
        self._fill(kept)
        self.query_one(ModelTable).focus()

    def action_variants(self) -> None:
        """Show all variants of the highlighted model below it, or put them away."""
        candidate = self._highlighted()
        if candidate is not None:
            self._opened ^= {candidate.row.model}
            kept = candidate if candidate.row.model in self._opened else self._best(candidate)
            self._fill(kept)

    def _best(self, candidate: Candidate) -> Candidate:
        """The variant that leads its model now."""
        lines = flow.model_lines(self._candidates, self._filter, self._all)
        return next(line.candidate for line in lines if line.candidate.row.model == candidate.row.model)

    def action_all(self) -> None:
        """Show what cannot run, too."""
        self._all = True
        self._fill(self._highlighted())

    def action_possible(self) -> None:
        """Show only what can run."""
        self._all = False
        self._fill(self._highlighted())

    @work
    async def action_other(self) -> None:
        """Ask for a checkpoint outside the table."""
        self._reading = True
        self.refresh_bindings()
        try:
            found = await name_model(self)
        finally:
            self._reading = False
            self.refresh_bindings()
        if found is not None:
            self.finish(Move.NEXT, found)

    def action_stop(self) -> None:
        """Do not wait for what the hub says."""
        self.cancel.set()
