"""The application: one screen after the other, as the flow says, until the road ends or somebody leaves."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import App
from textual.binding import Binding, BindingType

from screens.base import StepScreen
from screens.budget import BudgetScreen
from screens.diagnose import DiagnoseScreen
from screens.done import DoneScreen
from screens.launch import LaunchScreen
from screens.machine import MachineScreen
from screens.model import ModelScreen
from screens.moves import goes_on, runs_here, worth_keeping
from screens.opencode import OpencodeScreen
from screens.runtime import RuntimeScreen
from screens.smoke import SmokeScreen
from screens.start import StartScreen
from screens.widgets.modals import DecideModal, ErrorModal, WaitModal
from wizard import flow
from wizard.errors import WizardError
from wizard.flow import Journey, Step
from wizard.i18n import N_, _

INTERRUPTED = 130

COLUMNS = [(0, "-tiny"), (60, "-usable")]
LINES = [(0, "-flat"), (18, "-usable-too")]
"""Below 60 columns or 18 lines nothing but a sentence about it is shown."""

SCREENS: dict[Step, type[StepScreen]] = {
    screen.STEP: screen
    for screen in (
        StartScreen,
        MachineScreen,
        RuntimeScreen,
        ModelScreen,
        BudgetScreen,
        LaunchScreen,
        SmokeScreen,
        OpencodeScreen,
        DiagnoseScreen,
        DoneScreen,
    )
}


class WizardApp(App[int], inherit_bindings=False):
    """The wizard in a terminal. Its result is the exit code."""

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

    def on_mount(self) -> None:
        """Begin at the step the journey stands at."""
        self.walk()

    @work(exclusive=True, group="walk")
    async def walk(self) -> None:
        """One screen after the other, as the flow says."""
        while True:
            outcome = await self.push_screen_wait(SCREENS[self.journey.step](self.journey))
            self.journey = outcome.journey
            if not outcome.at_end:
                self.journey = outcome.moved
                await self._keep(self.journey)
            elif await self._end(self.journey):
                return

    async def _keep(self, journey: Journey) -> None:
        """Write the receipt, so that a later start can go on here; there is none before anything is known."""
        if not worth_keeping(journey):
            return
        try:
            await asyncio.to_thread(flow.save_progress, journey)
        except WizardError as error:
            await self.push_screen_wait(ErrorModal(error))

    def action_leave(self) -> None:
        """Quit; asks first when something is half done or would go on running."""
        self._ask_to_leave(0)

    def action_interrupt(self) -> None:
        """Quit by ctrl+c: the exit code tells when something was broken off."""
        self._ask_to_leave(INTERRUPTED)

    def _ask_to_leave(self, code_of_break: int) -> None:
        screen = next((screen for screen in self.screen_stack if isinstance(screen, StepScreen)), None)
        if screen is not None and not isinstance(self.screen, DecideModal | WaitModal):
            self._leave(screen, code_of_break)

    @work(exclusive=True, group="leave")
    async def _leave(self, screen: StepScreen, code_of_break: int) -> None:
        if screen.half_done:
            answers = {"stay": _("Stay here"), "stop": _("Stop it and quit")}
            question = _("vLLM is being started. Quitting now stops it.")
            if await self.push_screen_wait(DecideModal(_("Quit?"), question, answers)) == "stop":
                self.push_screen(WaitModal(_("Stopping vLLM…")))
                await screen.abandon()
                self.exit(code_of_break)
        else:
            await self._end(screen.journey)

    async def _end(self, journey: Journey) -> bool:
        """Exit, after deciding what becomes of a server of ours; False: somebody wants to stay."""
        if not runs_here(journey):
            self.exit(0)
        elif journey.simulated or (answer := await self._fate_of(journey)) == "stop":
            await self._stop_and_exit(journey)
        elif answer == "leave":
            self.exit(0, message=Text(goes_on(journey)))
        else:
            return False
        return True

    async def _fate_of(self, journey: Journey) -> str | None:
        """What shall become of a running vLLM: at the end of the road it goes on, before that it is asked."""
        if journey.step is Step.DONE:
            return "leave"
        answers = {"leave": _("Leave it running"), "stop": _("Stop it"), "stay": _("Stay here")}
        question = _("The vLLM that was started here is still running.")
        return await self.push_screen_wait(DecideModal(_("Quit?"), question, answers))

    async def _stop_and_exit(self, journey: Journey) -> None:
        self.push_screen(WaitModal(_("Stopping vLLM…")))
        try:
            await asyncio.to_thread(flow.stop_server, journey)
        except WizardError as error:
            self.exit(1, message=Text(str(error)))
        else:
            self.exit(0)
