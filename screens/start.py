"""Step Start: the roads, the express one first."""

from __future__ import annotations

from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from screens.base import COMMON_KEYS, StepScreen
from screens.lookups import look_at_trouble
from screens.moves import Move
from screens.widgets.modals import AskModal, DecideModal, MachineModal
from screens.widgets.status import Status
from screens.widgets.trouble import TroubleModal
from wizard import flow
from wizard.errors import RefusedError, WizardError
from wizard.flow import Journey, Step
from wizard.i18n import N_, _

ROADS: dict[str, tuple[str, str]] = {
    "resume": (
        N_("[g] Go on where you were"),
        N_("Takes what you answered last time and looks at everything again."),
    ),
    "express": (
        N_("[e] Choose for me"),
        N_(
            "Looks at this machine, chooses vLLM, model and window, and shows all of it "
            "before anything is touched."
        ),
    ),
    "install": (
        N_("[i] Install here, step by step"),
        N_("The same, with a look and a choice at every step."),
    ),
    "connect": (
        N_("[c] Connect to a running vLLM"),
        N_("Tests its tool calls and writes the opencode configuration for it. Needs no GPU here."),
    ),
    "broken": (
        N_("[d] Something is broken: diagnose it"),
        N_("Reads a log of vLLM, an error or what opencode printed, and names cause and cure."),
    ),
    "rehearse": (
        N_("[p] Practise: rehearse on a recorded machine"),
        N_("The whole road with a stand-in for vLLM, in a scratch folder. Nothing real is touched."),
    ),
}
"""Id, title with its key, and explanation of each road."""


class StartScreen(StepScreen, inherit_bindings=False):
    """Which road to take."""

    STEP = Step.START
    HEADLINE = N_("From bare NVIDIA hardware to a coding agent that works. What shall be done?")
    HELP = N_(
        "Choose a road with the arrows and Enter, or with the letter in front of it. "
        "Nothing is changed on this machine before you saw what and said so. "
        "Quitting keeps what you answered: the next start offers to go on there."
    )
    CSS_PATH = "start.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("g", "road('resume')", N_("go on"), id="resume"),
        Binding("e", "road('express')", N_("choose"), id="express"),
        Binding("i", "road('install')", N_("install"), id="install"),
        Binding("c", "road('connect')", N_("connect"), id="connect"),
        Binding("d", "road('broken')", N_("diagnose"), id="diagnose"),
        Binding("p", "road('rehearse')", N_("practise"), id="rehearse"),
        *COMMON_KEYS,
    ]

    class Looked(Message):
        """The last receipt was read: a journey to go on with, and a sentence about it."""

        def __init__(self, journey: Journey | None, note: str) -> None:
            super().__init__()
            self.journey = journey
            self.note = note

    class Choosing(Message):
        """The express road reached a step."""

        def __init__(self, title: str) -> None:
            super().__init__()
            self.title = title

    def __init__(self, journey: Journey) -> None:
        super().__init__(journey)
        self._earlier: Journey | None = None
        self._after = Move.NEXT
        self._log: str | None = None
        """The file that is being read, if that is the work."""

    def compose_body(self) -> ComposeResult:
        """The roads over the explanation of the highlighted one."""
        yield OptionList(id="roads", markup=False)
        yield Static(id="explanation", markup=False)

    def show(self) -> None:
        """List the roads; going on is one only when there is something to go on with."""
        offered = self.query_one("#roads", OptionList)
        offered.clear_options()
        for road, (title, _explanation) in ROADS.items():
            if road != "resume" or self._earlier is not None:
                offered.add_option(Option(_(title), id=road))
        offered.highlighted = 0
        offered.focus()

    def begin(self) -> None:
        """Look for a receipt of an unfinished set-up."""
        if self.journey.machine is None and not self.journey.simulated:
            self._look_back()

    @work(thread=True, exit_on_error=False, group="receipt")
    def _look_back(self) -> None:
        self.post_message(self.Looked(*flow.resume()))

    @on(Looked)
    def _looked(self, event: Looked) -> None:
        self._earlier = event.journey
        self.query_one(Status).end(event.note)
        if event.journey is not None:
            self.show()
            self.refresh_bindings()

    @on(OptionList.OptionHighlighted)
    def _explain(self, event: OptionList.OptionHighlighted) -> None:
        self.query_one("#explanation", Static).update(_(ROADS[event.option_id or "install"][1]))

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.action_road(event.option_id or "install")

    def action_next(self) -> None:
        """Take the highlighted road."""
        option = self.query_one("#roads", OptionList).highlighted_option
        if option is not None:
            self.action_road(option.id or "install")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """One can only go on with something; while work goes on the roads wait."""
        if action == "road":
            if parameters == ("resume",) and self._earlier is None:
                return False
            return None if self.busy else True
        return super().check_action(action, parameters)

    def action_road(self, road: str) -> None:
        """Take a road; some ask for an address, a file or a machine first."""
        if self.busy:
            return
        match road:
            case "resume" if self._earlier is not None:
                self.finish(Move.GO, self._earlier)
            case "express":
                self.journey = flow.take_road(self.journey, "install")
                self._after = Move.GO
                self.perform(_("Choosing for you…"), self._choose)
            case "install":
                self.finish(Move.NEXT, flow.take_road(self.journey, "install"))
            case "connect":
                self._ask_address()
            case "broken":
                self._ask_log(self.journey.answers.start.log or "")
            case "rehearse":
                self._ask_machine()

    def _choose(self, journey: Journey) -> Journey:
        return flow.choose_for_me(journey, self._tell)

    def _tell(self, event: object) -> None:
        if isinstance(event, flow.StepEvent):
            self.post_message(self.Choosing(event.title))

    @on(Choosing)
    def _choosing(self, event: Choosing) -> None:
        if self.busy:
            self.query_one(Status).begin(_("Choosing for you: {step}…").format(step=event.title))

    def done(self) -> None:
        """The express road has a plan, the running server answered, or the log was read."""
        self.finish(self._after)

    def failed(self, error: BaseException) -> None:
        """What did not work, with what can be done about it from here."""
        log, self._log = self._log, None
        if log is not None and isinstance(error, WizardError):
            self._ask_log(log, error.message)
        elif self._after is Move.GO and isinstance(error, RefusedError):
            self._offer_practice(error)
        else:
            super().failed(error)

    @work
    async def _offer_practice(self, error: RefusedError) -> None:
        """Nothing can be chosen for this machine: practise, or look why, step by step."""
        answers = {
            "rehearse": _("Practise: rehearse on a recorded machine"),
            "install": _("Look at this machine, step by step"),
            "close": _("Close"),
        }
        modal = DecideModal(_("This did not work"), error.message, answers)
        road = await self.app.push_screen_wait(modal)
        if road in ROADS:
            self.action_road(road)

    @work
    async def _ask_address(self) -> None:
        answers = self.journey.answers
        questions = (
            (_("Address of the running vLLM"), answers.start.base_url or "http://127.0.0.1:8000/v1"),
            (_("File with its API key, if it wants one"), answers.serve.api_key_file or ""),
        )
        given = await self.app.push_screen_wait(AskModal(_("Connect to a running vLLM"), questions))
        if given is not None:
            self.journey = flow.connect_to(self.journey, *given)
            self._after = Move.NEXT
            self.perform(_("Asking {url}…").format(url=given[0]), flow.connect)

    @work
    async def _ask_log(self, typed: str, problem: str = "") -> None:
        given = await self.app.push_screen_wait(TroubleModal(typed, problem))
        if given is not None:
            wanted = flow.diagnose_log(self.journey, given[0])
            self._log, self._after = given[0], Move.NEXT
            self.perform(
                _("Looking at {source}…").format(source=given[0]),
                lambda _now: look_at_trouble(wanted, self.cancel),
            )

    @work
    async def _ask_machine(self) -> None:
        modal = MachineModal(self.journey.answers.machine.simulate)
        name = await self.app.push_screen_wait(modal)
        if name is not None:
            self.finish(Move.NEXT, flow.rehearse_on(self.journey, name))
