"""NVLink groups on boards whose wiring is published."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from wizard.machine import Gpu
from wizard.machine.topology import nvlink_groups

Links = Mapping[tuple[int, int], int]

# nvidia-smi topo -m of a DGX-1 with V100: two fully meshed quads, each GPU also linked to one of the other.
DGX1: Links = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2, (2, 6): 1,
    (3, 7): 1, (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
}  # fmt: skip


def everyone(*groups: range | tuple[int, ...], count: int = 2) -> Links:
    return {(a, b): count for group in groups for a in group for b in group if a < b}


def board(size: int, links: Links, names: Mapping[int, str] | None = None) -> list[Gpu]:
    """GPUs from 0; of a pair only the lower index reports links, as when the other side is unreadable."""
    return [
        Gpu(
            index=index,
            name=(names or {}).get(index, "GPU"),
            uuid="",
            compute_capability="9.0",
            memory_mib=1024,
            memory_free_mib=1024,
            memory_origin="measured",
            unified=False,
            bandwidth_gbs=None,
            architecture="",
            links={str(b): count for (a, b), count in links.items() if a == index},
        )
        for index in range(size)
    ]


@pytest.mark.parametrize(
    ("size", "links", "expected"),
    [
        pytest.param(0, {}, (), id="no GPU"),
        pytest.param(1, {}, (), id="one GPU"),
        pytest.param(16, {}, (), id="no NVLink"),
        pytest.param(8, everyone(range(8), count=18), (tuple(range(8)),), id="HGX"),
        pytest.param(16, everyone(range(16), count=6), (tuple(range(16)),), id="DGX-2"),
        pytest.param(72, everyone(range(72), count=18), (tuple(range(72)),), id="NVL72"),
        pytest.param(8, DGX1, ((0, 1, 2, 3), (4, 5, 6, 7)), id="DGX-1"),
        pytest.param(4, {(0, 2): 4, (1, 3): 4}, ((0, 2), (1, 3)), id="two bridged pairs"),
        pytest.param(4, {(0, 1): 1, (1, 2): 1, (2, 3): 1, (0, 3): 1}, ((0, 1), (2, 3)), id="ring"),
        pytest.param(4, {(2, 0): 1, (0, 1): 1, (1, 3): 1}, ((0, 2), (1, 3)), id="chain"),
        pytest.param(3, everyone(range(3)), ((0, 1, 2),), id="three"),
        pytest.param(3, {(0, 1): 1, (0, 2): 6}, ((0, 2),), id="the stronger pair"),
        pytest.param(
            10,
            {**everyone((0, 1, 2, 3), (4, 5, 8, 9)), (6, 7): 6},
            ((0, 1, 2, 3), (4, 5, 8, 9), (6, 7)),
            id="ten V100",
        ),
    ],
)
def test_groups(size: int, links: Links, expected: tuple[tuple[int, ...], ...]) -> None:
    assert nvlink_groups(board(size, links)) == expected


def test_models_never_mix() -> None:
    gpus = board(4, everyone(range(4)), names={0: "A", 1: "A", 2: "B", 3: "B"})
    assert nvlink_groups(gpus) == ((0, 1), (2, 3))


def test_a_made_up_wiring_with_billions_of_cliques_still_gives_groups() -> None:
    """Everyone linked to all but one: 2 to the 32nd maximal cliques, each of 32 GPUs."""
    links = {(a, b): 1 for a in range(64) for b in range(a + 1, 64) if b != a + 32}
    groups = nvlink_groups(board(64, links))
    assert [len(group) for group in groups] == [32, 32]
    assert sorted(gpu for group in groups for gpu in group) == list(range(64))
