"""Step Smoke test: real requests against the running server, one check after the other."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import OptionList, Static

from screens import pace, results
from screens.base import COMMON_KEYS
from screens.moves import Move
from screens.restarting import RESTART_KEYS, RestartingScreen
from screens.widgets.checklist import CheckList, item_at
from screens.widgets.modals import ReadModal
from wizard import flow
from wizard.flow import Journey, Step
from wizard.i18n import N_, _
from wizard.smoke import SmokeCheck, SmokeReport

TITLE_WIDTH = 27


class SmokeScreen(RestartingScreen, inherit_bindings=False):
    """Do tool calls work with this server, as opencode makes them?"""

    STEP = Step.SMOKE
    HEADLINE = N_("Do tool calls work, as opencode makes them?")
    HELP = N_(
        "opencode can only work with a model whose tool calls arrive as calls, while the answer streams. "
        "Each check is one real request. A required check that fails means opencode would not work; "
        "the evidence shows what was asked and what came. "
        "The speed stands beside what the memory of the GPUs would allow; options that cost some of it can "
        "be left out one by one: what does not start, does not pass or is not faster is taken back. "
        "You may skip the test; then nothing proves that this server works with opencode."
    )
    CSS_PATH = "smoke.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e,v", "evidence", N_("evidence"), id="evidence"),
        Binding("r", "again", N_("test again"), id="again"),
        *RESTART_KEYS,
        Binding("h", "helps", N_("what helps"), id="helps"),
        Binding("s", "skip", N_("skip"), id="skip"),
        *COMMON_KEYS,
    ]

    class Checked(Message):
        """One more check is over."""

        def __init__(self, check: SmokeCheck) -> None:
            super().__init__()
            self.check = check

    def __init__(self, journey: Journey) -> None:
        super().__init__(journey)
        self._checks: list[SmokeCheck] = []
        self._testing = True

    def compose_body(self) -> ComposeResult:
        """Server, checks, and the whole of the highlighted one."""
        yield Static(id="server", markup=False)
        yield CheckList(TITLE_WIDTH, id="checks")
        yield Static(id="detail", markup=False)
        yield Static(id="verdict", markup=False)
        yield Static(id="speed", markup=False)
        yield Static(id="restart", markup=False)

    def begin(self) -> None:
        """Test, unless that was done before."""
        if self.journey.smoke is None:
            self.action_again()

    def action_again(self) -> None:
        """Test from the beginning."""
        self.journey = flow.forget(self.journey, Step.SMOKE)
        self.show()
        self.perform(
            _("Asking the model…"), lambda journey: flow.smoke_test(journey, self.tell_later, self.cancel)
        )

    def tell_later(self, check: SmokeCheck) -> None:
        """A check is over; called from the thread that asks."""
        self.post_message(self.Checked(check))

    def show(self) -> None:
        """Draw the server and a finished test."""
        server, report = self.journey.server, self.journey.smoke
        self.costs = flow.tunable(self.journey)
        if server is not None:
            self.query_one("#server", Static).update(results.server_line(server))
        self._fill(report)
        self.query_one("#restart", Static).update("\n".join(map(pace.attempt_line, self.journey.tuning)))
        self._point_at_failure()

    def _fill(self, report: SmokeReport | None) -> None:
        """The checks of a finished test with verdict and speed; None: a test begins."""
        self._checks = []
        self._testing = report is None
        self.query_one(CheckList).clear_options()
        for check in report.checks if report else ():
            self._add(check)
        self.query_one("#detail", Static).update("")
        self.query_one("#verdict", Static).update(results.smoke_summary(report) if report else "")
        lines = (*pace.speed_lines(report.speed), *pace.cost_lines(report.speed)) if report else ()
        self.query_one("#speed", Static).update("\n".join(lines))

    def done(self) -> None:
        """The test is over; one that passed also says that the last remedy helped."""
        self.journey = flow.confirm(self.journey)
        super().done()

    @on(Checked)
    def _checked(self, event: Checked) -> None:
        if self._testing:
            self._add(event.check)

    def _add(self, check: SmokeCheck) -> None:
        self._checks.append(check)
        mark = "*" if check.required else " "
        self.query_one(CheckList).add_line(check.status, f"{mark} {check.title}", check.detail)

    def _point_at_failure(self) -> None:
        """Highlight the first check that failed, and with it its hint."""
        checks = self.query_one(CheckList)
        if self._checks:
            failed = (number for number, check in enumerate(self._checks) if check.status == "fail")
            checks.highlighted = next(failed, 0)
        checks.focus()

    @on(OptionList.OptionHighlighted)
    def _tell(self, event: OptionList.OptionHighlighted) -> None:
        check = item_at(self._checks, event.option_index)
        if check is None:
            return
        lines = [check.detail, check.hint]
        if check.required:
            lines.append(_("* Required: opencode does not work without it."))
        else:
            lines.append(_("Not required: opencode works without it."))
        if check.evidence:
            lines.append(_("[e] shows what was asked and what came."))
        self.query_one("#detail", Static).update("\n".join(line for line in lines if line))
        self.refresh_bindings()

    def _highlighted(self) -> SmokeCheck | None:
        return item_at(self._checks, self.query_one(CheckList).highlighted)

    def action_evidence(self) -> None:
        """What the server answered, as it came."""
        check = self._highlighted()
        if check is not None:
            self.app.push_screen(
                ReadModal(check.title, [text for text in (check.detail, check.evidence, check.hint) if text])
            )

    def begin_anew(self) -> None:
        """The checks of the old server are gone; its plan and its run stay until the new one is there."""
        self._fill(None)

    def action_helps(self) -> None:
        """Back to the launch, with the remedies for what the test showed."""
        self.finish(Move.GO, flow.with_smoke_fault(self.journey))

    def ready(self) -> bool:
        """Whether the test is over and did not fail; a failed one can only be skipped."""
        return self.journey.smoke is not None and self.journey.smoke.verdict != "fail"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Evidence is offered where there is some."""
        if self.half_done:
            return super().check_action(action, parameters)
        if action == "helps":
            report = self.journey.smoke
            planned = self.journey.plan is not None and self.journey.started_here
            return planned and report is not None and report.verdict == "fail" and not self.busy
        if action == "evidence":
            check = self._highlighted() if self.is_mounted else None
            return bool(check and check.evidence) or None
        if action == "again":
            return None if self.busy else True
        if action == "skip":
            return not self.ready()
        return super().check_action(action, parameters)
