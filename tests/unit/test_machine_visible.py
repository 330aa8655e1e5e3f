"""CUDA_VISIBLE_DEVICES by the rules of the CUDA programming guide."""

from __future__ import annotations

import msgspec
import pytest

from wizard.machine import GpuReading, load_machine, machine_from
from wizard.machine.visible import hidden_gpus

GPUS = tuple(GpuReading(index=index, name="NVIDIA H200", uuid=f"GPU-{index}a00-b") for index in range(4))


@pytest.mark.parametrize(
    ("value", "visible"),
    [
        (None, {0, 1, 2, 3}),
        ("", set()),
        ("0", {0}),
        ("2,3", {2, 3}),
        (" 3 , 1 ", {1, 3}),
        ("0,9,1", {0}),
        ("-1", set()),
        ("1,1,2", {1}),
        ("GPU-2a", {2}),
        ("gpu-2a", set()),
        ("GPU-", set()),
        ("GPU-3A00-B,GPU-0", {0, 3}),
        ("MIG-77", set()),
        ("NoDevFiles", set()),
        ("9" * 5000, set()),
        ("0," + "9" * 5000, {0}),
        ("\N{ARABIC-INDIC DIGIT ONE}", set()),
        ("\N{SUPERSCRIPT TWO}", set()),
        ("0," + "x," * 10_000 + "1", {0}),
        (",".join(map(str, range(10_000))), {0, 1, 2, 3}),
        ("GPU-\ud800", set()),
    ],
)
def test_what_programs_see(value: str | None, visible: set[int]) -> None:
    assert hidden_gpus(value, GPUS) == {0, 1, 2, 3} - visible


def test_a_hidden_gpu_is_listed_and_not_used() -> None:
    memory = load_machine("h200").memory
    gpus = tuple(msgspec.structs.replace(gpu, memory_mib=1024, compute_capability="9.0") for gpu in GPUS[:2])
    fields = {"arch": "x86_64", "os": "", "gpus": gpus, "memory": memory, "visible_devices": "1"}
    from wizard.machine import Reading

    first, second = machine_from(Reading(**fields)).gpus  # type: ignore[arg-type]
    assert (first.hidden, first.usable) == (True, False)
    assert (second.hidden, second.usable) == (False, True)
