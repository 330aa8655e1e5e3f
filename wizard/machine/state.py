"""How a GPU is set up and how it feels: what decides nothing, but explains a slow or failing engine."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

from wizard.machine.questions import Questions, plain_text
from wizard.machine.types import GpuState, MigInstance

_MIB = 1024 * 1024
_COMPUTE_MODES = {0: "default", 1: "exclusive-process", 2: "prohibited", 3: "exclusive-process"}
"""NVML_COMPUTEMODE_*; the withdrawn "exclusive thread" let one program in, too."""
_SLOWDOWNS = {0x20: "thermal", 0x40: "thermal", 0x80: "power-brake", 0x08: "hardware", 0x04: "power-cap"}
"""Bits of the clocks' event reasons that hold a GPU down against its will; 0x08 comes with 0x40 and 0x80."""
_FABRIC_STATES = {1: "not-started", 2: "in-progress", 3: "completed"}
"""NVML_GPU_FABRIC_STATE_*; 0 is a GPU without NVSwitch."""


def read_state(nvml: Any, device: Questions, mig: bool) -> GpuState:
    """The state of one GPU; what is refused is left open and noted in ``device.errors``."""
    ecc = device.ask("ecc", "nvmlDeviceGetEccMode")
    persistence = device.ask("persistence", "nvmlDeviceGetPersistenceMode")
    mode = device.ask("compute_mode", "nvmlDeviceGetComputeMode")
    power_mw = device.ask("power_default_w", "nvmlDeviceGetPowerManagementDefaultLimit")
    reasons = device.ask_either(
        "slowdowns", "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
    )
    busy = device.ask("busy_percent", "nvmlDeviceGetUtilizationRates")
    drawn_mw = device.ask("power_w", "nvmlDeviceGetPowerUsage")
    clock = device.ask("sm_clock_mhz", "nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM)
    window = device.ask("bar1_mib", "nvmlDeviceGetBAR1MemoryInfo")
    return GpuState(
        ecc=None if ecc is None else bool(ecc[0]),
        persistence=None if persistence is None else bool(persistence),
        compute_mode=_COMPUTE_MODES.get(mode),
        power_default_w=None if power_mw is None else power_mw / 1000,
        slowdowns=_slowdowns(reasons or 0),
        remap_pending=_remap_pending(device),
        fabric=_fabric(nvml, device),
        busy_percent=None if busy is None else busy.gpu,
        power_w=None if drawn_mw is None else drawn_mw / 1000,
        sm_clock_mhz=clock,
        bar1_mib=None if window is None else window.bar1Total // _MIB,
        bar1_used_mib=None if window is None else window.bar1Used // _MIB,
        instances=tuple(_instances(nvml, device)) if mig else (),
    )


def _slowdowns(reasons: int) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name for bit, name in _SLOWDOWNS.items() if reasons & bit))
    known = {"thermal", "power-brake"} & set(names)
    return tuple(name for name in names if name != "hardware" or not known)


def _remap_pending(device: Questions) -> bool | None:
    """Whether rows (from Ampere on) or pages (before) of bad memory wait for a restart."""
    rows = device.ask("remap_pending", "nvmlDeviceGetRemappedRows")
    if rows is not None:
        return bool(rows[2])
    pages = device.ask_either("remap_pending", "nvmlDeviceGetRetiredPagesPendingStatus")
    return None if pages is None else bool(pages)


def _fabric(nvml: Any, device: Questions) -> str | None:
    """What the NVSwitch says of the GPU. The binding wants a structure to fill in, which old ones lack."""
    structure = getattr(nvml, "c_nvmlGpuFabricInfo_t", None)
    if structure is None:
        return None
    info = structure()
    # By reference: handed over as it is, the driver writes to a wrong place and the process dies.
    if device.ask("fabric", "nvmlDeviceGetGpuFabricInfo", ctypes.byref(info)) is None:
        return None
    return _FABRIC_STATES.get(info.state)


def _instances(nvml: Any, device: Questions) -> Iterator[MigInstance]:
    """The MIG instances of a split GPU. Their numbers may have gaps, which are no errors."""
    count = device.ask("instances", "nvmlDeviceGetMaxMigDeviceCount")
    for number in range(count or 0):
        handle = device.ask("instances", "nvmlDeviceGetMigDeviceHandleByIndex", number)
        if handle is None:
            if device.errors["instances"] in ("NotFound", "InvalidArgument"):
                del device.errors["instances"]
            continue
        instance = Questions(nvml, handle)
        memory = instance.ask("memory_mib", "nvmlDeviceGetMemoryInfo")
        yield MigInstance(
            uuid=plain_text(instance.ask("uuid", "nvmlDeviceGetUUID")),
            name=plain_text(instance.ask("name", "nvmlDeviceGetName")),
            memory_mib=None if memory is None else memory.total // _MIB,
        )
