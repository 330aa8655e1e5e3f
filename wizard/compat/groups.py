"""Which GPUs could serve one model together: a single one, part of an NVLink island, islands in a row."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from wizard.machine import Gpu, Machine

_SIZES = (2, 4, 8)
"""Sizes of a tensor-parallel group: attention heads divide by powers of two."""


class GpuGroup(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs in the order of their ranks, split into ``pipeline`` stages of ``tensor`` GPUs each."""

    gpus: tuple[Gpu, ...]
    tensor: int
    pipeline: int = 1

    @property
    def indices(self) -> tuple[int, ...]:
        """NVML indices, in the order of ranks."""
        return tuple(gpu.index for gpu in self.gpus)

    @property
    def capability(self) -> int:
        """The lowest compute capability in the group, times ten."""
        return min(gpu.capability for gpu in self.gpus)

    @property
    def smallest(self) -> Gpu:
        """The GPU with the least memory: it decides for all."""
        return min(self.gpus, key=lambda gpu: gpu.memory_mib)


def gpu_groups(machine: Machine, allowed: Sequence[int] | None = None) -> tuple[GpuGroup, ...]:
    """Every sensible group, smallest first; never a tensor-parallel group across islands or models.

    GPUs without NVLink form groups of equal cards over PCIe. ``allowed`` restricts to some indices. Of groups
    that hold the same, only the first is there.
    """
    usable = [gpu for gpu in machine.gpus if gpu.usable and (allowed is None or gpu.index in allowed)]
    by_index = {gpu.index: gpu for gpu in usable}
    islands = [
        tuple(by_index[index] for index in island if index in by_index) for island in machine.nvlink_groups
    ]
    linked = {gpu.index for island in islands if len(island) > 1 for gpu in island}
    pools = [island for island in islands if len(island) > 1] + _equal_cards(usable, linked)

    singles = sorted(usable, key=lambda gpu: (-gpu.memory_mib, gpu.index))
    groups = [GpuGroup(gpus=(gpu,), tensor=1) for gpu in singles]
    groups += [
        GpuGroup(gpus=pool[:size], tensor=size) for size in _SIZES for pool in pools if len(pool) >= size
    ]
    groups += _rows_of_islands(islands)
    different: dict[tuple[object, ...], GpuGroup] = {}
    for group in groups:
        different.setdefault(_holding(group), group)
    return tuple(sorted(different.values(), key=lambda group: len(group.gpus)))


def _holding(group: GpuGroup) -> tuple[object, ...]:
    """All that decides what fits into a group and how fast it is: such groups differ only in their place."""
    gpu = group.smallest
    memory = (gpu.memory_mib, gpu.memory_free_mib, gpu.memory_origin, gpu.unified, gpu.bandwidth_gbs)
    return (
        gpu.name,
        gpu.compute_capability,
        *memory,
        group.capability,
        group.tensor,
        group.pipeline,
        len(group.gpus),
    )


def _equal_cards(usable: Sequence[Gpu], linked: set[int]) -> list[tuple[Gpu, ...]]:
    """Cards of one model and size that no NVLink joins: tensor parallelism works over PCIe, slower."""
    pools: dict[tuple[str, int], tuple[Gpu, ...]] = {}
    for gpu in usable:
        if gpu.index not in linked:
            key = (gpu.name, gpu.memory_mib)
            pools[key] = (*pools.get(key, ()), gpu)
    return [pool for pool in pools.values() if len(pool) > 1]


def _rows_of_islands(islands: Sequence[tuple[Gpu, ...]]) -> list[GpuGroup]:
    """Equal islands one behind the other: tensor parallel inside, pipeline parallel across."""
    by_size: dict[int, list[tuple[Gpu, ...]]] = {}
    for island in islands:
        if len(island) in _SIZES:
            by_size.setdefault(len(island), []).append(island)
    rows = []
    for size, equal in by_size.items():
        if len(equal) > 1:
            members = tuple(gpu for island in equal for gpu in island)
            rows.append(GpuGroup(gpus=members, tensor=size, pipeline=len(equal)))
    return rows
