"""Step Diagnosis: what a log says, its cause and its cure."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from screens import results
from screens.base import COMMON_KEYS, StepScreen
from screens.widgets.checklist import marked
from screens.widgets.modals import AskModal
from wizard import flow
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

    def compose_body(self) -> ComposeResult:
        """Verdict, findings, and the whole of the highlighted one."""
        yield Static(id="verdict", markup=False)
        yield OptionList(id="findings", markup=False)
        with VerticalScroll(id="finding"):
            yield Static(id="detail", markup=False)

    def begin(self) -> None:
        """Read the text, unless that was done before."""
        if self.journey.diagnosis is None:
            self.perform(_("Reading {file}…").format(file=self.journey.answers.start.log), _diagnosed)

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
        if self.journey.diagnosis is not None:
            finding = self.journey.diagnosis.findings[event.option_index]
            self.query_one("#detail", Static).update("\n".join(results.finding_lines(finding)))

    @on(OptionList.OptionSelected)
    def _selected(self) -> None:
        self.action_next()

    @work
    async def action_other(self) -> None:
        """Read another file."""
        log = self.journey.answers.start.log or ""
        question = (_("File to read: a log of vLLM, or what opencode printed"), log)
        given = await self.app.push_screen_wait(AskModal(_("Something is broken"), (question,)))
        if given is not None:
            changed = flow.diagnose_log(self.journey, given[0])
            self.journey = flow.advance(flow.forget(changed, Step.DIAGNOSE))
            self.begin()


def _diagnosed(journey: Journey) -> Journey:
    diagnosis = flow.diagnose(journey.answers.start.log or "")
    return msgspec.structs.replace(journey, diagnosis=diagnosis)
