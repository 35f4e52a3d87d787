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

    This is Bellman-Ford from all nodes at once; each edge has a source, a target, and a cost. A
    path is shorter only if it saves more than `tolerance`, so that rounding creates no cycle.

    >>> source, target = np.array([0, 1, 2, 1]), np.array([1, 2, 0, 0])
    >>> find_negative_cycle(source, target, np.array([1, 1, -3, 5]))
    [0, 1, 2]
    >>> find_negative_cycle(source, target, np.array([1, 1, -2, 5]))
    []
    """
    if not len(cost):
        return []
    node_count = int(max(source.max(), target.max())) + 1
    distance = np.zeros(node_count, cost.dtype)
    previous = np.full(node_count + 1, node_count, np.int64)  # the last element is a sentinel
    while True:
        path_cost = distance[source] + cost
        new_distance = distance.copy()
        np.minimum.at(new_distance, target, path_cost)
        improves = (path_cost == new_distance[target]) & (path_cost < distance[target] - tolerance)
        if not improves.any():
            return []
        previous[target[improves]] = source[improves]
        distance[target[improves]] = path_cost[improves]
        ancestor = previous
        for _ in range(node_count.bit_length()):
            ancestor = ancestor[ancestor]
        # More than `node_count` steps back, each node reaches the sentinel or a node on a cycle.
        cycle_nodes: list[int] = ancestor[ancestor != node_count].tolist()
        if cycle_nodes:
            cycle = cycle_nodes[:1]
            while (predecessor := int(previous[cycle[-1]])) != cycle[0]:
                cycle.append(predecessor)
            return cycle[::-1]
