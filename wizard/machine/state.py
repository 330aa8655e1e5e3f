"""How a GPU is set up and how it feels: what decides nothing, but explains a slow or failing engine."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

from wizard.machine.questions import Questions, count, first_flag, itself, plain_text, watts
from wizard.machine.types import GpuState, MigInstance

_MIB = 1024 * 1024
_COMPUTE_MODES = {0: "default", 1: "exclusive-process", 2: "prohibited", 3: "exclusive-process"}
"""NVML_COMPUTEMODE_*; the withdrawn "exclusive thread" let one program in, too."""
_SLOWDOWNS = {0x20: "thermal", 0x40: "thermal", 0x80: "power-brake", 0x08: "hardware", 0x04: "power-cap"}
"""Bits of the clocks' event reasons that hold a GPU down against its will; 0x08 comes with 0x40 and 0x80."""
_MOST_INSTANCES = 64
"""Far more than any GPU can be split into."""
_FABRIC_STATES = {1: "not-started", 2: "in-progress", 3: "completed"}
"""NVML_GPU_FABRIC_STATE_*; 0 is a GPU without NVSwitch."""


def read_state(nvml: Any, device: Questions, mig: bool) -> GpuState:
    """The state of one GPU; what is refused is left open and noted in ``device.errors``."""
    mode = device.ask("compute_mode", "nvmlDeviceGetComputeMode", read=count)
    reasons = device.ask_either(
        "slowdowns",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
        read=_bits,
    )
    window = device.ask("bar1_mib", "nvmlDeviceGetBAR1MemoryInfo", read=_window)
    return GpuState(
        ecc=device.ask("ecc", "nvmlDeviceGetEccMode", read=first_flag),
        persistence=device.ask("persistence", "nvmlDeviceGetPersistenceMode", read=_flag),
        compute_mode=None if mode is None else _COMPUTE_MODES.get(mode),
        power_default_w=device.ask("power_default_w", "nvmlDeviceGetPowerManagementDefaultLimit", read=watts),
        slowdowns=_slowdowns(reasons or 0),
        remap_pending=_remap_pending(device),
        fabric=_fabric(nvml, device),
        busy_percent=device.ask(
            "busy_percent", "nvmlDeviceGetUtilizationRates", read=lambda rates: count(rates.gpu)
        ),
        power_w=device.ask("power_w", "nvmlDeviceGetPowerUsage", read=watts),
        sm_clock_mhz=device.ask("sm_clock_mhz", "nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM, read=count),
        bar1_mib=None if window is None else window[0],
        bar1_used_mib=None if window is None else window[1],
        instances=tuple(_instances(nvml, device)) if mig else (),
    )


def _flag(answer: Any) -> bool:
    return count(answer) > 0


def _bits(answer: Any) -> int:
    """A set of bits, of which drivers may use any of 64."""
    return int(answer) if isinstance(answer, int) else count(answer)


def _window(window: Any) -> tuple[int, int]:
    """Size and used part of BAR1 in MiB."""
    return count(window.bar1Total) // _MIB, count(window.bar1Used) // _MIB


def _slowdowns(reasons: int) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name for bit, name in _SLOWDOWNS.items() if reasons & bit))
    known = {"thermal", "power-brake"} & set(names)
    return tuple(name for name in names if name != "hardware" or not known)


def _remap_pending(device: Questions) -> bool | None:
    """Whether rows (from Ampere on) or pages (before) of bad memory wait for a restart."""
    rows: bool | None = device.ask(
        "remap_pending", "nvmlDeviceGetRemappedRows", read=lambda rows: _flag(rows[2])
    )
    if rows is not None:
        return rows
    pages: bool | None = device.ask_either(
        "remap_pending", "nvmlDeviceGetRetiredPagesPendingStatus", read=_flag
    )
    return pages


def _fabric(nvml: Any, device: Questions) -> str | None:
    """What the NVSwitch says of the GPU. The binding wants a structure to fill in, which old ones lack."""
    structure = getattr(nvml, "c_nvmlGpuFabricInfo_t", None)
    if structure is None:
        return None
    info = structure()
    # By reference: handed over as it is, the driver writes to a wrong place and the process dies.
    filled = device.ask(
        "fabric", "nvmlDeviceGetGpuFabricInfo", ctypes.byref(info), read=lambda _answer: info.state
    )
    return None if filled is None else _FABRIC_STATES.get(filled)


def _instances(nvml: Any, device: Questions) -> Iterator[MigInstance]:
    """The MIG instances of a split GPU. Their numbers may have gaps, which are no errors."""
    most = device.ask("instances", "nvmlDeviceGetMaxMigDeviceCount", read=count)
    for number in range(min(most or 0, _MOST_INSTANCES)):
        handle = device.ask("instances", "nvmlDeviceGetMigDeviceHandleByIndex", number, read=itself)
        if handle is None:
            if device.errors["instances"] in ("NotFound", "InvalidArgument"):
                del device.errors["instances"]
            continue
        instance = Questions(nvml, handle)
        yield MigInstance(
            uuid=instance.ask("uuid", "nvmlDeviceGetUUID", read=plain_text) or "",
            name=instance.ask("name", "nvmlDeviceGetName", read=plain_text) or "",
            memory_mib=instance.ask(
                "memory_mib", "nvmlDeviceGetMemoryInfo", read=lambda memory: count(memory.total) // _MIB
            ),
        )
