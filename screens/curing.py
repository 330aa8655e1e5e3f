"""The keys of a failed start: apply a remedy and start again, see what it changes, hand a report on."""

from __future__ import annotations

from textual import on
from textual.binding import Binding
from textual.widgets import OptionList

from screens import failing
from screens.base import StepScreen
from screens.widgets.failure import Failure
from screens.widgets.modals import ReadModal
from wizard import flow
from wizard.flow import Journey
from wizard.i18n import N_, _

CURE_KEYS: tuple[Binding, ...] = (
    Binding("enter", "cure", N_("apply and start again"), id="cure"),
    Binding("enter", "steps", N_("show the steps"), id="steps"),
    Binding("d", "difference", N_("change"), id="difference"),
    Binding("p", "report", N_("report"), id="report"),
    Binding("l", "evidence", N_("log"), id="evidence"),
)
"""Keys of a screen that shows a failure; it names them after its own."""
CURE_ACTIONS = frozenset(binding.action for binding in CURE_KEYS)


class CuringScreen(StepScreen, inherit_bindings=False):
    """A step that can fail with a fault. A subclass shows ``Failure`` and starts again in ``start_cured``."""

    def __init__(self, journey: Journey) -> None:
        super().__init__(journey)
        self._failure: flow.StartFailed | None = None

    def start_cured(self) -> None:
        """Start once more, with the plan of the journey as it is now."""

    def cure_key(self, action: str) -> bool:
        """Which keys the failure offers: an edit of the plan can be applied, anything else only be shown."""
        failure = self.query_one(Failure)
        remedy = failure.remedy
        possible = remedy is not None and flow.may_apply(self.journey, remedy)
        match action:
            case "cure":
                return possible
            case "steps":
                return remedy is not None and not possible
            case "difference":
                return remedy is not None and bool(flow.preview(self.journey, remedy))
            case "evidence":
                return self._failure is not None and bool(self._failure.log)
        return self._failure is not None

    @on(OptionList.OptionHighlighted, "#remedies")
    def _other_remedy(self) -> None:
        self.refresh_bindings()

    @on(OptionList.OptionSelected, "#remedies")
    def _remedy_chosen(self) -> None:
        if self.cure_key("cure"):
            self.action_cure()
        else:
            self.action_steps()

    def action_cure(self) -> None:
        """Apply the highlighted remedy to the plan and start again."""
        failure = self.query_one(Failure)
        finding, remedy = failure.finding, failure.remedy
        if finding is not None and remedy is not None:
            self.journey = flow.apply_remedy(self.journey, finding, remedy)
            self.start_cured()

    def action_steps(self) -> None:
        """What is to be done by hand."""
        if (remedy := self.query_one(Failure).remedy) is not None:
            self.app.push_screen(ReadModal(_("What to do"), failing.remedy_steps(remedy)))

    def action_difference(self) -> None:
        """What the remedy would change in the command and its environment."""
        if (remedy := self.query_one(Failure).remedy) is not None:
            lines = "\n".join(flow.preview(self.journey, remedy))
            self.app.push_screen(ReadModal(_("What it changes"), [remedy.title, lines]))

    def action_report(self) -> None:
        """Write a redacted report for somebody who helps."""
        if self._failure is not None:
            self.write_report(self._failure.diagnosis, self._failure.log)

    def action_evidence(self) -> None:
        """The log around the line that shows the fault."""
        finding = self.query_one(Failure).finding
        if self._failure is not None:
            line = finding.evidence[0].line if finding is not None and finding.evidence else None
            lines = flow.log_around(self._failure.log, line)
            title = _("Log: {path}").format(path=self._failure.log)
            self.app.push_screen(ReadModal(title, ["\n".join(lines)]))
