"""Small recipes for tests: steps that take no time, and a way to collect what is told about them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from wizard.catalog import StepCheck
from wizard.recipe import Recipe, RecipeEvent, RecipeStep, StepOutput, run_step


def a_step(
    id: str,
    *commands: str,
    check: str = "true",
    expect: str = "",
    reject: str = "",
    env: Mapping[str, str] | None = None,
    result_env: Mapping[str, str] | None = None,
    sudo: bool = False,
    network: bool = False,
    long: bool = False,
    deadline_s: float = 30.0,
    help: str = "What to do.",
) -> RecipeStep:
    return RecipeStep(
        id=id,
        title=f"Step {id}",
        why=f"Why {id}: it's needed.",
        commands=commands,
        check=StepCheck(command=check, expect=expect, reject=reject),
        help=help,
        sudo=sudo,
        network=network,
        long=long,
        deadline_s=deadline_s,
        env=env or {},
        result_env=result_env or env or {},
    )


def a_recipe(*steps: RecipeStep, command: tuple[str, ...] = (), machine: str = "") -> Recipe:
    env = steps[-1].result_env if steps else {}
    return Recipe(
        route="wheel",
        id="small",
        title="A small recipe",
        version="0.33.0",
        why="For tests.",
        steps=steps,
        env=env,
        command=command,
        machine=machine,
    )


def at_once(work: Callable[[], int | None]) -> int | None:
    """A terminal that is always there."""
    return work()


def run(recipe: Recipe, number: int = 0, *, offline: bool = False) -> list[RecipeEvent]:
    """A step, done; what was told of it."""
    events: list[RecipeEvent] = []
    assert run_step(recipe, number, events.append, threading.Event(), at_once, offline=offline)
    return events


def written(events: list[RecipeEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, StepOutput)]


def fake(folder: Path, name: str, body: str) -> Path:
    """A program of this name in a folder that is to lie first on the path."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/bash\n{body}\n")
    program.chmod(0o755)
    return program
