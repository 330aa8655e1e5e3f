"""What every step's screen has: the bar on top, a body, the words of what goes on, the keys at the foot.

A screen shows a journey and asks for the work of its step; order, Back and skip are ``wizard.flow``'s.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.screen import Screen
from textual.widgets import Static
from textual.worker import Worker, WorkerError, WorkerState

from screens import figures, wording
from screens.moves import Move, Outcome
from screens.widgets.keybar import KeyBar, key_name, works
from screens.widgets.modals import ErrorModal, ReadModal
from screens.widgets.status import Status
from screens.widgets.stepbar import RehearsalLabel, StepBar
from wizard import flow
from wizard.diagnosis import Diagnosis
from wizard.errors import WizardError
from wizard.flow import TITLES, Cancelled, Journey, Step
from wizard.i18n import N_, _

Work = Callable[[Journey], Journey]
"""The work of a step: blocks, raises WizardError, returns a new journey."""

COMMON_KEYS: tuple[Binding, ...] = (
    Binding("enter,n", "next", N_("next"), id="next"),
    Binding("b", "back", N_("back"), id="back"),
    Binding("question_mark", "why", N_("why"), id="why"),
    Binding("f1", "help", N_("help"), id="help"),
    Binding("ctrl+q", "app.leave", N_("quit"), id="quit"),
    Binding("tab", "app.focus_next", show=False),
    Binding("shift+tab", "app.focus_previous", show=False),
)
"""Keys of every step; a screen names them after its own."""


class StepScreen(Screen[Outcome], inherit_bindings=False):
    """Base of the steps. A subclass fills the body, shows its journey, and says when one may go on."""

    STEP: ClassVar[Step]
    HEADLINE: ClassVar[str] = ""
    """What is to be done here, marked for translation."""
    HELP: ClassVar[str] = ""
    """Help text of F1, marked for translation."""
    BINDINGS: ClassVar[list[BindingType]] = [*COMMON_KEYS]

    def __init__(self, journey: Journey) -> None:
        super().__init__()
        self.journey = journey
        self.cancel = threading.Event()
        self._worker: Worker[Journey] | None = None
        self._outcome: Outcome | None = None

    def compose(self) -> ComposeResult:
        """The frame of a step around its body."""
        yield Static(
            _("The terminal is too small: 60 columns and 18 lines are needed."), id="small", markup=False
        )
        yield StepBar(self.journey)
        yield RehearsalLabel(self.journey)
        yield Static(_(self.HEADLINE), id="headline", markup=False)
        with Container(id="body"):
            yield from self.compose_body()
        yield Status()
        yield KeyBar(key for key in self.BINDINGS if isinstance(key, Binding))

    def compose_body(self) -> ComposeResult:
        """The middle of the screen."""
        yield from ()

    def on_mount(self) -> None:
        """Show what is known, then begin what is missing."""
        self.show()
        self.begin()

    def on_unmount(self) -> None:
        """Nothing of this step goes on once its screen is gone."""
        self.cancel.set()

    def begin(self) -> None:
        """Start the work whose result is missing, if any."""

    def show(self) -> None:
        """Draw the journey."""

    def ready(self) -> bool:
        """Whether the step has what the next one needs."""
        return True

    def reasons(self) -> Sequence[str]:
        """The paragraphs behind "why"; empty: the key is not offered."""
        return ()

    @property
    def busy(self) -> bool:
        """Whether work of this step goes on."""
        return self._worker is not None and not self._worker.is_finished

    @property
    def half_done(self) -> bool:
        """Whether leaving now would break something off that cannot simply be done again."""
        return False

    def perform(self, words: str, work: Work) -> None:
        """Do the work in a thread, with words and the time it takes; earlier work of this step is dropped."""
        self.cancel.set()
        self.cancel = threading.Event()
        journey = self.journey
        self.query_one(Status).begin(words)
        self._worker = self.run_worker(
            lambda: work(journey), thread=True, exclusive=True, exit_on_error=False, group="step", name=words
        )
        self.refresh_bindings()

    async def abandon(self) -> None:
        """Cancel the work and wait until nothing of it is left."""
        self.cancel.set()
        if self._worker is not None and not self._worker.is_finished:
            with suppress(WorkerError):
                await self._worker.wait()

    def done(self) -> None:
        """The work brought ``self.journey`` forward."""
        self.show()

    def failed(self, error: BaseException) -> None:
        """The work failed: say so in the one window for errors."""
        if isinstance(error, Cancelled):
            self.query_one(Status).end(error.message)
        else:
            # The step behind is drawn first, or the window would hang over nothing.
            self.call_after_refresh(self.app.push_screen, ErrorModal(error))

    def finish(self, move: Move, journey: Journey | None = None) -> None:
        """Leave this step; under an open window as soon as that is closed."""
        self._outcome = Outcome(move, self.journey if journey is None else journey)
        self.on_screen_resume()

    def on_screen_suspend(self) -> None:
        """Under a window these keys do nothing: only its own are shown."""
        self.query(KeyBar).set(visible=False)

    def on_screen_resume(self) -> None:
        """The keys work again; leave now, if that was decided."""
        self.query(KeyBar).set(visible=True)
        if self._outcome is not None and self.is_current:
            outcome, self._outcome = self._outcome, None
            self.dismiss(outcome)

    @on(Worker.StateChanged)
    def _work_changed(self, event: Worker.StateChanged) -> None:
        worker = event.worker
        if worker is not self._worker or not self.is_attached:
            return
        if worker.state is WorkerState.SUCCESS and isinstance(worker.result, Journey):
            self.journey = worker.result
            self.query_one(Status).end()
            self.done()
        elif worker.state is WorkerState.ERROR and worker.error is not None:
            self.query_one(Status).end()
            self.failed(worker.error)
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's
        """Back is hidden on the first step; Next waits for work; "why" is offered where there are reasons."""
        if action == "back":
            return self.journey.road[0] is not self.STEP
        if action == "next":
            return True if self.ready() and not self.busy else None
        if action == "why":
            return bool(self.reasons())
        return True

    def action_next(self) -> None:
        """Go on."""
        self.finish(Move.NEXT)

    def action_back(self) -> None:
        """Go back; what was answered is kept."""
        self.finish(Move.BACK)

    def action_skip(self) -> None:
        """Leave this step out."""
        self.finish(Move.SKIP)

    def action_why(self) -> None:
        """The reasons behind what is shown."""
        self.app.push_screen(ReadModal(_("Why"), self.reasons()))

    def write_report(self, found: Diagnosis, log: str) -> None:
        """Write a redacted report for somebody who helps, and say where it is."""
        try:
            path = flow.write_fault_report(self.journey, found, log)
        except WizardError as error:
            self.app.push_screen(ErrorModal(error))
        else:
            words = _("Written: {path}. Read it before you send it.").format(path=path)
            self.app.push_screen(ReadModal(_("Report"), [words]))

    def action_help(self) -> None:
        """What this screen is for, the keys that work on it now, and the road it stands on."""
        keys = [
            f"[{key_name(binding)}] {_(binding.description)}"
            for binding in self.BINDINGS
            if isinstance(binding, Binding) and binding.show and works(self, binding.action)
        ]
        common = _("Tab and Shift+Tab move between the parts, the arrows within one. Ctrl+C leaves too.")
        title = _("Help: {step}").format(step=_(TITLES[self.STEP]))
        lines = ["   ".join(keys[first : first + 3]) for first in range(0, len(keys), 3)]
        road = wording.road_line(self.journey)
        paragraphs = [_(self.HELP), "\n".join(lines), common, road, figures.legend()]
        self.app.push_screen(ReadModal(title, paragraphs))
