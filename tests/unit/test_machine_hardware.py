"""Whole machines, from the answers of ``pynvml`` functions to what is concluded from them."""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_pynvml import MIB, FakeNvml, h200, refused

from wizard.machine import Check, Machine, MemoryReading, Reading, checks, machine_from
from wizard.machine.devices import snapshots
from wizard.machine.nvml import ask_nvml

DATA = Path(__file__).parents[1] / "data"
# An idle DGX Spark: MemTotal 127600748 kB, MemAvailable 118566368 kB (XuehaiPan/nvitop #208).
HOST = MemoryReading(total_mib=127600748 // 1024, available_mib=118566368 // 1024)


def machine(nvml: FakeNvml, **host: Any) -> Machine:
    answered = list(snapshots(nvml))[-1]
    fields = {"arch": "x86_64", "os": "", "memory": HOST, **host}
    return machine_from(
        Reading(
            driver=answered.driver,
            cuda=answered.cuda,
            gpus=answered.gpus,
            problems=answered.problems,
            **fields,
        )
    )


def check(found: Machine, id: str) -> Check:
    return next(check for check in checks(found, live=False) if check.id == id)


def recorded(count: int) -> FakeNvml:
    """Two H200 behind an NVSwitch as NVML answered there: driver 580.159.04, NV18 in nvidia-smi topo -m."""
    document = json.loads((DATA / "nvml_h200x2.json").read_text(encoding="utf-8"))

    def answer(value: Any) -> Any:
        if isinstance(value, str) and value.startswith("!NVMLError_"):
            import pynvml

            return getattr(pynvml, value.removeprefix("!"))()
        return SimpleNamespace(**value) if isinstance(value, dict) else value

    devices = [
        {name: answer(value) for name, value in device.items()} for device in document["devices"][:count]
    ]
    return FakeNvml(
        devices,
        switched=dict.fromkeys(range(count), document["links"]) if count > 1 else {},
        nvmlSystemGetDriverVersion=document["driver"],
        nvmlSystemGetCudaDriverVersion=document["cuda"],
    )


@pytest.mark.parametrize("count", [1, 2])
def test_h200_as_recorded(count: int) -> None:
    found = machine(recorded(count))
    assert (found.driver, found.cuda, found.problems) == ("580.159.04", "13.0", ())
    assert [gpu.memory_mib for gpu in found.gpus] == [143771] * count
    assert [gpu.memory_free_mib for gpu in found.gpus] == [143155] * count
    assert [gpu.compute_capability for gpu in found.gpus] == ["9.0"] * count
    assert [gpu.power_limit_w for gpu in found.gpus] == [700.0] * count
    assert all(gpu.usable and not gpu.problems and not gpu.unified for gpu in found.gpus)
    assert found.nvlink_groups == (() if count == 1 else ((0, 1),))
    assert [dict(gpu.links) for gpu in found.gpus] == ([{}] if count == 1 else [{"1": 18}, {"0": 18}])
    state = found.gpus[0].state
    assert (state.ecc, state.persistence, state.compute_mode) == (True, True, "default")
    assert (state.power_default_w, state.slowdowns, state.remap_pending) == (700.0, (), False)


def integrated(name: str, capability: tuple[int, int], bus_id: str) -> dict[str, Any]:
    """What public captures of a GB10 and a Thor show: everything about memory, power and ECC is refused."""
    return {
        "nvmlDeviceGetName": name,
        "nvmlDeviceGetUUID": "GPU-00000000-0000-0000-0000-000000000010",
        "nvmlDeviceGetPciInfo": SimpleNamespace(busId=bus_id),
        "nvmlDeviceGetCudaComputeCapability": capability,
        "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=7, usedGpuMemory=218 * MIB)],
        "nvmlDeviceGetGraphicsRunningProcesses": [],
    }


@pytest.mark.parametrize(
    ("name", "capability", "bus_id", "text"),
    [
        ("NVIDIA GB10", (12, 1), "0000000F:01:00.0", "12.1"),
        ("NVIDIA Thor", (11, 0), "00000000:01:00.0", "11.0"),
    ],
)
def test_gb10_and_thor_work_in_the_hosts_memory(
    name: str, capability: tuple[int, int], bus_id: str, text: str
) -> None:
    found = machine(FakeNvml([integrated(name, capability, bus_id)]), arch="aarch64")
    (gpu,) = found.gpus
    assert (gpu.memory_mib, gpu.memory_free_mib, gpu.unified) == (124610, 115787, True)
    assert (gpu.compute_capability, gpu.bus_id) == (text, bus_id)
    assert (gpu.problems, gpu.usable, gpu.power_limit_w, gpu.state.ecc) == ((), True, None, None)
    assert [process.used_mib for process in gpu.processes] == [218]
    assert check(found, "gpu").status == "ok"


def v100(index: int, bus: int) -> dict[str, Any]:
    return h200(
        index,
        nvmlDeviceGetName="Tesla V100-SXM2-32GB",
        nvmlDeviceGetPciInfo=SimpleNamespace(busId=f"00000000:{bus:02X}:00.0"),
        nvmlDeviceGetCudaComputeCapability=(7, 0),
        nvmlDeviceGetMemoryInfo=SimpleNamespace(total=32768 * MIB, free=32492 * MIB, used=276 * MIB),
        nvmlDeviceGetMigMode=refused("NOT_SUPPORTED"),
        nvmlDeviceGetRemappedRows=refused("NOT_SUPPORTED"),
        nvmlDeviceGetRetiredPagesPendingStatus=0,
        nvmlDeviceGetGpuFabricInfo=refused("NOT_SUPPORTED"),
    )


ISLANDS = ((0, 1, 2, 3), (4, 5, 8, 9), (6, 7))


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_ten_v100_have_their_islands_whatever_their_numbers(seed: int | None) -> None:
    places = list(range(10))
    if seed is not None:
        random.Random(seed).shuffle(places)
    islands = [tuple(sorted(places[old] for old in island)) for island in ISLANDS]
    links = {
        (a, b): 6 if len(island) == 2 else 2 for island in islands for a in island for b in island if a < b
    }
    found = machine(FakeNvml([v100(index, index + 1) for index in range(10)], links=links))
    assert found.nvlink_groups == tuple(sorted(islands))
    assert [gpu.capability for gpu in found.gpus] == [70] * 10
    assert all(gpu.usable for gpu in found.gpus)


def test_a_dead_gpu_among_four_hides_none_of_the_others() -> None:
    def lost(*_: Any) -> None:
        raise refused("GPU_IS_LOST")

    dead = dict.fromkeys(h200(2), lost)
    devices = [h200(0), h200(1), dead, h200(3)]
    found = machine(FakeNvml(devices, switched={0: 18, 1: 18, 3: 18}))
    assert [gpu.problems for gpu in found.gpus] == [(), (), ("gpu-lost",), ()]
    assert [gpu.usable for gpu in found.gpus] == [True, True, False, True]
    assert [gpu.memory_mib for gpu in found.gpus] == [143771, 143771, 0, 143771]
    assert found.nvlink_groups == ((0, 1, 3),)
    told = check(found, "gpu")
    assert (told.status, "3 x NVIDIA H200" in told.detail, "GPU 2" in told.detail) == ("warn", True, True)
    assert "Xid 79" in told.hint


@pytest.mark.parametrize(
    ("error", "detail", "hint"),
    [
        ("LIBRARY_NOT_FOUND", "NVML was not found", "Install the driver"),
        ("LIB_RM_VERSION_MISMATCH", "old kernel module", "Restart the machine"),
        ("DRIVER_NOT_LOADED", "not loaded", "mokutil"),
        ("NO_PERMISSION", "may not open", "/dev/nvidia"),
    ],
)
def test_a_driver_that_does_not_come_up(error: str, detail: str, hint: str) -> None:
    told = check(machine(FakeNvml([h200()], nvmlInit=refused(error))), "gpu")
    assert told.status == "fail"
    assert detail in told.detail
    assert hint in told.hint


def test_a_container_that_lost_its_gpu_is_told_to_restart() -> None:
    found = machine(FakeNvml([h200()], nvmlInit=refused("UNKNOWN")), container="docker")
    assert "Restart the container" in check(found, "gpu").hint


def split_h200(**changed: Any) -> FakeNvml:
    parent = h200(
        nvmlDeviceGetMigMode=[1, 1],
        nvmlDeviceGetMaxMigDeviceCount=7,
        nvmlDeviceGetMigDeviceHandleByIndex=lambda number: number + 1 if number < 2 else _missing(),
        **changed,
    )
    parts = [
        {
            "nvmlDeviceGetName": "NVIDIA H200 MIG 3g.71gb",
            "nvmlDeviceGetUUID": f"MIG-00000000-0000-0000-0000-00000000000{number}",
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=71424 * MIB, free=71400 * MIB, used=24 * MIB),
        }
        for number in range(2)
    ]
    return FakeNvml([parent, *parts], nvmlDeviceGetCount=1)


def _missing() -> None:
    raise refused("NOT_FOUND")


def test_a_gpu_split_with_mig_cannot_be_used_whole_and_names_its_parts() -> None:
    found = machine(split_h200())
    (gpu,) = found.gpus
    assert (gpu.mig, gpu.usable, gpu.problems) == (True, False, ("gpu-mig-enabled",))
    assert [part.memory_mib for part in gpu.state.instances] == [71424, 71424]
    told = check(found, "gpu")
    assert told.status == "fail"
    assert "MIG-00000000-0000-0000-0000-000000000001" in told.detail


def test_a_split_gpu_whose_memory_a_container_may_not_read_is_no_unified_one() -> None:
    (gpu,) = machine(split_h200(nvmlDeviceGetMemoryInfo=refused("NO_PERMISSION"))).gpus
    assert (gpu.memory_mib, gpu.unified) == (0, False)
    assert "gpu-memory-no-permission" in gpu.problems


STUCK = """
import sys, threading
from fake_pynvml import FakeNvml, h200
import wizard.machine.nvml as nvml

def hang():
    threading.Event().wait()

gpus = [h200(0), h200(1), h200(2, {question}=hang), h200(3)]
sys.modules["pynvml"] = FakeNvml(gpus, switched={{0: 18, 1: 18}})
nvml.main()
"""


@pytest.mark.parametrize(
    ("question", "problems"),
    [
        ("nvmlDeviceGetMemoryInfo", [(), (), ("gpu-no-answer",), ("gpu-no-answer",)]),
        ("nvmlDeviceGetEccMode", [(), (), (), ()]),
    ],
)
def test_a_driver_call_that_never_returns_costs_only_what_comes_after_it(
    question: str, problems: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    start = time.monotonic()
    answered = ask_nvml(2.5, [sys.executable, "-c", STUCK.format(question=question)])
    assert time.monotonic() - start < 10
    found = machine_from(
        Reading(arch="x86_64", os="", memory=HOST, gpus=answered.gpus, problems=answered.problems)
    )
    assert found.problems == ("nvml-timeout",)
    assert [gpu.problems for gpu in found.gpus] == problems
    told = check(found, "gpu")
    assert (told.status, "did not answer in time" in told.detail) == ("warn", True)


def test_eight_gpus_are_read_in_one_pass_without_repeating_a_question() -> None:
    """Behind an NVSwitch each GPU is asked for its 18 links, and each pair once for what joins it."""
    asked: dict[tuple[int, str, tuple[Any, ...]], int] = {}

    class Counting(FakeNvml):
        def _device(self, handle: int, name: str, *arguments: Any) -> Any:
            if name != "nvmlDeviceGetGpuFabricInfo":
                key = (handle, name, arguments)
                asked[key] = asked.get(key, 0) + 1
            return super()._device(handle, name, *arguments)

    start = time.monotonic()
    found = machine(Counting([h200(index) for index in range(8)], switched=dict.fromkeys(range(8), 18)))
    assert time.monotonic() - start < 5
    assert found.nvlink_groups == (tuple(range(8)),)
    assert all(set(gpu.links.values()) == {18} and len(gpu.links) == 7 for gpu in found.gpus)
    assert set(asked.values()) == {1}
    assert check(found, "gpu").detail == "8 x NVIDIA H200, 140.4 GiB."
