"""Host checks on machines with something to say."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from wizard.machine import (
    Check,
    Disk,
    Gpu,
    GpuProcess,
    Machine,
    MemoryReading,
    checks,
    explain_problem,
    load_machine,
)
from wizard.machine.checks import run
from wizard.machine.checks.subject import Subject

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def found(machine: Machine, id: str, **options: Any) -> Check:
    return next(check for check in checks(machine, **options) if check.id == id)


def changed(name: str, **fields: Any) -> Machine:
    return msgspec.structs.replace(load_machine(name), **fields)


def with_gpu(name: str, index: int, **fields: Any) -> Machine:
    machine = load_machine(name)
    gpus: list[Gpu] = list(machine.gpus)
    gpus[index] = msgspec.structs.replace(gpus[index], **fields)
    return msgspec.structs.replace(machine, gpus=tuple(gpus))


def test_a_healthy_machine_has_nothing_to_say() -> None:
    every = checks(load_machine("h200x2"))
    assert {check.status for check in every} == {"ok", "skip"}
    assert found(load_machine("h200x2"), "gpu").detail == "2 x NVIDIA H200, 140.4 GiB."
    assert found(load_machine("h200x2"), "driver").detail == "Driver 580.159.04, for CUDA up to 13.0."


def test_ids_are_unique_and_whatever_is_wrong_has_a_hint() -> None:
    for name in ("gb10", "no-gpu", "v100x10"):
        every = checks(load_machine(name))
        assert len({check.id for check in every}) == len(every)
        assert all(check.hint for check in every if check.status in ("warn", "fail"))


LIVE = {
    "python",
    "compiler",
    "nvcc",
    "numa",
    "installer",
    "docker",
    "podman",
    "linger",
    "port",
    "proxy",
    "firewall",
    "hugging-face",
    "kernel-log",
}


def test_a_simulated_machine_is_not_confused_with_this_one() -> None:
    for every in (checks(load_machine("gb10")), checks(changed("gb10", simulated=None), live=False)):
        assert {check.id for check in every if "Not looked at" in check.detail} == LIVE


def test_every_check_that_judged_names_the_command_that_proves_it() -> None:
    for name in ("gb10", "no-gpu", "v100x10"):
        assert [check.id for check in checks(load_machine(name)) if not check.command] == sorted(
            LIVE, key=[check.id for check in checks(load_machine(name))].index
        )


def test_a_check_that_is_cut_off_leaves_no_program_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = tmp_path / "pid"

    def wait(subject: Subject) -> Check:
        subject.probe.run("/bin/sh", "-c", f"echo $$ > {pid}; exec sleep 600")
        return Check(id="proxy", status="ok", detail="")

    monkeypatch.setattr(
        run, "_OF_THIS_HOST", {"port": lambda _: Check(id="port", status="ok", detail=""), "proxy": wait}
    )
    late = {check.id: check for check in checks(changed("h200", simulated=None), deadline_s=0.5)}["proxy"]
    assert late.status == "skip"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_check_that_hangs_or_breaks_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def hang(subject: object) -> Check:
        release.wait(30)
        return Check(id="proxy", status="ok", detail="too late")

    def broken(subject: object) -> Check:
        raise RuntimeError("odd\x1b[31m host")

    looks = {
        "proxy": hang,
        "port": broken,
        "python": lambda subject: Check(id="python", status="ok", detail=""),
    }
    monkeypatch.setattr(run, "_OF_THIS_HOST", looks)
    here = changed("h200", simulated=None)
    every = {check.id: check for check in checks(here, deadline_s=0.2)}
    release.set()
    assert (every["proxy"].status, every["proxy"].detail) == ("skip", "It did not answer within 0 seconds.")
    assert (every["port"].status, every["port"].detail) == ("skip", "It could not be read: odd host.")
    assert every["python"].status == "ok"
    assert every["gpu"].status == "ok"


@pytest.mark.parametrize(
    ("code", "detail", "hint"),
    [
        ("nvml-library-not-found", "NVML was not found", "Install the driver"),
        ("nvml-driver-not-loaded", "kernel module is not loaded", "mokutil"),
        ("nvml-driver-mismatch", "old kernel module", "Restart"),
        ("nvml-no-permission", "may not open", "/dev/nvidia"),
        ("nvml-no-devices", "sees no GPU", "NVRM"),
        ("nvml-timeout", "did not answer in time", "Xid"),
        ("nvml-unknown", "unknown error", "nvidia-smi"),
        ("something-newer", "something-newer", ""),
    ],
)
def test_without_gpus_the_cause_is_told(code: str, detail: str, hint: str) -> None:
    check = found(changed("no-gpu", problems=(code,)), "gpu")
    assert check.status == "fail"
    assert detail in check.detail
    assert hint in check.hint


def test_advice_differs_in_a_container_and_under_wsl() -> None:
    code = "nvml-library-not-found"
    assert "--gpus all" in explain_problem(code, changed("no-gpu", container="docker")).hint
    assert "Windows" in explain_problem(code, changed("no-gpu", wsl=True)).hint
    assert "ubuntu-drivers" in explain_problem(code, load_machine("no-gpu")).hint


def test_no_gpu_and_no_problem_still_fails() -> None:
    check = found(changed("no-gpu", problems=()), "gpu")
    assert (check.status, check.detail) == ("fail", "No NVIDIA GPU was found.")


def test_one_bad_gpu_of_two_is_a_warning_that_names_it() -> None:
    check = found(with_gpu("h200x2", 1, memory_mib=0, problems=("gpu-lost",)), "gpu")
    assert check.status == "warn"
    assert check.detail == "1 x NVIDIA H200, 140.4 GiB. GPU 1 (NVIDIA H200): it fell off the bus."
    assert "Xid 79" in check.hint


def test_the_only_gpu_being_bad_is_a_failure() -> None:
    check = found(with_gpu("h200", 0, memory_mib=0, problems=("gpu-memory-unknown",)), "gpu")
    assert check.status == "fail"
    assert "gpu-memory-unknown" in check.detail


def test_a_timeout_with_gpus_that_answered_is_a_warning() -> None:
    check = found(changed("h200", problems=("nvml-timeout",)), "gpu")
    assert (check.status, "did not answer in time" in check.detail) == ("warn", True)


def test_programs_on_a_gpu_are_named() -> None:
    machine = with_gpu("h200", 0, processes=(GpuProcess(pid=42, name="python"),))
    check = found(machine, "busy")
    assert (check.status, check.detail) == ("warn", "GPU 0: python (42)")


def test_page_cache_matters_on_unified_memory_only() -> None:
    # 60 GiB available, of which 40 GiB are page cache.
    memory = MemoryReading(total_mib=81920, available_mib=61440, free_mib=20480)
    assert found(changed("h200", memory=memory), "memory").status == "ok"
    check = found(changed("gb10", memory=memory), "memory")
    assert check.status == "warn"
    assert "40.0 GiB" in check.detail
    assert "drop_caches" in check.hint
    unknown = msgspec.structs.replace(memory, free_mib=None)
    assert found(changed("gb10", memory=unknown), "memory").status == "ok"


def test_little_host_memory_is_a_warning() -> None:
    memory = MemoryReading(total_mib=16000, available_mib=8000)
    assert found(changed("h200", memory=memory), "memory").status == "warn"


@pytest.mark.parametrize(("free", "status"), [(500.0, "ok"), (60.0, "warn"), (5.0, "fail")])
def test_room_for_models(free: float, status: str) -> None:
    disk = Disk(purpose="models", path="/m", total_gib=900, free_gib=free)
    check = found(changed("h200", disks=(disk,)), "disk")
    assert (check.status, f"{free:.0f} GiB free where models go (/m)." == check.detail) == (status, True)


def test_unknown_room_is_skipped() -> None:
    assert found(changed("h200", disks=()), "disk").status == "skip"
    assert found(changed("h200", shm=None), "shm").status == "skip"


def test_dockers_64_mib_of_shared_memory_matter_with_several_gpus() -> None:
    small = Disk(purpose="shm", path="/dev/shm", total_gib=0.0625, free_gib=0.0625)
    assert found(changed("h200", shm=small), "shm").status == "ok"
    check = found(changed("h200x2", shm=small), "shm")
    assert (check.status, "--ipc=host" in check.hint) == ("warn", True)


def test_much_swap_is_a_warning_on_unified_memory() -> None:
    memory = msgspec.structs.replace(load_machine("gb10").memory, swap_total_mib=32768)
    assert found(changed("gb10", memory=memory), "swap").status == "warn"
    assert "swap" not in {check.id for check in checks(changed("h200", memory=memory))}


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_a_port_in_use_names_its_owner(address: str) -> None:
    here = changed("h200", simulated=None)
    with socket.socket() as listener:
        listener.bind((address, 0))
        listener.listen()
        port = listener.getsockname()[1]
        check = found(here, "port", port=port)
        assert check.status == "warn"
        assert f"({os.getpid()})" in check.detail
        assert found(here, "port", port=port, live=False).status == "skip"
    assert found(here, "port", port=port).status == "ok"


@pytest.mark.parametrize(
    ("environ", "status"),
    [
        ({}, "ok"),
        ({"http_proxy": "http://user:secret@proxy:3128"}, "warn"),
        ({"ALL_PROXY": "socks5://proxy:1080"}, "warn"),
        ({"https_proxy": "http://proxy:3128"}, "ok"),
        ({"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "example.org"}, "warn"),
        ({"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "localhost"}, "warn"),
        ({"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "localhost, 127.0.0.1,::1"}, "ok"),
        ({"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "*"}, "ok"),
    ],
)
def test_a_proxy_that_catches_calls_to_this_machine(
    environ: dict[str, str], status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    check = found(changed("h200", simulated=None), "proxy")
    assert check.status == status
    assert "secret" not in check.detail + check.hint
