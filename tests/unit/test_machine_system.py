"""Settings of the operating system, from a root folder laid out as real systems lay it out."""

from __future__ import annotations

import platform
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from wizard.machine.mounts import mount_of
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


def test_the_limits_are_those_the_shell_tells() -> None:
    asked = "ulimit -n; ulimit -Hn; ulimit -l; ulimit -u; ulimit -s"
    told = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True).stdout.split()
    system = read_system()
    assert [None if word == "unlimited" else int(word) for word in told] == [
        system.open_files,
        system.open_files_hard,
        system.locked_memory_kib,
        system.processes,
        system.stack_kib,
    ]


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


def test_the_clock_of_the_processor_by_the_policies_of_its_cores(tmp_path: Path) -> None:
    cores = "sys/devices/system/cpu/cpufreq"
    files: dict[str, str | bytes] = {
        f"{cores}/policy0/scaling_governor": "powersave\n",
        f"{cores}/policy4/scaling_governor": "performance\n",
        f"{cores}/policy8/scaling_governor": "powersave\n",
        f"{cores}/policy0/scaling_driver": "acpi-cpufreq\n",
    }
    system = read_system(put(tmp_path, files))
    assert (system.governors, system.frequency_driver) == (("performance", "powersave"), "acpi-cpufreq")
    assert read_system(tmp_path / "none").governors == ()


MOUNTS = (
    "rootfs / rootfs rw 0 0\n"
    "/dev/sda1 / ext4 rw,relatime 0 0\n"
    "server:/models /srv/my\\040models nfs4 rw,vers=4.2 0 0\n"
    "tmpfs /srv/my\\040models/tmp tmpfs rw,noexec 0 0\n"
    "short line\n"
)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me", "ext4"),
        ("/srv/my models/hub/not/yet", "nfs4"),
        ("/srv/my models/tmp", "tmpfs"),
        ("/srv/my modelsX", "ext4"),
    ],
)
def test_the_file_system_of_a_path(tmp_path: Path, path: str, kind: str) -> None:
    mount = mount_of(Path(path), put(tmp_path, {"proc/self/mounts": MOUNTS}))
    assert mount is not None
    assert mount.kind == kind


def test_a_link_is_followed_to_the_file_system_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "big")
    table = f"/dev/sda1 / ext4 rw 0 0\n/dev/sdb1 {tmp_path}/big xfs rw 0 0\n"
    mount = mount_of(tmp_path / "link" / "hub", put(tmp_path, {"proc/self/mounts": table}))
    assert mount is not None
    assert mount.kind == "xfs"
    assert mount_of(tmp_path, tmp_path / "none") is None


def test_this_host_agrees_with_findmnt() -> None:
    if shutil.which("findmnt") is None:
        pytest.skip("findmnt is not here")
    for path in (Path.home(), Path("/dev/shm")):
        told = subprocess.run(
            ["findmnt", "-no", "FSTYPE", "-T", str(path)], capture_output=True, text=True, check=True
        )
        mount = mount_of(path)
        assert mount is not None
        assert mount.kind == told.stdout.split()[-1]
