"""Step Machine: what this host is, and what stands in the way."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import OptionList, Static

from screens import wording
from screens.base import COMMON_KEYS, StepScreen
from screens.checkwords import check_title
from screens.moves import Move
from screens.widgets.checklist import CheckList, item_at
from screens.widgets.modals import AskModal, MachineModal
from screens.widgets.status import Status
from wizard import flow
from wizard.flow import Journey, Step
from wizard.i18n import N_, _
from wizard.machine import Check

TITLE_WIDTH = 15


def _told(check: Check) -> list[str]:
    """The whole of a check, a line each: what was found, what to do, the command that proves it."""
    command = f"$ {check.command}" if check.command else ""
    return [line for line in (check.detail, check.hint, command) if line]


class MachineScreen(StepScreen, inherit_bindings=False):
    """GPUs, memory and host checks."""

    STEP = Step.MACHINE
    HEADLINE = N_("This machine, and what stands in the way")
    HELP = N_(
        "Every GPU with its compute capability, memory and bandwidth, then the checks of the host. "
        "A check that is not OK says below what to do; look again afterwards. "
        "Nothing here has to be OK to go on, but a FAIL will meet you again. "
        "Saving writes this machine down without what names it or you, for others to rehearse on."
    )
    CSS_PATH = "machine.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "again", N_("look again"), id="again"),
        Binding("s", "save", N_("save this machine"), id="save"),
        Binding("p", "practise", N_("practise on a recorded machine"), id="practise"),
        *COMMON_KEYS,
    ]

    _saved = ""
    """Where this machine is being written down; empty: it is not."""

    def compose_body(self) -> ComposeResult:
        """Machine, GPUs, checks, and the whole of the highlighted check."""
        yield Static(id="product", markup=False)
        with VerticalScroll(id="gpus"):
            yield Static(id="gpu-lines", markup=False)
        yield Static(id="counts", markup=False)
        yield CheckList(TITLE_WIDTH, id="checks")
        yield Static(id="detail", markup=False)

    def begin(self) -> None:
        """Look, unless this machine was looked at before."""
        if self.journey.machine is None:
            self.action_again()

    def action_again(self) -> None:
        """Look at the machine."""
        self.perform(
            _("Looking at this machine…"),
            lambda journey: flow.look_at_machine(flow.forget(journey, Step.MACHINE)),
        )

    @work
    async def action_save(self) -> None:
        """Write this machine down for others; what is shown here stays as it is."""
        question = _("File to write")
        given = await self.app.push_screen_wait(
            AskModal(_("Save this machine"), ((question, flow.recording_name()),))
        )
        if given is not None:
            self._saved = given[0]
            self.perform(_("Reading this machine and writing it down…"), self._save)

    def _save(self, journey: Journey) -> Journey:
        flow.save_machine(journey, Path(self._saved))
        return journey

    def done(self) -> None:
        """The machine was looked at, or written down."""
        super().done()
        if self._saved:
            self.query_one(Status).end(wording.recorded_in(self._saved))
            self._saved = ""

    def failed(self, error: BaseException) -> None:
        """Nothing was written."""
        self._saved = ""
        super().failed(error)

    def show(self) -> None:
        """Draw the machine and its checks."""
        journey, machine = self.journey, self.journey.machine
        if machine is None:
            return
        self.query_one("#product", Static).update(wording.machine_head(machine))
        planned = journey.choice.gpus if journey.choice else ()
        lines = wording.gpu_lines(machine, planned)
        if not lines:
            lines = [
                _("There is no NVIDIA GPU here that vLLM could use."),
                _("You can rehearse on a recorded machine [p], or go back and connect to a vLLM elsewhere."),
            ]
        self.query_one("#gpu-lines", Static).update("\n".join(lines))
        words = [check.status for check in journey.checks]
        counted = [
            f"{words.count(status)} {wording.status_word(status)}"
            for status in ("ok", "warn", "fail", "skip")
            if status in words
        ]
        self.query_one("#counts", Static).update(f"{_('Checks')}   {'  '.join(counted)}")
        checks = self.query_one(CheckList)
        checks.clear_options()
        for check in journey.checks:
            checks.add_line(check.status, check_title(check.id), check.detail)
        checks.highlighted = next((words.index(word) for word in ("fail", "warn") if word in words), 0)
        checks.focus()

    @on(OptionList.OptionHighlighted)
    def _tell(self, event: OptionList.OptionHighlighted) -> None:
        check = item_at(self.journey.checks, event.option_index)
        if check is None:
            return
        self.query_one("#detail", Static).update("\n".join(_told(check)))

    def ready(self) -> bool:
        """Whether the machine was looked at."""
        return self.journey.machine is not None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Practising is offered where there is nothing to work with; saving, for a machine that is here."""
        if action == "practise":
            machine = self.journey.machine
            return machine is not None and not any(gpu.usable for gpu in machine.gpus)
        if action == "save":
            return False if self.journey.simulated else None if self.busy or not self.ready() else True
        return super().check_action(action, parameters)

    def reasons(self) -> list[str]:
        """Each check that is not OK, with what to do and what proves it."""
        return [
            "\n".join(
                (
                    f"{wording.status_word(check.status)}  {check_title(check.id)}",
                    *_told(check),
                )
            )
            for check in self.journey.checks
            if check.status in ("warn", "fail")
        ]

    @work
    async def action_practise(self) -> None:
        """Leave this machine alone and play on a recorded one."""
        modal = MachineModal(self.journey.answers.machine.simulate)
        name = await self.app.push_screen_wait(modal)
        if name is not None:
            self.finish(Move.NEXT, flow.rehearse_on(self.journey, name))
