"""From readings to machines: whose memory counts, which capability holds, what is wrong with a GPU."""

from __future__ import annotations

from typing import Any

import pytest

from wizard.machine import Gpu, GpuReading, MemoryReading, Reading, machine_from
from wizard.machine.capability import normal_capability

# An idle DGX Spark: MemTotal 127600748 kB, MemAvailable 118566368 kB (XuehaiPan/nvitop #208).
SPARK_MEMORY = MemoryReading(total_mib=124610, available_mib=115787)
REFUSED = {"memory_mib": "NotSupported"}


def gpu(name: str, memory: MemoryReading = SPARK_MEMORY, **fields: Any) -> Gpu:
    reading = GpuReading(index=0, name=name, **fields)
    return machine_from(Reading(arch="aarch64", os="", gpus=(reading,), memory=memory)).gpus[0]


def test_gb10_takes_its_memory_from_the_host() -> None:
    found = gpu("NVIDIA GB10", errors=REFUSED)
    assert (found.memory_mib, found.memory_free_mib, found.unified) == (124610, 115787, True)
    assert (found.compute_capability, found.capability, found.bandwidth_gbs) == ("12.1", 121, 273)
    assert found.problems == ()
    assert found.usable


def test_gb10_whose_driver_answers_with_the_hosts_total_is_unified_too() -> None:
    found = gpu("NVIDIA GB10", memory_mib=124610, memory_free_mib=20000)
    assert (found.memory_mib, found.memory_free_mib, found.unified) == (124610, 115787, True)


def test_a_stated_smaller_total_holds() -> None:
    found = gpu("NVIDIA GB10", memory_mib=62305)
    assert (found.memory_mib, found.memory_free_mib, found.unified) == (62305, 62305, True)


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        ("NoPermission", "gpu-memory-no-permission"),
        ("Unknown", "gpu-memory-unknown"),
        ("GpuIsLost", "gpu-lost"),
        ("ResetRequired", "gpu-reset-required"),
    ],
)
def test_any_other_memory_error_stays_an_error_on_gb10(error: str, problem: str) -> None:
    found = gpu("NVIDIA GB10", errors={"memory_mib": error})
    assert (found.memory_mib, found.memory_free_mib, found.unified) == (0, 0, False)
    assert found.problems == (problem,)
    assert not found.usable


def test_a_discrete_gpu_without_memory_never_gets_the_hosts() -> None:
    found = gpu("NVIDIA H200", errors=REFUSED)
    assert (found.memory_mib, found.unified, found.problems) == (0, False, ("gpu-memory-not-supported",))


def test_an_integrated_gpu_the_tables_do_not_know_is_unified() -> None:
    found = gpu("NVIDIA Next", integrated=True, compute_capability="12.1", errors=REFUSED)
    assert (found.memory_mib, found.unified) == (124610, True)


def test_one_dead_gpu_leaves_the_other_whole() -> None:
    readings = (
        GpuReading(index=0, name="", errors={"device": "GpuIsLost"}),
        GpuReading(index=1, name="NVIDIA H200", memory_mib=143771, memory_free_mib=143155),
    )
    machine = machine_from(Reading(arch="x86_64", os="", gpus=readings, memory=SPARK_MEMORY))
    lost, whole = machine.gpus
    assert (lost.memory_mib, lost.capability, lost.problems, lost.usable) == (0, 0, ("gpu-lost",), False)
    assert (whole.memory_mib, whole.capability, whole.problems, whole.usable) == (143771, 90, (), True)


def test_a_gpu_lost_half_way_is_lost() -> None:
    found = gpu("NVIDIA H200", memory_mib=143771, errors={"links": "GpuIsLost"})
    assert (found.memory_mib, found.problems) == (0, ("gpu-lost",))


def test_a_gpu_that_was_never_reached_says_so() -> None:
    assert gpu("", errors={"device": "NoAnswer"}).problems == ("gpu-no-answer",)
    assert gpu("", errors={"device": "Unknown"}).problems == ("gpu-unreadable",)


@pytest.mark.parametrize("stated", ["7.0", 7, 7.0, (7, 0), " 7.0 "])
def test_the_readings_capability_wins_over_the_table(stated: Any) -> None:
    assert gpu("NVIDIA GB10", compute_capability=stated, errors=REFUSED).compute_capability == "7.0"


@pytest.mark.parametrize("stated", [12.1, "12.1", (12, 1)])
def test_a_capability_is_understood_in_three_ways(stated: Any) -> None:
    assert gpu("unheard of", compute_capability=stated, memory_mib=1).compute_capability == "12.1"


@pytest.mark.parametrize("stated", ["sm_70", "70", 121, 12.15, (12, 10), "12.1.0", float("nan"), "٧.٠"])
def test_what_is_no_capability_leaves_the_word_to_the_table(stated: Any) -> None:
    with pytest.raises(ValueError, match=r"^[^ ]+$"):
        normal_capability(stated)
    assert gpu("NVIDIA GB10", compute_capability=stated, errors=REFUSED).compute_capability == "12.1"
    assert gpu("unheard of", compute_capability=stated, memory_mib=1).problems == ("gpu-capability-unknown",)


def test_an_unknown_gpu_without_capability_is_not_usable() -> None:
    found = gpu("NVIDIA Mystery", memory_mib=24000)
    assert (found.compute_capability, found.capability) == ("", 0)
    assert found.problems == ("gpu-capability-unknown",)
    assert not found.usable


def test_a_gpu_split_with_mig_is_not_usable_as_a_whole() -> None:
    found = gpu("NVIDIA H200", memory_mib=143771, mig=True)
    assert (found.problems, found.usable) == (("gpu-mig-enabled",), False)


def test_free_memory_is_never_more_than_there_is() -> None:
    assert gpu("NVIDIA H200", memory_mib=1000, memory_free_mib=2000).memory_free_mib == 1000
    small = MemoryReading(total_mib=60000, available_mib=115787)
    assert gpu("NVIDIA GB10", small, errors=REFUSED).memory_free_mib == 60000


def test_gpus_come_in_the_order_of_their_indices_and_text_is_inert() -> None:
    readings = tuple(GpuReading(index=index, name=f"G\x1b[31m{index}", memory_mib=1) for index in (1, 0))
    machine = machine_from(Reading(arch="a\nb", os="\x07", gpus=readings, memory=SPARK_MEMORY))
    assert [found.name for found in machine.gpus] == ["G0", "G1"]
    assert (machine.arch, machine.os) == ("a b", "")
