"""Find a cycle of negative cost in a directed graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def find_negative_cycle(
    source: NDArray[np.integer],
    target: NDArray[np.integer],
    cost: NDArray[Any],
    tolerance: float = 0,
) -> list[int]:
    """Return the nodes of a cycle of negative cost, in order; empty if there is none.

    Bellman-Ford from all nodes at once: each edge has a source, a target, and a cost. A path is
    shorter than another only by more than `tolerance`, so that rounding makes no cycle.

    Examples
    --------
    >>> source, target = np.array([0, 1, 2, 1]), np.array([1, 2, 0, 0])
    >>> find_negative_cycle(source, target, np.array([1, 1, -3, 5]))
    [0, 1, 2]
    >>> find_negative_cycle(source, target, np.array([1, 1, -2, 5]))
    []
    """
    if not len(cost):
        return []
    nodes = int(max(source.max(), target.max())) + 1
    distance = np.zeros(nodes, cost.dtype)
    previous = np.full(nodes + 1, nodes, np.int64)  # the last cell is where all paths begin
    while True:
        through = distance[source] + cost
        shortest = distance.copy()
        np.minimum.at(shortest, target, through)
        used = (through == shortest[target]) & (through < distance[target] - tolerance)
        if not used.any():
            return []
        previous[target[used]] = source[used]
        distance[target[used]] = through[used]
        jump = previous
        for _ in range(nodes.bit_length()):
            jump = jump[jump]
        on_cycle: list[int] = jump[
            jump != nodes
        ].tolist()  # so far back that only a cycle's nodes remain
        if on_cycle:
            cycle = on_cycle[:1]
            while (before := int(previous[cycle[-1]])) != cycle[0]:
                cycle.append(before)
            return cycle[::-1]
