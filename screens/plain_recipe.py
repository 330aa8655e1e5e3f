"""Within step Runtime, as questions: how vLLM is installed on this machine, carried out step by step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from screens.dialogue import Dialogue
from wizard import flow
from wizard.errors import InstallError
from wizard.flow import Journey, Step
from wizard.i18n import _
from wizard.recipe import (
    Offer,
    Recipe,
    RecipeEvent,
    StepDone,
    StepOutput,
    environment_facts,
    next_step,
    step_facts,
    step_title,
)


def install(dialogue: Dialogue, journey: Journey) -> Journey:
    """The journey to go on with: vLLM is looked for anew once all steps are done."""
    found = flow.find_recipes(journey)
    dialogue.say(*found.advice)
    recipe = found.recipes[0]
    if len(found.recipes) > 1:
        roads = [(str(at), f"{each.title}: {each.why}") for at, each in enumerate(found.recipes)]
        recipe = found.recipes[int(dialogue.choose(_("Which road?"), roads, "0"))]
    if not recipe.steps:
        dialogue.say(recipe.title)
        return journey
    _show(dialogue, recipe)
    options = [
        ("steps", _("Do it, step by step")),
        ("export", _("Write a script")),
        ("leave", _("Leave it")),
    ]
    match dialogue.choose(_("And now?"), options, "steps"):
        case "steps":
            return _carry_out(dialogue, journey, recipe)
        case "export":
            _export(dialogue, recipe, found)
    return journey


def _show(dialogue: Dialogue, recipe: Recipe) -> None:
    dialogue.say(recipe.title, *recipe.notes, *environment_facts(recipe))
    for number, step in enumerate(recipe.steps, 1):
        dialogue.say(f"{number} {step_title(step)}")


def _export(dialogue: Dialogue, recipe: Recipe, found: Offer) -> None:
    file = dialogue.text(_("File"), "~/install-vllm.sh")
    flow.save_script(recipe, found, Path(file))
    dialogue.say(_("Written: {path}. Read it before you run it.").format(path=file))


def _carry_out(dialogue: Dialogue, journey: Journey, recipe: Recipe) -> Journey:
    """Every step that is not done yet, each after a yes."""
    start = 0 if journey.simulated else next_step(recipe)
    for number in range(len(recipe.steps) if start is None else start, len(recipe.steps)):
        step = recipe.steps[number]
        dialogue.say("", f"{number + 1}/{len(recipe.steps)} {step_title(step)}", step.why, *step_facts(step))
        if not dialogue.agreed(_("Do this step?"), default=True):
            return journey
        try:
            flow.run_recipe(journey, recipe, number, _tell(dialogue), threading.Event(), _at_hand)
        except InstallError as error:
            dialogue.say(*(f"  {line}" for line in error.evidence))
            raise
        if journey.simulated:
            dialogue.say(_("Rehearsal: the step was shown, and nothing was run."))
    return journey if journey.simulated else flow.forget(flow.take_installed(journey, recipe), Step.RUNTIME)


def _at_hand(ask: Callable[[], int | None]) -> int | None:
    """The questions stand on the terminal itself: whoever asks for a password has it already."""
    return ask()


def _tell(dialogue: Dialogue) -> Callable[[RecipeEvent], None]:
    def tell(event: RecipeEvent) -> None:
        match event:
            case StepOutput(text=text):
                dialogue.say(f"  {text}")
            case StepDone(evidence=evidence, before=before):
                words = _("done already: {evidence}") if before else _("proved: {evidence}")
                dialogue.say(words.format(evidence=evidence))
            case _:
                pass

    return tell
