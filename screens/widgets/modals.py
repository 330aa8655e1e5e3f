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

from screens.lookups import recorded_machines
from wizard.errors import WizardError
from wizard.flow import REHEARSAL_MACHINE
from wizard.i18n import N_, _

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

    def __init__(self, error: BaseException, hint: str = "") -> None:
        """``hint`` stands for the error's own where that speaks of another way than this screen."""
        if isinstance(error, WizardError):
            paragraphs = [text for text in (error.message, hint or error.hint) if text]
        else:
            paragraphs = [
                _("Something happened that this program does not expect: {error}").format(error=repr(error)),
                _("Please report it, with what you did before. Nothing else was changed."),
            ]
        super().__init__(_("This did not work"), paragraphs)


class WaitModal(Modal[None], inherit_bindings=False):
    """Words while something ends; whoever opened it closes it, no key does."""

    BINDINGS: ClassVar[list[BindingType]] = []


class DecideModal(Modal[str], inherit_bindings=True):
    """A question with a button an answer; returns the key of the one pressed."""

    def __init__(self, title: str, question: str, answers: Mapping[str, str]) -> None:
        super().__init__(title)
        self._question = question
        self._answers = answers

    def compose_window(self) -> ComposeResult:
        """The question over its buttons; the first answer has the focus."""
        yield from self.compose_question()
        with Vertical(classes="buttons"):
            for key, words in self._answers.items():
                yield Button(Content(words), compact=True, id=f"answer-{key}")
        yield Static(_("[Tab] other answer   [Enter] choose   [Esc] close"), classes="keys", markup=False)

    def compose_question(self) -> ComposeResult:
        """What is asked."""
        yield Static(self._question, markup=False)

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
        question = _("Which machine shall be played?")
        super().__init__(question, recorded_machines(), current or REHEARSAL_MACHINE)


class AskModal(Modal[tuple[str, ...]], inherit_bindings=False):
    """One or more lines to type; Enter answers with all of them. The first is needed, the others are not."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", N_("close"), id="close"),
        Binding("tab,down", "app.focus_next", show=False),
        Binding("shift+tab,up", "app.focus_previous", show=False),
    ]

    def __init__(
        self,
        title: str,
        questions: Sequence[tuple[str, str]],
        *,
        problem: str = "",
    ) -> None:
        """``questions`` are pairs of a label and what stands in the field; ``problem`` is said below."""
        super().__init__(title)
        self._questions = questions
        self._problem = problem

    def compose_window(self) -> ComposeResult:
        """A label and a field a question, then what is wrong, then the keys."""
        for label, value in self._questions:
            yield Label(label, markup=False)
            yield Input(value, compact=True)
        yield Static(id="window-problem", markup=False)
        several = len(self._questions) > 1
        keys = (
            _("[Enter] go on   [Tab] next field   [Esc] close")
            if several
            else _("[Enter] go on   [Esc] close")
        )
        yield Static(keys, markup=False)

    def on_mount(self) -> None:
        """Say what was wrong, if anything."""
        self._say(self._problem)

    def _say(self, problem: str) -> None:
        line = self.query_one("#window-problem", Static)
        line.update(problem)
        line.display = bool(problem)

    @on(Input.Submitted)
    def _submitted(self) -> None:
        given = tuple(field.value.strip() for field in self.query(Input))
        if given[0]:
            self.dismiss(given)
            return
        self._say(_("Nothing was typed here yet: {question}").format(question=self._questions[0][0]))
        self.query(Input).first().focus()
