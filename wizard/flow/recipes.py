"""Installing vLLM: the recipes for a journey's machine, their steps one by one, and what comes of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from wizard import catalog, paths, recipe
from wizard.errors import RefusedError, UsageError
from wizard.flow.journey import Cancelled, Journey, Step, answer, need
from wizard.i18n import _
from wizard.recipe import Emit, Offer, Recipe, Terminal

_SCRIPT_MODE = 0o755


def find_recipes(journey: Journey, into: Path | None = None) -> Offer:
    """The ways to install vLLM on a journey's machine, best first, for the model asked for, if any.

    ``into`` is the folder its environment is made in; without it the home. Nothing is changed.
    """
    machine = need(journey.machine)
    base = recipe.home_of(machine) if into is None else paths.expanded(into).absolute()
    model = catalog.find_model(journey.answers.model.id or "")
    return recipe.offer(
        machine,
        recipe.tools_of(machine),
        base=base,
        needs=None if model is None else model.min_vllm,
        needed_by="" if model is None else model.name,
    )


def save_script(wanted: Recipe, found: Offer, file: Path) -> None:
    """Write a recipe as a script. Raises RefusedError when there is none, UsageError for a foreign file."""
    if not wanted.steps:
        raise RefusedError(wanted.title, wanted.why)
    file = paths.expanded(file)
    if file.exists() and not _is_ours(file):
        raise UsageError(
            _("{path} exists and is not a script of this program.").format(path=file),
            _("Name another file."),
        )
    paths.write_atomic(file, recipe.whole_script(wanted, found).encode(), _SCRIPT_MODE)


def run_recipe(
    journey: Journey,
    wanted: Recipe,
    number: int,
    emit: Emit,
    cancel: threading.Event,
    terminal: Terminal,
    leave: threading.Event | None = None,
) -> None:
    """Do one step, counted from 0. ``cancel`` stops what goes on, ``leave`` leaves it to itself.

    An interrupt stops what was started here, not what was found running. On a recorded machine the step is
    told of, and nothing is done. Raises InstallError, RefusedError, Cancelled.
    """
    step = wanted.steps[number]
    if journey.simulated:
        total = len(wanted.steps)
        emit(recipe.StepStarted(id=step.id, title=step.title, number=number + 1, of=total, log=""))
        return
    theirs = recipe.running_step(wanted) == number
    try:
        done = recipe.run_step(
            wanted,
            number,
            emit,
            cancel,
            terminal,
            leave=leave,
            offline=journey.answers.serve.offline,
        )
    except KeyboardInterrupt:
        if not theirs:
            recipe.stop_step(wanted, number)
        raise
    if not done:
        raise Cancelled(
            _("The step was stopped: {title}").format(title=step.title),
            _("Run it again to go on from here."),
        )


def take_installed(journey: Journey, wanted: Recipe) -> Journey:
    """The answers that take the vLLM a recipe has installed, with what it needs in its environment."""
    if not wanted.command:
        return journey
    runtime = msgspec.structs.replace(
        journey.answers.runtime,
        path=None,
        command=wanted.command,
        env={**wanted.env, **journey.answers.runtime.env},
    )
    return answer(journey, Step.RUNTIME, runtime=runtime)


def needs_of(command: Sequence[str]) -> Mapping[str, str]:
    """What the vLLM of this command needs in its environment, when a recipe of ours installed it."""
    for put in recipe.installed():
        if put.command and command and _same_program(put.command[0], command[0]):
            return put.env
    return {}


def _same_program(one: str, other: str) -> bool:
    return Path(one).resolve() == Path(other).resolve()


def _is_ours(file: Path) -> bool:
    try:
        with file.open(encoding="utf-8") as script:
            return script.read(len(recipe.HEAD)) == recipe.HEAD
    except (OSError, UnicodeDecodeError):
        return False
