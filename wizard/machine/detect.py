"""The door of the room: this host, or a recorded one in its place."""

from __future__ import annotations

import os
import platform

from wizard.machine import host
from wizard.machine.build import machine_from
from wizard.machine.recorded import load_machine
from wizard.machine.types import Machine, Reading
from wizard.text import one_line


def detect(simulate: str | None = None) -> Machine:
    """This host, or the recorded machine named ``simulate`` (a bundled name or the path of a machine file).

    Reading this host raises nothing for broken hardware: that is in the machine's problems. For a simulated
    one the errors are those of ``load_machine``.
    """
    return machine_from(read_host()) if simulate is None else load_machine(simulate)


def read_host() -> Reading:
    """Everything this host answers now; takes as long as NVML does, at most its deadline of 15 seconds."""
    # Imported here, because the module is also the program of NVML's child process: a program that its own
    # package has imported already makes Python warn.
    from wizard.machine.nvml import ask_nvml

    nvml = ask_nvml()
    return Reading(
        hostname=one_line(platform.node()) or None,
        arch=platform.machine(),
        os=host.os_name(),
        kernel=platform.release(),
        product=host.product(),
        cpu_count=os.cpu_count() or 0,
        container=host.container(),
        wsl=host.is_wsl(),
        driver=nvml.driver,
        cuda=nvml.cuda,
        gpus=nvml.gpus,
        memory=host.memory(),
        disks=host.disks(),
        shm=host.shm(),
        problems=nvml.problems,
    )
