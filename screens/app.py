"""The application: one screen after the other, as the flow says, until the road ends or somebody leaves."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import ClassVar

from textual import work
from textual.app import App
from textual.binding import Binding, BindingType
from textual.worker import WorkerFailed

from screens.base import StepScreen
from screens.moves import goes_on, kept_words, left_early, runs_here, worth_keeping
from screens.widgets.modals import DecideModal, ErrorModal, WaitModal
from wizard import flow
from wizard.errors import WizardError
from wizard.flow import Journey, Step
from wizard.i18n import N_, _

INTERRUPTED = 130

COLUMNS = [(0, "-tiny"), (60, "-usable")]
LINES = [(0, "-flat"), (18, "-usable-too")]
"""Below 60 columns or 18 lines nothing but a sentence about it is shown."""


def screen_of(step: Step) -> type[StepScreen]:
    """The screen of a step, imported when it is first shown: only the first one makes anybody wait."""
    module = import_module(f"screens.{step.value}")
    found: type[StepScreen] = getattr(module, f"{step.value.capitalize()}Screen")
    return found


class WizardApp(App[int], inherit_bindings=False):
    """The wizard in a terminal. Result: the exit code. ``farewell``: a last line to print, or empty."""

    TITLE = "vllm-opencode"
    CSS_PATH = "base.tcss"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = COLUMNS
    VERTICAL_BREAKPOINTS = LINES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "leave", N_("quit"), priority=True, show=False),
        Binding("ctrl+c", "interrupt", N_("quit"), priority=True, show=False),
    ]

    def __init__(self, journey: Journey | None = None) -> None:
        super().__init__()
        self.journey = Journey() if journey is None else journey
        self.farewell = ""

    @property
    def failure(self) -> Exception | None:
        """What nobody expected and ended the application."""
        return self._exception

    def _handle_exception(self, error: Exception) -> None:
        """Close without Textual's own traceback: whoever ran the application tells of ``failure``."""
        if self._exception is None:
            cause = error.error if isinstance(error, WorkerFailed) else error
            self._exception = cause if isinstance(cause, Exception) else error
            self._exception_event.set()
        self._return_code = 1
        self._close_messages_no_wait()

    def on_mount(self) -> None:
        """Begin at the step the journey stands at."""
        self.walk()

    @work(exclusive=True, group="walk")
    async def walk(self) -> None:
        """One screen after the other, as the flow says."""
        while True:
            outcome = await self.push_screen_wait(screen_of(self.journey.step)(self.journey))
            self.journey = outcome.journey
            if not outcome.at_end:
                self.journey = outcome.moved
                await self._keep(self.journey)
            elif await self._end(self.journey, 0):
                return

    async def _keep(self, journey: Journey) -> bool:
        """Write the receipt, so that a later start can go on here; there is none before anything is known."""
        if not worth_keeping(journey):
            return False
        try:
            await asyncio.to_thread(flow.save_progress, journey)
        except WizardError as error:
            await self.push_screen_wait(ErrorModal(error))
            return False
        return True

    def action_leave(self) -> None:
        """Quit; asks first when something is half done or would go on running."""
        self._ask_to_leave(0)

    def action_interrupt(self) -> None:
        """Quit by ctrl+c: the exit code tells."""
        self._ask_to_leave(INTERRUPTED)

    def _ask_to_leave(self, code: int) -> None:
        screen = next((screen for screen in self.screen_stack if isinstance(screen, StepScreen)), None)
        if screen is not None and not isinstance(self.screen, DecideModal | WaitModal):
            self._leave(screen, code)

    @work(exclusive=True, group="leave")
    async def _leave(self, screen: StepScreen, code: int) -> None:
        if screen.half_done:
            answers = {"stay": _("Stay here"), "stop": _("Stop it and quit")}
            question = _("vLLM is being started. Quitting now stops it.")
            if await self.push_screen_wait(DecideModal(_("Quit?"), question, answers)) == "stop":
                self.push_screen(WaitModal(_("Stopping vLLM…")))
                await screen.abandon()
                await self._part(screen.journey, code)
        else:
            await self._end(screen.journey, code)

    async def _end(self, journey: Journey, code: int) -> bool:
        """Exit, after deciding what becomes of a server of ours; False: somebody wants to stay."""
        if not runs_here(journey):
            await self._part(journey, code)
        elif journey.simulated or (answer := await self._fate_of(journey)) == "stop":
            await self._stop_and_exit(journey, code)
        elif answer == "leave":
            await self._part(journey, code, goes_on(journey))
        else:
            return False
        return True

    async def _part(self, journey: Journey, code: int, words: str = "") -> None:
        """Exit with these last words; without any, those about answers that are kept half-way."""
        if left_early(journey) and await self._keep(journey):
            words = words or kept_words(journey)
        self.farewell = words
        self.exit(code)

    async def _fate_of(self, journey: Journey) -> str | None:
        """What shall become of a running vLLM: at the end of the road it goes on, before that it is asked."""
        if journey.step is Step.DONE:
            return "leave"
        answers = {"leave": _("Leave it running"), "stop": _("Stop it"), "stay": _("Stay here")}
        question = _("The vLLM that was started here is still running.")
        return await self.push_screen_wait(DecideModal(_("Quit?"), question, answers))

    async def _stop_and_exit(self, journey: Journey, code: int) -> None:
        self.push_screen(WaitModal(_("Stopping vLLM…")))
        try:
            stopped = await asyncio.to_thread(flow.stop_server, journey)
        except WizardError as error:
            await self._part(journey, 1, str(error))
        else:
            await self._part(stopped, code, "" if journey.simulated else _("vLLM is stopped."))
