"""What is known of a model outside the table, before it is taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll

from screens.widgets.modals import DecideModal
from wizard.i18n import N_, _


class DerivedModal(DecideModal, inherit_bindings=True):
    """What the files of a checkpoint say; it may be long, and the buttons stay in sight."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pagedown", "scroll(1)", N_("further down"), show=False),
        Binding("pageup", "scroll(-1)", N_("further up"), show=False),
    ]

    def __init__(self, title: str, lines: Sequence[str]) -> None:
        answers = {"take": _("Take it"), "leave": _("Back to the table")}
        super().__init__(title, "\n".join(lines), answers)

    def compose_question(self) -> ComposeResult:
        """The lines, which scroll."""
        with VerticalScroll(id="window-text", can_focus=False):
            yield from super().compose_question()

    def action_scroll(self, pages: int) -> None:
        """A page of the lines up or down."""
        text = self.query_one("#window-text", VerticalScroll)
        text.scroll_relative(y=pages * text.size.height, animate=False)
