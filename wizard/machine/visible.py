"""Which GPUs ``CUDA_VISIBLE_DEVICES`` leaves to programs, by CUDA's own rules. NVML always sees all."""

from __future__ import annotations

from collections.abc import Sequence

from wizard.machine.types import GpuReading

_MOST_DIGITS = 9
"""A number with more names no GPU."""


def hidden_gpus(value: str | None, gpus: Sequence[GpuReading]) -> frozenset[int]:
    """Indices of the GPUs that programs do not see.

    Source: CUDA programming guide, environment variables. Numbers and (beginnings of) UUIDs are understood;
    the first entry that names no GPU hides itself and all after it; an empty value hides every GPU. Numbers
    are taken as NVML counts, which is CUDA's way with ``CUDA_DEVICE_ORDER=PCI_BUS_ID`` and on equal cards.
    """
    everyone = frozenset(gpu.index for gpu in gpus)
    if value is None:
        return frozenset()
    visible: set[int] = set()
    for entry in (entry.strip() for entry in value.split(",")):
        index = _named(entry, gpus)
        if index is None or index in visible:
            break
        visible.add(index)
    return everyone - visible


def _named(entry: str, gpus: Sequence[GpuReading]) -> int | None:
    if entry.isascii() and entry.isdecimal() and len(entry) <= _MOST_DIGITS:
        return next((gpu.index for gpu in gpus if gpu.index == int(entry)), None)
    if not entry.startswith("GPU-"):
        return None
    matching = [gpu.index for gpu in gpus if gpu.uuid.lower().startswith(entry.lower())]
    return matching[0] if len(matching) == 1 else None
