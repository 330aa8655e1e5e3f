"""The wizard as numbered questions, a line each: nothing is redrawn and no screen is needed.

It takes the same steps through the same functions as the screens.
"""

from __future__ import annotations

from collections.abc import Callable

from screens import plain_model, plain_server, plain_steps, wording
from screens.dialogue import Dialogue, Left, WentBack
from screens.moves import Move, Outcome, goes_on, kept_words, left_early, runs_here, worth_keeping
from wizard import flow
from wizard.errors import WizardError
from wizard.flow import TITLES, Journey, Step
from wizard.i18n import _

ENDED_EARLY = 2
INTERRUPTED = 130


STEPS: dict[Step, Callable[[Dialogue, Journey], Outcome]] = {
    Step.START: plain_steps.start,
    Step.MACHINE: plain_steps.machine,
    Step.RUNTIME: plain_steps.runtime,
    Step.MODEL: plain_model.model,
    Step.BUDGET: plain_steps.budget,
    Step.LAUNCH: plain_server.launch,
    Step.SMOKE: plain_server.smoke,
    Step.OPENCODE: plain_server.opencode,
    Step.DIAGNOSE: plain_server.diagnose,
    Step.DONE: plain_server.done,
}


class PlainWizard:
    """Walks the steps over a pair of callables, by default the terminal's."""

    def __init__(
        self,
        journey: Journey | None = None,
        read: Callable[[str], str] = input,
        write: Callable[[str], None] = print,
    ) -> None:
        self.journey = Journey() if journey is None else journey
        self._dialogue = Dialogue(read, write)

    def run(self) -> int:
        """Ask until the road ends. 0: at its end or left on purpose; 2: the input ended; 130: interrupted."""
        try:
            self._walk()
        except Left:
            self._leave()
        except EOFError:
            self._dialogue.say(
                "", _("The input ended before the wizard did. Unattended: vllm-opencode setup --yes")
            )
            self._leave()
            return ENDED_EARLY
        except KeyboardInterrupt:
            self._dialogue.say("", _("Interrupted."))
            self._leave()
            return INTERRUPTED
        return 0

    def _walk(self) -> None:
        while True:
            self._headline()
            outcome = self._step()
            self.journey = outcome.journey
            if outcome.at_end:
                self._leave()
                return
            self.journey = outcome.moved
            self._keep()

    def _keep(self) -> bool:
        """Write the receipt, so that a later start can go on here."""
        if not worth_keeping(self.journey):
            return False
        try:
            flow.save_progress(self.journey)
        except WizardError as error:
            self._dialogue.say(str(error))
            return False
        return True

    def _step(self) -> Outcome:
        """One step, again after an error as often as wanted."""
        while True:
            try:
                return STEPS[self.journey.step](self._dialogue, self.journey)
            except WentBack:
                return Outcome(Move.BACK, self.journey)
            except WizardError as error:
                self._dialogue.say(_("This did not work: {message}").format(message=error.message))
                if error.hint:
                    self._dialogue.say(error.hint)
                if self._after_error() == "back":
                    return Outcome(Move.BACK, self.journey)

    def _after_error(self) -> str:
        options = [("again", _("Try again")), ("back", _("Go back"))]
        try:
            return self._dialogue.choose(_("And now?"), options, "again")
        except WentBack:
            return "back"

    def _headline(self) -> None:
        road, step = self.journey.road, self.journey.step
        line = _("Step {number} of {count}: {title}").format(
            number=road.index(step) + 1, count=len(road), title=_(TITLES[step])
        )
        self._dialogue.say("", line)
        if self.journey.simulated:
            self._dialogue.say(wording.rehearsal(self.journey))

    def _leave(self) -> None:
        """Say what is kept and what goes on, and stop what must not."""
        if left_early(self.journey) and self._keep() and (words := kept_words(self.journey)):
            self._dialogue.say(words)
        if not runs_here(self.journey):
            return
        if self.journey.simulated:
            flow.stop_server(self.journey)
            self._dialogue.say(_("The stand-in for vLLM is stopped."))
        elif self.journey.step is Step.DONE or not self._wants_stop():
            self._dialogue.say(goes_on(self.journey))
        else:
            flow.stop_server(self.journey)
            self._dialogue.say(_("vLLM is stopped."))

    def _wants_stop(self) -> bool:
        """Ask once; whoever cannot answer keeps the server."""
        question = _("The vLLM that was started here is still running. Stop it?")
        try:
            return self._dialogue.agreed(question, False)
        except (EOFError, KeyboardInterrupt, Left, WentBack):
            return False
