"""Which vLLM is installed here, and which one is assumed where none is."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.version import Version

from wizard import catalog
from wizard.runtime.probe import probe
from wizard.runtime.types import Runtime

# Where people and installers put environments: working folder, home, uv and pipx, container images.
_USUAL_PLACES = (
    ".venv",
    "~/.venv",
    "~/venv",
    "~/vllm",
    "~/vllm/.venv",
    "~/vllm-env",
    "~/.local/share/uv/tools/vllm",
    "~/.local/share/pipx/venvs/vllm",
    "/opt/vllm",
    "/opt/venv",
)
_AT_ONCE = 3


def find_runtimes(*, deadline_s: float = 90.0, cancel: threading.Event | None = None) -> tuple[Runtime, ...]:
    """Every vLLM in the usual places, each one probed: the active environment and PATH first."""
    programs = tuple(_programs())
    if not programs:
        return ()
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return tuple(
            pool.map(lambda program: probe((program,), deadline_s=deadline_s, cancel=cancel), programs)
        )


def assumed_runtime(version: str | None = None) -> Runtime:
    """A vLLM that is not there: ``version``, or the newest known, with the parsers listed for it."""
    assumed = version or catalog.vllm_facts().newest
    return Runtime(
        kind="assumed",
        path="",
        command=("vllm",),
        version=assumed,
        tool_parsers=_parsers("tool", assumed),
        reasoning_parsers=_parsers("reasoning", assumed),
    )


def _programs() -> Iterator[str]:
    """The ``vllm`` programs that exist, none twice."""
    active = os.environ.get("VIRTUAL_ENV")
    first = [Path(active) / "bin" / "vllm"] if active else []
    found = shutil.which("vllm")
    on_path = [Path(found)] if found else []
    usual = [Path(place).expanduser() / "bin" / "vllm" for place in _USUAL_PLACES]
    seen: set[Path] = set()
    for program in (*first, *on_path, *usual):
        if os.access(program, os.X_OK) and program.is_file() and program.resolve() not in seen:
            seen.add(program.resolve())
            yield str(program.absolute())


def _parsers(kind: catalog.ParserKind, version: str) -> tuple[str, ...]:
    newest, wanted = Version(catalog.vllm_facts().newest), Version(version)
    known = min(newest, wanted)
    return tuple(
        entry.name
        for entry in catalog.parsers(kind)
        if Version(entry.first_version) <= known <= Version(entry.last_version)
    )
