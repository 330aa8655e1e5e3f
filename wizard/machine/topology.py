"""NVLink groups: which GPUs are all linked to each other, so that tensor parallelism stays on NVLink."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice

from wizard.machine.types import Gpu

_LOOKED_AT = 2000
"""Cliques compared for one group. Wired machines have a few dozen; a made-up file can have billions."""

_Neighbours = Mapping[int, frozenset[int]]


def nvlink_groups(gpus: Sequence[Gpu]) -> tuple[tuple[int, ...], ...]:
    """The GPUs split into groups of two or more in which every pair is linked, lowest index first.

    A group is a clique and not merely connected, because vLLM counts a set of GPUs as NVLinked only when
    every pair of it is (``is_fully_connected`` in ``vllm/platforms/cuda.py``): of the two quads of a DGX-1,
    which a few links join, each is a group of its own. Models and memory sizes never mix. The largest group
    is taken first; among equals the one with most links inside, then the one with fewest links to the
    outside, and only then the one with the lowest indices, so that numbering decides nothing that the
    wiring can decide.
    """
    links = _linked_peers(gpus)
    left = frozenset(gpu for gpu, peers in links.items() if peers)
    groups: list[tuple[int, ...]] = []
    while best := _best_group(left, links):
        groups.append(best)
        left -= set(best)
    return tuple(sorted(groups))


def _linked_peers(gpus: Sequence[Gpu]) -> dict[int, dict[int, int]]:
    """Links of each GPU by its equal peers; what either side reports counts, for one may be unreadable."""
    peers: dict[int, dict[int, int]] = {gpu.index: {} for gpu in gpus}
    for a, b in combinations(gpus, 2):
        if (a.name, a.memory_mib) == (b.name, b.memory_mib):
            count = max(a.links.get(str(b.index), 0), b.links.get(str(a.index), 0))
            if count:
                peers[a.index][b.index] = peers[b.index][a.index] = count
    return peers


def _best_group(left: frozenset[int], links: Mapping[int, Mapping[int, int]]) -> tuple[int, ...] | None:
    """The best clique among the GPUs in ``left``, or None when no two of them are linked."""
    inside = {gpu: {peer: count for peer, count in links[gpu].items() if peer in left} for gpu in left}
    neighbours = {gpu: frozenset(peers) for gpu, peers in inside.items()}

    def merit(clique: frozenset[int]) -> tuple[int, int, list[int]]:
        within = sum(inside[a][b] for a, b in combinations(clique, 2))
        outwards = sum(count for gpu in clique for peer, count in inside[gpu].items() if peer not in clique)
        return within, -outwards, [-gpu for gpu in sorted(clique)]

    cliques = [clique for clique in islice(_maximal_cliques(neighbours), _LOOKED_AT) if len(clique) > 1]
    longest = max(map(len, cliques), default=0)
    best = max((clique for clique in cliques if len(clique) == longest), key=merit, default=None)
    return tuple(sorted(best)) if best else None


def _maximal_cliques(neighbours: _Neighbours) -> Iterator[frozenset[int]]:
    """Every clique that no further GPU can join (Bron and Kerbosch 1973, with Tomita's choice of pivot).

    The pivot keeps the search near the cliques that exist: one behind a switch, one a GPU without links.
    """

    def extend(clique: frozenset[int], open_: set[int], done: set[int]) -> Iterator[frozenset[int]]:
        if not open_ and not done:
            yield clique
            return
        pivot = max(open_ | done, key=lambda gpu: len(neighbours[gpu] & open_))
        for gpu in sorted(open_ - neighbours[pivot]):
            yield from extend(clique | {gpu}, open_ & neighbours[gpu], done & neighbours[gpu])
            open_ = open_ - {gpu}
            done = done | {gpu}

    yield from extend(frozenset(), set(neighbours), set())
