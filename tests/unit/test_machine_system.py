"""Settings of the operating system, from a root folder laid out as real systems lay it out."""

from __future__ import annotations

import platform
import resource
from pathlib import Path

import pytest

from wizard.machine.system import read_system

BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


def put(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def test_an_empty_root_leaves_everything_open_but_what_the_process_knows(tmp_path: Path) -> None:
    system = read_system(tmp_path)
    assert (system.secure_boot, system.iommu, system.overcommit, system.tasks) == (None, None, None, None)
    assert (system.temporary_noexec, system.module_version, system.module_open) == (None, None, None)
    library, version = platform.libc_ver()
    assert system.glibc == (version if library == "glibc" else None)
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert system.open_files == (None if soft == resource.RLIM_INFINITY else soft)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({BOOT: b"\x06\0\0\0\x01"}, True),
        ({BOOT: b"\x06\0\0\0\0"}, False),
        ({"sys/firmware/efi/runtime": ""}, None),
        ({"sys/firmware/acpi/pm_profile": ""}, False),
    ],
)
def test_secure_boot_is_the_last_byte_of_its_variable(
    tmp_path: Path, files: dict[str, str | bytes], expected: bool | None
) -> None:
    assert read_system(put(tmp_path, files)).secure_boot is expected


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [((), "off"), (("identity", "identity"), "passthrough"), (("identity", "DMA-FQ"), "translating")],
)
def test_the_iommu_by_its_groups(tmp_path: Path, kinds: tuple[str, ...], expected: str) -> None:
    (tmp_path / "sys/kernel/iommu_groups").mkdir(parents=True)
    put(tmp_path, {f"sys/kernel/iommu_groups/{n}/type": f"{kind}\n" for n, kind in enumerate(kinds)})
    assert read_system(tmp_path).iommu == expected


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        ("/dev/sda1 / ext4 rw 0 0\ntmpfs /tmp tmpfs rw,nosuid,noexec 0 0\n", True),
        ("/dev/sda1 / ext4 rw,noexec 0 0\ntmpfs /tmp tmpfs rw 0 0\n", False),
        ("/dev/sda1 / ext4 rw 0 0\ntmpfs /tmpfiles tmpfs noexec 0 0\n", False),
    ],
)
def test_the_mount_nearest_to_the_temporary_folder_decides(
    tmp_path: Path, mounts: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/tmp/mine")
    assert read_system(put(tmp_path, {"proc/self/mounts": mounts})).temporary_noexec is expected


def test_numbers_and_the_module(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "proc/sys/vm/overcommit_memory": "2\n",
        "proc/self/cgroup": "0::/user.slice/a.scope\n",
        "sys/fs/cgroup/user.slice/pids.max": "4096\n",
        "sys/fs/cgroup/user.slice/a.scope/pids.max": "max\n",
        "sys/module/nvidia/version": "580.142\n",
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.142\n",
    }
    system = read_system(put(tmp_path, files))
    assert (system.overcommit, system.tasks) == (2, 4096)
    assert (system.module_version, system.module_open) == ("580.142", True)
