"""From a reading to the machine: what the tables add, whose memory counts, what is wrong with a GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from wizard.catalog import GpuModel, gpu_by_name
from wizard.machine.capability import normal_capability
from wizard.machine.questions import NO_ANSWER
from wizard.machine.topology import nvlink_groups
from wizard.machine.types import (
    Disk,
    Gpu,
    GpuProcess,
    GpuReading,
    GpuState,
    Machine,
    MemoryReading,
    PciCard,
    Reading,
    SystemReading,
)
from wizard.machine.visible import hidden_gpus
from wizard.text import inert, one_line

_DEAD = {
    NO_ANSWER: "gpu-no-answer",
    "GpuIsLost": "gpu-lost",
    "ResetRequired": "gpu-reset-required",
}
"""Errors after which the GPU is of no use before somebody has attended to it, whatever was asked."""


def machine_from(reading: Reading, simulated: str | None = None) -> Machine:
    """The machine a reading describes; ``simulated`` is the name under which it was recorded.

    Raises CorruptDataError when the user's own GPU table cannot be read.
    """
    memory = msgspec.structs.replace(
        reading.memory, available_mib=min(reading.memory.available_mib, reading.memory.total_mib)
    )
    hidden = hidden_gpus(reading.visible_devices, reading.gpus)
    gpus = tuple(
        msgspec.structs.replace(_gpu(gpu, memory), hidden=gpu.index in hidden)
        for gpu in sorted(reading.gpus, key=lambda gpu: gpu.index)
    )
    return Machine(
        hostname=None if reading.hostname is None else one_line(reading.hostname),
        arch=one_line(reading.arch),
        os=one_line(reading.os),
        kernel=one_line(reading.kernel),
        product=one_line(reading.product),
        cpu_count=reading.cpu_count,
        container=None if reading.container is None else one_line(reading.container),
        wsl=reading.wsl,
        driver=None if reading.driver is None else one_line(reading.driver),
        cuda=None if reading.cuda is None else one_line(reading.cuda),
        gpus=gpus,
        nvlink_groups=nvlink_groups(gpus),
        memory=memory,
        disks=tuple(_inert_disk(disk) for disk in reading.disks),
        shm=None if reading.shm is None else _inert_disk(reading.shm),
        problems=tuple(one_line(problem) for problem in reading.problems),
        system=_inert_system(reading.system),
        cards=None if reading.cards is None else tuple(_inert_card(card) for card in reading.cards),
        visible_devices=None if reading.visible_devices is None else inert(reading.visible_devices),
        simulated=simulated,
    )


def _gpu(reading: GpuReading, memory: MemoryReading) -> Gpu:
    model = gpu_by_name(reading.name, reading.memory_mib) if reading.name else None
    capability = _stated_capability(reading) or (model.compute_capability if model else "")
    dead = _dead(reading)
    unified = dead is None and _is_unified(reading, model)
    if dead is not None:
        total, free = 0, 0
    elif unified:
        total, free = _shared_memory(reading, memory)
    else:
        total = reading.memory_mib or 0
        free = total if reading.memory_free_mib is None else min(reading.memory_free_mib, total)
    return Gpu(
        index=reading.index,
        name=one_line(reading.name),
        uuid=one_line(reading.uuid),
        bus_id=one_line(reading.bus_id),
        compute_capability=capability,
        memory_mib=total,
        memory_free_mib=free,
        memory_origin="measured" if total else "assumed",
        unified=unified,
        bandwidth_gbs=model.bandwidth_gbs if model else None,
        architecture=model.architecture if model else "",
        links=reading.links,
        problems=tuple(_problems(reading, capability, dead, total)),
        display_active=reading.display_active,
        power_limit_w=reading.power_limit_w,
        mig=reading.mig,
        processes=tuple(_inert_process(process) for process in reading.processes),
        unread=tuple(one_line(fact) for fact in reading.unread),
        state=_inert_state(reading.state),
    )


def _stated_capability(reading: GpuReading) -> str:
    """The capability the reading states; empty where it states none, or something that is none."""
    try:
        return normal_capability(reading.compute_capability) if reading.compute_capability else ""
    except ValueError:
        return ""


def _is_unified(reading: GpuReading, model: GpuModel | None) -> bool:
    """Whether the GPU works in the host's memory.

    Only a device known to be integrated can, and only when NVML either does not support the question there or
    answered it: any other error stays an error, or a sick card would be shown with the host's memory. What an
    earlier ``detect`` found wins.
    """
    if reading.unified is not None:
        return reading.unified
    integrated = reading.integrated
    if integrated is None:
        integrated = model is not None and model.unified
    return integrated and reading.errors.get("memory_mib", "NotSupported") == "NotSupported"


def _shared_memory(reading: GpuReading, memory: MemoryReading) -> tuple[int, int]:
    """Total and free MiB of a GPU in the host's memory; the total is less where the reading says less.

    Free is what the kernel could hand out, page cache included; CUDA itself counts that cache as taken.
    """
    total = min(memory.total_mib, reading.memory_mib or memory.total_mib)
    return total, min(memory.available_mib, total)


def _dead(reading: GpuReading) -> str | None:
    found = (_DEAD[error] for error in reading.errors.values() if error in _DEAD)
    return next(found, "gpu-unreadable" if "device" in reading.errors else None)


def _problems(reading: GpuReading, capability: str, dead: str | None, total: int) -> Iterator[str]:
    """Codes of what is wrong. A dead GPU has that one problem; what an earlier ``detect`` found stands."""
    if reading.problems:
        yield from (one_line(problem) for problem in reading.problems)
        return
    if dead is not None:
        yield dead
        return
    if not total:
        error = reading.errors.get("memory_mib", "Unknown")
        yield "gpu-memory-" + re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", error).lower()
    if not capability:
        yield "gpu-capability-unknown"
    if reading.mig:
        yield "gpu-mig-enabled"
    if reading.state.compute_mode == "prohibited":
        yield "gpu-compute-prohibited"
    if reading.state.remap_pending:
        yield "gpu-remap-pending"
    if reading.state.fabric in ("not-started", "in-progress"):
        yield "gpu-fabric-" + reading.state.fabric


def _inert_process(process: GpuProcess) -> GpuProcess:
    return msgspec.structs.replace(process, name=one_line(process.name))


def _inert_disk(disk: Disk) -> Disk:
    return msgspec.structs.replace(
        disk,
        purpose=one_line(disk.purpose),
        path=one_line(disk.path),
        file_system=None if disk.file_system is None else one_line(disk.file_system),
    )


def _inert_card(card: PciCard) -> PciCard:
    return msgspec.structs.replace(
        card,
        bus_id=one_line(card.bus_id),
        device=one_line(card.device),
        driver=None if card.driver is None else one_line(card.driver),
    )


def _inert_state(state: GpuState) -> GpuState:
    """The texts of a state come from a machine file of somebody else, if not from our own tables."""
    return msgspec.structs.replace(
        state,
        compute_mode=None if state.compute_mode is None else one_line(state.compute_mode),
        slowdowns=tuple(one_line(reason) for reason in state.slowdowns),
        fabric=None if state.fabric is None else one_line(state.fabric),
        instances=tuple(
            msgspec.structs.replace(part, uuid=one_line(part.uuid), name=one_line(part.name))
            for part in state.instances
        ),
        blocked_peers={one_line(peer): one_line(why) for peer, why in state.blocked_peers.items()},
    )


def _inert_system(system: SystemReading) -> SystemReading:
    names = ("glibc", "iommu", "module_version", "frequency_driver")
    texts = {name: getattr(system, name) for name in names}
    inert = {name: None if text is None else one_line(text) for name, text in texts.items()}
    governors = tuple(one_line(governor) for governor in system.governors)
    return msgspec.structs.replace(system, governors=governors, **inert)
