"""GPUs read from the output of nvidia-smi, as published captures show it, and from real child processes."""

from __future__ import annotations

import importlib
import stat
import time
from pathlib import Path

import pytest

from wizard.machine import MemoryReading, Reading, checks, machine_from
from wizard.machine.detect import read_host
from wizard.machine.smi import ask_smi, parse
from wizard.machine.types import NvmlReading

room = importlib.import_module("wizard.machine.detect")

# As an H200 host answered on driver 580.159.04, its UUIDs replaced.
H200X2 = (
    "0, NVIDIA H200, GPU-0, 00000000:00:06.0, 143771, 143156, Disabled, 700.00, Disabled, 580.159.04, 9.0\n"
    "1, NVIDIA H200, GPU-1, 00000000:00:07.0, 143771, 143156, Disabled, 700.00, Disabled, 580.159.04, 9.0\n"
)
# As a DGX Spark answers: no memory, no power limit, no MIG (memory.total is [N/A] in many public captures).
GB10 = "0, NVIDIA GB10, GPU-2, 0000000F:01:00.0, [N/A], [N/A], Disabled, [N/A], [N/A], 580.142, 12.1\n"


def program(folder: Path, script: str) -> dict[str, str]:
    """An environment whose nvidia-smi is ``script``."""
    file = folder / "nvidia-smi"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{folder}:/bin:/usr/bin"}


def test_two_h200() -> None:
    reading = parse(H200X2)
    assert reading is not None
    assert (reading.driver, reading.cuda, reading.problems) == ("580.159.04", None, ("gpus-from-nvidia-smi",))
    assert [gpu.memory_mib for gpu in reading.gpus] == [143771, 143771]
    first = reading.gpus[0]
    assert (first.compute_capability, first.bus_id, first.power_limit_w) == ("9.0", "00000000:00:06.0", 700.0)
    assert (first.display_active, first.mig, first.errors) == (False, False, {})


def test_a_gb10_has_its_memory_from_the_host_this_way_too() -> None:
    reading = parse(GB10)
    assert reading is not None
    assert reading.gpus[0].errors == dict.fromkeys(
        ("memory_mib", "memory_free_mib", "power_limit_w", "mig"), "NotSupported"
    )
    memory = MemoryReading(total_mib=124610, available_mib=115787)
    (gpu,) = machine_from(Reading(arch="aarch64", os="", gpus=reading.gpus, memory=memory)).gpus
    assert (gpu.memory_mib, gpu.unified, gpu.problems, gpu.bus_id) == (124610, True, (), "0000000F:01:00.0")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[Not Supported]", "NotSupported"),
        ("[GPU is lost]", "GpuIsLost"),
        ("[GPU requires reset]", "ResetRequired"),
        ("[Insufficient Permissions]", "NoPermission"),
        ("[Unknown Error]", "Unknown"),
    ],
)
def test_what_stands_for_a_value_is_an_error_of_that_field(text: str, error: str) -> None:
    reading = parse(H200X2.replace("143771", text, 1))
    assert reading is not None
    first, second = reading.gpus
    assert (first.memory_mib, first.errors) == (None, {"memory_mib": error})
    assert (second.memory_mib, second.errors) == (143771, {})


@pytest.mark.parametrize(
    "output",
    [
        "",
        "No devices were found\n",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
        "0, too, few\n",
    ],
)
def test_an_output_without_gpus_is_none(output: str) -> None:
    assert parse(output) is None


@pytest.mark.parametrize(
    "line",
    [
        "1, " + "x" * 200_000 + H200X2.splitlines()[1].removeprefix("1, NVIDIA H200"),
        "1, \x00\x01\x9f\ud800, \x85\u2028",
        '1, "NVIDIA H200, GPU-1',
        "1, NVIDIA H200",
    ],
    ids=["overlong", "binary", "quote", "short"],
)
def test_a_line_that_cannot_be_read_is_a_gpu_with_a_problem(line: str) -> None:
    first = H200X2.splitlines()[0]
    for output in (f"{first}\n{line}\n", f"{line}\n{first}\n"):
        reading = parse(output)
        assert reading is not None
        memory = MemoryReading(total_mib=1, available_mib=1)
        sound, odd = machine_from(Reading(arch="", os="", gpus=reading.gpus, memory=memory)).gpus
        assert (sound.index, sound.usable, sound.problems) == (0, True, ())
        assert (odd.index, odd.usable, odd.problems) == (1, False, ("gpu-unreadable",))
        assert not [
            check
            for check in checks(
                machine_from(Reading(arch="", os="", gpus=reading.gpus, memory=memory, visible_devices="0,1"))
            )
            if check.id == "visible" and check.status == "warn"
        ]


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("9.0", "nine", "compute_capability"),
        ("9.0", "0.0", "compute_capability"),
        ("143771", "9" * 500, "memory_mib"),
        ("143771", "-1", "memory_mib"),
        ("700.00", "7e300", "power_limit_w"),
    ],
)
def test_a_value_that_cannot_be_one_is_an_error_of_that_field(old: str, new: str, field: str) -> None:
    reading = parse(
        H200X2.replace(old, new, 1) if field != "compute_capability" else H200X2.replace(old, new)
    )
    assert reading is not None
    assert reading.gpus[0].errors == {field: "Unreadable"}
    assert getattr(reading.gpus[0], field) is None
    memory = MemoryReading(total_mib=1, available_mib=1)
    machine = machine_from(Reading(arch="", os="", gpus=reading.gpus, memory=memory))
    assert machine.gpus[1].usable
    assert machine.gpus[1].compute_capability == "9.0"


def test_a_full_gpu_has_nothing_free() -> None:
    reading = parse(H200X2.replace("143156", "0"))
    assert reading is not None
    assert reading.gpus[0].memory_free_mib == 0


def test_a_stuck_nvidia_smi_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = NvmlReading(problems=("nvml-library-not-found",))
    monkeypatch.setattr("wizard.machine.nvml.ask_nvml", lambda: missing)
    monkeypatch.setattr(room, "ask_smi", lambda: NvmlReading(problems=("smi-timeout",)))
    monkeypatch.setattr(room, "pci_cards", lambda: None)
    gpu = next(check for check in checks(machine_from(read_host()), live=False) if check.id == "gpu")
    assert gpu.status == "fail"
    assert "nvidia-smi did not answer within 10 seconds" in gpu.detail
    assert "No NVIDIA driver" not in gpu.detail
    assert "dmesg" in gpu.hint
    assert "Xid" in gpu.hint
    assert "restart" in gpu.hint


def test_hostile_output_becomes_inert() -> None:
    reading = parse(GB10.replace("NVIDIA GB10", '"NVIDIA\x1b[31m, GB10"'))
    assert reading is not None
    assert reading.gpus[0].name == "NVIDIA, GB10"


def test_the_program_is_asked_and_its_exit_code_does_not_matter(tmp_path: Path) -> None:
    # With a lost GPU among others it lists the others and fails.
    (tmp_path / "out").write_text(H200X2)
    reading = ask_smi(10, program(tmp_path, f"cat {tmp_path}/out; exit 15"))
    assert reading is not None
    assert len(reading.gpus) == 2


def test_an_old_program_is_asked_for_less(tmp_path: Path) -> None:
    script = """case "$1" in *compute_cap*)
      echo 'Field "compute_cap" is not a valid field to query.'; exit 2;; esac
    echo '0, Tesla V100-SXM2-32GB, GPU-3, 00000000:01:00.0, 32510, 32490, 450.80.02'"""
    reading = ask_smi(10, program(tmp_path, script))
    assert reading is not None
    assert (reading.driver, reading.gpus[0].memory_mib) == ("450.80.02", 32510)
    assert reading.gpus[0].compute_capability is None


def test_a_program_that_hangs_costs_its_deadline_once(tmp_path: Path) -> None:
    start = time.monotonic()
    stuck = ask_smi(0.3, program(tmp_path, "exec sleep 600"))
    assert stuck == NvmlReading(problems=("smi-timeout",))
    assert time.monotonic() - start < 5


def test_without_the_program_there_is_no_answer(tmp_path: Path) -> None:
    assert ask_smi(10, {"PATH": str(tmp_path)}) is None


@pytest.mark.parametrize(
    ("problem", "asked"),
    [("nvml-library-not-found", True), ("nvml-unknown", True), ("nvml-timeout", False)],
)
def test_nvidia_smi_stands_in_where_it_can_know_better(
    problem: str, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wizard.machine.nvml.ask_nvml", lambda: NvmlReading(problems=(problem,)))
    monkeypatch.setattr(room, "ask_smi", lambda: parse(GB10))
    monkeypatch.setattr(room, "pci_cards", lambda: None)
    reading = read_host()
    assert reading.problems == (("gpus-from-nvidia-smi",) if asked else (problem,))
    assert len(reading.gpus) == int(asked)
