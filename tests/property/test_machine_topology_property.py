"""What holds for NVLink groups on any wiring."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wizard.machine import Gpu, load_machine
from wizard.machine.topology import nvlink_groups


def gpu(index: int, links: dict[int, int]) -> Gpu:
    return Gpu(
        index=index,
        name="GPU",
        uuid="",
        compute_capability="9.0",
        memory_mib=1024,
        memory_free_mib=1024,
        memory_origin="measured",
        unified=False,
        bandwidth_gbs=None,
        architecture="",
        links={str(peer): count for peer, count in links.items()},
    )


def renumbered(gpus: tuple[Gpu, ...], places: list[int]) -> list[Gpu]:
    return [
        gpu(places[old.index], {places[int(peer)]: count for peer, count in old.links.items()})
        for old in gpus
    ]


def moved(groups: tuple[tuple[int, ...], ...], places: list[int]) -> tuple[tuple[int, ...], ...]:
    return tuple(sorted(tuple(sorted(places[index] for index in group)) for group in groups))


@st.composite
def wirings(draw: st.DrawFn) -> tuple[Gpu, ...]:
    size = draw(st.integers(0, 12))
    pairs = draw(
        st.dictionaries(st.sampled_from(list(combinations(range(size), 2)) or [(0, 1)]), st.integers(1, 6))
    )
    links: dict[int, dict[int, int]] = {index: {} for index in range(size)}
    for (a, b), count in pairs.items():
        if b < size:
            links[a][b] = links[b][a] = count
    return tuple(gpu(index, links[index]) for index in range(size))


@given(wirings(), st.randoms())
def test_groups_are_disjoint_cliques_and_leave_no_linked_pair(gpus: tuple[Gpu, ...], random: Any) -> None:
    groups = nvlink_groups(gpus)
    members = [index for group in groups for index in group]
    assert len(members) == len(set(members))
    for group in groups:
        assert len(group) > 1
        assert all(gpus[a].links.get(str(b)) for a, b in combinations(group, 2))
    left = set(range(len(gpus))) - set(members)
    assert not any(gpus[a].links.get(str(b)) for a, b in combinations(sorted(left), 2))
    shuffled = list(gpus)
    random.shuffle(shuffled)
    assert nvlink_groups(shuffled) == groups


@given(st.permutations(range(10)))
def test_renumbering_the_ten_v100_renumbers_their_islands(places: list[int]) -> None:
    gpus = load_machine("v100x10").gpus
    assert nvlink_groups(renumbered(gpus, places)) == moved(((0, 1, 2, 3), (4, 5, 8, 9), (6, 7)), places)


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(1, 18)), max_size=4), st.data())
def test_renumbering_islands_without_links_between_them(
    islands: list[tuple[int, int]], data: st.DataObject
) -> None:
    gpus: list[Gpu] = []
    expected = []
    for size, count in islands:
        indices = range(len(gpus), len(gpus) + size)
        gpus += [gpu(index, {peer: count for peer in indices if peer != index}) for index in indices]
        if size > 1:
            expected.append(tuple(indices))
    places = data.draw(st.permutations(range(len(gpus))))
    assert nvlink_groups(renumbered(tuple(gpus), places)) == moved(tuple(expected), places)
