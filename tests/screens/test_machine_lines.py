"""How GPUs are written: a few with a bar each, many by NVLink group."""

from __future__ import annotations

import msgspec
import pytest

from screens import wording
from wizard.compat import badges
from wizard.machine import load_machine, machine_names


def test_ten_gpus_are_three_lines_one_an_island() -> None:
    lines = wording.gpu_lines(load_machine("v100x10"))
    assert [line.split("  ")[0] for line in lines] == ["GPU 0-3", "GPU 4,5,8,9", "GPU 6,7"]
    assert [line[-8:] for line in lines] == ["NVLink A", "NVLink B", "NVLink C"]


def test_the_group_of_the_plan_is_marked() -> None:
    lines = wording.gpu_lines(load_machine("v100x10"), planned=(4, 5, 8, 9))
    assert [line.endswith("in the plan") for line in lines] == [False, True, False]


def test_a_gpu_that_somebody_uses_stands_apart_with_what_it_has_left() -> None:
    machine = load_machine("hgx-h100x8")
    # 81,559 MiB in all, as nvidia-smi lists it with 60 GiB in use.
    busy = msgspec.structs.replace(machine.gpus[5], memory_free_mib=20 * 1024)
    gpus = tuple(busy if gpu.index == 5 else gpu for gpu in machine.gpus)
    lines = wording.gpu_lines(msgspec.structs.replace(machine, gpus=gpus))
    assert [line.split("  ")[0] for line in lines] == ["GPU 0-4,6,7", "GPU 5"]
    assert "20.0 free" in lines[1]
    assert "free" not in lines[0]
    assert len(lines[1]) <= 78


def test_one_gpu_shows_its_memory_as_a_bar_and_its_formats() -> None:
    line, memory = wording.gpu_lines(load_machine("gb10"))
    assert line.startswith("GPU 0  NVIDIA GB10  cc 12.1  shared 121.7 GiB")
    # 124,610 MiB in all, 115,787 available: 8.6 GiB of 121.7 are used, two of 24 marks.
    assert memory.strip().startswith("[##......................] 8.6 used, 113.1 free")
    assert memory.endswith("bf16 fp16 fp8 fp4")


@pytest.mark.parametrize("name", machine_names())
def test_every_recorded_machine_fits_into_80_columns(name: str) -> None:
    assert all(len(line) <= 78 for line in wording.gpu_lines(load_machine(name)))


@pytest.mark.parametrize(
    ("capability", "formats"),
    [
        (70, ("fp16",)),
        (75, ("fp16",)),
        (80, ("bf16", "fp16")),
        (89, ("bf16", "fp16", "fp8")),
        (121, ("bf16", "fp16", "fp8", "fp4")),
    ],
)
def test_the_formats_of_a_generation(capability: int, formats: tuple[str, ...]) -> None:
    # Tensor cores: bfloat16 from 8.0, FP8 from 8.9, FP4 from 10.0 on (NVIDIA's architecture documents).
    assert badges(capability) == formats
