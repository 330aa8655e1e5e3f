"""What a GPU says about its own state, through the fake NVML."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest
from fake_pynvml import MIB, FakeNvml, h200, refused

from wizard.machine import GpuReading, GpuState, MigInstance, NvmlReading
from wizard.machine.devices import snapshots


def read(**changed: Any) -> GpuReading:
    return list(snapshots(FakeNvml([h200(**changed)])))[-1].gpus[0]


def test_a_healthy_h200_as_recorded() -> None:
    assert read().state == GpuState(
        ecc=True,
        persistence=True,
        compute_mode="default",
        power_default_w=700.0,
        slowdowns=(),
        remap_pending=False,
        fabric="completed",
        busy_percent=0,
        power_w=103.302,
        sm_clock_mhz=345,
        # nvidia-smi -q of the same card: BAR1 262144 MiB, 1 MiB used.
        bar1_mib=262144,
        bar1_used_mib=1,
    )


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (pynvml.nvmlClocksEventReasonGpuIdle, ()),
        (pynvml.nvmlClocksEventReasonApplicationsClocksSetting, ()),
        (pynvml.nvmlClocksEventReasonSwPowerCap, ("power-cap",)),
        (pynvml.nvmlClocksEventReasonSwThermalSlowdown, ("thermal",)),
        (
            pynvml.nvmlClocksEventReasonHwSlowdown | pynvml.nvmlClocksEventReasonHwThermalSlowdown,
            ("thermal",),
        ),
        (
            pynvml.nvmlClocksEventReasonHwSlowdown | pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown,
            ("power-brake",),
        ),
        (pynvml.nvmlClocksEventReasonHwSlowdown, ("hardware",)),
    ],
)
def test_reasons_for_low_clocks(reasons: int, expected: tuple[str, ...]) -> None:
    assert read(nvmlDeviceGetCurrentClocksEventReasons=reasons).state.slowdowns == expected


def test_an_older_driver_knows_the_reasons_by_their_old_name() -> None:
    found = read(
        nvmlDeviceGetCurrentClocksEventReasons=refused("FUNCTION_NOT_FOUND"),
        nvmlDeviceGetCurrentClocksThrottleReasons=pynvml.nvmlClocksThrottleReasonSwThermalSlowdown,
    )
    assert (found.state.slowdowns, found.errors) == (("thermal",), {})


def test_faulty_memory_waits_for_a_restart_as_rows_or_as_pages() -> None:
    assert read(nvmlDeviceGetRemappedRows=(0, 1, 1, 0)).state.remap_pending is True
    pages = read(nvmlDeviceGetRemappedRows=refused("NOT_SUPPORTED"), nvmlDeviceGetRetiredPagesPendingStatus=1)
    assert (pages.state.remap_pending, pages.errors) == (True, {})


@pytest.mark.parametrize(
    ("mode", "expected"), [(0, "default"), (2, "prohibited"), (3, "exclusive-process"), (9, None)]
)
def test_compute_modes(mode: int, expected: str | None) -> None:
    assert read(nvmlDeviceGetComputeMode=mode).state.compute_mode == expected


@pytest.mark.parametrize(
    ("state", "expected"), [(0, None), (1, "not-started"), (2, "in-progress"), (3, "completed")]
)
def test_the_fabric(state: int, expected: str | None) -> None:
    def fill(info: Any) -> int:
        info._obj.state = state
        return 0

    assert read(nvmlDeviceGetGpuFabricInfo=fill).state.fabric == expected


def test_mig_instances_with_gaps_in_their_numbers() -> None:
    def instance(number: int) -> int:
        if number == 1:
            raise refused("NOT_FOUND")
        return number + 1

    parts = [
        {
            "nvmlDeviceGetName": f"NVIDIA H200 MIG {size}",
            "nvmlDeviceGetUUID": f"MIG-{size}",
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=mib * MIB, free=mib * MIB),
        }
        for size, mib in (("1g.18gb", 16384), ("", 0), ("3g.71gb", 71424))
    ]
    split = h200(
        nvmlDeviceGetMigMode=[1, 1],
        nvmlDeviceGetMaxMigDeviceCount=3,
        nvmlDeviceGetMigDeviceHandleByIndex=instance,
    )
    nvml = FakeNvml([split, *parts], nvmlDeviceGetCount=1)
    (gpu,) = list(snapshots(nvml))[-1].gpus
    assert gpu.mig
    assert gpu.state.instances == (
        MigInstance(uuid="MIG-1g.18gb", name="NVIDIA H200 MIG 1g.18gb", memory_mib=16384),
        MigInstance(uuid="MIG-3g.71gb", name="NVIDIA H200 MIG 3g.71gb", memory_mib=71424),
    )
    assert gpu.errors == {}


def test_desktop_programs_count_as_users_of_the_gpu_once() -> None:
    def process(pid: int) -> SimpleNamespace:
        return SimpleNamespace(pid=pid, usedGpuMemory=300 * MIB)

    found = read(
        nvmlDeviceGetGraphicsRunningProcesses=[process(7), process(8)],
        nvmlDeviceGetComputeRunningProcesses=[process(8), process(9)],
    )
    assert [process.pid for process in found.processes] == [7, 8, 9]


def test_gpus_out_of_each_others_reach_are_named_with_the_reason() -> None:
    nvml = FakeNvml(
        [h200(index) for index in range(3)],
        reach={(0, 1): pynvml.NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED, (1, 2): refused("NOT_SUPPORTED")},
    )
    gpus = list(snapshots(nvml))[-1].gpus
    assert [gpu.state.blocked_peers for gpu in gpus] == [
        {"1": "chipset-not-supported"},
        {"0": "chipset-not-supported"},
        {},
    ]


def test_a_state_that_is_refused_costs_nothing_but_itself() -> None:
    found = read(
        nvmlDeviceGetEccMode=refused("NOT_SUPPORTED"), nvmlDeviceGetComputeMode=AttributeError("old")
    )
    assert (found.state.ecc, found.state.compute_mode, found.state.persistence) == (None, None, True)
    assert found.errors == {"ecc": "NotSupported", "compute_mode": "FunctionNotFound"}
    assert found.memory_mib == 143771


def test_the_state_is_asked_last() -> None:
    """A question about the state that never returns leaves every GPU with the facts that decide."""

    class Stuck(BaseException):
        pass

    def hang() -> None:
        raise Stuck

    seen: list[NvmlReading] = []
    with pytest.raises(Stuck):
        seen.extend(snapshots(FakeNvml([h200(0), h200(1, nvmlDeviceGetEccMode=hang)])))
    assert [gpu.memory_mib for gpu in seen[-1].gpus] == [143771, 143771]
