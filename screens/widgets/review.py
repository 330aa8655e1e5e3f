"""What will be started: time and disk first, then the command, an option a line."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from screens import wording
from wizard.flow import Journey, chosen
from wizard.i18n import _


class Review(VerticalScroll):
    """The plan of a journey to read before anything is touched."""

    def compose(self) -> ComposeResult:
        """Verdict, summary, command."""
        yield Static(id="review-verdict", markup=False)
        yield Static(id="review-summary", markup=False)
        yield Static(id="review-command", markup=False)

    def show(self, journey: Journey) -> None:
        """Draw the plan; what refuses it comes first."""
        if journey.plan is None:
            return
        self.query_one("#review-verdict", Static).update("\n".join(wording.plan_verdict(journey.plan)))
        self.query_one("#review-summary", Static).update("\n".join(wording.chosen_lines(chosen(journey))))
        command = [_("Command"), *(f"  {line}" for line in wording.command_lines(journey.plan))]
        self.query_one("#review-command", Static).update("\n".join(command))
