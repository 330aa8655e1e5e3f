"""Whatever NVML answers, however it fails: each sound GPU is read, and a machine follows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pynvml
from fake_pynvml import H200, FakeNvml, h200, refused
from hypothesis import given, settings
from hypothesis import strategies as st

from wizard.machine import MemoryReading, NvmlReading, Reading, checks, load_machine, machine_from
from wizard.machine.devices import snapshots

LINK_QUESTIONS = (
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetNvLinkRemoteDeviceType",
    "nvmlDeviceGetNvLinkRemotePciInfo",
    "nvmlDeviceGetP2PStatus",
)
MORE = ("nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetRetiredPagesPendingStatus")
FUNCTIONS = (*H200, *LINK_QUESTIONS, *MORE)
ERRORS = sorted(name.removeprefix("NVML_ERROR_") for name in dir(pynvml) if name.startswith("NVML_ERROR_"))

numbers = st.one_of(
    st.integers(), st.integers(-2, 2), st.sampled_from([2**31, 2**63, 2**64 - 1]), st.floats()
)
plain = st.one_of(st.none(), numbers, st.text(), st.binary(), st.booleans())
records = st.builds(
    lambda value, other: SimpleNamespace(
        total=value,
        free=other,
        used=value,
        busId=value,
        gpu=value,
        bar1Total=value,
        bar1Used=other,
        pid=value,
        usedGpuMemory=other,
    ),
    plain,
    plain,
)
failures = st.one_of(
    st.sampled_from(ERRORS).map(refused),
    st.sampled_from([OSError("x"), RuntimeError("x"), MemoryError(), AttributeError("x"), KeyError("x")]),
    st.integers(10**6, 10**7).map(pynvml.NVMLError),
)
answers = st.one_of(plain, records, failures, st.lists(st.one_of(plain, records), max_size=4))


def memory() -> MemoryReading:
    return load_machine("h200").memory


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(FUNCTIONS), answers, max_size=5), st.integers(0, 2))
def test_one_odd_gpu_never_hides_the_others(odd: dict[str, Any], place: int) -> None:
    devices = [h200(index, **(odd if index == place else {})) for index in range(3)]
    for snapshot in snapshots(FakeNvml(devices, switched={0: 18, 1: 18, 2: 18})):
        reading = msgspec.json.decode(msgspec.json.encode(snapshot), type=NvmlReading)
    others = [gpu for gpu in reading.gpus if gpu.index != place]
    assert [(gpu.name, gpu.memory_mib, gpu.compute_capability) for gpu in others] == [
        ("NVIDIA H200", 143771, "9.0")
    ] * 2
    machine = machine_from(Reading(arch="x86_64", os="", gpus=reading.gpus, memory=memory()))
    assert [gpu.usable for gpu in machine.gpus if gpu.index != place] == [True, True]
    assert all(set(gpu.links) >= {str(each.index) for each in others if each != gpu} for gpu in others)
    assert checks(machine, live=False)
    msgspec.json.encode(machine)


SYSTEM = (
    "nvmlInit",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetCudaDriverVersion",
    "nvmlDeviceGetCount",
    "nvmlSystemGetProcessName",
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(SYSTEM), answers, max_size=2))
def test_whatever_the_driver_as_a_whole_answers_is_a_reading(odd: dict[str, Any]) -> None:
    if isinstance(odd.get("nvmlDeviceGetCount"), int) and odd["nvmlDeviceGetCount"] not in range(3):
        odd["nvmlDeviceGetCount"] = -1
    for snapshot in snapshots(FakeNvml([h200(0), h200(1)], **odd)):
        reading = msgspec.json.decode(msgspec.json.encode(snapshot), type=NvmlReading)
    machine = machine_from(
        Reading(arch="x86_64", os="", gpus=reading.gpus, problems=reading.problems, memory=memory())
    )
    assert machine.problems or machine.gpus
    assert checks(machine, live=False)
