"""A GB10 stuck at low power: judged under load only, at once or beside a test of the speed."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from wizard import catalog
from wizard.machine import (
    Check,
    GpuReading,
    GpuState,
    Machine,
    MemoryReading,
    NvmlReading,
    Reading,
    checks,
    load_machine,
    machine_from,
    nvml,
    watch_load,
    write_recording,
)

IDLE = GpuState(busy_percent=0, power_w=4.5, sm_clock_mhz=208)
# Owners saw 94 to 96 % busy with 5 to 30 W and 500 to 890 MHz, where others reach 2200 to 2500 MHz.
STUCK = GpuState(busy_percent=96, power_w=14.0, sm_clock_mhz=611)
HEALTHY = GpuState(busy_percent=95, power_w=61.0, sm_clock_mhz=2405)


def gb10(state: GpuState, **fields: Any) -> Reading:
    gpu = GpuReading(
        index=0, name="NVIDIA GB10", state=state, errors={"memory_mib": "NotSupported"}, **fields
    )
    memory = MemoryReading(total_mib=124610, available_mib=115787)
    return Reading(arch="aarch64", os="DGX OS 7", gpus=(gpu,), memory=memory)


def judged(machine: Machine) -> Check | None:
    return next((check for check in checks(machine, live=False) if check.id == "low-power"), None)


@pytest.mark.parametrize(
    ("state", "status", "text"),
    [
        (IDLE, "skip", "under load only"),
        (STUCK, "warn", "60 seconds"),
        (HEALTHY, "ok", "not stuck"),
        # One of the two figures alone is another thing: a light kernel, a clock that was set by hand.
        (GpuState(busy_percent=95, power_w=12.0, sm_clock_mhz=2405), "ok", "not stuck"),
        (GpuState(busy_percent=95, power_w=45.0, sm_clock_mhz=900), "ok", "not stuck"),
        (msgspec.structs.replace(STUCK, slowdowns=("thermal",)), "skip", "reason that the driver names"),
        (msgspec.structs.replace(STUCK, power_w=None), "skip", "could not be read"),
        (GpuState(), "skip", "could not be read"),
    ],
)
def test_only_a_busy_gpu_is_judged(state: GpuState, status: str, text: str) -> None:
    check = judged(machine_from(gb10(state)))
    assert check is not None
    assert (check.status, text in f"{check.detail} {check.hint}") == (status, True)


def test_the_figures_are_told() -> None:
    check = judged(machine_from(gb10(STUCK)))
    assert check is not None
    assert check.detail.startswith("GPU 0: 96 % busy, 14 W, 611 MHz.")


def test_other_gpus_are_not_judged() -> None:
    gpus = tuple(msgspec.structs.replace(gpu, state=STUCK) for gpu in load_machine("h200").gpus)
    assert judged(msgspec.structs.replace(load_machine("h200"), gpus=gpus)) is None


def test_the_table_speaks_of_gpus_that_are_known() -> None:
    known = {gpu.id for gpu in catalog.gpus()}
    assert {trap.gpu for trap in catalog.host_facts().low_power} <= known


def test_a_recording_keeps_what_the_gpu_did(tmp_path: Path) -> None:
    path = tmp_path / "stuck.json"
    write_recording(gb10(STUCK), path)
    again = load_machine(str(path))
    assert again.gpus[0].state == STUCK
    check = watch_load(again)
    assert check is not None
    assert check.status == "warn"


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[GpuState | None]:
    """What NVML will answer, one reading after the other; the last one for ever. None: it does not answer."""
    states: list[GpuState | None] = []

    def ask(deadline_s: float) -> NvmlReading:
        assert deadline_s <= 5
        state = states.pop(0) if len(states) > 1 else states[0]
        gpus = () if state is None else gb10(state).gpus
        return NvmlReading(gpus=gpus, problems=() if gpus else ("nvml-timeout",))

    monkeypatch.setattr(nvml, "ask_nvml", ask)
    monkeypatch.setattr("wizard.machine.load._PAUSE_S", 0.001)
    return states


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ([IDLE, IDLE, HEALTHY], "ok"),
        ([IDLE, STUCK, STUCK], "warn"),
        # The end of a load: the clock is down already, and the average of the busy time is not.
        ([STUCK, IDLE], "skip"),
        ([STUCK, HEALTHY], "ok"),
        ([IDLE], "skip"),
        ([None], "skip"),
        ([None, STUCK, STUCK], "warn"),
    ],
)
def test_a_load_is_watched_until_it_can_be_judged(
    readings: list[GpuState | None], answers: list[GpuState | None], status: str
) -> None:
    readings += answers
    check = watch_load(machine_from(gb10(GpuState())), patience_s=0.2)
    assert check is not None
    assert check.status == status


def test_watching_ends_when_it_is_told_to(readings: list[GpuState | None]) -> None:
    readings.append(IDLE)
    stop = threading.Event()
    found: list[Check | None] = []
    machine = machine_from(gb10(GpuState()))
    thread = threading.Thread(target=lambda: found.append(watch_load(machine, 600.0, stop)))
    thread.start()
    stop.set()
    thread.join(10)
    assert [check.status for check in found if check] == ["skip"]


def test_nothing_is_read_where_no_gpu_gets_stuck(readings: list[GpuState | None]) -> None:
    assert watch_load(msgspec.structs.replace(load_machine("h200"), simulated=None)) is None
    assert watch_load(load_machine("no-gpu")) is None
    assert readings == []
