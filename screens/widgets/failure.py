"""Why a start failed: the fault, the line that shows it, and what helps against it, best first."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from screens import failing, figures
from screens.widgets.checklist import item_at
from wizard import flow
from wizard.diagnosis import Finding, Remedy
from wizard.errors import LaunchError
from wizard.flow import Journey
from wizard.i18n import _

MIN_WIDTH = 40
MARGINS = 6
"""Columns beside a remedy: the edges of the screen and a scroll bar."""


class Failure(Vertical):
    """The failure of a start, quoted and explained; without a known fault only quoted."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.finding: Finding | None = None
        self._remedies: tuple[Remedy, ...] = ()

    def compose(self) -> ComposeResult:
        """Fault, quote, remedies, and what else is to be known."""
        yield Static(id="failure-text", markup=False)
        with VerticalScroll(id="failure-evidence"):
            yield Static(id="failure-lines", markup=False)
        yield Static(_("What helps, best first"), id="failure-helps", markup=False)
        yield OptionList(id="remedies", markup=False)
        yield Static(id="failure-hint", markup=False)

    def show(self, error: LaunchError, seconds: float, journey: Journey) -> None:
        """Draw the failure after so many seconds, and begin at the best remedy."""
        found = error.diagnosis if isinstance(error, flow.StartFailed) else None
        self.finding = None if found is None else flow.cause_in(found)
        self._remedies = () if self.finding is None else flow.offered(journey, self.finding)
        after = _("FAILED after {time}").format(time=figures.clock(seconds)) if seconds else _("FAILED")
        self.query_one("#failure-text", Static).update(
            Content.assemble((after, "bold $text-error"), "\n", failing.failure_head(error, self.finding))
        )
        self.query_one("#failure-lines", Static).update("\n".join(failing.failure_lines(error, self.finding)))
        remedies = self.query_one("#remedies", OptionList)
        remedies.clear_options()
        remedies.add_options(Option(text) for text in self._texts(0))
        remedies.highlighted = 0 if self._remedies else None
        remedies.display = bool(self._remedies)
        self.query_one("#failure-helps", Static).display = bool(self._remedies)
        hint = "\n".join(failing.failure_foot(error, self.finding, journey))
        self.query_one("#failure-hint", Static).update(hint)
        (remedies if self._remedies else self.query_one("#failure-evidence")).focus()

    def _texts(self, chosen: int) -> list[str]:
        """The remedies as they are shown; the chosen one has a mark, for terminals without colours."""
        width = max(MIN_WIDTH, self.app.size.width - MARGINS)
        return [
            failing.remedy_text(number, remedy, width, chosen=number == chosen + 1)
            for number, remedy in enumerate(self._remedies, 1)
        ]

    @on(OptionList.OptionHighlighted, "#remedies")
    def _mark(self, event: OptionList.OptionHighlighted) -> None:
        for place, text in enumerate(self._texts(event.option_index)):
            event.option_list.replace_option_prompt_at_index(place, text)

    @property
    def remedy(self) -> Remedy | None:
        """The highlighted remedy."""
        return item_at(self._remedies, self.query_one("#remedies", OptionList).highlighted)
