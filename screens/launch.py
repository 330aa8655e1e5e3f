"""Step Launch: the plan to review, the start as it happens, and why it failed."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import ContentSwitcher, Log, Static

from screens import figures, wording
from screens.base import COMMON_KEYS
from screens.curing import CURE_ACTIONS, CURE_KEYS, CuringScreen
from screens.widgets.failure import Failure
from screens.widgets.live import LiveStart
from screens.widgets.modals import DecideModal, ErrorModal
from screens.widgets.review import Review
from screens.widgets.status import Status
from wizard import flow
from wizard.errors import LaunchError, RefusedError
from wizard.flow import Journey, Step
from wizard.i18n import N_, _
from wizard.plan import shell


class Pane(StrEnum):
    """What the body shows: ids of its parts."""

    REVIEW = "review"
    LIVE = "live"
    FAILURE = "failure"


HEADLINES = {
    Pane.REVIEW: N_("What will be started"),
    Pane.LIVE: N_("vLLM as it starts"),
    Pane.FAILURE: N_("vLLM did not come up"),
}


class LaunchScreen(CuringScreen, inherit_bindings=False):
    """From the reviewed plan to a server that answers."""

    STEP = Step.LAUNCH
    HEADLINE = HEADLINES[Pane.REVIEW]
    HELP = N_(
        "First the plan: time, disk, and the command with every option; [?] says why each is there. "
        "Enter starts vLLM. Its stages and the end of its log appear as they happen; [x] stops it. "
        "When it fails, the block of the log that says why is quoted: change something, or try again. "
        "A started vLLM goes on when you leave the wizard, until you stop it."
    )
    CSS_PATH = "launch.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "start", N_("start vLLM"), id="start"),
        *CURE_KEYS,
        Binding("r", "again", N_("again"), id="again"),
        Binding("x", "stop", N_("stop"), id="stop"),
        Binding("l", "larger", N_("log larger"), id="larger"),
        Binding("l", "smaller", N_("log smaller"), id="smaller"),
        Binding("w", "widen", N_("longer window"), id="widen"),
        Binding("y", "copy", N_("copy the command"), id="copy"),
        *COMMON_KEYS,
    ]

    def __init__(self, journey: Journey) -> None:
        super().__init__(journey)
        self._starting = False

    def compose_body(self) -> ComposeResult:
        """One of three panes."""
        with ContentSwitcher(initial=Pane.REVIEW, id="panes"):
            yield Review(id=Pane.REVIEW)
            yield LiveStart(id=Pane.LIVE)
            yield Failure(id=Pane.FAILURE)

    @property
    def _pane(self) -> str | None:
        return self.query_one("#panes", ContentSwitcher).current

    def _turn_to(self, pane: Pane) -> None:
        self.query_one("#panes", ContentSwitcher).current = pane
        self.query_one("#headline", Static).update(_(HEADLINES[pane]))
        self.refresh_bindings()

    def show(self) -> None:
        """Draw the plan; with a server that runs already, say where."""
        self.query_one(Review).show(self.journey)
        server = self.journey.server
        if server is not None:
            words = _("READY: vLLM answers at {url}, window {window}").format(
                url=server.base_url, window=figures.count(server.max_model_len)
            )
            self.query_one(Status).end(words)
        self.query_one(Review).focus()
        if self.journey.diagnosis is not None and self.journey.smoke is not None:
            text = _("vLLM runs, but its tool calls do not arrive.")
            log = self.journey.run.log if self.journey.run is not None else ""
            self.failed(flow.StartFailed(text, found=self.journey.diagnosis, log=log))

    def action_start(self) -> None:
        """Start vLLM."""
        live = self.query_one(LiveStart)
        live.reset()
        self._turn_to(Pane.LIVE)
        self.query_one(Log).focus()
        self._starting = True
        self.perform(_("Starting vLLM…"), lambda journey: flow.launch(journey, live.emit, self.cancel))

    def action_again(self) -> None:
        """Start once more after a failure."""
        self.action_start()

    def done(self) -> None:
        """The server answers, or was stopped."""
        self._starting = False
        self.query_one(LiveStart).drain()
        self.journey = flow.confirm(self.journey)
        self.show()
        if self.journey.server is None:
            self._turn_to(Pane.REVIEW)

    def failed(self, error: BaseException) -> None:
        """Quote why the start failed; a stop on demand leads back to the plan."""
        self._starting = False
        live = self.query_one(LiveStart)
        live.drain()
        if isinstance(error, LaunchError):
            if isinstance(error, flow.StartFailed):
                self._failure = error
                self.journey = flow.settle(self.journey, error.diagnosis)
            self._turn_to(Pane.FAILURE)
            self.query_one(Failure).show(error, live.seconds, self.journey)
            self.refresh_bindings()
            return
        self._turn_to(Pane.REVIEW)
        plan = self.journey.plan
        if isinstance(error, RefusedError) and plan is not None and plan.runtime_kind == "assumed":
            self.app.push_screen(ErrorModal(error, wording.install_hint()))
        else:
            super().failed(error)

    @property
    def half_done(self) -> bool:
        """Whether vLLM is being started."""
        return self._starting

    def ready(self) -> bool:
        """Whether a server answers."""
        return self.journey.server is not None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Each state has its keys: start, stop, or try again."""
        plan, server = self.journey.plan, self.journey.server
        match action:
            case "start":
                possible = plan is not None and not plan.refused
                return self._pane == Pane.REVIEW and server is None and possible and not self.busy
            case "next" if server is None or self._pane == Pane.FAILURE:
                return False
            case "again":
                return self._pane == Pane.FAILURE
            case "copy":
                return self._pane != Pane.FAILURE
            case _ if action in CURE_ACTIONS:
                return self._pane == Pane.FAILURE and self.cure_key(action)
            case "widen":
                return flow.longer_edit(self.journey) is not None and not self.busy
            case "stop":
                return self.busy or server is not None
            case "larger" | "smaller":
                enlarged = self.query_one(LiveStart).has_class("-log")
                return self._pane == Pane.LIVE and enlarged is (action == "smaller")
            case "back" if self.busy:
                return None
        return super().check_action(action, parameters)

    def start_cured(self) -> None:
        """Start with the remedy in the plan."""
        self.query_one(Review).show(self.journey)
        self.action_start()

    def action_widen(self) -> None:
        """Plan the longer window that vLLM measured room for; starting it stops the vLLM of now."""
        self.perform(_("Computing…"), flow.widen)

    def action_stop(self) -> None:
        """Stop the start, or the server that came of it."""
        if self.busy:
            self.query_one(Status).begin(_("Stopping vLLM…"))
            self.cancel.set()
        else:
            self._stop_server()

    @work
    async def _stop_server(self) -> None:
        answers = {"stay": _("Leave it running"), "stop": _("Stop it")}
        question = _("Stop the vLLM that runs now?")
        if await self.app.push_screen_wait(DecideModal(_("Stop vLLM"), question, answers)) == "stop":
            self.perform(_("Stopping vLLM…"), flow.stop_server)

    def action_larger(self) -> None:
        """Give the log all the room."""
        self.query_one(LiveStart).enlarge(True)
        self.refresh_bindings()

    def action_smaller(self) -> None:
        """Show the stages above the log again."""
        self.query_one(LiveStart).enlarge(False)
        self.refresh_bindings()

    def action_copy(self) -> None:
        """Hand the command to the terminal's clipboard."""
        if self.journey.plan is not None:
            self.app.copy_to_clipboard(shell(self.journey.plan))
            words = _("Copied, if your terminal allows it. Else: vllm-opencode plan --format shell")
            self.notify(words, markup=False)

    def reasons(self) -> list[str]:
        """Why each part of the plan is there."""
        return [] if self.journey.plan is None else list(wording.plan_reasons(self.journey.plan))
