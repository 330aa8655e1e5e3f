"""Step Done: what to type, what runs where, and how to stop and undo it."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from screens import results
from screens.base import COMMON_KEYS, StepScreen
from wizard import flow
from wizard.flow import Journey, Step
from wizard.i18n import N_, _


class DoneScreen(StepScreen, inherit_bindings=False):
    """The end of the road."""

    STEP = Step.DONE
    HEADLINE = N_("Done")
    HELP = N_(
        "vLLM goes on when you leave, until you stop it or the machine restarts. "
        "The receipt holds what was asked, what came of it, and what undo takes back. "
        "After a rehearsal the stand-in server is stopped and only the scratch folder is left."
    )
    CSS_PATH = "done.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,n", "next", N_("finish"), id="next"),
        Binding("y", "copy", N_("copy the command"), id="copy"),
        *(key for key in COMMON_KEYS if key.id != "next"),
    ]

    def compose_body(self) -> ComposeResult:
        """The sheet."""
        with VerticalScroll(id="sheet"):
            yield Static(id="summary", markup=False)

    def begin(self) -> None:
        """Write the final receipt."""
        self.perform(_("Writing the receipt…"), _finished)

    def show(self) -> None:
        """Draw the sheet."""
        self.query_one("#summary", Static).update("\n".join(results.done_lines(self.journey)))
        self.query_one("#sheet").focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Without a configuration there is no command to copy."""
        if action == "copy":
            return results.in_place(self.journey)
        return super().check_action(action, parameters)

    def action_copy(self) -> None:
        """Hand the command to the terminal's clipboard."""
        if self.journey.change is not None:
            self.app.copy_to_clipboard(self.journey.change.command)
            self.notify(_("Copied, if your terminal allows it."), markup=False)


def _finished(journey: Journey) -> Journey:
    flow.finish(journey)
    return journey
