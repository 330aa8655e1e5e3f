"""The door of the room: this host, or a recorded one in its place."""

from __future__ import annotations

import os
import platform

from wizard.machine import host
from wizard.machine.build import machine_from
from wizard.machine.images import image_disks
from wizard.machine.pci import card_problems, pci_cards
from wizard.machine.recorded import load_machine
from wizard.machine.smi import ask_smi
from wizard.machine.system import read_system
from wizard.machine.types import Machine, NvmlReading, Reading
from wizard.text import inert, one_line


def detect(simulate: str | None = None) -> Machine:
    """This host, or the recorded machine named ``simulate`` (a bundled name or the path of a machine file).

    Reading this host raises nothing for broken hardware: that is in the machine's problems. For a simulated
    one the errors are those of ``load_machine``.
    """
    return machine_from(read_host()) if simulate is None else load_machine(simulate)


_ASK_OTHERWISE = {"nvml-library-not-found", "nvml-unknown", "nvml-no-devices"}
"""Failures of NVML after which nvidia-smi can still know better: it brings its own way to the library."""


def read_host() -> Reading:
    """Everything this host answers now; takes as long as NVML does, at most its deadline of 15 seconds.

    Without NVML nvidia-smi is asked; without either, the PCI bus says whether there is a card at all.
    """
    nvml = _read_gpus()
    cards = pci_cards()
    problems = nvml.problems if nvml.gpus else card_problems(cards, nvml.problems)
    container = host.container()
    # From inside a container nobody pulls another one.
    images = () if container else image_disks()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return Reading(
        hostname=one_line(platform.node()) or None,
        arch=platform.machine(),
        os=host.os_name(),
        kernel=platform.release(),
        product=host.product(),
        cpu_count=os.cpu_count() or 0,
        container=container,
        wsl=host.is_wsl(),
        driver=nvml.driver,
        cuda=nvml.cuda,
        gpus=nvml.gpus,
        memory=host.memory(),
        disks=(*host.disks(), *images),
        shm=host.shm(),
        system=read_system(),
        cards=cards,
        visible_devices=None if visible is None else inert(visible),
        problems=problems,
    )


def _read_gpus() -> NvmlReading:
    # Imported here, because the module is also the program of NVML's child process: a program that its own
    # package has imported already makes Python warn.
    from wizard.machine.nvml import ask_nvml

    nvml = ask_nvml()
    if nvml.gpus or not _ASK_OTHERWISE & set(nvml.problems):
        return nvml
    return ask_smi() or nvml
