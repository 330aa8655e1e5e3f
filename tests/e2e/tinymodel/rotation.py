"""How far back the model looks: a query and a key that find each other at one distance alone.

Rotary embedding turns pair j of a query or key by `THETA ** (-2j / HEAD)` radians for each token of its
position. If the query is turned back by `distance` tokens beforehand, its product with a key d tokens back
is the mean over the pairs of `cos(rate_j * (d - distance))`: 1 at exactly `distance`, and below 0.84 at any
other of 131,072 tokens. The base is far smaller than usual for that: all pairs turn fast enough to tell
neighbours apart, and no two at the same pace.
"""

from __future__ import annotations

import math

HEAD = 128
THETA = 4.0


def rates() -> list[float]:
    """Radians a token by which rotary embedding turns each pair."""
    return [THETA ** (-2 * pair / HEAD) for pair in range(HEAD // 2)]


def agreement(offset: int) -> float:
    """The product, 1 at best, of the query with a key `offset` tokens beside the wanted one."""
    turns = rates()
    return sum(math.cos(rate * offset) for rate in turns) / len(turns)
