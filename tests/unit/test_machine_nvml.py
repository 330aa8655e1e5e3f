"""NVML in its child process: real processes that answer, hang, crash and babble."""

from __future__ import annotations

import os
import platform
import sys
import time
from pathlib import Path

import msgspec
import pytest

from wizard.machine import GpuReading, NvmlReading, detect
from wizard.machine import nvml as nvml_module
from wizard.machine.nvml import ask_nvml

SNAPSHOT = NvmlReading(
    driver="580.142",
    gpus=(
        GpuReading(index=0, name="NVIDIA H200"),
        GpuReading(index=1, name="", errors={"device": "NoAnswer"}),
    ),
)

BINDING = """
class NVMLError(Exception):
    pass

class NVMLError_DriverNotLoaded(NVMLError):
    pass

def nvmlInit():
    raise NVMLError_DriverNotLoaded()
"""


def shell(script: str, *arguments: object) -> list[str]:
    return ["/bin/sh", "-c", script, "sh", *(str(argument) for argument in arguments)]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A file with what a child would have written after the first of two GPUs."""
    file = tmp_path / "snapshot"
    file.write_bytes(msgspec.json.encode(SNAPSHOT) + b"\n")
    return file


def test_the_real_child_asks_the_binding_it_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pynvml.py").write_text(BINDING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    monkeypatch.chdir(tmp_path)
    assert ask_nvml() == NvmlReading(problems=("nvml-driver-not-loaded",))


def test_a_hang_ends_at_the_deadline_with_what_had_come(tmp_path: Path, written: Path) -> None:
    pid = tmp_path / "pid"
    start = time.monotonic()
    reading = ask_nvml(1.0, shell('echo $$ > "$2"; cat "$1"; exec sleep 600', written, pid))
    assert time.monotonic() - start < 10
    assert reading == msgspec.structs.replace(SNAPSHOT, problems=("nvml-timeout",))
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_hang_before_the_first_answer_is_a_timeout() -> None:
    assert ask_nvml(0.1, shell("exec sleep 600")) == NvmlReading(problems=("nvml-timeout",))


def test_a_child_that_cannot_die_is_left_behind(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The grandchild keeps the pipe open as a process inside a stuck driver call does.
    monkeypatch.setattr(nvml_module, "_FAREWELL_S", 0.1)
    start = time.monotonic()
    reading = ask_nvml(1.0, shell('cat "$1"; sleep 5 & exec sleep 600', written))
    assert time.monotonic() - start < 4
    assert reading.problems == ("nvml-timeout",)
    assert reading.gpus == SNAPSHOT.gpus


def test_a_crash_keeps_what_had_come(written: Path) -> None:
    reading = ask_nvml(10, shell('cat "$1"; kill -KILL $$', written))
    assert reading == msgspec.structs.replace(SNAPSHOT, problems=("nvml-unknown",))


@pytest.mark.parametrize("script", ["exit 0", "exit 1", "echo nonsense", 'printf \'{"driver": "1"}\''])
def test_no_whole_answer_is_an_unknown_problem(script: str) -> None:
    assert ask_nvml(10, shell(script)) == NvmlReading(problems=("nvml-unknown",))


def test_what_libraries_write_to_standard_output_is_skipped(written: Path) -> None:
    assert ask_nvml(10, shell('echo warning; cat "$1"; echo bye', written)) == SNAPSHOT


def test_this_host_is_read_whatever_nvml_says(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = NvmlReading(driver="580.142", cuda="13.0", gpus=SNAPSHOT.gpus, problems=("nvml-timeout",))
    monkeypatch.setattr(nvml_module, "ask_nvml", lambda: answer)
    machine = detect()
    assert (machine.driver, machine.cuda, machine.problems) == ("580.142", "13.0", ("nvml-timeout",))
    assert [gpu.problems for gpu in machine.gpus] == [("gpu-memory-unknown",), ("gpu-no-answer",)]
    assert (machine.arch, machine.kernel) == (platform.machine(), platform.release())
    assert machine.memory.total_mib > 0
    assert machine.simulated is None


def test_the_binding_is_not_loaded_with_the_room() -> None:
    import subprocess

    code = "import sys, wizard.machine; print({'pynvml', 'psutil', 'httpx', 'textual'} & set(sys.modules))"
    root = Path(nvml_module.__file__).parents[2]
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    assert found.stdout.strip() == "set()"
