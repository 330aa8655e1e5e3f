"""Step Runtime: the vLLM that will be started."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import msgspec
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from screens import wording
from screens.base import COMMON_KEYS, StepScreen
from screens.moves import Move
from screens.recipe import RecipeScreen
from screens.widgets.checklist import item_at, marked
from screens.widgets.modals import AskModal, ErrorModal, ReadModal
from wizard import flow
from wizard.flow import Journey, Step
from wizard.i18n import N_, _
from wizard.runtime import Runtime


class RuntimeScreen(StepScreen, inherit_bindings=False):
    """The installed vLLMs, and which one is taken."""

    STEP = Step.RUNTIME
    HEADLINE = N_("Which vLLM shall be started?")
    HELP = N_(
        "Every vLLM that was found was asked for its version, its parsers and its options. "
        "One that does not answer says why and cannot be taken. "
        "Where none is installed you can still look at models and plans; a start needs one: [i] shows how it "
        "is installed on this machine, and does it step by step."
    )
    CSS_PATH = "runtime.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "other", N_("name another one"), id="other"),
        Binding("i", "install", N_("install one"), id="install"),
        Binding("r", "again", N_("look again"), id="again"),
        *COMMON_KEYS,
    ]

    def compose_body(self) -> ComposeResult:
        """The list over what is known of the highlighted one."""
        yield OptionList(id="runtimes", markup=False)
        yield Static(id="detail", markup=False)

    def begin(self) -> None:
        """Look, unless it was looked for before."""
        if self.journey.runtime is None:
            self.action_again()

    def action_again(self) -> None:
        """Look for installed vLLMs."""
        self._look(self.journey)

    def _look(self, wanted: Journey) -> None:
        """Look as the answers of another journey want it; what is known here stands until that succeeds."""
        words = _("Looking for vLLM and asking it…")
        self.perform(words, lambda _now: flow.find_runtime(flow.forget(wanted, Step.RUNTIME)))

    def failed(self, error: BaseException) -> None:
        """What was named does not answer: what to do about it is done on this screen."""
        hint = _("Name another one with [o], or look again with [r].")
        self.app.push_screen(ErrorModal(error, hint))

    def show(self) -> None:
        """List what was found, the one in use highlighted."""
        runtimes, simulated = self._runtimes(), self.journey.simulated
        found = self.query_one("#runtimes", OptionList)
        found.clear_options()
        for runtime in runtimes:
            status = _status(runtime, simulated)
            found.add_option(Option(marked(status, wording.runtime_line(runtime, simulated))))
        if self.journey.runtime in runtimes:
            found.highlighted = runtimes.index(self.journey.runtime)
            found.focus()

    def _runtimes(self) -> tuple[Runtime, ...]:
        """What was found, and the assumed one where nothing is installed that answers."""
        journey = self.journey
        if journey.runtime is None or journey.runtime in journey.runtimes:
            return journey.runtimes
        return (*journey.runtimes, journey.runtime)

    @on(OptionList.OptionHighlighted)
    def _tell(self, event: OptionList.OptionHighlighted) -> None:
        runtime = item_at(self._runtimes(), event.option_index)
        lines = wording.runtime_details(runtime, self.journey.simulated) if runtime else ()
        self.query_one("#detail", Static).update("\n".join(lines))

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        chosen = item_at(self._runtimes(), event.option_index)
        if chosen is None or self.busy:
            return
        if chosen.problem:
            self.app.push_screen(ReadModal(_("This vLLM does not answer"), [chosen.path, chosen.problem]))
            return
        if chosen != self.journey.runtime:
            wanted = msgspec.structs.replace(self.journey.answers.runtime, path=None, command=chosen.command)
            changed = flow.answer(self.journey, Step.RUNTIME, runtime=wanted)
            self.journey = msgspec.structs.replace(changed, runtimes=self._runtimes(), runtime=chosen)
        self.action_next()

    def ready(self) -> bool:
        """Whether there is one, installed or assumed."""
        return self.journey.runtime is not None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A rehearsal plays on an assumed vLLM: there is nothing to name."""
        if action == "other":
            return not self.journey.simulated
        return super().check_action(action, parameters)

    @work
    async def action_install(self) -> None:
        """Show how vLLM is installed here, and take the one that comes of it."""
        found = await asyncio.to_thread(flow.find_recipes, self.journey)
        outcome = await self.app.push_screen_wait(RecipeScreen(self.journey, found))
        if outcome.move is Move.GO:
            self._look(outcome.journey)

    @work
    async def action_other(self) -> None:
        """Ask for a venv or an executable that was not found."""
        wanted = self.journey.answers.runtime
        questions = ((_("Folder of the virtual environment, or the vllm executable"), wanted.path or ""),)
        given = await self.app.push_screen_wait(AskModal(_("Another vLLM"), questions))
        if given is not None:
            wanted = msgspec.structs.replace(wanted, path=given[0], command=None)
            self._look(flow.answer(self.journey, Step.RUNTIME, runtime=wanted))


def _status(runtime: Runtime, simulated: bool) -> str:
    if runtime.problem:
        return "fail"
    return "warn" if runtime.kind == "assumed" and not simulated else "ok"
