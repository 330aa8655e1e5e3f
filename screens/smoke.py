"""Step Smoke test: real requests against the running server, one check after the other."""

from __future__ import annotations

import threading
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import OptionList, Static

from screens import pace, results
from screens.base import COMMON_KEYS, StepScreen
from screens.widgets.checklist import CheckList, item_at
from screens.widgets.modals import DecideModal, ReadModal
from wizard import flow
from wizard.flow import Journey, Step
from wizard.i18n import N_, _
from wizard.smoke import CostlyOption, SmokeCheck

TITLE_WIDTH = 27


class SmokeScreen(StepScreen, inherit_bindings=False):
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
        Binding("t", "tune", N_("tune"), id="tune"),
        Binding("x", "stop", N_("stop tuning"), id="stop"),
        Binding("s", "skip", N_("skip"), id="skip"),
        *COMMON_KEYS,
    ]

    class Checked(Message):
        """One more check is over."""

        def __init__(self, check: SmokeCheck) -> None:
            super().__init__()
            self.check = check

    class Heard(Message):
        """Tuning does something, or something came of it."""

        def __init__(self, line: str) -> None:
            super().__init__()
            self.line = line

    def __init__(self, journey: Journey) -> None:
        super().__init__(journey)
        self._checks: list[SmokeCheck] = []
        self._costs: tuple[CostlyOption, ...] = ()
        self._tuning = False
        self._leaving = threading.Event()

    def compose_body(self) -> ComposeResult:
        """Server, checks, and the whole of the highlighted one."""
        yield Static(id="server", markup=False)
        yield CheckList(TITLE_WIDTH, id="checks")
        yield Static(id="detail", markup=False)
        yield Static(id="verdict", markup=False)
        yield Static(id="speed", markup=False)
        yield Static(id="tuning", markup=False)

    def begin(self) -> None:
        """Test, unless that was done before."""
        if self.journey.smoke is None:
            self.action_again()

    def action_again(self) -> None:
        """Test from the beginning."""
        self.journey = flow.forget(self.journey, Step.SMOKE)
        self.show()
        self.perform(
            _("Asking the model…"), lambda journey: flow.smoke_test(journey, self._tell_later, self.cancel)
        )

    def _tell_later(self, check: SmokeCheck) -> None:
        """A check is over; called from the thread that asks."""
        self.post_message(self.Checked(check))

    def show(self) -> None:
        """Draw the server and a finished test."""
        server, report = self.journey.server, self.journey.smoke
        self._costs = flow.tunable(self.journey)
        if server is not None:
            self.query_one("#server", Static).update(results.server_line(server))
        self._checks = []
        self.query_one(CheckList).clear_options()
        for check in report.checks if report else ():
            self._add(check)
        self.query_one("#detail", Static).update("")
        self.query_one("#verdict", Static).update(results.smoke_summary(report) if report else "")
        lines = (*pace.speed_lines(report.speed), *pace.cost_lines(report.speed)) if report else ()
        self.query_one("#speed", Static).update("\n".join(lines))
        self.query_one("#tuning", Static).update("\n".join(map(pace.attempt_line, self.journey.tuning)))
        self._point_at_failure()

    @on(Checked)
    def _checked(self, event: Checked) -> None:
        if self.journey.smoke is None:
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

    @work(group="tune")
    async def action_tune(self) -> None:
        """Ask, for it stops the server that works; then try."""
        names = ", ".join(cost.option for cost in self._costs)
        question = _(
            "vLLM is stopped and started again without {options}, one after the other. Whatever does not "
            "start, does not pass the test or is not faster is taken back. Each start takes its time."
        ).format(options=names)
        answers = {"tune": _("Try it"), "stay": _("Leave it as it is")}
        if await self.app.push_screen_wait(DecideModal(_("Tune?"), question, answers)) == "tune":
            self._tuning = True
            self.perform(
                _("Tuning…"),
                lambda journey: flow.tune(journey, self._hear_later, self.cancel, self._leaving),
            )

    def _hear_later(self, happened: flow.TuningEvent) -> None:
        """Tuning goes on; called from its thread."""
        if isinstance(happened, flow.Trying):
            self.post_message(self.Heard(pace.trying_line(happened)))
        elif isinstance(happened, flow.Tried):
            self.post_message(self.Heard(pace.attempt_line(happened.attempt)))

    @on(Heard)
    def _heard(self, event: Heard) -> None:
        if self._tuning:
            self.query_one("#tuning", Static).update(event.line)

    def action_stop(self) -> None:
        """Try nothing more; the plan that worked comes back."""
        self.cancel.set()

    @property
    def half_done(self) -> bool:
        """While tuning goes on: the server that worked is stopped."""
        return self._tuning

    async def abandon(self) -> None:
        """Whoever leaves does not wait for the plan that worked: nothing is started again."""
        self._leaving.set()
        await super().abandon()

    def done(self) -> None:
        """Tuned or tested: show it."""
        self._tuning = False
        super().done()

    def failed(self, error: BaseException) -> None:
        """Tuning that fails as a whole leaves no server."""
        if self._tuning:
            self._tuning = False
            self.journey = flow.forget(self.journey, Step.LAUNCH)
            self.show()
        super().failed(error)

    def ready(self) -> bool:
        """Whether the test is over and did not fail; a failed one can only be skipped."""
        return self.journey.smoke is not None and self.journey.smoke.verdict != "fail"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Evidence is offered where there is some, tuning where something costs speed."""
        if self._tuning and action in ("back", "skip", "again", "tune"):
            return None
        if action == "evidence":
            check = self._highlighted() if self.is_mounted else None
            return bool(check and check.evidence) or None
        if action == "again":
            return None if self.busy else True
        if action == "tune":
            return bool(self._costs) and not self.busy
        if action == "stop":
            return self._tuning
        if action == "skip":
            return not self.ready()
        return super().check_action(action, parameters)
