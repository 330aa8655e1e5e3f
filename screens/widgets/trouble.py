"""The windows that ask what is broken: a source to read, a complaint, or a pasted text."""

from __future__ import annotations

from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import OptionList, Static, TextArea
from textual.widgets.option_list import Option

from screens.lookups import complaints
from screens.widgets.modals import AskModal, Modal
from wizard import flow
from wizard.i18n import N_, _

PASTE = "paste"


class PasteModal(Modal[str], inherit_bindings=False):
    """A text to paste, of any number of lines."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", N_("close"), id="close"),
        Binding("f2", "take", N_("read it"), id="take"),
    ]

    def compose_window(self) -> ComposeResult:
        """The text, and how to go on."""
        yield TextArea(id="pasted")
        yield Static(_("[F2] read it   [Esc] close"), markup=False)

    def action_take(self) -> None:
        """Hand the text on, if there is one."""
        text = self.query_one(TextArea).text
        if text.strip():
            self.dismiss(text)


class TroubleModal(AskModal, inherit_bindings=True):
    """What is broken: a text to read, a server to ask, or what a person sees go wrong."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", N_("close"), id="close"),
        Binding("tab", "app.focus_next", show=False),
        Binding("shift+tab", "app.focus_previous", show=False),
    ]

    def __init__(self, typed: str, problem: str = "") -> None:
        question = _("File, docker logs NAME, journalctl -u UNIT, or the address of a server")
        super().__init__(_("Something is broken"), ((question, typed),), problem=problem)

    def compose_window(self) -> ComposeResult:
        """The field, and below it the complaints to choose from."""
        yield from super().compose_window()
        yield Static(_("Or what goes wrong ([Tab], arrows, Enter):"), markup=False)
        options = (Option(text, id=f"symptom:{name}") for name, text in complaints().items())
        paste = Option(_("None of these: paste what was printed"), id=PASTE)
        yield OptionList(*options, paste, id="complaints", markup=False)

    @on(OptionList.OptionSelected)
    def _picked(self, event: OptionList.OptionSelected) -> None:
        if event.option_id == PASTE:
            self._paste()
        else:
            self.dismiss((event.option_id or "",))

    @work
    async def _paste(self) -> None:
        text = await self.app.push_screen_wait(PasteModal(_("Paste what was printed")))
        if text is not None:
            self.dismiss((flow.keep_pasted(text),))
