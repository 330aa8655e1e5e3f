"""What a host must have for vLLM, and the names by which it shows what it is."""

from __future__ import annotations

import functools
from typing import Annotated, Literal

import msgspec

from wizard.catalog.source import bundled
from wizard.catalog.types import Size, Sourced, VersionText

NumberText = Annotated[str, msgspec.Meta(pattern=r"^\d+\.\d+$")]
"""Major and minor, such as ``2.28``."""


class HostMemory(Sourced, frozen=True, kw_only=True):
    """Below, or above, these the host's memory is worth a word."""

    ram_to_load_mib: int
    cache_worth_dropping_mib: int
    """On unified memory, where CUDA counts the page cache as taken."""
    swap_mib: int
    """More is a danger on unified memory."""
    shm_gib: Size


class HostDisk(Sourced, frozen=True, kw_only=True):
    """Free room that an installation wants, GiB."""

    models_gib: Size
    software_gib: Size
    temporary_gib: Size
    images_gib: Size


class HostLimits(Sourced, frozen=True, kw_only=True):
    """Limits of a process below which engines were seen to fail."""

    open_files: int
    tasks: int
    stack_kib: int
    overcommit_refuses: int
    """The value of ``vm.overcommit_memory`` that refuses large reservations."""


class GlibcFloor(Sourced, frozen=True, kw_only=True):
    """The oldest C library on which ready-made builds run, from a version of vLLM on."""

    since: VersionText
    floor: NumberText


class DriverFloor(Sourced, frozen=True, kw_only=True):
    """The oldest driver branch for the CUDA inside ready-made builds, from a version of vLLM on."""

    since: VersionText
    floor: int
    cuda: str


class DriverPackage(Sourced, frozen=True, kw_only=True):
    """How a family of distributions installs the driver. ``marks`` are parts of their names, lower case."""

    marks: tuple[str, ...]
    command: str


class PythonRange(Sourced, frozen=True, kw_only=True):
    """Interpreters that a version of vLLM accepts: from ``floor`` on, below ``below``."""

    since: VersionText
    floor: NumberText
    below: NumberText


class CudaCompiler(Sourced, frozen=True, kw_only=True):
    """What FlashInfer asks of nvcc."""

    blackwell_capability: int
    blackwell_floor: NumberText


class KernelLog(Sourced, frozen=True, kw_only=True):
    """Literals in the kernel's log that tell of an engine killed and of a failing GPU."""

    oom: tuple[str, ...]
    xid: str


class Xid(Sourced, frozen=True, kw_only=True):
    """An error number of NVIDIA's driver that says the hardware is to blame."""

    code: int
    meaning: str


class LowPower(Sourced, frozen=True, kw_only=True):
    """How a GPU shows, under load only, that it is stuck at low power, and how long to unplug it."""

    gpu: str
    """Its id in ``gpus.toml``."""
    busy_percent: int
    """From here on it counts as under load."""
    below_w: int
    below_mhz: int
    usual_mhz: int
    off_mains_s: int


class Busy(Sourced, frozen=True, kw_only=True):
    """From how much memory on, taken with no program in sight, somebody else must be on the GPU."""

    unexplained_mib: int


class Bar1(Sourced, frozen=True, kw_only=True):
    """The window to a GPU's memory: the size that is small, the share in use that leaves nothing."""

    small_mib: int
    full_percent: int


class Governor(Sourced, frozen=True, kw_only=True):
    """Governors of the processor's clock that hold it down, and the drivers under which they do not."""

    slow: tuple[str, ...]
    on_demand_drivers: tuple[str, ...]


class FileSystem(Sourced, frozen=True, kw_only=True):
    """File systems on which models are better not kept, for one reason."""

    kind: Literal["network", "container", "memory", "foreign", "shared"]
    names: tuple[str, ...]


class Gb10Twin(Sourced, frozen=True, kw_only=True):
    """A computer with the same board as NVIDIA's DGX Spark. ``marks`` are parts of its product name."""

    name: str
    marks: tuple[str, ...]


class HostFacts(Sourced, frozen=True, kw_only=True):
    """The host's side of an installation."""

    memory: HostMemory
    disk: HostDisk
    limits: HostLimits
    glibc: tuple[GlibcFloor, ...]
    driver: tuple[DriverFloor, ...]
    driver_guide: str
    driver_package: tuple[DriverPackage, ...]
    python: tuple[PythonRange, ...]
    nvcc: CudaCompiler
    kernel_log: KernelLog
    xid: tuple[Xid, ...]
    low_power: tuple[LowPower, ...]
    busy: Busy
    bar1: Bar1
    governor: Governor
    file_system: tuple[FileSystem, ...]
    gb10_twin: tuple[Gb10Twin, ...]
    known_programs: tuple[str, ...]
    """Beginnings of names that a recorded machine may keep, since they tell nothing about their owner."""


@functools.cache
def host_facts() -> HostFacts:
    """Floors and names for the checks of a host."""
    return bundled("host.toml", HostFacts)
