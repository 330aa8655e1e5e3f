"""What will be started: time and disk first, then the command, an option a line."""

from __future__ import annotations

from textual import on, work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Static

from screens import wording
from screens.estimates import compared_lines
from wizard.flow import ChosenEvent, Journey, chosen
from wizard.i18n import _


class Review(VerticalScroll):
    """The plan of a journey to read before anything is touched."""

    class SummedUp(Message):
        """The disk was looked at."""

        def __init__(self, chosen: ChosenEvent) -> None:
            super().__init__()
            self.chosen = chosen

    def compose(self) -> ComposeResult:
        """Verdict, summary, command."""
        yield Static(id="review-verdict", markup=False)
        yield Static(id="review-summary", markup=False)
        yield Static(id="review-command", markup=False)

    def show(self, journey: Journey) -> None:
        """Draw the plan; what refuses it comes first. The summary looks at the disk and follows."""
        if journey.plan is None:
            return
        verdict = (*wording.plan_verdict(journey.plan, journey.simulated), *compared_lines(journey))
        self.query_one("#review-verdict", Static).update("\n".join(verdict))
        command = [_("Command"), *(f"  {line}" for line in wording.command_lines(journey.plan))]
        self.query_one("#review-command", Static).update("\n".join(command))
        self._sum_up(journey)

    @work(thread=True, exclusive=True, exit_on_error=False)
    def _sum_up(self, journey: Journey) -> None:
        self.post_message(self.SummedUp(chosen(journey)))

    @on(SummedUp)
    def _summed_up(self, event: SummedUp) -> None:
        self.query_one("#review-summary", Static).update("\n".join(wording.chosen_lines(event.chosen)))
