"""What this host has to install with. It looks, it changes nothing."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from wizard import paths
from wizard.catalog import recipe_table
from wizard.child import run_child
from wizard.machine import Machine
from wizard.recipe.types import Tools

_DEADLINE_S = 10.0
_MANAGED = "usr/lib/python3*/EXTERNALLY-MANAGED"


def tools_of(machine: Machine, root: Path = Path("/")) -> Tools:
    """The installers of this host. Of a recorded machine only what follows from its system is known."""
    if machine.simulated:
        managed = any(re.search(pattern, machine.os) for pattern in recipe_table().managed_os)
        return Tools(managed=managed)
    return Tools(
        uv=shutil.which("uv") is not None,
        engine=_engine(),
        managed=any(root.glob(_MANAGED)),
    )


def home_of(machine: Machine) -> Path:
    """The home folder, of the recorded machine where it is one."""
    recorded = next((disk.path for disk in machine.disks if disk.purpose == "home"), None)
    return Path(recorded) if machine.simulated and recorded else paths.home()


def _engine() -> str:
    """The first container engine that is here, answers, and hands out GPUs."""
    for toolkit in recipe_table().engine:
        if shutil.which(toolkit.name) is None:
            continue
        outcome = run_child(toolkit.check.split(), os.environ, _DEADLINE_S)
        if outcome.code == 0 and re.search(toolkit.expect, outcome.output):
            return toolkit.name
    return ""
