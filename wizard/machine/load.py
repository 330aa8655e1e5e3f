"""Looks at the GPUs while something else keeps them busy, such as a test of the speed."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import msgspec

from wizard.machine.checks.power import COMMAND, ID, low_power
from wizard.machine.checks.subject import Subject, unread
from wizard.machine.types import Check, GpuReading, GpuState, Machine

_PAUSE_S = 0.5
_READING_S = 5.0


def watch_load(
    machine: Machine, patience_s: float = 20.0, cancel: threading.Event | None = None
) -> Check | None:
    """Whether a GPU of ``machine`` is stuck at low power; for a thread beside the load that is to judge it.

    Reads the GPUs again until one reading shows a healthy one or two in a row a stuck one: the share of busy
    time is an average, and at the end of a load the clock is down before it is. After ``patience_s`` seconds,
    or once ``cancel`` is set, the last undecided check is the answer. None at once where no GPU is of a kind
    that gets stuck; a recorded machine is judged from its recording. Raises nothing.
    """
    check = low_power(Subject(machine=machine))
    if check is None or machine.simulated is not None:
        return check
    stop = cancel or threading.Event()
    until = time.monotonic() + patience_s
    undecided, suspected = unread(ID, COMMAND), False
    while not stop.is_set() and (suspected or time.monotonic() < until):
        check = low_power(Subject(machine=_read_again(machine))) or undecided
        if check.status == "ok" or (check.status == "warn" and suspected):
            return check
        suspected = check.status == "warn"
        if not suspected:
            undecided = check
        stop.wait(_PAUSE_S)
    return undecided


def _read_again(machine: Machine) -> Machine:
    """The machine with the state its GPUs are in now; a GPU that does not answer now has none."""
    # Imported here, because the module is also the program of NVML's child process.
    from wizard.machine.nvml import ask_nvml

    now: Mapping[int, GpuReading] = {gpu.index: gpu for gpu in ask_nvml(_READING_S).gpus}
    gpus = tuple(
        msgspec.structs.replace(gpu, state=now[gpu.index].state if gpu.index in now else GpuState())
        for gpu in machine.gpus
    )
    return msgspec.structs.replace(machine, gpus=gpus)
