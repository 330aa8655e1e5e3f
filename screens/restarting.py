"""What the Smoke step does to a server of ours: starts it anew, less cautiously or with another parser."""

from __future__ import annotations

import threading

from textual import on, work
from textual.binding import Binding
from textual.message import Message
from textual.widgets import Static

from screens import pace
from screens.base import StepScreen
from screens.widgets.finder import FinderModal
from screens.widgets.modals import DecideModal
from wizard import flow
from wizard.flow import Journey, LaunchEvent, Step
from wizard.i18n import N_, _
from wizard.serve import Milestone
from wizard.smoke import CostlyOption, SmokeCheck
from wizard.smoke.finder import ParserSearch

RESTART_KEYS: tuple[Binding, ...] = (
    Binding("p", "find", N_("find the parser"), id="find"),
    Binding("t", "tune", N_("tune"), id="tune"),
    Binding("x", "stop", N_("stop"), id="stop"),
)


class RestartingScreen(StepScreen, inherit_bindings=False):
    """While the server is started anew nobody walks away from it; leaving altogether stops it."""

    class Heard(Message):
        """A restart does something, or something came of it."""

        def __init__(self, line: str) -> None:
            super().__init__()
            self.line = line

    class Found(Message):
        """The parser finder is through."""

        def __init__(self, search: ParserSearch) -> None:
            super().__init__()
            self.search = search

    def __init__(self, journey: Journey) -> None:
        super().__init__(journey)
        self.costs: tuple[CostlyOption, ...] = ()
        """What could be left out, as the screen shows it."""
        self._anew = False
        self._leaving = threading.Event()

    def tell_later(self, check: SmokeCheck) -> None:
        """A check is over; called from the thread that asks."""
        raise NotImplementedError

    @work(group="restart")
    async def action_tune(self) -> None:
        """Ask, for it stops the server that works; then try."""
        names = ", ".join(cost.option for cost in self.costs)
        question = _(
            "vLLM is stopped and started again without {options}, one after the other. Whatever does not "
            "start, does not pass the test or is not faster is taken back. Each start takes its time."
        ).format(options=names)
        answers = {"tune": _("Try it"), "stay": _("Leave it as it is")}
        if await self.app.push_screen_wait(DecideModal(_("Tune?"), question, answers)) == "tune":
            self._anew = True
            self.perform(
                _("Tuning…"),
                lambda journey: flow.tune(journey, self._hear_later, self.cancel, self._leaving),
            )

    def action_find(self) -> None:
        """Try the parsers of the installed vLLM over what the model writes."""

        def search(journey: Journey) -> Journey:
            self.post_message(self.Found(flow.find_parsers(journey, self.cancel)))
            return journey

        self.perform(_("Trying every parser over what the model writes…"), search)

    @on(Found)
    def _found(self, event: Found) -> None:
        self._consider(event.search)

    @work(group="restart")
    async def _consider(self, search: ParserSearch) -> None:
        """Show what was found; with a yes the plan is changed, and the server started and tested anew."""
        edit = flow.parser_edit(self.journey, search)
        if await self.app.push_screen_wait(FinderModal(search, edit)) != "start" or edit is None:
            return
        self._anew = True
        self.begin_anew()
        self.perform(
            _("Starting vLLM with the parser that fits…"),
            lambda journey: flow.with_parsers(
                journey, edit, emit=self._hear_later, on_check=self.tell_later, cancel=self.cancel
            ),
        )

    def begin_anew(self) -> None:
        """Another server will be tested: what was shown of the old one is gone."""

    def _hear_later(self, happened: flow.TuningEvent | LaunchEvent) -> None:
        """A restart goes on; called from its thread."""
        if isinstance(happened, flow.Trying):
            self.post_message(self.Heard(pace.trying_line(happened)))
        elif isinstance(happened, flow.Tried):
            self.post_message(self.Heard(pace.attempt_line(happened.attempt)))
        elif isinstance(happened, Milestone):
            self.post_message(self.Heard(f"{_(happened.title)}  {happened.detail}".rstrip()))

    @on(Heard)
    def _heard(self, event: Heard) -> None:
        if self._anew:
            self.query_one("#restart", Static).update(event.line)

    def action_stop(self) -> None:
        """Try nothing more: after tuning the plan that worked comes back."""
        self.cancel.set()

    @property
    def half_done(self) -> bool:
        """While the server is started anew."""
        return self._anew

    async def abandon(self) -> None:
        """Whoever leaves does not wait for the plan that worked: nothing is started again."""
        self._leaving.set()
        await super().abandon()

    def done(self) -> None:
        """Show what came of it."""
        self._anew = False
        super().done()

    def failed(self, error: BaseException) -> None:
        """A restart that fails as a whole leaves no server."""
        if self._anew:
            self._anew = False
            self.journey = flow.forget(self.journey, Step.LAUNCH)
            self.show()
        super().failed(error)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Tuning is offered where something costs speed, the finder where calls did not arrive."""
        report = self.journey.smoke
        if self._anew and action in ("skip", "again", "tune", "find", "helps"):
            return False
        if self._anew and action == "back":
            return None
        match action:
            case "tune":
                return bool(self.costs) and not self.busy
            case "find":
                return report is not None and report.verdict != "pass" and not self.busy
            case "stop":
                return self._anew
        return super().check_action(action, parameters)
