"""Recorded machines: their values against what their sources say, and files that cannot be used."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import pytest

from wizard.errors import CorruptDataError, UnknownNameError, UsageError
from wizard.machine import Reading, decode_machine_file, detect, load_machine, machine_from, machine_names

NAMES = (
    "a100x4",
    "b200x8",
    "dgx1",
    "gb10",
    "gh200",
    "h200",
    "h200x2",
    "hgx-h100x8",
    "no-driver",
    "no-gpu",
    "rtx4090x2",
    "rtx5090",
    "t4",
    "thor",
    "v100x10",
    "wsl-rtx4070",
)


def bundled(name: str) -> dict[str, Any]:
    content = (resources.files("assets") / "machines" / f"{name}.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(content)
    return document


def saved(tmp_path: Path, document: object) -> str:
    path = tmp_path / "machine.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return str(path)


def test_the_names() -> None:
    assert machine_names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_machine_says_where_it_comes_from_and_uses_known_fields_only(name: str) -> None:
    content = (resources.files("assets") / "machines" / f"{name}.json").read_bytes()
    recorded = decode_machine_file(content, name)
    assert recorded.provenance is not None
    assert recorded.provenance.recorded
    assert recorded.provenance.derived
    assert recorded.provenance.source
    fields = {field.name for field in msgspec.structs.fields(Reading)}
    assert set(bundled(name)["machine"]) <= fields
    assert load_machine(name).simulated == name


def test_gb10() -> None:
    # Driver and CUDA: the installation report of an MSI EdgeXpert; memory: an idle DGX Spark, 121.7 GiB.
    machine = detect("gb10")
    assert (machine.arch, machine.driver, machine.cuda, machine.cpu_count) == (
        "aarch64",
        "580.142",
        "13.0",
        20,
    )
    (gpu,) = machine.gpus
    assert (gpu.name, gpu.compute_capability, gpu.unified) == ("NVIDIA GB10", "12.1", True)
    assert gpu.memory_mib == 127600748 // 1024
    assert gpu.memory_free_mib == 118566368 // 1024
    assert gpu.memory_mib / 1024 == pytest.approx(121.69, abs=0.01)
    assert machine.nvlink_groups == ()


def test_v100x10_has_the_islands_of_its_builders_report() -> None:
    machine = detect("v100x10")
    assert machine.driver == "580.126.20"
    assert [gpu.compute_capability for gpu in machine.gpus] == ["7.0"] * 10
    assert machine.nvlink_groups == ((0, 1, 2, 3), (4, 5, 8, 9), (6, 7))
    assert machine.gpus[6].links == {"7": 6}
    assert all(sum(gpu.links.values()) == 6 for gpu in machine.gpus)


@pytest.mark.parametrize(("name", "count"), [("h200", 1), ("h200x2", 2)])
def test_h200_as_recorded(name: str, count: int) -> None:
    machine = detect(name)
    assert (machine.driver, machine.cuda) == ("580.159.04", "13.0")
    assert [gpu.memory_mib for gpu in machine.gpus] == [150754820096 // 2**20] * count
    assert [gpu.memory_mib for gpu in machine.gpus] == [143771] * count
    assert [gpu.memory_free_mib for gpu in machine.gpus] == [143155] * count
    assert [gpu.bandwidth_gbs for gpu in machine.gpus] == [4800] * count
    assert machine.nvlink_groups == (() if count == 1 else ((0, 1),))
    assert [dict(gpu.links) for gpu in machine.gpus] == ([{}] if count == 1 else [{"1": 18}, {"0": 18}])


def test_rtx4090x2_has_no_nvlink() -> None:
    machine = detect("rtx4090x2")
    assert [gpu.memory_mib for gpu in machine.gpus] == [24564, 24564]
    assert machine.nvlink_groups == ()


@pytest.mark.parametrize(
    ("name", "gpu", "count", "mib", "capability"),
    [
        # What nvidia-smi shows of these cards in public reports; vendor's table of compute capabilities.
        ("rtx5090", "NVIDIA GeForce RTX 5090", 1, 32607, "12.0"),
        ("a100x4", "NVIDIA A100-SXM4-40GB", 4, 40960, "8.0"),
        ("t4", "Tesla T4", 1, 16384 - 16384 // 16, "7.5"),
        ("gh200", "NVIDIA GH200 480GB", 1, 97871, "9.0"),
        ("b200x8", "NVIDIA B200", 8, 183359, "10.0"),
        ("wsl-rtx4070", "NVIDIA GeForce RTX 4070", 1, 12282, "8.9"),
        ("dgx1", "Tesla V100-SXM2-32GB", 8, 32768, "7.0"),
        ("hgx-h100x8", "NVIDIA H100 80GB HBM3", 8, 81559, "9.0"),
    ],
)
def test_cards_as_nvidia_smi_shows_them(name: str, gpu: str, count: int, mib: int, capability: str) -> None:
    machine = detect(name)
    assert {(each.name, each.memory_mib, each.compute_capability) for each in machine.gpus} == {
        (gpu, mib, capability)
    }
    assert len(machine.gpus) == count
    assert all(each.bandwidth_gbs for each in machine.gpus)
    assert all(each.usable and not each.problems for each in machine.gpus)
    assert len({each.uuid for each in machine.gpus}) == len({each.bus_id for each in machine.gpus}) == count


@pytest.mark.parametrize(
    ("name", "groups", "links"),
    [
        # Polaris (ALCF): NV4 between every pair. HGX H100 and B200: 18 NVLinks into the NVSwitches.
        ("a100x4", ((0, 1, 2, 3),), {4}),
        ("hgx-h100x8", (tuple(range(8)),), {18}),
        ("b200x8", (tuple(range(8)),), {18}),
        ("dgx1", ((0, 1, 2, 3), (4, 5, 6, 7)), {1, 2}),
    ],
)
def test_how_the_gpus_are_joined(name: str, groups: tuple[tuple[int, ...], ...], links: set[int]) -> None:
    machine = detect(name)
    assert machine.nvlink_groups == groups
    assert {count for gpu in machine.gpus for count in gpu.links.values()} == links
    for gpu in machine.gpus:
        assert all(machine.gpus[int(peer)].links[str(gpu.index)] == n for peer, n in gpu.links.items())


def test_a_dgx1_uses_all_six_links_of_each_gpu() -> None:
    assert {sum(gpu.links.values()) for gpu in detect("dgx1").gpus} == {6}


def test_thor_works_in_the_hosts_memory_and_gh200_does_not() -> None:
    (thor,), (grace,) = detect("thor").gpus, detect("gh200").gpus
    assert (thor.unified, thor.memory_mib) == (True, detect("thor").memory.total_mib)
    assert (grace.unified, grace.memory_mib) == (False, 97871)


def test_wsl_is_told_apart() -> None:
    machine = detect("wsl-rtx4070")
    assert (machine.wsl, "microsoft" in machine.kernel) == (True, True)


def test_a_card_without_its_driver() -> None:
    machine = detect("no-driver")
    assert machine.gpus == ()
    assert machine.cards is not None
    assert [card.driver for card in machine.cards] == ["nouveau"]


def test_no_gpu() -> None:
    machine = detect("no-gpu")
    assert (machine.gpus, machine.problems, machine.driver) == ((), ("card-missing",), None)


def test_an_edited_capability_is_taken_from_the_copy(tmp_path: Path) -> None:
    document = bundled("gb10")
    document["machine"]["gpus"][0]["compute_capability"] = "7.0"
    machine = load_machine(saved(tmp_path, document))
    assert machine.gpus[0].capability == 70
    assert machine.gpus[0].memory_mib == 124610
    assert machine.simulated == str(tmp_path / "machine.json")


@pytest.mark.parametrize("where", ["host", "gpu"])
def test_half_the_memory_is_half_the_memory(tmp_path: Path, where: str) -> None:
    document = bundled("gb10")
    if where == "host":
        document["machine"]["memory"]["total_mib"] //= 2
    else:
        document["machine"]["gpus"][0]["memory_mib"] = document["machine"]["memory"]["total_mib"] // 2
    (gpu,) = load_machine(saved(tmp_path, document)).gpus
    assert (gpu.memory_mib, gpu.unified) == (62305, True)
    assert gpu.memory_free_mib <= gpu.memory_mib


@pytest.mark.parametrize("name", NAMES)
def test_what_detect_prints_can_be_loaded_again(tmp_path: Path, name: str) -> None:
    machine = load_machine(name)
    printed = {"machine": msgspec.to_builtins(machine), "checks": [{"id": "gpu", "status": "ok"}]}
    again = load_machine(saved(tmp_path, printed))
    assert msgspec.structs.replace(again, simulated=name) == machine


def test_problems_survive_being_printed_and_loaded(tmp_path: Path) -> None:
    document = bundled("h200x2")
    document["machine"]["gpus"][1] = {"index": 1, "name": "", "errors": {"device": "GpuIsLost"}}
    machine = load_machine(saved(tmp_path, document))
    again = load_machine(saved(tmp_path, {"machine": msgspec.to_builtins(machine)}))
    assert machine.gpus[1].problems == ("gpu-lost",)
    assert again == machine


def test_an_unknown_name_offers_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="v100x10") as caught:
        load_machine("v100x8")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("path", ["missing.json", "no/such/machine"])
def test_a_missing_file_is_named(path: str) -> None:
    with pytest.raises(UsageError, match="There is no machine file") as caught:
        load_machine(path)
    assert "gb10" in caught.value.hint


def test_a_folder_is_not_a_machine(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Cannot read the machine file"):
        load_machine(str(tmp_path))


MEMORY = {"total_mib": 1, "available_mib": 1}


def machine(**fields: object) -> dict[str, object]:
    return {"machine": {"arch": "x86_64", "os": "", "memory": MEMORY, **fields}}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "line 1, column 1"),
        ('{"machine": {\n  "arch": "x86_64",\n  oops', "line 3, column 3"),
        ("[" * 100_000, "cannot be used"),
        ("{}", r"missing required field `machine`.*at the top"),
        ({"machine": {"arch": "x86_64"}}, r"missing required field `os`.*at machine\)"),
        (machine(gpus=[{"index": 0, "name": "a", "memory_mib": "24"}]), r"at machine\.gpus\[0\]\.memory_mib"),
        (
            machine(gpus=[{"index": 0, "name": "a", "memory_mib": -1}]),
            r">= 0.*at machine\.gpus\[0\]\.memory_mib",
        ),
        (machine(gpus=[{"index": 0, "name": "a"}] * 2), r"used twice.*at machine\.gpus\[1\]\.index"),
        (
            machine(gpus=[{"index": 0, "name": "a", "compute_capability": "sm_70"}]),
            r"sm_70 is not a compute capability.*machine\.gpus\[0\]\.compute_capability",
        ),
        (machine(problems="x" * (5 * 1024 * 1024)), "too large"),
    ],
)
def test_a_file_that_cannot_be_used_names_the_place(tmp_path: Path, content: object, expected: str) -> None:
    path = saved(tmp_path, content)
    with pytest.raises(CorruptDataError, match=expected) as caught:
        load_machine(path)
    assert path in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code == 2


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_bytes(b'{"machine": {"arch": "\xff\xfe"}}')
    with pytest.raises(CorruptDataError, match="UTF-8"):
        load_machine(str(path))


def test_links_to_a_gpu_that_was_cut_out_are_ignored(tmp_path: Path) -> None:
    document = bundled("v100x10")
    del document["machine"]["gpus"][3]
    assert load_machine(saved(tmp_path, document)).nvlink_groups == ((0, 1, 2), (4, 5, 8, 9), (6, 7))


def test_a_machine_can_be_built_from_a_reading_alone() -> None:
    reading = decode_machine_file(json.dumps(machine()).encode(), "x").machine
    assert machine_from(reading).simulated is None


def test_any_number_of_gpus_is_read(tmp_path: Path) -> None:
    document = json.loads((resources.files("assets") / "machines" / "h200.json").read_text())
    (gpu,) = document["machine"]["gpus"]
    document["machine"]["gpus"] = [{**gpu, "index": index} for index in range(200)]
    file = tmp_path / "many.json"
    file.write_text(json.dumps(document))
    assert [gpu.index for gpu in load_machine(str(file)).gpus] == list(range(200))
