"""Checks of GPUs: their driver, their state, what hides them, what stands between them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from wizard.machine import (
    Check,
    Gpu,
    GpuProcess,
    GpuState,
    Machine,
    MigInstance,
    PciCard,
    SystemReading,
    checks,
    load_machine,
    machine_names,
)


def found(machine: Machine, id: str) -> Check:
    return next(check for check in checks(machine) if check.id == id)


def changed(name: str, **fields: Any) -> Machine:
    return msgspec.structs.replace(load_machine(name), **fields)


def with_gpus(name: str, **fields: Any) -> Machine:
    machine = load_machine(name)
    gpus: list[Gpu] = [msgspec.structs.replace(gpu, **fields) for gpu in machine.gpus]
    return msgspec.structs.replace(machine, gpus=tuple(gpus))


def ids(machine: Machine) -> set[str]:
    return {check.id for check in checks(machine)}


@pytest.mark.parametrize(
    ("name", "driver", "status"),
    [
        # Ready-made vLLM from 0.20 on brings CUDA 13, which needs 580; a V100 stays on CUDA 12: 525.
        ("h200", "580.65.06", "ok"),
        ("h200", "570.133.20", "warn"),
        ("v100x10", "570.133.20", "ok"),
        ("v100x10", "470.82.01", "warn"),
        ("h200", "unheard of", "ok"),
    ],
)
def test_the_driver_is_held_against_the_newest_vllm_for_this_gpu(name: str, driver: str, status: str) -> None:
    check = found(changed(name, driver=driver), "driver")
    assert check.status == status
    assert ("580" in check.detail) == (name == "h200" and driver != "unheard of")


def test_a_driver_under_windows_is_updated_there() -> None:
    assert "Windows" in found(changed("h200", driver="552.44", wsl=True), "driver").hint


TAKEN = 120 * 1024
"""MiB of an H200 that a program elsewhere holds."""


@pytest.mark.parametrize("where", [{}, {"container": "docker"}, {"wsl": True}])
def test_memory_taken_out_of_sight_is_a_warning(where: dict[str, Any]) -> None:
    whole = load_machine("h200").gpus[0].memory_mib
    machine = msgspec.structs.replace(with_gpus("h200", memory_free_mib=whole - TAKEN), **where)
    check = found(machine, "busy")
    assert check.status == "warn"
    assert "GPU 0: 120.0 of 140.4 GiB" in check.detail
    assert "nvidia-smi" in check.hint
    assert check.command == "nvidia-smi"


def test_what_named_programs_hold_is_not_out_of_sight() -> None:
    whole = load_machine("h200").gpus[0].memory_mib
    named = GpuProcess(pid=7, name="python3", used_mib=TAKEN)
    check = found(with_gpus("h200", memory_free_mib=whole - TAKEN - 616, processes=(named,)), "busy")
    assert check.detail == "GPU 0: python3 (7), 120.0 GiB"
    both = found(with_gpus("h200", memory_free_mib=whole - TAKEN - 8192, processes=(named,)), "busy")
    assert both.detail.startswith("GPU 0: python3 (7), 120.0 GiB. GPU 0: 8.0 of 140.4 GiB")
    silent = GpuProcess(pid=7, name="python3")
    hidden = found(with_gpus("h200", memory_free_mib=whole - TAKEN, processes=(silent,)), "busy")
    assert hidden.detail == "GPU 0: python3 (7)"


def test_programs_that_nobody_could_ask_for_are_not_told_as_none() -> None:
    check = found(with_gpus("h200", unread=("processes",)), "busy")
    assert check.status == "skip"
    assert "could not be read" in check.detail


def test_an_idle_machine_has_nobody_out_of_sight() -> None:
    for name in machine_names():
        machine = load_machine(name)
        assert all(check.status == "ok" for check in checks(machine) if check.id == "busy"), name


def test_who_is_on_a_gpu_and_how_much_it_holds() -> None:
    machine = with_gpus("h200", processes=(GpuProcess(pid=7, name="python", used_mib=3072),))
    assert found(machine, "busy").detail == "GPU 0: python (7), 3.0 GiB"
    assert "drives a screen" in found(load_machine("rtx4090x2"), "busy").detail


@pytest.mark.parametrize("where", [{"wsl": True}, {"container": "docker"}])
def test_nobody_seen_means_less_where_the_driver_hides_programs(where: dict[str, Any]) -> None:
    assert "hidden" in found(changed("h200", **where), "busy").detail


@pytest.mark.parametrize(
    ("state", "power", "detail", "hint"),
    [
        (GpuState(slowdowns=("thermal",)), 700.0, "too hot", "cooling"),
        (GpuState(slowdowns=("power-brake",)), 700.0, "power supply", "cables"),
        (GpuState(power_default_w=700.0), 400.0, "capped at 400 W of 700 W", "nvidia-smi -pl"),
        (GpuState(compute_mode="exclusive-process"), 700.0, "one program at a time", "-c DEFAULT"),
    ],
)
def test_what_holds_a_gpu_down(state: GpuState, power: float, detail: str, hint: str) -> None:
    check = found(with_gpus("h200", state=state, power_limit_w=power), "gpu-state")
    assert check.status == "warn"
    assert detail in check.detail
    assert hint in check.hint


@pytest.mark.parametrize(
    "state",
    [
        GpuState(slowdowns=("power-cap",)),
        GpuState(power_default_w=700.0),
        GpuState(ecc=True, persistence=False),
        GpuState(compute_mode="default", fabric="completed"),
    ],
)
def test_what_is_normal_under_load_or_at_rest(state: GpuState) -> None:
    assert found(with_gpus("h200", state=state), "gpu-state").status == "ok"


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        ("gpu-fabric-not-started", "nvidia-fabricmanager"),
        ("gpu-remap-pending", "Restart"),
        ("gpu-compute-prohibited", "nvidia-smi -c DEFAULT"),
        ("gpu-mig-enabled", "MIG"),
    ],
)
def test_problems_of_a_gpu_have_their_remedy(problem: str, text: str) -> None:
    check = found(with_gpus("h200", problems=(problem,)), "gpu")
    assert (check.status, text in check.hint) == ("warn", True)


def test_the_parts_of_a_split_gpu_are_named() -> None:
    part = MigInstance(uuid="MIG-1", name="NVIDIA H200 MIG 3g.71gb", memory_mib=71424)
    machine = with_gpus("h200", mig=True, problems=("gpu-mig-enabled",), state=GpuState(instances=(part,)))
    check = found(machine, "gpu")
    assert (check.status, "3g.71gb (MIG-1)" in check.detail) == ("fail", True)


def test_a_card_that_the_driver_does_not_count_is_named() -> None:
    # NVML and sysfs as both wrote the bus ids of two H200.
    counted = PciCard(bus_id="0000:00:06.0", device="0x2335", driver="nvidia")
    missing = PciCard(bus_id="0000:00:07.0", device="0x2335")
    machine = changed("h200", cards=(counted, missing))
    check = found(machine, "gpu")
    assert check.status == "warn"
    assert "0000:00:07.0 is not counted (kernel driver: none)" in check.detail
    assert "0000:00:06.0" not in check.detail
    assert found(msgspec.structs.replace(machine, container="docker"), "gpu").status == "ok"
    assert (
        found(changed("gb10", cards=(PciCard(bus_id="000f:01:00.0", device="0x2e12"),)), "gpu").status == "ok"
    )


def test_hidden_gpus_are_explained() -> None:
    assert "visible" not in ids(load_machine("h200x2"))
    one = load_machine("h200x2")
    gpus = (msgspec.structs.replace(one.gpus[0], hidden=True), one.gpus[1])
    check = found(msgspec.structs.replace(one, gpus=gpus, visible_devices="1"), "visible")
    assert (check.status, check.detail) == ("ok", "CUDA_VISIBLE_DEVICES=1 leaves GPUs 1 of 2.")


def test_every_gpu_hidden_is_a_failure_with_a_way_out() -> None:
    machine = with_gpus("h200", hidden=True)
    check = found(msgspec.structs.replace(machine, visible_devices=""), "gpu")
    assert (check.status, "env -u CUDA_VISIBLE_DEVICES" in check.hint) == ("fail", True)


def test_numbers_of_different_gpus_are_ambiguous() -> None:
    machine = load_machine("rtx4090x2")
    other = msgspec.structs.replace(machine.gpus[1], name="NVIDIA GeForce RTX 3060")
    mixed = msgspec.structs.replace(machine, gpus=(machine.gpus[0], other), visible_devices="0,1")
    check = found(mixed, "visible")
    assert (check.status, "PCI_BUS_ID" in check.hint) == ("warn", True)


def test_one_gpu_has_no_peers_and_nvlink_needs_no_more() -> None:
    assert "p2p" not in ids(load_machine("h200"))
    assert found(load_machine("h200x2"), "p2p").status == "ok"


def test_gpus_over_pcie_are_fine_until_something_is_known_against_it() -> None:
    assert found(load_machine("rtx4090x2"), "p2p").status == "ok"


@pytest.mark.parametrize(
    ("state", "iommu", "detail", "hint"),
    [
        (GpuState(blocked_peers={"1": "gpu-not-supported"}), None, "0 and 1 cannot reach", "Prefer one GPU"),
        (GpuState(blocked_peers={"1": "brand-new"}), None, "brand-new", "Prefer one GPU"),
        (GpuState(), "translating", "IOMMU", "NCCL_P2P_DISABLE=1"),
    ],
)
def test_what_stands_between_gpus(state: GpuState, iommu: str | None, detail: str, hint: str) -> None:
    machine = with_gpus("rtx4090x2", state=state)
    machine = msgspec.structs.replace(machine, system=SystemReading(iommu=iommu))
    check = found(machine, "p2p")
    assert check.status == "warn"
    assert detail in check.detail
    assert hint in check.hint


@pytest.mark.parametrize("name", ["rtx4090x2", "h200x2"])
def test_links_that_nobody_read_are_not_told_as_missing(name: str) -> None:
    check = found(with_gpus(name, links={}, unread=("links",)), "p2p")
    assert check.status == "skip"
    assert "could not be read" in check.detail
    assert "PCIe" not in check.detail
    assert check.command.startswith("nvidia-smi topo -m")


def test_many_blocked_pairs_are_counted() -> None:
    machine = load_machine("v100x10")
    blocked = GpuState(blocked_peers={str(index): "topology-not-supported" for index in range(10)})
    gpus = tuple(msgspec.structs.replace(gpu, state=blocked) for gpu in machine.gpus)
    # 45 pairs, less six in each quad and the pair: those are joined by NVLink.
    assert "32 pairs" in found(msgspec.structs.replace(machine, gpus=gpus), "p2p").detail


WIDE = GpuState(bar1_mib=32768, bar1_used_mib=3)


@pytest.mark.parametrize(
    ("name", "state", "status", "text"),
    [
        # 256 MiB is what a card shows without Resizable BAR.
        ("rtx4090x2", GpuState(bar1_mib=256, bar1_used_mib=3), "warn", "Resizable BAR"),
        ("rtx4090x2", WIDE, "ok", "32768 MiB"),
        ("rtx4090x2", GpuState(bar1_mib=32768, bar1_used_mib=32000), "warn", "full"),
        ("rtx4090x2", GpuState(), "skip", "could not be read"),
        # Without peer-to-peer the window is not used, with NVLink it is not needed.
        ("rtx4090x2", GpuState(bar1_mib=256, blocked_peers={"0": "x", "1": "x"}), None, ""),
        ("h200x2", GpuState(bar1_mib=256), None, ""),
        ("h200", GpuState(bar1_mib=256), None, ""),
    ],
)
def test_the_window_to_each_others_memory(name: str, state: GpuState, status: str | None, text: str) -> None:
    check = next((check for check in checks(with_gpus(name, state=state)) if check.id == "bar1"), None)
    assert (check and check.status) == status
    assert text in (f"{check.detail} {check.hint}" if check else "")
