"""Which vLLM is installed here, and which one is assumed where none is."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from packaging.version import Version

from wizard import catalog
from wizard.runtime.containers import find_containers
from wizard.runtime.places import installed_commands
from wizard.runtime.probe import probe
from wizard.runtime.types import Runtime

_AT_ONCE = 3


def find_runtimes(*, deadline_s: float = 90.0, cancel: threading.Event | None = None) -> tuple[Runtime, ...]:
    """Every vLLM that is installed, each one probed, the active environment and PATH first; then containers.

    Images and running containers are only listed, with a ``problem`` that says why they are not taken by
    themselves; so is a container engine that may not be asked.
    """
    with ThreadPoolExecutor(max_workers=_AT_ONCE + 1) as pool:
        containers = pool.submit(find_containers, cancel)
        probes = [
            pool.submit(probe, command, deadline_s=deadline_s, cancel=cancel)
            for command in installed_commands(cancel)
        ]
        return (*(probed.result() for probed in probes), *containers.result())


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


def _parsers(kind: catalog.ParserKind, version: str) -> tuple[str, ...]:
    newest, wanted = Version(catalog.vllm_facts().newest), Version(version)
    known = min(newest, wanted)
    return tuple(
        entry.name
        for entry in catalog.parsers(kind)
        if Version(entry.first_version) <= known <= Version(entry.last_version)
    )
