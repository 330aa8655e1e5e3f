"""The faults a rehearsal can act, read from faults.toml."""

from __future__ import annotations

import functools
import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Fault:
    """One way to fail. Its fields are explained at the top of faults.toml."""

    id: str
    title: str
    at: str = ""
    ending: str = ""
    answer: str = ""
    format: str = ""
    lines: tuple[str, ...] = ()
    cure_env: str = ""
    cure_window: int = 0
    cure_flag: str = ""
    """With this option the fault does not happen at all."""

    def cured(self, window: int, environ: Mapping[str, str] = os.environ) -> bool:
        """Whether this start carries the remedy: the variable is set, or the window is small enough."""
        return bool(self.cure_env and environ.get(self.cure_env)) or 0 < window <= self.cure_window


def command() -> tuple[str, ...]:
    """What to put before ``serve MODEL …`` to start the stand-in with this very Python."""
    return (sys.executable, "-m", "wizard.rehearsal")


def faults() -> dict[str, str]:
    """The title of every fault by its id, in the order a start meets them; for ``--rehearsal-fault``."""
    return {fault.id: fault.title for fault in table().values()}


@functools.cache
def table() -> dict[str, Fault]:
    """Every fault by its id."""
    content = read_data("faults.toml")
    return {entry["id"]: _fault(entry) for entry in content["fault"]}


def read_data(name: str) -> dict[str, Any]:
    """A TOML file of this package."""
    return tomllib.loads((resources.files("wizard.rehearsal") / name).read_text(encoding="utf-8"))


def _fault(entry: dict[str, Any]) -> Fault:
    cure = entry.pop("cure", {})
    lines = tuple(entry.pop("lines", ()))
    return Fault(
        **entry,
        lines=lines,
        cure_env=cure.get("env", ""),
        cure_window=cure.get("window", 0),
        cure_flag=cure.get("flag", ""),
    )
