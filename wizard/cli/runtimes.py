"""The command runtime: the installed vLLMs, and how one is installed here."""

from __future__ import annotations

import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from wizard.cli import output
from wizard.cli.journeys import consent, journey, with_runtime
from wizard.cli.options import current
from wizard.cli.signals import like_interrupt
from wizard.errors import RefusedError, UsageError
from wizard.flow import Journey, find_recipes, look_at_machine, run_recipe, save_script
from wizard.i18n import _
from wizard.recipe import (
    Offer,
    Recipe,
    RecipeEvent,
    RecipeStep,
    StepDone,
    StepOutput,
    StepStarted,
    environment_facts,
    next_step,
    pick,
    running_step,
    step_facts,
    step_title,
)
from wizard.runtime import Runtime

_WIDTH = 78


def runtime(
    path: Annotated[str | None, typer.Option("--path", help=_("A venv with vLLM, or its program."))] = None,
    recipe: Annotated[bool, typer.Option("--recipe", help=_("Also print how to install one here."))] = False,
    route: Annotated[
        str | None, typer.Option("--route", help=_("Which road: container, wheel or source."))
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help=_("The model that the vLLM to install must know."))
    ] = None,
    into: Annotated[
        Path | None, typer.Option("--into", help=_("Folder to install in; your home without it."))
    ] = None,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help=_("Write the recipe as a script."))
    ] = None,
    install: Annotated[bool, typer.Option("--install", help=_("Carry it out, step by step."))] = False,
    from_step: Annotated[
        int | None, typer.Option("--from-step", min=1, help=_("Begin with this step, done before or not."))
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help=_("Carry out every step without asking."))] = False,
) -> int:
    """Installed vLLMs, or how to install one. 0: one answers, or it is done; 1: none, or it failed."""
    started = journey(runtime={"path": path}, model={"id": model})
    if export is None and not install:
        looked = with_runtime(started)
        chosen = _chosen(looked, into, route) if recipe or route else None
        _show(looked.runtimes, chosen)
        return 0 if any(not each.problem and each.kind != "assumed" for each in looked.runtimes) else 1
    looked = look_at_machine(started, thorough=False)
    found, wanted = _chosen(looked, into, route)
    if export is not None:
        save_script(wanted, found, export)
        output.say(_("Written: {path}. Read it before you run it.").format(path=export))
    return _install(looked, found, wanted, from_step, yes) if install else 0


def _chosen(looked: Journey, into: Path | None, route: str | None) -> tuple[Offer, Recipe]:
    found = find_recipes(looked, into)
    return found, pick(found, route)


def _show(found: tuple[Runtime, ...], chosen: tuple[Offer, Recipe] | None) -> None:
    if current().json:
        document: dict[str, object] = {"found": found, "recipe": None}
        if chosen is not None:
            offered, recipe = chosen
            beside = [
                {"route": other.route, "version": other.version, "title": other.title, "why": other.why}
                for other in offered.recipes
                if other != recipe
            ]
            document |= {"recipe": recipe, "advice": offered.advice, "beside": beside}
        output.document(document)
        return
    output.table(
        (_("kind"), _("where"), "vLLM", "torch", "CUDA", _("parsers"), _("problem")),
        (
            (
                each.kind,
                each.path,
                each.version or "?",
                each.torch or "?",
                each.cuda or "-",
                str(len(each.tool_parsers)),
                each.problem,
            )
            for each in found
        ),
    )
    if chosen is not None:
        _say_recipe(*chosen)


def _say_recipe(found: Offer, recipe: Recipe) -> None:
    _say_head(found, recipe)
    for number, step in enumerate(recipe.steps, 1):
        output.say()
        _say_step(step, f"{number}.")
    output.say()
    for fact in environment_facts(recipe):
        output.say(fact)
    for note in recipe.notes:
        _say_wrapped(note)
    _say_offline(recipe)
    _say_beside(found, recipe)


def _say_head(found: Offer, recipe: Recipe) -> None:
    output.say()
    for advice in found.advice:
        _say_wrapped(advice)
    output.say(f"{recipe.route.upper()}  {recipe.title}")
    if recipe.steps:
        _say_wrapped(recipe.why)
    output.say(_("Source: {source}").format(source=recipe.source))


def _say_step(step: RecipeStep, number: str) -> None:
    output.say(f"{number} {step_title(step)}")
    _say_wrapped(step.why, "   ")
    for fact in step_facts(step):
        output.say(f"   {fact}")


def _say_offline(recipe: Recipe) -> None:
    needing = ", ".join(str(number) for number, step in enumerate(recipe.steps, 1) if step.network)
    if needing and current().offline:
        output.say(_("Offline: these steps need the network: {numbers}.").format(numbers=needing))


def _say_beside(found: Offer, recipe: Recipe) -> None:
    others = [other for other in found.recipes if other != recipe]
    if others:
        output.say()
        output.say(_("Other roads (--route):"))
    for other in others:
        output.say(f"  {other.route:<10} {other.title}")
        _say_wrapped(other.why, " " * 13)


def _say_wrapped(text: str, indent: str = "") -> None:
    output.say(textwrap.fill(text, _WIDTH, initial_indent=indent, subsequent_indent=indent))


def _install(looked: Journey, found: Offer, wanted: Recipe, from_step: int | None, yes: bool) -> int:
    """Carry a recipe out from the first step that is not proved, or the one that was asked for."""
    if not wanted.steps:
        raise RefusedError(wanted.title, wanted.why)
    if from_step is not None and from_step > len(wanted.steps):
        raise UsageError(
            _("There is no step {number}.").format(number=from_step),
            _("This recipe has {count}.").format(count=len(wanted.steps)),
        )
    like_interrupt(hangup=False)
    _say_head(found, wanted)
    going_on = running_step(wanted)
    begin = going_on if going_on is not None else next_step(wanted)
    begin = from_step - 1 if from_step is not None else begin
    for number in range(len(wanted.steps) if begin is None else begin, len(wanted.steps)):
        output.say()
        _say_step(wanted.steps[number], f"{number + 1}/{len(wanted.steps)}")
        if not looked.simulated:
            consent(_("Do this step?"), yes or number == going_on)
        run_recipe(looked, wanted, number, _tell, threading.Event(), _have_terminal)
        if looked.simulated:
            output.say(_("Recorded machine: this step is only shown."))
    output.say()
    output.say(_("All steps are done.") if not looked.simulated else _("Nothing was run."))
    for note in wanted.notes:
        _say_wrapped(note)
    if not looked.simulated:
        output.say(_("Go on with: vllm-opencode"))
    return 0


def _have_terminal(work: Callable[[], int | None]) -> int | None:
    """A command has the terminal as its own already."""
    return work()


def _tell(event: RecipeEvent) -> None:
    if current().json:
        output.event(event)
        return
    match event:
        case StepStarted(resumed=True, log=log):
            output.say(_("It runs already; Ctrl-C stops watching it. Its log: {log}").format(log=log))
        case StepStarted(log=log) if log:
            output.say(_("Ctrl-C stops it. It goes on without this terminal; its log: {log}").format(log=log))
        case StepOutput(text=text):
            output.say(f"   | {text}")
        case StepDone(before=before, evidence=evidence):
            words = _("OK, done already: {evidence}") if before else _("OK: {evidence}")
            output.say(words.format(evidence=evidence))
        case _:
            pass
