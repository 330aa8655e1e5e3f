"""What a host answered (a reading, which can be recorded) and what follows from it (the machine)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from wizard.catalog import Origin

LINKS, PROCESSES = "links", "processes"
"""Facts of a GPU that can be ``unread``."""

CheckStatus = Literal["ok", "warn", "fail", "skip"]

Count = Annotated[int, msgspec.Meta(ge=0)]
Size = Annotated[float, msgspec.Meta(ge=0)]


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that holds memory of a GPU."""

    pid: int
    name: str = ""
    used_mib: Count | None = None


class MigInstance(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a GPU that is split with MIG; ``name`` holds its profile, such as ``1g.18gb``."""

    uuid: str
    name: str = ""
    memory_mib: Count | None = None


class PciCard(msgspec.Struct, frozen=True, kw_only=True):
    """An NVIDIA display device on the PCI bus, as the kernel lists it without any help of NVIDIA's driver."""

    bus_id: str
    device: str
    """PCI device id, such as ``0x2e12``."""
    driver: str | None = None
    """The kernel driver bound to it: ``nvidia``, ``nouveau``, ``vfio-pci``; None: none."""


class GpuState(msgspec.Struct, frozen=True, kw_only=True):
    """How a GPU is set up and how it feels. ``None`` is "refused or unknown"."""

    ecc: bool | None = None
    persistence: bool | None = None
    compute_mode: str | None = None
    """``default``, ``exclusive-process`` (one program at a time) or ``prohibited`` (none)."""
    power_default_w: Size | None = None
    slowdowns: tuple[str, ...] = ()
    """Why clocks are held down at this moment: ``thermal``, ``power-brake``, ``hardware``, ``power-cap``."""
    remap_pending: bool | None = None
    """Bad memory was found, and takes a restart to be set aside."""
    fabric: str | None = None
    """Whether an NVSwitch has taken the GPU in: ``completed``, ``in-progress``, ``not-started``."""
    busy_percent: Count | None = None
    """Share of the last moments (up to a second) in which anything ran on it."""
    power_w: Size | None = None
    """What it drew at the time of the reading."""
    sm_clock_mhz: Count | None = None
    bar1_mib: Count | None = None
    """Size of the window (BAR1) through which other devices reach its memory."""
    bar1_used_mib: Count | None = None
    instances: tuple[MigInstance, ...] = ()
    blocked_peers: Mapping[str, str] = {}
    """GPUs whose memory this one cannot reach without the host's, by index, each with NVML's reason."""


class GpuReading(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as NVML described it. ``None`` is "refused or unknown", and ``errors`` says how, by field."""

    index: Count
    name: str
    uuid: str = ""
    bus_id: str = ""
    compute_capability: str | float | tuple[int, int] | None = None
    """``"12.1"``; a number or a pair is understood too, for machine files written by hand."""
    memory_mib: Count | None = None
    memory_free_mib: Count | None = None
    integrated: bool | None = None
    unified: bool | None = None
    """What an earlier ``detect --json`` concluded; a reading of NVML leaves it open."""
    links: Mapping[str, Count] = {}
    """Active NVLinks by the index of the peer."""
    display_active: bool | None = None
    power_limit_w: Size | None = None
    mig: bool = False
    processes: tuple[GpuProcess, ...] = ()
    unread: tuple[str, ...] = ()
    """Which of ``links`` and ``processes`` nobody could be asked for: empty, they are no answer."""
    state: GpuState = GpuState()
    errors: Mapping[str, str] = {}
    """NVML's name of the error by the field it left open: ``{"memory_mib": "NotSupported"}``.

    Under ``device`` when the GPU as a whole could not be asked.
    """
    problems: tuple[str, ...] = ()
    """What an earlier ``detect --json`` concluded."""


class MemoryReading(msgspec.Struct, frozen=True, kw_only=True):
    """Host memory. ``available_mib`` is the kernel's MemAvailable, which counts reclaimable page cache."""

    total_mib: Count
    available_mib: Count
    free_mib: Count | None = None
    swap_total_mib: Count = 0
    swap_used_mib: Count = 0


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """Room on one of the paths an installation fills.

    ``purpose``: models, home, temporary or shm; docker or podman for the folder in which that keeps images.
    """

    purpose: str
    path: str
    total_gib: Size
    free_gib: Size
    file_system: str | None = None
    """As the kernel names it, such as ``ext4`` or ``nfs4``."""
    assumed: bool = False
    """The program whose folder it is could not be asked: its settings or its custom tell the path."""


class NvmlReading(msgspec.Struct, frozen=True, kw_only=True):
    """What NVML answered about the driver and every GPU it counts."""

    driver: str | None = None
    cuda: str | None = None
    gpus: tuple[GpuReading, ...] = ()
    problems: tuple[str, ...] = ()


class SystemReading(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the system that decide whether an engine can run. ``None`` is "could not be read"."""

    glibc: str | None = None
    secure_boot: bool | None = None
    iommu: str | None = None
    """``off``, ``passthrough``, or ``translating``: then traffic between GPUs can detour or hang."""
    overcommit: int | None = None
    """``vm.overcommit_memory``; 2 refuses what CUDA reserves and never uses."""
    open_files: Count | None = None
    """Soft limit of this process; None also for "unlimited"."""
    open_files_hard: Count | None = None
    locked_memory_kib: Count | None = None
    """Soft limit; None also for "unlimited"."""
    processes: Count | None = None
    """Soft limit on processes and threads of this user; None also for "unlimited"."""
    stack_kib: Count | None = None
    """Soft limit; None also for "unlimited"."""
    tasks: Count | None = None
    """Most processes and threads that the control group allows."""
    temporary_noexec: bool | None = None
    module_version: str | None = None
    """Version of the NVIDIA kernel module that is loaded."""
    module_open: bool | None = None
    """Whether it is NVIDIA's open kernel module."""
    governors: tuple[str, ...] = ()
    """How the clocks of the processor's cores are chosen, such as ``powersave``; each kind once."""
    frequency_driver: str | None = None
    """The kernel's driver behind the governor, such as ``intel_pstate``."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a host answered: the content of a machine file under ``machine``."""

    hostname: str | None = None
    arch: str
    os: str
    kernel: str = ""
    product: str = ""
    cpu_count: Count = 0
    container: str | None = None
    wsl: bool = False
    driver: str | None = None
    cuda: str | None = None
    """Newest CUDA the driver supports, such as ``13.0``; not the toolkit that is installed."""
    gpus: tuple[GpuReading, ...] = ()
    memory: MemoryReading
    disks: tuple[Disk, ...] = ()
    shm: Disk | None = None
    system: SystemReading = SystemReading()
    cards: tuple[PciCard, ...] | None = None
    """NVIDIA cards on the PCI bus; None: the bus could not be looked at, or cards were not looked for."""
    visible_devices: str | None = None
    """``CUDA_VISIBLE_DEVICES`` where the wizard was started; None: not set."""
    problems: tuple[str, ...] = ()
    """Codes of what failed as a whole, such as ``nvml-library-not-found``."""


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """Where a machine file comes from: which fields a real host answered, which were derived."""

    description: str
    recorded: str
    derived: str = ""
    source: str


class MachineFile(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded machine on disk: ``assets/machines/NAME.json``, or what ``detect --json`` printed."""

    machine: Reading
    provenance: Provenance | None = None
    """None only for what ``detect --json`` printed: then all of it was read from that host."""


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU. Memory is MiB, 0 when it could not be read; bandwidth decimal GB/s."""

    index: int
    name: str
    uuid: str
    compute_capability: str
    """Such as ``12.1``; empty when neither the driver nor the table knows it."""
    memory_mib: int
    memory_free_mib: int
    memory_origin: Origin
    unified: bool
    bandwidth_gbs: float | None
    architecture: str
    links: Mapping[str, int]
    problems: tuple[str, ...] = ()
    bus_id: str = ""
    display_active: bool | None = None
    power_limit_w: float | None = None
    mig: bool = False
    """Split into MIG instances: the whole GPU cannot run anything itself."""
    processes: tuple[GpuProcess, ...] = ()
    unread: tuple[str, ...] = ()
    """Which of ``links`` and ``processes`` could not be read."""
    state: GpuState = GpuState()
    hidden: bool = False
    """Kept from programs by ``CUDA_VISIBLE_DEVICES``."""

    @property
    def capability(self) -> int:
        """Ten times the compute capability, as vLLM counts it: sm_121 is 121. Unknown is 0."""
        major, _, minor = self.compute_capability.partition(".")
        return int(major or 0) * 10 + int(minor or 0)

    @property
    def usable(self) -> bool:
        """Whether vLLM could be given this GPU: it answers, its memory is known, nothing bars it."""
        barred = self.mig or self.hidden or self.state.compute_mode == "prohibited"
        return self.memory_mib > 0 and self.capability > 0 and not barred


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
    """GPUs that are all linked to each other, two or more a group; a GPU without a partner is in none."""
    memory: MemoryReading
    disks: tuple[Disk, ...]
    shm: Disk | None
    problems: tuple[str, ...]
    system: SystemReading = SystemReading()
    cards: tuple[PciCard, ...] | None = None
    visible_devices: str | None = None
    simulated: str | None = None


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one host check; ``hint`` says what to do when it is not ``ok``.

    ``command`` is what a person can type to see the same, or to put it right; empty where there is no such
    command.
    """

    id: str
    status: CheckStatus
    detail: str
    hint: str = ""
    command: str = ""
