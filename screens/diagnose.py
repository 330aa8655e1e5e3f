"""Step Diagnosis: what a log says, its cause and its cure."""

from __future__ import annotations

from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from screens import results
from screens.base import COMMON_KEYS, StepScreen
from screens.lookups import look_at_trouble
from screens.widgets.checklist import item_at, marked
from screens.widgets.trouble import TroubleModal
from wizard import flow
from wizard.errors import WizardError
from wizard.flow import Journey, Step
from wizard.i18n import N_, _

SEVERITY = {"error": "fail", "warning": "warn", "info": "ok"}
"""The word each severity is shown with."""


class DiagnoseScreen(StepScreen, inherit_bindings=False):
    """The findings in a text, most likely cause first."""

    STEP = Step.DIAGNOSE
    HEADLINE = N_("What is broken, and what helps")
    HELP = N_(
        "The most likely cause comes first. Each finding quotes the lines that show it and says what helps, "
        "best first. Nothing is changed here and nothing leaves this machine; a server is only asked. "
        "When you have done what helps, [r] looks again."
    )
    CSS_PATH = "diagnose.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,n", "next", N_("finish"), id="next"),
        Binding("r", "again", N_("look again"), id="again"),
        Binding("o", "other", N_("something else"), id="other"),
        Binding("p", "report", N_("report"), id="report"),
        *(key for key in COMMON_KEYS if key.id != "next"),
    ]

    def __init__(self, journey: Journey) -> None:
        super().__init__(journey)
        self._typed = ""

    def compose_body(self) -> ComposeResult:
        """Verdict, findings, and the whole of the highlighted one."""
        yield Static(id="verdict", markup=False)
        yield OptionList(id="findings", markup=False)
        with VerticalScroll(id="finding"):
            yield Static(id="detail", markup=False)

    def begin(self) -> None:
        """Read the text, unless that was done before."""
        if self.journey.diagnosis is None:
            self._read(self.journey)

    def _read(self, wanted: Journey) -> None:
        """Read the file another journey names; what is shown here stands until that succeeds."""
        self._typed = wanted.answers.start.log or ""
        words = _("Looking at {source}…").format(source=self._typed)
        self.perform(words, lambda _now: look_at_trouble(wanted, self.cancel))

    def failed(self, error: BaseException) -> None:
        """A file that cannot be read: ask again, with what was typed."""
        if isinstance(error, WizardError):
            self._ask(self._typed, error.message)
        else:
            super().failed(error)

    def show(self) -> None:
        """Draw what was found."""
        diagnosis = self.journey.diagnosis
        if diagnosis is None:
            return
        self.query_one("#verdict", Static).update(results.diagnosis_line(diagnosis))
        findings = self.query_one("#findings", OptionList)
        findings.clear_options()
        findings.add_options(
            Option(marked(SEVERITY[finding.severity], f"{finding.title}  ({finding.fault})"))
            for finding in diagnosis.findings
        )
        findings.highlighted = 0 if diagnosis.findings else None
        findings.focus()

    @on(OptionList.OptionHighlighted)
    def _tell(self, event: OptionList.OptionHighlighted) -> None:
        diagnosis = self.journey.diagnosis
        finding = item_at(diagnosis.findings, event.option_index) if diagnosis else None
        if finding is not None:
            self.query_one("#detail", Static).update("\n".join(results.finding_lines(finding)))

    @on(OptionList.OptionSelected)
    def _selected(self) -> None:
        self.action_next()

    def action_again(self) -> None:
        """Look once more, after something was changed."""
        self._read(self.journey)

    def action_report(self) -> None:
        """Write a redacted report for somebody who helps."""
        if self.journey.diagnosis is not None:
            self.write_report(self.journey.diagnosis, flow.log_named(self.journey))

    def action_other(self) -> None:
        """Read another file."""
        self._ask(self.journey.answers.start.log or "")

    @work
    async def _ask(self, typed: str, problem: str = "") -> None:
        given = await self.app.push_screen_wait(TroubleModal(typed, problem))
        if given is not None:
            changed = flow.diagnose_log(self.journey, given[0])
            self._read(flow.advance(flow.forget(changed, Step.DIAGNOSE)))
