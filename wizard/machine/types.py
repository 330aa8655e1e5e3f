"""What a host answered (a reading, which can be recorded) and what follows from it (the machine)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from wizard.catalog import Origin

CheckStatus = Literal["ok", "warn", "fail", "skip"]


class GpuReading(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as NVML described it. ``None`` is "refused or unknown", and ``errors`` says how, by field."""

    index: int
    name: str
    uuid: str = ""
    bus_id: str = ""
    compute_capability: str | float | tuple[int, int] | None = None
    """``"12.1"``; a number or a pair is understood too, for machine files written by hand."""
    memory_mib: int | None = None
    memory_free_mib: int | None = None
    integrated: bool | None = None
    links: Mapping[str, int] = {}
    """Active NVLinks by the index of the peer."""
    display_active: bool | None = None
    power_limit_w: float | None = None
    mig: bool = False
    processes: tuple[GpuProcess, ...] = ()
    errors: Mapping[str, str] = {}


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that holds memory of a GPU."""

    pid: int
    name: str = ""
    used_mib: int | None = None


class MemoryReading(msgspec.Struct, frozen=True, kw_only=True):
    """Host memory. ``available_mib`` is the kernel's MemAvailable, which counts reclaimable page cache."""

    total_mib: int
    available_mib: int
    free_mib: int | None = None
    swap_total_mib: int = 0
    swap_used_mib: int = 0


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """Room on one of the paths an installation fills."""

    purpose: str
    path: str
    total_gib: float
    free_gib: float


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a host answered: the content of a machine file under ``machine``."""

    hostname: str | None = None
    arch: str
    os: str
    kernel: str = ""
    product: str = ""
    cpu_count: int = 0
    container: str | None = None
    wsl: bool = False
    driver: str | None = None
    cuda: str | None = None
    """Newest CUDA the driver supports, such as ``13.0``; not the toolkit that is installed."""
    gpus: tuple[GpuReading, ...] = ()
    memory: MemoryReading
    disks: tuple[Disk, ...] = ()
    shm: Disk | None = None
    problems: tuple[str, ...] = ()
    """Codes of what failed as a whole, such as ``nvml-library-not-found``."""


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """Where a machine file comes from: which fields a real host answered, which were derived."""

    description: str
    recorded: str
    derived: str = ""
    source: str


class MachineFile(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded machine on disk: ``assets/machines/NAME.json``."""

    provenance: Provenance
    machine: Reading


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One usable GPU. Memory is MiB; bandwidth decimal GB/s."""

    index: int
    name: str
    uuid: str
    compute_capability: str
    memory_mib: int
    memory_free_mib: int
    memory_origin: Origin
    unified: bool
    bandwidth_gbs: float | None
    architecture: str
    links: Mapping[str, int]
    problems: tuple[str, ...] = ()

    @property
    def capability(self) -> int:
        """Ten times the compute capability, as vLLM counts it: sm_121 is 121."""
        major, _, minor = self.compute_capability.partition(".")
        return int(major) * 10 + int(minor or 0)


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """This host, ready for decisions. ``simulated`` names the recorded machine, if it is one."""

    hostname: str | None
    arch: str
    os: str
    kernel: str
    product: str
    cpu_count: int
    container: str | None
    wsl: bool
    driver: str | None
    cuda: str | None
    gpus: tuple[Gpu, ...]
    nvlink_groups: tuple[tuple[int, ...], ...]
    memory: MemoryReading
    disks: tuple[Disk, ...]
    shm: Disk | None
    problems: tuple[str, ...]
    simulated: str | None = None


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one host check; ``hint`` says what to do when it is not ``ok``."""

    id: str
    status: CheckStatus
    detail: str
    hint: str = ""
