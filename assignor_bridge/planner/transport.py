"""How much of each group of ranges each zone reads: a transport problem with few zones.

A group is work that is alike for zones: near to the same ones, and read by the same one before.
Work is moved between zones along the cheapest path, of which there are few: a zone may pass on what
another one can read as well, so that what only it is near to has room (successive shortest paths,
and where nothing is forced negative cycles, on as many nodes as there are zones).
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

#: Costs of a unit of work: that crosses zones (1), that moves to another zone, and that is beyond
#: the zone's fair share, as long as it is inside the limit.
_MOVE, _BEYOND = 0.01, 0.1
#: Changes are made for the zones' sake only if most of a unit of work does not cross any more.
_LEAST_GAIN = 0.5
#: Share of all work that is none.
_NOTHING = 1e-9


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of ranges, a cell each; those of `near` a row each."""

    work: Floats
    #: Zone that read them last, -1 for none.
    home: Ints
    #: Zones that have replicas.
    near: Flags
    #: Whether it pays to move them out of a zone that has none.
    pays: Flags


@dataclass(frozen=True, eq=False)
class ZoneCapacity:
    """What each zone may have: its fair share, what it is filled to, and what it may keep."""

    fair: Floats
    filled: Floats
    limit: Floats


def assign_groups_to_zones(groups: Groups, room: ZoneCapacity) -> Floats:
    """Return how much of each group each zone reads: a row a group, a column a zone.

    What is in its zone stays, as far as that is not beyond the limit. What has no zone goes to one
    that is near, up to the limit. Then what is in a zone without replicas moves, if it pays, to
    one with replicas as long as that is not filled, directly or by letting others move on.
    """
    count, zones = groups.near.shape
    nothing = max(float(groups.work.sum()) * _NOTHING, 1e-300)
    reachable = np.any(groups.near, axis=1, keepdims=True)
    crosses = np.asarray(~groups.near & reachable, np.float64)
    at_home: Flags = np.asarray(groups.home >= 0, np.bool_)
    row = np.arange(count)
    elsewhere = groups.home[:, None] != np.arange(zones)
    cost = crosses + _MOVE * np.logical_and(at_home.reshape(-1, 1), elsewhere)
    stays = cost.copy()
    stays[row[at_home], groups.home[at_home]] = 0.0
    flow = np.zeros((count, zones + 1))  # the last column: what no zone has yet
    flow[row, np.where(at_home, groups.home, zones)] = groups.work
    overloaded = flow[:, :zones].sum(axis=0) > room.limit + nothing
    most = np.append(np.where(overloaded, room.filled, room.limit), 0.0)
    _move_excess(flow, stays, room.fair, most, nothing)
    if at_home.any():  # else no path could have been cheaper
        leaves = at_home & groups.pays
        cost[~leaves] = stays[~leaves]
        _move_to_near_zones(flow, cost, room.filled, nothing)
    return flow[:, :zones]


def _compute_cost_changes(cost: Floats) -> Floats:
    """Return what the cost of a group changes by from each zone, or none, to each other."""
    beside = np.column_stack((cost, np.zeros(len(cost))))
    return np.asarray(cost[:, None, :] - beside[:, :, None], np.float64)


def _find_cheapest_moves(flow: Floats, changes: Floats, nothing: float) -> tuple[Floats, Ints]:
    """Return the least cost at which a zone (row) can pass work on to another, and whose."""
    possible = np.where((flow > nothing)[:, :, None], changes, np.inf)
    return possible.min(axis=0), possible.argmin(axis=0)


def _move_excess(flow: Floats, cost: Floats, fair: Floats, most: Floats, nothing: float) -> None:
    """Move what zones have beyond the most that they may have, in place."""
    zones, changes = range(len(fair)), _compute_cost_changes(cost)
    shares, limits = fair.tolist(), most.tolist()
    for _ in range(4 * flow.size + 50):
        load = flow.sum(axis=0).tolist()
        excess = [has - may for has, may in zip(load, limits, strict=True)]
        giver = excess.index(max(excess))
        if excess[giver] <= nothing:
            return
        step, group = _find_cheapest_moves(flow, changes, nothing)
        distance, before = _find_shortest_paths(step, giver)
        ends = [d if load[z] < shares[z] - nothing else math.inf for z, d in enumerate(distance)]
        beyond = [
            d + _BEYOND if load[z] < limits[z] - nothing else math.inf
            for z, d in enumerate(distance)
        ]
        target = min(zones, key=lambda z: min(ends[z], beyond[z]))
        if min(ends[target], beyond[target]) == math.inf:
            return
        level = shares if ends[target] <= beyond[target] else limits
        amount = min(excess[giver], level[target] - load[target])
        path = [target]
        while path[-1] != giver:
            path.append(before[path[-1]])
        _move_along_path(flow, path[::-1], group, amount)


def _move_to_near_zones(flow: Floats, cost: Floats, filled: Floats, nothing: float) -> None:
    """Move what crosses zones to where it does not, in place, as long as zones are not filled.

    Room is one more node: a cycle through it fills a zone, one beside it swaps work.
    """
    zones = len(filled)
    if not ((flow[:, :zones] > nothing) & (cost > _LEAST_GAIN)).any():
        return
    changes = _compute_cost_changes(cost)
    for _ in range(4 * flow.size + 50):
        load = flow.sum(axis=0)[:zones]
        step, group = _find_cheapest_moves(flow, changes, nothing)
        arcs = np.full((zones + 1, zones + 1), np.inf)
        arcs[:zones, :zones] = step[:zones]
        arcs[:zones, zones] = np.where(load < filled - nothing, 0.0, np.inf)
        arcs[zones, :zones] = 0.0
        source, target = np.nonzero(arcs < np.inf)
        gains_enough = arcs[source, target] + _LEAST_GAIN / len(arcs)
        cycle = find_negative_cycle(source, target, gains_enough, _NOTHING)
        if not cycle:
            return
        if zones in cycle:
            start = cycle.index(zones)
            path = cycle[start + 1 :] + cycle[:start]
            _move_along_path(flow, path, group, float(filled[path[-1]] - load[path[-1]]))
        else:
            _move_along_path(flow, [*cycle, cycle[0]], group, np.inf)


def _move_along_path(flow: Floats, path: list[int], group: Ints, amount: float) -> None:
    steps = [(int(group[a, b]), a, b) for a, b in itertools.pairwise(path)]
    amount = min(amount, *(float(flow[g, a]) for g, a, _ in steps))
    for g, a, b in steps:
        flow[g, a] -= amount
        flow[g, b] += amount


def _find_shortest_paths(step: Floats, start: int) -> tuple[list[float], list[int]]:
    """Return the cost of the cheapest path to each zone, and the node before it (Bellman-Ford).

    In plain Python: arrays of so few zones take longer.
    """
    costs: list[list[float]] = step.tolist()
    zones = range(step.shape[1])
    distance, before = list(costs[start]), [start for _ in zones]
    if start in zones:
        distance[start] = math.inf
    for _ in zones:
        known, shorter = list(distance), False
        for zone in zones:
            if zone == start:
                continue
            through = [known[last] + costs[last][zone] for last in zones]
            least = min(through)
            if least < known[zone] - _NOTHING:
                distance[zone], before[zone], shorter = least, through.index(least), True
        if not shorter:
            break
    return distance, before
