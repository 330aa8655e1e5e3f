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
from screens.lookups import read_log
from screens.widgets.checklist import item_at, marked
from screens.widgets.modals import LogModal
from wizard import flow
from wizard.errors import WizardError
from wizard.flow import Journey, Step
from wizard.i18n import N_, _

SEVERITY = {"error": "fail", "warning": "warn", "info": "ok"}
"""The word each severity is shown with."""


class DiagnoseScreen(StepScreen, inherit_bindings=False):
    """The findings in a text, most likely cause first."""

    STEP = Step.DIAGNOSE
    HEADLINE = N_("What the log says")
    HELP = N_(
        "The most likely cause comes first. Each finding quotes the lines that show it and says what helps, "
        "best first. The text is only read, nothing is changed and nothing leaves this machine."
    )
    CSS_PATH = "diagnose.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,n", "next", N_("finish"), id="next"),
        Binding("o", "other", N_("read another file"), id="other"),
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
        self.perform(_("Reading {file}…").format(file=self._typed), lambda _now: read_log(wanted))

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

    def action_other(self) -> None:
        """Read another file."""
        self._ask(self.journey.answers.start.log or "")

    @work
    async def _ask(self, typed: str, problem: str = "") -> None:
        given = await self.app.push_screen_wait(LogModal(typed, problem))
        if given is not None:
            changed = flow.diagnose_log(self.journey, given[0])
            self._read(flow.advance(flow.forget(changed, Step.DIAGNOSE)))
