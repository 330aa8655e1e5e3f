"""What a check is given: the machine, and a way to look at this very host."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
from packaging.version import Version

from wizard.catalog import vllm_facts
from wizard.child import Outcome, run_child
from wizard.i18n import _
from wizard.machine.types import Check, Machine


class _Since(Protocol):
    @property
    def since(self) -> str: ...


_Floor = TypeVar("_Floor", bound=_Since)

_CHILD_DEADLINE_S = 4.0
"""For one program; below the deadline of a whole check, so that the check can still say what it missed."""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """Looks at this host without changing it: files below ``root``, and programs with a deadline."""

    root: Path = Path("/")
    environ: Mapping[str, str] = msgspec.field(default_factory=lambda: dict(os.environ))
    cancel: threading.Event | None = None
    """Once it is set, the programs that still run are ended, and others end as they are started."""

    def text(self, path: str) -> str | None:
        """The file's text; None when it cannot be read."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def exists(self, path: str) -> bool:
        """Whether a file or folder is there, as far as this user can see."""
        try:
            return (self.root / path).exists()
        except OSError:
            return False

    def which(self, name: str) -> str | None:
        """The program on the path of this environment."""
        return shutil.which(name, path=self.environ.get("PATH", os.defpath))

    def run(self, *argv: str) -> Outcome:
        """A program in plain English, to its end or for a few seconds."""
        return run_child(argv, {**self.environ, "LC_ALL": "C"}, _CHILD_DEADLINE_S, self.cancel)


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The machine to check, where a server is to listen, and a way to look at this very host."""

    machine: Machine
    host: str = "127.0.0.1"
    port: int = 8000
    python: str | None = None
    """The Python of the vLLM that was found; None: none was yet, and the wizard's own stands for it."""
    probe: Probe = msgspec.field(default_factory=Probe)


def newest_for(floors: Sequence[_Floor], machine: Machine) -> _Floor:
    """The floor of the newest ready-made vLLM that still holds code for the best GPU here.

    ``floors`` are in the order of the versions they begin with; an older GPU is held at an older version.
    """
    best = max((gpu.capability for gpu in machine.gpus), default=0)
    closed = [era.since for era in vllm_facts().capability_support if 0 < best < era.min_capability]
    ends = min((Version(since) for since in closed), default=None)
    open_ = [floor for floor in floors if ends is None or Version(floor.since) < ends]
    return (open_ or list(floors[:1]))[-1]


def unread(id: str, command: str = "") -> Check:
    """The result of a check whose fact is not in the reading."""
    return Check(id=id, status="skip", detail=_("Not known: it could not be read."), command=command)


def gib(mib: int) -> str:
    """MiB as GiB with one decimal."""
    return f"{mib / 1024:.1f}"
