"""Runs the checks side by side: one that hangs costs its own result and nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from wizard.i18n import _
from wizard.machine.checks import (
    containers,
    disk,
    firewall,
    gpus,
    identity,
    kernel,
    limits,
    memory,
    network,
    peers,
    power,
    service,
    tools,
)
from wizard.machine.checks.subject import Probe, Subject
from wizard.machine.types import Check, Machine
from wizard.text import one_line

DEADLINE_S = 6.0

_Judge = Callable[[Subject], Check | None]
_Look = Callable[[Subject], Check]

_OF_THE_MACHINE: Mapping[str, _Judge] = {
    "identity": identity.identity,
    "gpu": gpus.gpu,
    "driver": gpus.driver,
    "busy": gpus.busy,
    "gpu-state": gpus.state,
    "low-power": power.low_power,
    "visible": gpus.visible,
    "p2p": peers.peer_to_peer,
    "bar1": peers.bar1,
    "memory": memory.memory,
    "swap": memory.swap,
    "shm": memory.shm,
    "disk": disk.models,
    "disk-home": disk.home,
    "disk-temporary": disk.temporary,
    "disk-images": disk.images,
    "file-system": disk.file_system,
    "limits": limits.limits,
    "overcommit": limits.overcommit,
    "governor": limits.governor,
    "glibc": limits.glibc,
    "secure-boot": limits.secure_boot,
}
"""Judged from the machine alone, so that a recorded one answers too. None: does not concern this machine."""

_OF_THIS_HOST: Mapping[str, _Look] = {
    "python": tools.python,
    "compiler": tools.compiler,
    "nvcc": tools.nvcc,
    "numa": tools.numa,
    "installer": tools.installer,
    "docker": containers.docker,
    "podman": containers.podman,
    "linger": service.linger,
    "port": network.port,
    "proxy": network.proxy,
    "firewall": firewall.firewall,
    "hugging-face": network.hugging_face,
    "kernel-log": kernel.kernel_log,
}
"""These look at the host itself."""

_FIRST = "port"
"""Looks who listens before the others start programs: one just forked holds its parent's sockets."""
_HEAD_START_S = 1.0
_FAREWELL_S = 1.0
"""How long checks that are cut off may take to end the programs they had started."""


def checks(
    machine: Machine,
    port: int = 8000,
    host: str = "127.0.0.1",
    live: bool = True,
    probe: Probe | None = None,
    deadline_s: float = DEADLINE_S,
) -> tuple[Check, ...]:
    """All checks, in the order in which one would look; at most ``deadline_s`` seconds together.

    ``host`` and ``port`` are where a server is to listen. The ``live`` ones look at this very host: for a
    simulated machine they are skipped. Nothing is changed, and nothing needs root; what could not be read is
    skipped and says so.
    """
    subject = Subject(machine=machine, host=host, port=port, probe=probe or Probe())
    judged = (judge(subject) for judge in _OF_THE_MACHINE.values())
    found = [check for check in judged if check is not None]
    if not live or machine.simulated is not None:
        skipped = _("Not looked at: this is not the machine it runs on.")
        if machine.simulated is None:
            skipped = _("Not looked at.")
        return (*found, *(Check(id=id, status="skip", detail=skipped) for id in _OF_THIS_HOST))
    return (*found, *_side_by_side(subject, deadline_s))


def checked_for(found: Sequence[Check], machine: Machine, python: str) -> tuple[Check, ...]:
    """The checks with those that depend on vLLM's own Python looked at again; what was skipped stays so."""
    subject = Subject(machine=machine, python=python)
    return tuple(
        tools.compiler(subject) if check.id == "compiler" and check.status != "skip" else check
        for check in found
    )


def _side_by_side(subject: Subject, deadline_s: float) -> Sequence[Check]:
    """Each look in a thread of its own. One that does not come back is left behind, and dies with us.

    A program it waits for does not: it is ended here.
    """
    results: dict[str, Check] = {}
    cut_off = threading.Event()
    subject = msgspec.structs.replace(subject, probe=msgspec.structs.replace(subject.probe, cancel=cut_off))
    threads = {
        id: threading.Thread(target=_look, args=(id, look, subject, results), daemon=True, name=f"check-{id}")
        for id, look in _OF_THIS_HOST.items()
    }
    try:
        threads[_FIRST].start()
        threads[_FIRST].join(min(_HEAD_START_S, deadline_s))
        for id, thread in threads.items():
            if id != _FIRST:
                thread.start()
        _join(threads.values(), deadline_s)
        found = dict(results)
    finally:
        cut_off.set()
        _join((thread for thread in threads.values() if thread.is_alive()), _FAREWELL_S)
    late = _("It did not answer within {seconds:.0f} seconds.").format(seconds=deadline_s)
    return [found.get(id, Check(id=id, status="skip", detail=late)) for id in _OF_THIS_HOST]


def _join(threads: Iterable[threading.Thread], patience_s: float) -> None:
    """Wait for all of them, ``patience_s`` seconds together."""
    until = time.monotonic() + patience_s
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


def _look(id: str, look: _Look, subject: Subject, results: dict[str, Check]) -> None:
    try:
        results[id] = look(subject)
    except Exception as error:  # noqa: BLE001 - one host's oddity must not hide what the other checks found
        text = _("It could not be read: {reason}.").format(
            reason=one_line(str(error)) or type(error).__name__
        )
        results[id] = Check(id=id, status="skip", detail=text)
