"""What the host says without NVML: system, maker, memory, disks. Linux in full, elsewhere what there is.

The ``root`` of the functions is where the system's files are looked up.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path

import msgspec

from wizard import paths
from wizard.errors import UsageError
from wizard.machine.mounts import mount_of
from wizard.machine.types import Disk, MemoryReading
from wizard.text import one_line

_ROOT = Path("/")
_MIB = 1024 * 1024
_GIB = 1024 * _MIB
# What board makers leave in DMI when nobody filled it in.
_UNFILLED = (
    "",
    "to be filled by o.e.m.",
    "default string",
    "system product name",
    "system manufacturer",
    "none",
)


def os_name(root: Path = _ROOT) -> str:
    """The distribution's own name; NVIDIA's name first on a DGX (``DGX OS 7.2.3 (Ubuntu 24.04.3 LTS)``)."""
    release = _shell_values(root / "etc/os-release") or _shell_values(root / "usr/lib/os-release")
    name = release.get("PRETTY_NAME") or f"{platform.system()} {platform.release()}"
    dgx = _shell_values(root / "etc/dgx-release").get("DGX_SWBUILD_VERSION")
    return one_line(f"DGX OS {dgx} ({name})" if dgx else name)


def product(root: Path = _ROOT) -> str:
    """Maker and model: DMI on servers and PCs, the device tree on boards such as Jetson; else empty."""
    dmi = root / "sys/class/dmi/id"
    maker, model = (_filled(dmi / field) for field in ("sys_vendor", "product_name"))
    if model:
        return model if model.lower().startswith(maker.lower()) else f"{maker} {model}"
    return maker or _filled(root / "proc/device-tree/model")


def container(root: Path = _ROOT, environ: Mapping[str, str] = os.environ) -> str | None:
    """What kind of container this runs in, or None."""
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "kubernetes"
    # systemd-nspawn, LXC and podman name themselves here.
    return one_line(environ["container"]) if environ.get("container") else None


def is_wsl(root: Path = _ROOT) -> bool:
    """Whether this is Linux under Windows (WSL 1 or 2)."""
    return "microsoft" in _text(root / "proc/sys/kernel/osrelease").lower()


def memory(root: Path = _ROOT) -> MemoryReading:
    """The host's memory, or the share of it that the control group allows when that is less."""
    import psutil

    ram = psutil.virtual_memory()
    with warnings.catch_warnings():
        # psutil warns where the kernel keeps no swap statistics; the totals are right all the same.
        warnings.simplefilter("ignore", RuntimeWarning)
        swap = psutil.swap_memory()
    host = MemoryReading(
        total_mib=ram.total // _MIB,
        available_mib=ram.available // _MIB,
        free_mib=ram.free // _MIB,
        swap_total_mib=swap.total // _MIB,
        swap_used_mib=swap.used // _MIB,
    )
    return within_cgroup(host, root)


def within_cgroup(host: MemoryReading, root: Path = _ROOT) -> MemoryReading:
    """The reading cut down to the limits of the control group (version 2) and of the groups above it.

    Available is the limit less what the group uses, of which the inactive file cache can be had back.
    """
    total, available = host.total_mib, host.available_mib
    for folder in cgroup_folders(root):
        limit = _number(_text(folder / "memory.max"))
        if limit is None:
            continue
        statistics = dict(
            line.split(None, 1) for line in _text(folder / "memory.stat").splitlines() if " " in line
        )
        used = (_number(_text(folder / "memory.current")) or 0) - (
            _number(statistics.get("inactive_file", "")) or 0
        )
        total = min(total, limit // _MIB)
        available = min(available, max(0, limit - used) // _MIB)
    return msgspec.structs.replace(host, total_mib=total, available_mib=min(available, total))


def disks(environ: Mapping[str, str] = os.environ) -> tuple[Disk, ...]:
    """Room where an installation writes: models, home, temporary files; those that this user has."""
    places = {}
    with contextlib.suppress(UsageError):
        places["models"] = models_folder(environ)
    with contextlib.suppress(UsageError):
        places["home"] = paths.home()
    with contextlib.suppress(OSError):
        places["temporary"] = Path(tempfile.gettempdir())
    found = (room(purpose, path) for purpose, path in places.items())
    return tuple(disk for disk in found if disk is not None)


def shm(root: Path = _ROOT) -> Disk | None:
    """Shared memory, through which the processes of one engine talk; None where there is no such folder."""
    folder = root / "dev/shm"
    return room("shm", folder) if folder.is_dir() else None


def models_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where huggingface_hub keeps models, by its own rules (environment variables of its documentation).

    Raises UsageError where that is in a home folder which this user does not have.
    """
    cache = environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = environ.get("HF_HOME") or f"{cache}/huggingface"
    hub = environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE") or f"{home}/hub"
    return paths.expanded(os.path.expandvars(hub))


def room(purpose: str, path: Path, assumed: bool = False) -> Disk | None:
    """The room on the file system of ``path``, or of the nearest folder above it that exists."""
    for folder in (path, *path.parents):
        try:
            usage = shutil.disk_usage(folder)
        except OSError:
            continue
        total, free = (round(count / _GIB, 1) for count in (usage.total, usage.free))
        mount = mount_of(path)
        return Disk(
            purpose=purpose,
            path=one_line(str(path)),
            total_gib=total,
            free_gib=free,
            file_system=None if mount is None else one_line(mount.kind),
            assumed=assumed,
        )
    return None


def cgroup_folders(root: Path = _ROOT) -> tuple[Path, ...]:
    """The folders of this process's control group (version 2) and of the groups above it, innermost first."""
    top = root / "sys/fs/cgroup"
    group = top / _own_cgroup(root)
    return (group, *(parent for parent in group.parents if parent.is_relative_to(top)))


def _own_cgroup(root: Path) -> str:
    """The path of this process's group below the mount; empty when it lies outside of what can be seen."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        if line.startswith("0::/"):
            path = line.removeprefix("0::/")
            return "" if ".." in path.split("/") else path
    return ""


def _filled(path: Path) -> str:
    text = one_line(_text(path))
    return "" if text.lower() in _UNFILLED else text


def _shell_values(path: Path) -> dict[str, str]:
    """The assignments of a release file, quotes resolved; a line that is none is skipped."""
    values = {}
    for line in _text(path).splitlines():
        key, _, value = line.partition("=")
        with contextlib.suppress(ValueError):
            values[key.strip()] = " ".join(shlex.split(value))
    return values


def _text(path: Path) -> str:
    """The file's text without the NUL that ends device-tree strings; empty when it cannot be read."""
    try:
        return path.read_bytes().decode("utf-8", "replace").rstrip("\0").strip()
    except OSError:
        return ""


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
