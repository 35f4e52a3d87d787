"""Decide how much of each group of ranges each zone reads: a transport problem with few zones.

The ranges of a group are near to the same zones, and were last read in the same zone. Work moves
between zones along the cheapest path. A zone may give away work that is also near to another zone,
to make room for work that is near to it alone. On a graph with one node per zone, required moves
follow successive shortest paths, and optional moves follow negative cycles. Ties between required
moves go to the first zone and the first group.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.negative_cycle import find_negative_cycle

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Flags, Floats, Ints

#: Costs per unit of work, relative to the cost of crossing zones.
_MOVE_COST = 0.01  # the work moves to another zone
_BEYOND_QUOTA_COST = 0.1  # the work exceeds its zone's quota but not the limit
#: Minimum saving of a path of moves, so that most of the moved work no longer crosses zones.
_MIN_GAIN = 0.5
#: Share of all work below which an amount is a rounding error; also the tolerance of costs.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of ranges (one element per group)."""

    work: Floats
    #: Zone that read the group last; -1 if none.
    home: Ints
    #: Whether each zone (column) is near to each group (row): with replicas, or if unknown.
    near: Flags
    #: Whether it pays to move the group out of a zone without replicas.
    pays: Flags


@dataclass(frozen=True, eq=False)
class ZoneCapacity:
    """Work that each zone takes (one element per zone)."""

    quota: Floats  # fair share
    fill_level: Floats  # optional moves fill a zone only up to this level
    limit: Floats  # work above this must leave the zone


def assign_groups_to_zones(groups: Groups, capacity: ZoneCapacity) -> Floats:
    """Return how much work of each group (row) each zone (column) reads.

    1. Keep each group in its zone; a group without a zone starts in an extra column.
    2. Move work out of zones beyond their limit, down to their fill level, and out of the extra
       column, to near zones first.
    3. Move groups out of zones without replicas, if it pays, to near zones below their fill level.

    >>> groups = Groups(np.array([6.0, 2.0]), np.array([0, -1]), np.eye(2) > 0, np.ones(2) > 0)
    >>> assign_groups_to_zones(groups, ZoneCapacity(*np.full((3, 2), 4.0))).tolist()
    [[4.0, 2.0], [0.0, 2.0]]
    """
    # 1. Keep each group in its zone.
    group_count, zone_count = groups.near.shape
    epsilon = max(float(groups.work.sum()) * _ROUNDING, 1e-300)
    is_reachable = np.any(groups.near, axis=1, keepdims=True)
    crosses = np.asarray(~groups.near & is_reachable, np.float64)
    has_home: Flags = np.asarray(groups.home >= 0, np.bool_)
    row = np.arange(group_count)
    is_elsewhere = groups.home[:, None] != np.arange(zone_count)
    cost = crosses + _MOVE_COST * np.logical_and(has_home.reshape(-1, 1), is_elsewhere)
    cost_if_home_is_free = cost.copy()
    cost_if_home_is_free[row[has_home], groups.home[has_home]] = 0.0
    flow = np.zeros((group_count, zone_count + 1))  # the last column holds work without a zone
    flow[row, np.where(has_home, groups.home, zone_count)] = groups.work
    # 2. Move excess work.
    is_overloaded = flow[:, :zone_count].sum(axis=0) > capacity.limit + epsilon
    limit = np.append(np.where(is_overloaded, capacity.fill_level, capacity.limit), 0.0)
    _move_excess(flow, cost_if_home_is_free, capacity.quota, limit, epsilon)
    # 3. Move far work; step 2 already used the cheapest path for work without a home.
    if has_home.any():
        is_movable = has_home & groups.pays
        cost[~is_movable] = cost_if_home_is_free[~is_movable]
        _move_to_near_zones(flow, cost, capacity.fill_level, epsilon)
    return flow[:, :zone_count]


def _compute_cost_changes(cost: Floats) -> Floats:
    """Return each group's change of cost if it moves from a zone (or none) to another zone."""
    current_cost = np.column_stack((cost, np.zeros(len(cost))))
    return np.asarray(cost[:, None, :] - current_cost[:, :, None], np.float64)


def _find_cheapest_moves(flow: Floats, cost_changes: Floats, epsilon: float) -> tuple[Floats, Ints]:
    """Return the minimum cost (inf: none) of a move from a zone (row) to another, and its group."""
    move_cost = np.where((flow > epsilon)[:, :, None], cost_changes, np.inf)
    return move_cost.min(axis=0), move_cost.argmin(axis=0)


def _move_excess(flow: Floats, cost: Floats, quota: Floats, limit: Floats, epsilon: float) -> None:
    """Move work above a zone's limit to zones below theirs, in place, while there is a path."""
    cost_changes = _compute_cost_changes(cost)
    levels = quota.tolist(), limit.tolist()
    for _ in range(4 * flow.size + 50):
        load = flow.sum(axis=0).tolist()
        excess = [work - max_work for work, max_work in zip(load, levels[1], strict=True)]
        giver = excess.index(max(excess))
        if excess[giver] <= epsilon:
            return
        move_cost, group = _find_cheapest_moves(flow, cost_changes, epsilon)
        distance, predecessor = _find_shortest_paths(move_cost, giver)
        choices = [
            (distance[zone] + extra_cost, zone, i)  # ties go to the first zone
            for i, extra_cost in enumerate((0.0, _BEYOND_QUOTA_COST))
            for zone in range(len(quota))
            if load[zone] < levels[i][zone] - epsilon
        ]
        path_cost, target, i = min(choices, default=(math.inf, 0, 0))
        if path_cost == math.inf:
            return
        amount = min(excess[giver], levels[i][target] - load[target])
        path = [target]
        while path[-1] != giver:
            path.append(predecessor[path[-1]])
        _move_along_path(flow, path[::-1], group, amount)


def _move_to_near_zones(flow: Floats, cost: Floats, fill_level: Floats, epsilon: float) -> None:
    """Move work that crosses zones to near zones that are below their fill level, in place.

    The graph has one node more than zones, for free room. A cycle through that node fills a zone;
    any other cycle exchanges work between zones.
    """
    zone_count = len(fill_level)
    if not ((flow[:, :zone_count] > epsilon) & (cost > _MIN_GAIN)).any():
        return
    cost_changes = _compute_cost_changes(cost)
    for _ in range(4 * flow.size + 50):
        load = flow.sum(axis=0)[:zone_count]
        move_cost, group = _find_cheapest_moves(flow, cost_changes, epsilon)
        arc_cost = np.full((zone_count + 1, zone_count + 1), np.inf)
        arc_cost[:zone_count, :zone_count] = move_cost[:zone_count]
        arc_cost[:zone_count, zone_count] = np.where(load < fill_level - epsilon, 0.0, np.inf)
        arc_cost[zone_count, :zone_count] = 0.0
        source, target = np.nonzero(arc_cost < np.inf)
        cost_with_gain = arc_cost[source, target] + _MIN_GAIN / len(arc_cost)
        cycle = find_negative_cycle(source, target, cost_with_gain, _ROUNDING)
        if not cycle:
            return
        if zone_count in cycle:
            start = cycle.index(zone_count)
            path = cycle[start + 1 :] + cycle[:start]
            _move_along_path(flow, path, group, float(fill_level[path[-1]] - load[path[-1]]))
        else:
            _move_along_path(flow, [*cycle, cycle[0]], group, np.inf)


def _move_along_path(flow: Floats, path: list[int], group: Ints, amount: float) -> None:
    """Move up to `amount` along a path of zones, in place; `group` has the group of each step."""
    moves = [(int(group[a, b]), a, b) for a, b in itertools.pairwise(path)]
    amount = min(amount, *(float(flow[g, a]) for g, a, _ in moves))
    for g, a, b in moves:
        flow[g, a] -= amount
        flow[g, b] += amount


def _find_shortest_paths(move_cost: Floats, start: int) -> tuple[list[float], list[int]]:
    """Return the cost of the cheapest path to each zone, and each predecessor (Bellman-Ford)."""
    costs: list[list[float]] = move_cost.tolist()  # lists are faster than arrays for so few zones
    zones = range(move_cost.shape[1])
    distance, predecessor = list(costs[start]), [start for _ in zones]
    if start in zones:
        distance[start] = math.inf
    for _ in zones:
        last_distance, has_changed = list(distance), False
        for zone in zones:
            if zone == start:
                continue
            costs_through = [last_distance[middle] + costs[middle][zone] for middle in zones]
            shortest = min(costs_through)
            if shortest < last_distance[zone] - _ROUNDING:
                distance[zone], predecessor[zone] = shortest, costs_through.index(shortest)
                has_changed = True
        if not has_changed:
            break
    return distance, predecessor
