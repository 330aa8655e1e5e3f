"""Why a start failed: the sentence, the block of the log, and what to do."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from screens import figures
from wizard.errors import LaunchError
from wizard.i18n import _


class Failure(Vertical):
    """The failure of a start, quoted and explained."""

    def compose(self) -> ComposeResult:
        """Sentence, quote, hint."""
        yield Static(id="failure-text", markup=False)
        with VerticalScroll(id="failure-evidence"):
            yield Static(id="failure-lines", markup=False)
        yield Static(id="failure-hint", markup=False)

    def show(self, error: LaunchError, seconds: float) -> None:
        """Draw the failure after so many seconds."""
        after = _("FAILED after {time}").format(time=figures.clock(seconds))
        text = Content.assemble((after, "bold $text-error"), "\n", error.message)
        self.query_one("#failure-text", Static).update(text)
        evidence = error.evidence or (_("The log holds no line about it."),)
        self.query_one("#failure-lines", Static).update("\n".join(evidence))
        self.query_one("#failure-hint", Static).update(error.hint)
