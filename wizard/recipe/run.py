"""Runs a recipe step by step: each is proved by its check, and a broken-off one is gone on with."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from wizard import paths
from wizard.child import run_child
from wizard.errors import InstallError, RefusedError
from wizard.i18n import _
from wizard.recipe import job
from wizard.recipe.job import StepFiles
from wizard.recipe.script import step_script
from wizard.recipe.types import (
    Installed,
    Recipe,
    RecipeEvent,
    RecipeStep,
    StepDone,
    StepOutput,
    StepStarted,
)
from wizard.text import inert, one_line

Emit = Callable[[RecipeEvent], None]
Terminal = Callable[[Callable[[], int | None]], int | None]
"""Gives the terminal over to a piece of work that asks for a password, and takes it back."""

_POLL_S = 0.2
_EVIDENCE_LINES = 12
_CHECK_S = 300.0
_INSTALLED = "installed.json"
_PROGRESS = "progress.json"


def recipes_dir() -> Path:
    """One folder a recipe: how far it is, its scripts and its logs."""
    return paths.state_dir() / "recipes"


def steps_done(recipe: Recipe) -> tuple[str, ...]:
    """The ids of the steps that were proved here before."""
    try:
        return msgspec.json.decode((_folder(recipe) / _PROGRESS).read_bytes(), type=tuple[str, ...])
    except (OSError, msgspec.MsgspecError):
        return ()


def next_step(recipe: Recipe) -> int | None:
    """The number, from 0, of the first step that is not proved; None: all are."""
    done = steps_done(recipe)
    return next((number for number, step in enumerate(recipe.steps) if step.id not in done), None)


def running_step(recipe: Recipe) -> int | None:
    """The number, from 0, of a step whose commands go on, begun here or by a wizard that is gone."""
    return next(
        (number for number in range(len(recipe.steps)) if job.is_running(_files(recipe, number))), None
    )


def run_step(
    recipe: Recipe,
    number: int,
    emit: Emit,
    cancel: threading.Event,
    terminal: Terminal,
    *,
    leave: threading.Event | None = None,
    offline: bool = False,
) -> bool:
    """Do a step, unless its check is passed already, and prove it; one that runs already is gone on with.

    Blocks. False: ``cancel`` was set, and nothing of it is running; or ``leave`` was set before, and it goes
    on. Raises InstallError, with the last lines, when it or its check fails; RefusedError for a recorded
    machine, and offline for what needs the network.
    """
    step = recipe.steps[number]
    _refuse(recipe, step, offline)
    files = _files(recipe, number)
    resumed = job.is_running(files)
    emit(
        StepStarted(
            id=step.id,
            title=step.title,
            number=number + 1,
            of=len(recipe.steps),
            log=str(files.log) if step.commands else "",
            resumed=resumed,
        )
    )
    passed, shown = (False, "") if resumed else check(step, cancel)
    if passed or cancel.is_set() or not step.commands:
        return _conclude(recipe, step, emit, cancel, passed, shown, before=bool(step.commands))
    _do(step, files, emit, cancel, leave or threading.Event(), terminal, resumed)
    if cancel.is_set() or job.is_running(files):
        return False
    passed, shown = check(step, cancel)
    return _conclude(recipe, step, emit, cancel, passed, shown, before=False)


def stop_step(recipe: Recipe, number: int) -> None:
    """End the commands of a step; what they did so far stays. Raises InstallError for what runs as root."""
    job.stop(_files(recipe, number))


def check(step: RecipeStep, cancel: threading.Event | None = None) -> tuple[bool, str]:
    """Whether a step is proved, and what its check showed. It only looks."""
    variables = {**os.environ, **step.result_env}
    outcome = run_child(("bash", "-c", step.check.command), variables, _CHECK_S, cancel)
    shown = inert(f"{outcome.output}\n{outcome.errors}").strip() or outcome.cut_short
    passed = outcome.code == 0 and _shows(step.check.expect, shown)
    return passed and not (step.check.reject and _shows(step.check.reject, shown)), shown


def installed() -> tuple[Installed, ...]:
    """Every vLLM that a recipe put on this host, with what it needs in its environment."""
    found = []
    for file in sorted(recipes_dir().glob(f"*/{_INSTALLED}")):
        try:
            found.append(msgspec.json.decode(file.read_bytes(), type=Installed))
        except (OSError, msgspec.MsgspecError):
            continue
    return tuple(found)


def _refuse(recipe: Recipe, step: RecipeStep, offline: bool) -> None:
    if recipe.machine:
        raise RefusedError(
            _("This recipe is for the recorded machine {name}: nothing of it is run here.").format(
                name=recipe.machine
            ),
            _("Export it as a script for that machine."),
        )
    if offline and step.network and step.commands and not check(step)[0]:
        raise RefusedError(
            _("The step {title} needs the network, and you asked to stay offline.").format(title=step.title),
            _("Leave --offline out, or do this step where there is a network."),
        )


def _do(
    step: RecipeStep,
    files: StepFiles,
    emit: Emit,
    cancel: threading.Event,
    leave: threading.Event,
    terminal: Terminal,
    resumed: bool,
) -> None:
    """Run the commands of a step to their end. Raises InstallError."""
    asks = step.sudo and os.geteuid() != 0
    if not resumed:
        wrapper = job.prepare(files, step_script(step))
        if asks and not step.long:
            code = terminal(lambda: job.run_in_terminal(files, step.deadline_s))
            _judge(step, code, ())
            return
        if asks:
            terminal(lambda: job.spawn_as_root(files, wrapper))
        else:
            job.spawn(files, wrapper)
    _follow(step, files, emit, cancel, leave)


def _follow(
    step: RecipeStep, files: StepFiles, emit: Emit, cancel: threading.Event, leave: threading.Event
) -> None:
    """Tell what the commands write until they end; an end from outside, or none in time, is a failure."""
    last: list[str] = []
    with files.log.open("rb") as log:
        while True:
            running = job.is_running(files)
            for line in _lines(log):
                emit(StepOutput(text=line))
                last = [*last, line][-_EVIDENCE_LINES:]
            if job.exit_code(files) is not None or not running:
                _judge(step, job.exit_code(files), last)
                return
            # In this order: whoever leaves sets `leave` first.
            if cancel.is_set() and not leave.is_set():
                job.stop(files)
            if cancel.is_set() or leave.is_set():
                return
            if job.runs_for_s(files) > step.deadline_s:
                job.stop(files)
                minutes = step.deadline_s / 60
                raise InstallError(
                    _("{title}: not done after {minutes:.0f} minutes, and stopped.").format(
                        title=step.title, minutes=minutes
                    ),
                    step.help,
                    tuple(last),
                )
            cancel.wait(_POLL_S)


def _lines(log: BinaryIO) -> Iterator[str]:
    """The whole lines that are new; of one that was written over, the last state."""
    while line := log.readline():
        if not line.endswith(b"\n"):
            log.seek(-len(line), os.SEEK_CUR)
            return
        text = line.decode("utf-8", errors="replace").rstrip().rpartition("\r")[2]
        if shown := one_line(text):
            yield shown


def _judge(step: RecipeStep, code: int | None, last: tuple[str, ...] | list[str]) -> None:
    if code == 0:
        return
    if code is None:
        text = _("{title}: ended from outside before it was done.").format(title=step.title)
    else:
        text = _("{title}: ended with exit code {code}.").format(title=step.title, code=code)
    hint = step.help or _("Mend what the last lines say, and run this step again.")
    raise InstallError(text, hint, tuple(last))


def _conclude(
    recipe: Recipe,
    step: RecipeStep,
    emit: Emit,
    cancel: threading.Event,
    passed: bool,
    shown: str,
    *,
    before: bool,
) -> bool:
    """Note a step that is proved; complain of one that is not, unless it was cancelled."""
    if cancel.is_set():
        return False
    lines = [line for line in (one_line(line) for line in shown.splitlines()) if line]
    if not passed:
        raise InstallError(
            _("{title}: the check did not pass: {command}").format(
                title=step.title, command=step.check.command
            ),
            step.help or _("Mend what the last lines say, and run this step again."),
            tuple(lines[-_EVIDENCE_LINES:]),
        )
    done = tuple(dict.fromkeys((*steps_done(recipe), step.id)))
    paths.write_atomic(_folder(recipe) / _PROGRESS, msgspec.json.encode(done))
    if next_step(recipe) is None and recipe.command:
        put = Installed(command=recipe.command, env=recipe.env, version=recipe.version)
        paths.write_atomic(_folder(recipe) / _INSTALLED, msgspec.json.encode(put))
    emit(StepDone(id=step.id, evidence=_telling(step, lines), before=before))
    return True


def _telling(step: RecipeStep, lines: list[str]) -> str:
    """The line of a check's output that shows what was expected, else its last."""
    shows = (line for line in lines if step.check.expect and re.search(step.check.expect, line))
    return next(shows, lines[-1] if lines else "")


def _shows(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.MULTILINE) is not None


def _folder(recipe: Recipe) -> Path:
    return recipes_dir() / recipe.key


def _files(recipe: Recipe, number: int) -> StepFiles:
    return StepFiles(_folder(recipe), f"{number + 1:02}-{recipe.steps[number].id}")
