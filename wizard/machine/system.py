"""Settings of the operating system that an engine depends on. Read-only, and nothing here needs root."""

from __future__ import annotations

import platform
import sys
import tempfile
from pathlib import Path

from wizard.machine.host import cgroup_folders
from wizard.machine.mounts import mount_of
from wizard.machine.types import SystemReading
from wizard.text import one_line

_ROOT = Path("/")
_SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_ATTRIBUTES = 4
"""Bytes of attributes before the value of an EFI variable."""


def read_system(root: Path = _ROOT) -> SystemReading:
    """Everything that can be read; what cannot stays None."""
    library, version = platform.libc_ver()
    module = _text(root / "sys/module/nvidia/version")
    return SystemReading(
        glibc=version if library == "glibc" and version else None,
        secure_boot=_secure_boot(root),
        iommu=_iommu(root),
        overcommit=_number(root / "proc/sys/vm/overcommit_memory"),
        **_limits(),
        tasks=_tasks(root),
        temporary_noexec=_noexec(root, Path(tempfile.gettempdir())),
        module_version=one_line(module) or None,
        module_open=_module_open(root),
        governors=_frequency_words(root, "scaling_governor"),
        frequency_driver=next(iter(_frequency_words(root, "scaling_driver")), None),
    )


def _limits() -> dict[str, int | None]:
    """Limits of this process by the name of the field; None where there is no limit, or no such thing."""
    if sys.platform == "win32":
        return {}
    import resource

    files, files_hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = {
        "open_files": files,
        "open_files_hard": files_hard,
        "locked_memory_kib": _kib(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]),
        "processes": resource.getrlimit(resource.RLIMIT_NPROC)[0],
        "stack_kib": _kib(resource.getrlimit(resource.RLIMIT_STACK)[0]),
    }
    return {name: None if limit == resource.RLIM_INFINITY else limit for name, limit in found.items()}


def _kib(limit: int) -> int:
    """A limit in KiB; no limit, which is below 0, stays what it is."""
    return limit if limit < 0 else limit // 1024


def _secure_boot(root: Path) -> bool | None:
    """Whether the firmware lets signed code only start; a system started without EFI has nothing like it."""
    if not (root / "sys/firmware").is_dir():
        return None
    if not (root / "sys/firmware/efi").is_dir():
        return False
    try:
        return (root / _SECURE_BOOT).read_bytes()[_ATTRIBUTES:] == b"\x01"
    except OSError:
        return None


def _iommu(root: Path) -> str | None:
    """What the IOMMU does with the traffic of devices, by the domains of its groups."""
    groups = root / "sys/kernel/iommu_groups"
    try:
        kinds = {_text(group / "type") for group in groups.iterdir()}
    except OSError:
        return None
    if not kinds:
        return "off"
    return "translating" if any(kind.startswith("DMA") for kind in kinds) else "passthrough"


def _tasks(root: Path) -> int | None:
    """The tightest limit on processes of the control group and of those above it."""
    limits = [_number(folder / "pids.max") for folder in cgroup_folders(root)]
    return min((limit for limit in limits if limit is not None), default=None)


def _noexec(root: Path, folder: Path) -> bool | None:
    """Whether programs may not be started from ``folder``, by the mount it is on."""
    mount = mount_of(folder, root)
    return None if mount is None else "noexec" in mount.options


def _frequency_words(root: Path, file: str) -> tuple[str, ...]:
    """What the cores say in ``file``, each word once; nothing where the kernel does not set their clocks."""
    files = (root / "sys/devices/system/cpu/cpufreq").glob(f"policy*/{file}")
    return tuple(sorted({one_line(word) for each in files if (word := _text(each))}))


def _module_open(root: Path) -> bool | None:
    text = _text(root / "proc/driver/nvidia/version")
    return "Open Kernel Module" in text if text else None


def _number(file: Path) -> int | None:
    text = _text(file)
    return int(text) if text.isdecimal() else None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
