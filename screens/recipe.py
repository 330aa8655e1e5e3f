"""Within step Runtime: how vLLM is installed on this machine, carried out step by step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Log, OptionList, Static
from textual.widgets.option_list import Option

from screens.base import COMMON_KEYS, StepScreen
from screens.moves import Move
from screens.widgets.checklist import item_at
from screens.widgets.modals import AskModal, ErrorModal, PickModal, ReadModal
from screens.widgets.status import Status
from wizard import flow
from wizard.errors import InstallError, WizardError
from wizard.flow import Journey, Step
from wizard.i18n import N_, _
from wizard.recipe import (
    Offer,
    Recipe,
    RecipeEvent,
    StepDone,
    StepOutput,
    environment_facts,
    next_step,
    running_step,
    step_facts,
    step_title,
    steps_done,
)


class RecipeScreen(StepScreen, inherit_bindings=False):
    """The roads for this machine, and the steps of the one that is taken."""

    STEP = Step.RUNTIME
    HEADLINE = N_("How vLLM is installed on this machine")
    HELP = N_(
        "Each step says why, what it runs and what proves it. Nothing is run before you press Enter, and "
        "then only the highlighted step; one that is done already is left alone. A step goes on when you "
        "leave or lose the connection, and is found again; [x] stops it. One with sudo hands the terminal "
        "over for the password. [e] writes everything as a script for somebody else."
    )
    CSS_PATH = "recipe.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "do_step", N_("do this step"), id="do"),
        Binding("x", "stop", N_("stop"), id="stop"),
        Binding("t", "road", N_("another road"), id="road"),
        Binding("e", "export", N_("write a script"), id="export"),
        *(key for key in COMMON_KEYS if key.id != "next"),
    ]

    def __init__(self, journey: Journey, found: Offer) -> None:
        super().__init__(journey)
        self._found = found
        self._recipe = found.recipes[0]
        self._leave = threading.Event()
        self._shown: set[str] = set()
        """Steps of a rehearsal that were shown."""

    def compose_body(self) -> ComposeResult:
        """Why this road; its steps; what the highlighted one does; what the one that runs writes."""
        yield Static(id="advice", markup=False)
        yield OptionList(id="steps", markup=False)
        with VerticalScroll(id="facts"):
            yield Static(markup=False)
        yield Log(id="output", auto_scroll=True)

    def begin(self) -> None:
        """Go on watching a step that runs already."""
        if self.journey.simulated:
            return
        for recipe in self._found.recipes:
            if running_step(recipe) is not None:
                self._recipe = recipe
                self.show()
                self.action_do_step()

    def on_unmount(self) -> None:
        """A step that goes on is left to itself: a lost line must not cost hours."""
        self._leave.set()
        super().on_unmount()

    def show(self) -> None:
        """The steps, the first one that is not done highlighted."""
        recipe = self._recipe
        words = [recipe.title, *(self._found.advice or (recipe.why,))]
        self.query_one("#advice", Static).update("\n".join(words))
        steps = self.query_one("#steps", OptionList)
        steps.clear_options()
        simulated = self.journey.simulated
        done = self._shown if simulated else {*steps_done(recipe)}
        for number, step in enumerate(recipe.steps, 1):
            word = (_("SEEN") if simulated else _("DONE")) if step.id in done else _("OPEN")
            line = Content.assemble((f"{word:<6}", "bold"), f"{number} {step_title(step)}")
            steps.add_option(Option(line))
        first = next((at for at, step in enumerate(recipe.steps) if step.id not in done), None)
        steps.highlighted = first if first is not None else (len(recipe.steps) - 1 if recipe.steps else None)
        steps.focus()

    @on(OptionList.OptionHighlighted)
    def _tell(self, event: OptionList.OptionHighlighted) -> None:
        step = item_at(self._recipe.steps, event.option_index)
        lines = (step.why, *step_facts(step)) if step else ()
        self.query_one("#facts Static", Static).update("\n".join(lines))
        self.query_one("#facts", VerticalScroll).scroll_home(animate=False)

    @on(OptionList.OptionSelected)
    def _selected(self) -> None:
        self.action_do_step()

    def action_do_step(self) -> None:
        """Do the highlighted step, or watch the one that runs."""
        recipe, at = self._recipe, self.query_one("#steps", OptionList).highlighted
        if self.busy or at is None:
            return
        if not self.journey.simulated:
            going_on = running_step(recipe)
            at = at if going_on is None else going_on
        number = at
        self.query_one(Log).clear()
        self._leave = threading.Event()
        words = _("Step {number} of {count}…").format(number=number + 1, count=len(recipe.steps))
        self.perform(words, lambda journey: self._carry_out(journey, recipe, number))

    def _carry_out(self, journey: Journey, recipe: Recipe, number: int) -> Journey:
        """In the thread of the work."""
        flow.run_recipe(journey, recipe, number, self._emit, self.cancel, self._terminal, self._leave)
        if journey.simulated:
            self._shown.add(recipe.steps[number].id)
        return journey

    def _emit(self, event: RecipeEvent) -> None:
        if not self._leave.is_set():
            self.app.call_from_thread(self._write, event)

    def _write(self, event: RecipeEvent) -> None:
        log = self.query_one(Log)
        match event:
            case StepOutput(text=text):
                log.write_line(text)
            case StepDone(evidence=evidence, before=before):
                words = _("done already: {evidence}") if before else _("proved: {evidence}")
                log.write_line(words.format(evidence=evidence))
            case _:
                return
        log.add_class("-told")

    def _terminal(self, ask: Callable[[], int | None]) -> int | None:
        """From the thread of the work: the terminal is somebody else's until it is done."""
        return self.app.call_from_thread(self._hand_over, ask)

    def _hand_over(self, ask: Callable[[], int | None]) -> int | None:
        try:
            with self.app.suspend():
                return ask()
        except SuspendNotSupported as error:
            raise InstallError(
                _("The terminal cannot be handed over for a password here."),
                _("Carry it out with: vllm-opencode runtime --install"),
            ) from error

    def done(self) -> None:
        """One step further; after the last one vLLM is looked for where it was put."""
        self.show()
        if self.journey.simulated:
            self.query_one(Status).end(_("Rehearsal: the step was shown, and nothing was run."))
        elif next_step(self._recipe) is None:
            self.finish(Move.GO, flow.take_installed(self.journey, self._recipe))

    def failed(self, error: BaseException) -> None:
        """What went wrong, with the last lines it wrote."""
        if isinstance(error, InstallError) and error.evidence:
            paragraphs = [error.message, "\n".join(error.evidence), error.hint]
            self.app.push_screen(ReadModal(_("This did not work"), [text for text in paragraphs if text]))
        else:
            super().failed(error)
        self.show()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What can be done depends on whether there are steps, and whether one runs."""
        if action == "stop":
            return self.busy
        if action in ("do_step", "export"):
            return bool(self._recipe.steps) and (None if self.busy else True)
        if action == "road":
            return len(self._found.recipes) > 1 and (None if self.busy else True)
        return super().check_action(action, parameters)

    def reasons(self) -> list[str]:
        """Why this road, and what to know about it."""
        recipe = self._recipe
        return [
            *self._found.advice,
            recipe.why,
            *recipe.notes,
            *environment_facts(recipe),
            _("Source: {source}").format(source=recipe.source),
        ]

    def action_stop(self) -> None:
        """End the step that runs."""
        self.cancel.set()

    @work
    async def action_road(self) -> None:
        """Take another road."""
        roads = {str(at): f"{each.title}: {each.why}" for at, each in enumerate(self._found.recipes)}
        now = str(self._found.recipes.index(self._recipe))
        picked = await self.app.push_screen_wait(PickModal(_("Which road?"), roads, now))
        if picked is not None:
            self._recipe = self._found.recipes[int(picked)]
            self.show()
            self.refresh_bindings()

    @work
    async def action_export(self) -> None:
        """Write the steps as a script."""
        question = ((_("File"), "~/install-vllm.sh"),)
        given = await self.app.push_screen_wait(AskModal(_("Write a script"), question))
        if given is not None:
            self._write_script(given[0])

    def _write_script(self, file: str) -> None:
        try:
            flow.save_script(self._recipe, self._found, Path(file))
        except WizardError as error:
            self.app.push_screen(ErrorModal(error))
        else:
            self.query_one(Status).end(_("Written: {path}. Read it before you run it.").format(path=file))
