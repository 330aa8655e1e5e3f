"""The container behind a start: it can outlive the program that started it, so the run keeps its id."""

from __future__ import annotations

import os
from pathlib import Path

from wizard.child import run_child
from wizard.plan import LaunchPlan
from wizard.serve.types import Run

_ID_FILE = "container.id"
_DEADLINE_S = 15.0


def call_of(plan: LaunchPlan, folder: Path) -> tuple[str, ...]:
    """What is started: the plan's words; a container's engine also writes its id into the run's folder."""
    argv = plan.argv
    named = any(word.startswith("--cidfile") for word in argv)
    if plan.runtime_kind != "container" or argv[1:2] != ("run",) or named:
        return argv
    return (*argv[:2], f"--cidfile={folder / _ID_FILE}", *argv[2:])


def has_one(run: Run) -> bool:
    """Whether the run is a container's: its server is no process of the run."""
    return (Path(run.folder) / _ID_FILE).exists()


def remove(run: Run) -> bool:
    """End the container of a run if it is still there, and say whether it was.

    Blocks for half a minute at most.
    """
    try:
        name = (Path(run.folder) / _ID_FILE).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return False
    engine = run.argv[0]
    if not name.isalnum() or run_child((engine, "container", "inspect", name), os.environ, _DEADLINE_S).code:
        return False
    run_child((engine, "rm", "--force", name), os.environ, _DEADLINE_S)
    return True
