"""Checks that look at the host, on hosts made of a folder, an environment and programs with fixed answers."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from wizard.child import Outcome
from wizard.machine import Check, Disk, Machine, SystemReading, checked_for, checks, load_machine
from wizard.machine.checks import (
    containers,
    disk,
    identity,
    kernel,
    limits,
    memory,
    network,
    service,
    tools,
)
from wizard.machine.checks.subject import Probe, Subject

HERE = msgspec.structs.replace(load_machine("h200"), simulated=None)


class Host(Probe, frozen=True, kw_only=True):
    """A host whose programs answer what they are told to; others are not installed."""

    programs: Mapping[str, Outcome | str] = {}

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in self.programs else None

    def run(self, *argv: str) -> Outcome:
        answer = self.programs.get(Path(argv[0]).name, Outcome(None, "", "No such file"))
        return Outcome(0, answer, "") if isinstance(answer, str) else answer


def host(
    root: Path, machine: Machine = HERE, *, programs: Any = None, files: Any = None, **environ: str
) -> Subject:
    for name, content in (files or {}).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return Subject(machine=machine, probe=Host(root=root, environ=environ, programs=programs or {}))


def said(check: Check) -> tuple[str, str]:
    return check.status, f"{check.detail} {check.hint}"


INFO = '{{"ServerVersion":"29.1.3","Runtimes":{{{runtimes}}},"ServerErrors":{errors}}}'


@pytest.mark.parametrize(
    ("answer", "files", "status", "text"),
    [
        (INFO.format(runtimes='"nvidia":{},"runc":{}', errors="null"), {}, "ok", "can hand out GPUs"),
        (INFO.format(runtimes='"runc":{}', errors="[]"), {"etc/cdi/nvidia.yaml": ""}, "ok", "hand out"),
        (INFO.format(runtimes='"runc":{}', errors="null"), {"etc/cdi/intel.yaml": ""}, "warn", "nvidia-ctk"),
        (INFO.format(runtimes="", errors='["Cannot connect"]'), {}, "warn", "enable --now docker"),
        (Outcome(1, "", "permission denied while trying to connect"), {}, "warn", "usermod -aG docker me"),
        (
            Outcome(1, "", "permission denied while trying to connect"),
            {"etc/group": "docker:x:998:you,me\n"},
            "warn",
            "log out and in again",
        ),
        (Outcome(None, "", "", "It did not answer within 4 seconds."), {}, "warn", "did not answer"),
        ("not json", {}, "warn", "does not answer"),
    ],
)
def test_docker(tmp_path: Path, answer: Outcome | str, files: Any, status: str, text: str) -> None:
    check = containers.docker(host(tmp_path, programs={"docker": answer}, files=files, USER="me"))
    assert check.status == status
    assert text in said(check)[1]


def test_docker_is_no_matter_where_it_is_absent_or_outside(tmp_path: Path) -> None:
    assert containers.docker(host(tmp_path)).status == "skip"
    inside = msgspec.structs.replace(HERE, container="docker")
    assert containers.docker(host(tmp_path, inside, programs={"docker": ""})).status == "skip"
    assert containers.podman(host(tmp_path)).status == "skip"


def test_podman_wants_a_cdi_file(tmp_path: Path) -> None:
    assert said(containers.podman(host(tmp_path, programs={"podman": ""})))[0] == "warn"
    files = {"var/run/cdi/nvidia.json": ""}
    assert containers.podman(host(tmp_path, programs={"podman": ""}, files=files)).status == "ok"


SYSTEMD = {"run/systemd/system/x": ""}


@pytest.mark.parametrize(
    ("files", "environ", "status", "text"),
    [
        ({}, {"USER": "me"}, "skip", "no systemd"),
        (SYSTEMD, {"USER": "root"}, "ok", "root"),
        (SYSTEMD, {"USER": "me"}, "warn", "enable-linger me"),
        ({**SYSTEMD, "var/lib/systemd/linger/me": ""}, {"USER": "me"}, "warn", "XDG_RUNTIME_DIR"),
        (
            {**SYSTEMD, "var/lib/systemd/linger/me": ""},
            {"USER": "me", "XDG_RUNTIME_DIR": "/run/user/1000"},
            "ok",
            "after the logout",
        ),
        (SYSTEMD, {"USER": "../etc"}, "skip", "no name"),
    ],
)
def test_lingering(tmp_path: Path, files: Any, environ: dict[str, str], status: str, text: str) -> None:
    check = service.linger(host(tmp_path, files=files, **environ))
    assert check.status == status
    assert text in said(check)[1]


OOM = (
    "[1] VLLM::Worker_TP invoked oom-killer: gfp_mask=0x102cc2(GFP_HIGHUSER), order=0\n"
    "[2] Out of memory: Killed process 4711 (VLLM::EngineCor) total-vm:1kB, anon-rss:2kB\n"
)
XID = (
    "[3] NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.\n"
    "[4] NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed\n"
)


@pytest.mark.parametrize(
    ("programs", "status", "text"),
    [
        ({}, "skip", "sudo dmesg"),
        ({"journalctl": "all is well\n"}, "ok", "no program killed"),
        ({"journalctl": Outcome(1, "", "no permission"), "dmesg": "fine\n"}, "ok", "no program killed"),
        ({"journalctl": "-- No entries --\n", "dmesg": "fine\n"}, "ok", "no program killed"),
        ({"journalctl": "-- No entries --\n"}, "skip", "sudo dmesg"),
        ({"journalctl": "", "dmesg": Outcome(1, "", "not permitted")}, "skip", "sudo dmesg"),
        ({"journalctl": OOM}, "warn", "killed VLLM::EngineCor"),
        ({"dmesg": OOM.splitlines()[0]}, "warn", "killed VLLM::Worker_TP"),
        ({"dmesg": XID}, "warn", "Xid 79 (the GPU fell off the bus), Xid 154."),
    ],
)
def test_the_kernels_log(tmp_path: Path, programs: Any, status: str, text: str) -> None:
    check = kernel.kernel_log(host(tmp_path, programs=programs))
    assert check.status == status
    assert text in said(check)[1]


NVCC = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release {0}, V{0}.88\n"


@pytest.mark.parametrize(
    ("name", "programs", "status", "text"),
    [
        ("h200", {}, "warn", "nvcc, ninja"),
        ("h200", {"nvcc": NVCC.format("12.8")}, "warn", "Missing: ninja"),
        ("h200", {"nvcc": NVCC.format("12.8"), "ninja": ""}, "ok", "nvcc 12.8"),
        # FlashInfer compiles for compute capability 12.x with CUDA 12.9 and newer.
        ("gb10", {"nvcc": NVCC.format("12.8"), "ninja": ""}, "warn", "need 12.9"),
        ("gb10", {"nvcc": NVCC.format("13.0"), "ninja": ""}, "ok", "nvcc 13.0"),
        ("gb10", {"nvcc": "gibberish", "ninja": ""}, "ok", "nvcc ?"),
    ],
)
def test_the_cuda_compiler(tmp_path: Path, name: str, programs: Any, status: str, text: str) -> None:
    check = tools.nvcc(host(tmp_path, load_machine(name), programs=programs))
    assert check.status == status
    assert text in said(check)[1]


def test_nvcc_is_found_where_flashinfer_finds_it(tmp_path: Path) -> None:
    programs = {"nvcc": NVCC.format("13.0"), "ninja": ""}
    files = {"opt/cuda/bin/nvcc": ""}
    assert (
        "nvcc 13.0"
        in tools.nvcc(host(tmp_path, programs=programs, files=files, CUDA_HOME="/opt/cuda")).detail
    )


def test_triton_needs_a_compiler_and_headers(tmp_path: Path) -> None:
    check = tools.compiler(host(tmp_path))
    assert (check.status, check.detail.count(",")) == ("warn", 1)
    header = f"{sysconfig.get_path('include').lstrip('/')}/Python.h"
    assert tools.compiler(host(tmp_path, programs={"clang": ""}, files={header: ""})).status == "ok"
    assert tools.compiler(host(tmp_path, CC="/opt/cc")).status == "ok"


def test_headers_are_looked_for_in_the_python_of_vllm(tmp_path: Path) -> None:
    here = f"{sysconfig.get_path('include').lstrip('/')}/Python.h"
    programs = {"gcc": "", "python3.13": "/opt/vllm/include/python3.13\n"}
    subject = msgspec.structs.replace(
        host(tmp_path, programs=programs, files={here: ""}), python="/opt/vllm/bin/python3.13"
    )
    check = tools.compiler(subject)
    assert check.status == "warn"
    assert "vLLM's Python (/opt/vllm/include/python3.13/Python.h)" in check.detail
    assert check.command.endswith("ls /opt/vllm/include/python3.13/Python.h")
    host(tmp_path, files={"opt/vllm/include/python3.13/Python.h": ""})
    assert tools.compiler(subject).status == "ok"


def test_a_real_python_tells_where_its_headers_are() -> None:
    before = tuple(Check(id=id, status="warn", detail="") for id in ("compiler", "port"))
    compiler, port = checked_for(before, HERE, sys.executable)
    assert compiler.command.endswith(f"{sysconfig.get_path('include')}/Python.h")
    assert port == before[1]
    skipped = (Check(id="compiler", status="skip", detail=""),)
    assert checked_for(skipped, HERE, sys.executable) == skipped


def test_libnuma_and_numactl_are_named_with_what_needs_them(tmp_path: Path) -> None:
    check = tools.numa(host(tmp_path))
    assert (check.status, "--numa-bind" in check.detail, "fastsafetensors" in check.detail) == (
        "ok",
        True,
        True,
    )
    files = {"usr/lib/aarch64-linux-gnu/libnuma.so.1": ""}
    assert tools.numa(host(tmp_path, programs={"numactl": ""}, files=files)).detail.endswith("are here.")


def test_installers(tmp_path: Path) -> None:
    assert tools.installer(host(tmp_path)).status == "warn"
    files = {"home/me/.local/bin/uv": ""}
    assert "~/.local/bin/uv" in tools.installer(host(tmp_path, files=files, HOME="/home/me")).detail


def test_this_python_is_held_against_the_versions_of_vllm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = type("version", (), {"major": 3, "minor": 15})
    monkeypatch.setattr(sys, "version_info", version)
    assert tools.python(host(tmp_path)).status == "warn"
    version.minor = 12
    assert tools.python(host(tmp_path)).status == "ok"
    # A V100 stays on vLLM 0.19.1, which takes 3.10 to 3.13.
    version.minor = 14
    assert tools.python(host(tmp_path)).status == "ok"
    assert tools.python(host(tmp_path, load_machine("v100x10"))).status == "warn"


SECRET = "hf_doNotShowThis"


@pytest.mark.parametrize(
    ("environ", "files", "text"),
    [
        ({"HF_TOKEN": SECRET}, {}, "A token is set."),
        ({"HOME": "/h"}, {"h/.cache/huggingface/token": SECRET}, "A token is stored."),
        ({"HOME": "/h", "HF_HOME": "/big/hf"}, {"big/hf/token": SECRET}, "A token is stored."),
        ({"HOME": "/h", "HF_HOME": "~/hf"}, {"h/hf/token": SECRET}, "A token is stored."),
        ({"HF_TOKEN_PATH": "/t"}, {"t": SECRET}, "A token is stored."),
        ({"HOME": "/h"}, {}, "No token"),
        ({"HF_ENDPOINT": "https://me:pw@mirror.example"}, {}, "from https://mirror.example."),
        ({"HF_HUB_OFFLINE": "1"}, {}, "Offline"),
    ],
)
def test_hugging_face_without_the_value_of_the_token(
    tmp_path: Path, environ: dict[str, str], files: Any, text: str
) -> None:
    check = network.hugging_face(host(tmp_path, files=files, **environ))
    assert text in check.detail
    assert SECRET not in str(check)
    assert "pw" not in str(check)


def system(**fields: Any) -> Subject:
    return Subject(machine=msgspec.structs.replace(HERE, system=SystemReading(**fields)))


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        (
            {"open_files": 1024, "open_files_hard": 1048576, "locked_memory_kib": 8192},
            "warn",
            "ulimit -n 65536",
        ),
        ({"open_files": 1024, "open_files_hard": 4096}, "warn", "limits.conf"),
        ({"open_files": 1048576, "locked_memory_kib": 8192}, "ok", "8 MiB"),
        ({"open_files": 1048576, "tasks": 512}, "warn", "--pids-limit"),
        ({"open_files": 1048576, "processes": 512}, "warn", "nproc in /etc/security/limits.conf"),
        ({"open_files": 1048576, "stack_kib": 1024}, "warn", "ulimit -s 8192"),
        ({"open_files": 1048576, "processes": 95000, "stack_kib": 8192}, "ok", "as much as wanted"),
        ({}, "skip", "could not be read"),
    ],
)
def test_limits_of_a_process(fields: Any, status: str, text: str) -> None:
    check = limits.limits(system(**fields))
    assert check.status == status
    assert text in said(check)[1]


@pytest.mark.parametrize(
    ("judge", "fields", "status"),
    [
        (limits.overcommit, {"overcommit": 0}, "ok"),
        (limits.overcommit, {"overcommit": 2}, "warn"),
        (limits.overcommit, {}, "skip"),
        # vLLM 0.33.0's wheels are manylinux_2_28: RHEL 8 has it, CentOS 7 (2.17) has not.
        (limits.glibc, {"glibc": "2.28"}, "ok"),
        (limits.glibc, {"glibc": "2.17"}, "warn"),
        (limits.glibc, {"glibc": "odd"}, "skip"),
        (limits.glibc, {}, "skip"),
        (limits.secure_boot, {"secure_boot": False}, "ok"),
        (limits.secure_boot, {"secure_boot": True}, "ok"),
        (limits.secure_boot, {}, "skip"),
    ],
)
def test_settings_of_the_system(judge: Any, fields: Any, status: str) -> None:
    assert judge(system(**fields)).status == status


def test_secure_boot_matters_where_no_driver_came_up() -> None:
    machine = msgspec.structs.replace(
        load_machine("no-gpu"), system=SystemReading(secure_boot=True), simulated=None
    )
    check = limits.secure_boot(Subject(machine=machine))
    assert (check.status, "mokutil --import" in check.hint) == ("warn", True)


def test_a_temporary_folder_without_programs_or_without_room() -> None:
    assert disk.temporary(system(temporary_noexec=True)).status == "warn"
    assert disk.temporary(system()).status == "ok"
    full = (Disk(purpose="temporary", path="/tmp/a b", total_gib=4, free_gib=0.5),)
    check = disk.temporary(Subject(machine=msgspec.structs.replace(HERE, disks=full)))
    assert (check.status, check.command) == ("warn", "df -h '/tmp/a b'")


def with_disks(machine: Machine = HERE, **disks: dict[str, Any]) -> Subject:
    found = tuple(
        Disk(**{"purpose": purpose, "path": f"/{purpose}", "total_gib": 900, "free_gib": 400, **fields})
        for purpose, fields in disks.items()
    )
    return Subject(machine=msgspec.structs.replace(machine, disks=found))


def test_room_for_images_where_they_are_kept() -> None:
    assert disk.images(with_disks(models={})) is None
    room = disk.images(with_disks(docker={"path": "/big/docker"}, podman={}))
    assert room is not None
    assert (room.status, "Docker keeps images (/big/docker)" in room.detail) == ("ok", True)
    assert "Podman keeps images (/podman)" in room.detail
    assert "could not be asked" not in room.detail
    # vLLM's image has 25 GB (vllm-project/vllm, issue 17163).
    full = disk.images(with_disks(docker={"free_gib": 20, "assumed": True}))
    assert full is not None
    assert (full.status, "data-root" in full.hint, "could not be asked" in full.detail) == (
        "warn",
        True,
        True,
    )


@pytest.mark.parametrize(
    ("kind", "status", "text"),
    [
        ("ext4", "ok", ""),
        ("zfs", "ok", ""),
        ("nfs4", "warn", "over the network"),
        ("fuse.sshfs", "warn", "over the network"),
        ("overlay", "warn", "gone with it"),
        ("tmpfs", "warn", "after a restart"),
        ("vfat", "warn", "symbolic links"),
        ("fuseblk", "warn", "symbolic links"),
        ("9p", "warn", "another system"),
        (None, "skip", "could not be read"),
    ],
)
def test_the_file_system_of_the_models(kind: str | None, status: str, text: str) -> None:
    check = disk.file_system(with_disks(models={"file_system": kind}))
    assert (check.status, text in check.detail) == (status, True)


def test_a_drive_of_windows_is_named_under_wsl() -> None:
    wsl = msgspec.structs.replace(HERE, wsl=True)
    check = disk.file_system(with_disks(wsl, models={"file_system": "9p", "path": "/mnt/c/models"}))
    assert (check.status, check.command) == ("warn", "findmnt -T /mnt/c/models")
    assert "drive of Windows" in check.detail


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        ({"governors": ("performance",), "frequency_driver": "intel_pstate"}, "ok", "performance"),
        ({"governors": ("schedutil",), "frequency_driver": "cppc_cpufreq"}, "ok", "schedutil"),
        ({"governors": ("powersave",), "frequency_driver": "acpi-cpufreq"}, "warn", "cpupower"),
        ({"governors": ("performance", "powersave"), "frequency_driver": None}, "warn", "lowest clock"),
        # There powersave is what schedutil is elsewhere: docs.kernel.org, intel_pstate.
        ({"governors": ("powersave",), "frequency_driver": "intel_pstate"}, "ok", "on demand"),
        ({}, "skip", "virtual machine"),
    ],
)
def test_the_governor_of_the_processors_clock(fields: Any, status: str, text: str) -> None:
    check = limits.governor(system(**fields))
    assert (check.status, text in f"{check.detail} {check.hint}") == (status, True)


def test_a_small_home_names_what_can_be_moved() -> None:
    small = (Disk(purpose="home", path="/home/me", total_gib=20, free_gib=9),)
    check = disk.home(Subject(machine=msgspec.structs.replace(HERE, disks=small)))
    assert (check.status, "UV_CACHE_DIR" in check.hint) == ("warn", True)


@pytest.mark.parametrize(
    ("product", "text"),
    [
        ("NVIDIA_DGX_Spark", "NVIDIA_DGX_Spark · GB10, as in"),
        ("MSI EdgeXpert", "MSI EdgeXpert · GB10, as in"),
        ("ASUSTeK COMPUTER INC. Ascent GX10", "ASUS Ascent GX10: GB10"),
        ("Some Maker 4000", "the GB10 of a DGX Spark"),
    ],
)
def test_twins_of_the_dgx_spark(product: str, text: str) -> None:
    machine = msgspec.structs.replace(load_machine("gb10"), product=product)
    check = identity.identity(Subject(machine=machine))
    assert product in check.detail
    assert text in check.detail
    assert (
        text not in identity.identity(Subject(machine=msgspec.structs.replace(HERE, product=product))).detail
    )


def test_wsl_and_containers_are_named() -> None:
    inside = msgspec.structs.replace(HERE, wsl=True, container="podman")
    detail = identity.identity(Subject(machine=inside)).detail
    assert "WSL" in detail
    assert "podman" in detail


def test_little_memory_under_wsl_is_for_windows_to_grant() -> None:
    small = msgspec.structs.replace(HERE.memory, total_mib=16000, available_mib=8000)
    machine = msgspec.structs.replace(HERE, memory=small, wsl=True)
    assert ".wslconfig" in memory.memory(Subject(machine=machine)).hint


def test_this_very_host_is_looked_at_without_an_error() -> None:
    """Whatever machine runs this: every check answers, and none of them broke."""
    every = checks(HERE, port=0)
    assert len({check.id for check in every}) == len(every)
    assert not [check for check in every if "could not be read: " in check.detail]
    assert all(check.hint for check in every if check.status in ("warn", "fail"))


def test_a_machine_without_more_memory_is_not_told_to_close_programs() -> None:
    check = next(check for check in checks(load_machine("t4")) if check.id == "memory")
    assert check.status == "warn"
    assert "close" not in check.hint
    assert "add swap or memory" in check.hint


@pytest.mark.parametrize(
    ("os", "command"),
    [
        ("Ubuntu 24.04 LTS", "sudo ubuntu-drivers install"),
        ("Debian GNU/Linux 12 (bookworm)", "sudo apt install nvidia-open"),
        ("Red Hat Enterprise Linux 9.4 (Plow)", "sudo dnf install nvidia-open"),
        ("Rocky Linux 9.4 (Blue Onyx)", "sudo dnf install nvidia-open"),
        ("openSUSE Leap 15.6", "sudo zypper install nvidia-open"),
        ("Arch Linux", "sudo pacman -S nvidia-open"),
        ("Plan 9", "driver-installation-guide says for this system"),
    ],
)
def test_the_driver_is_installed_as_the_distribution_does_it(os: str, command: str) -> None:
    machine = msgspec.structs.replace(load_machine("no-driver"), os=os, problems=("nvml-library-not-found",))
    gpu = next(check for check in checks(machine) if check.id == "gpu")
    assert command in gpu.hint
    assert "{" not in gpu.hint
