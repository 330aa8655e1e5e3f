"""Small windows over a step: something to read, something to decide, something to choose or to type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from wizard.errors import WizardError
from wizard.flow import REHEARSAL_MACHINE
from wizard.i18n import N_, _
from wizard.machine import machine_names

Result = TypeVar("Result")


class Modal(ModalScreen[Result], inherit_bindings=False):
    """A titled window; Esc closes it without an answer."""

    CSS_PATH = "modals.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", N_("close"), id="close"),
        Binding("tab,down,right", "app.focus_next", show=False),
        Binding("shift+tab,up,left", "app.focus_previous", show=False),
    ]

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def compose(self) -> ComposeResult:
        """The frame; what is in it comes from ``compose_window``."""
        with Vertical(id="window"):
            yield Static(self._title, id="window-title", markup=False)
            yield from self.compose_window()

    def compose_window(self) -> ComposeResult:
        """What stands under the title."""
        yield from ()


class ReadModal(Modal[None], inherit_bindings=False):
    """Text to read: help, reasons, an error. Enter and Esc close it, the arrows scroll."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q,question_mark,f1", "dismiss(None)", N_("close"), id="close"),
        Binding("tab", "app.focus_next", show=False),
        Binding("shift+tab", "app.focus_previous", show=False),
    ]

    def __init__(self, title: str, paragraphs: Sequence[str]) -> None:
        super().__init__(title)
        self._paragraphs = paragraphs

    def compose_window(self) -> ComposeResult:
        """The paragraphs, and a button that closes."""
        with VerticalScroll(id="window-text"):
            yield Static("\n\n".join(self._paragraphs), markup=False)
        with Horizontal(classes="buttons"):
            yield Button(Content(_("[Enter] close")), compact=True, action="screen.dismiss(None)")


class ErrorModal(ReadModal, inherit_bindings=True):
    """What went wrong and what to do about it."""

    def __init__(self, error: BaseException) -> None:
        if isinstance(error, WizardError):
            paragraphs = [text for text in (error.message, error.hint) if text]
        else:
            paragraphs = [
                _("Something happened that this program does not expect: {error}").format(error=repr(error)),
                _("Please report it, with what you did before. Nothing else was changed."),
            ]
        super().__init__(_("This did not work"), paragraphs)


class WaitModal(ModalScreen[None], inherit_bindings=False):
    """Words while something ends; whoever opened it closes it."""

    CSS_PATH = "modals.tcss"

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = words

    def compose(self) -> ComposeResult:
        """The words."""
        with Vertical(id="window"):
            yield Static(self._words, markup=False)


class DecideModal(Modal[str], inherit_bindings=True):
    """A question with a button an answer; returns the key of the one pressed."""

    def __init__(self, title: str, question: str, answers: Mapping[str, str]) -> None:
        super().__init__(title)
        self._question = question
        self._answers = answers

    def compose_window(self) -> ComposeResult:
        """The question over its buttons; the first answer has the focus."""
        yield Static(self._question, markup=False)
        with Vertical(classes="buttons"):
            for key, words in self._answers.items():
                yield Button(Content(words), compact=True, id=f"answer-{key}")
        yield Static(_("[Tab] other answer   [Enter] choose   [Esc] close"), classes="keys", markup=False)

    @on(Button.Pressed)
    def _answered(self, event: Button.Pressed) -> None:
        self.dismiss((event.button.id or "").removeprefix("answer-"))


class PickModal(Modal[str], inherit_bindings=False):
    """One of several: arrows and Enter; returns the id of the option."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", N_("close"), id="close")]

    def __init__(self, title: str, options: Mapping[str, str], selected: str | None = None) -> None:
        super().__init__(title)
        self._options = options
        self._selected = selected

    def compose_window(self) -> ComposeResult:
        """The options, and how to go on."""
        yield OptionList(*(Option(text, id=key) for key, text in self._options.items()), markup=False)
        yield Static(_("[Enter] choose   [Esc] close"), markup=False)

    def on_mount(self) -> None:
        """Begin at the one in use."""
        keys = list(self._options)
        if self._selected in keys:
            self.query_one(OptionList).highlighted = keys.index(self._selected)

    @on(OptionList.OptionSelected)
    def _picked(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)


class MachineModal(PickModal, inherit_bindings=True):
    """Which recorded machine is played in a rehearsal."""

    def __init__(self, current: str | None) -> None:
        names = {name: name for name in machine_names()}
        super().__init__(_("Which machine shall be played?"), names, current or REHEARSAL_MACHINE)


class AskModal(Modal[tuple[str, ...]], inherit_bindings=False):
    """One or more lines to type; Enter in the last one answers with all of them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", N_("close"), id="close"),
        Binding("tab,down", "app.focus_next", show=False),
        Binding("shift+tab,up", "app.focus_previous", show=False),
    ]

    def __init__(self, title: str, questions: Sequence[tuple[str, str]]) -> None:
        """``questions`` are pairs of a label and what stands in the field already."""
        super().__init__(title)
        self._questions = questions

    def compose_window(self) -> ComposeResult:
        """A label and a field a question."""
        for label, value in self._questions:
            yield Label(label, markup=False)
            yield Input(value, compact=True)
        yield Static(_("[Enter] go on   [Tab] next field   [Esc] close"), markup=False)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        fields = list(self.query(Input))
        if event.input is not fields[-1]:
            fields[fields.index(event.input) + 1].focus()
        elif any(field.value.strip() for field in fields):
            self.dismiss(tuple(field.value.strip() for field in fields))
        else:
            fields[0].focus()
