"""lag-aware-sticky on whole partitions: the flagship where nothing may be split.

Promises, in order:

1. No member takes longer than 1.04 times what greedy longest-first (LPT) would reach, a member's
   time being its load over its capacity. LPT is within 4/3 of the best for equal capacities.
2. A partition stays with the member that owns it at the highest claimed generation, as long as that
   holds; a member beyond it gives up one partition if one is enough (the smallest such), else the
   largest first. What has no owner goes, largest first, to where it ends soonest, on the same
   executor (the part of the member id before the last `/`) if there is room.
3. When that misses 1, the LPT answer is taken, its shares handed to those that own most of them.

Ties go to the member and partition that come first by name. Racks are not looked at. Ours; Kafka
has nothing like it: `LagBasedPartitionAssignor` (KAFKA-5337) balances counts and forgets owners.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.claims import claims
from assignor_bridge.assignors.group import Assignment

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assignor_bridge.assignors.group import Group

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

#: How far beyond the greedy answer stickiness may go; promise 1.
_SLACK = 0.04


def lag_aware_sticky(group: Group) -> Assignment:
    """Balance the lags over the members' capacities, moving as little as that allows.

    Members that subscribe to different topics are balanced topic set by topic set: each partition
    may only go to a subscriber.
    """
    members = group.members
    capacity = np.array([m.capacity for m in members], np.float64)
    catalog = group.catalog
    # A partition without lag weighs a little, so that those are spread as well.
    lags = np.array(group.lag_list(), np.float64)
    weights = lags + max(float(lags.sum()), 1.0) * 1e-9 / max(1, len(lags))
    owner = claims(group).owner.astype(np.int64)
    executor = np.unique([m.id.rpartition("/")[0] or m.id for m in members], return_inverse=True)[1]
    result = np.full(catalog.total, -1, np.int64)
    load = np.zeros(len(members))
    for subscribers, topics in _subscription_classes(group):
        mine = np.flatnonzero(np.isin(catalog.topic_of, topics))
        index = np.array(subscribers, np.int64)
        local = np.full(len(members) + 1, -1, np.int64)
        local[index] = np.arange(len(index))
        placed = place_whole(
            weights[mine], local[owner[mine]], capacity[index], executor[index], load[index]
        )
        result[mine] = index[placed]
        load += np.bincount(result[mine], weights[mine], len(members))
    return Assignment(group, result)


def _subscription_classes(group: Group) -> list[tuple[tuple[int, ...], list[int]]]:
    """Topics that have the same subscribers, those with the fewest subscribers first."""
    classes: dict[tuple[int, ...], list[int]] = {}
    for topic, subscribers in group.subscribers.items():
        classes.setdefault(subscribers, []).append(group.catalog.index[topic])
    return sorted(classes.items(), key=lambda item: (len(item[0]), item[0]))


def place_whole(
    weights: Floats, owner: Ints, capacity: Floats, executor: Ints, taken: Floats | None = None
) -> Ints:
    """Give each weight to one slot; see the promises of this module.

    Parameters
    ----------
    owner
        Slot that had it last, -1 for none.
    capacity
        Relative speed of each slot.
    executor
        Executor of each slot: a neighbour on the same one is preferred to a stranger.
    taken
        Load that each slot has already.
    """
    load = np.zeros(len(capacity)) if taken is None else taken.copy()
    rows = np.lexsort((np.arange(len(weights)), -weights))
    greedy = _longest_first(rows, weights, load.copy(), capacity)
    final = load + np.bincount(greedy, weights, len(capacity))
    limit = float((final / capacity).max(initial=0.0)) * (1 + _SLACK) * capacity
    sticky = owner.copy()
    load += np.bincount(owner[owner >= 0], weights[owner >= 0], len(capacity))
    order = rows[np.argsort(owner[rows], kind="stable")]
    first = np.searchsorted(owner[order], np.arange(len(capacity) + 1))
    for slot in np.flatnonzero(load > limit).tolist():
        mine = order[first[slot] : first[slot + 1]]
        for row in _enough(mine, weights, float(load[slot] - limit[slot])):
            sticky[row] = -1
            load[slot] -= weights[row]
    homeless = rows[sticky[rows] < 0]
    homeless = _to_neighbours(homeless, weights, sticky, owner, load, limit, executor)
    sticky[homeless] = _longest_first(homeless, weights, load, capacity)[homeless]
    final = np.bincount(sticky, weights, len(capacity)) + (0 if taken is None else taken)
    if (final > limit * (1 + 1e-9)).any():
        return _relabelled(greedy, owner, weights, capacity, taken)
    return np.asarray(sticky)


def _enough(rows: Ints, weights: Floats, excess: float) -> list[int]:
    """Rows to give up, from those of one slot, heaviest first."""
    sizes = weights[rows]
    single = np.flatnonzero(sizes >= excess)
    if len(single):
        return [int(rows[single[-1]])]
    count = int(np.searchsorted(np.cumsum(sizes), excess)) + 1
    return [int(row) for row in rows[:count]]


def _to_neighbours(  # noqa: PLR0917
    homeless: Ints,
    weights: Floats,
    sticky: Ints,
    owner: Ints,
    load: Floats,
    limit: Floats,
    executor: Ints,
) -> Ints:
    """Place on another slot of the same executor where there is room; return the others."""
    left = []
    for row in homeless.tolist():
        if owner[row] >= 0:
            there = np.flatnonzero(executor == executor[owner[row]])
            room = limit[there] - load[there]
            best = int(there[room.argmax()])
            if load[best] + weights[row] <= limit[best]:
                sticky[row] = best
                load[best] += weights[row]
                continue
        left.append(row)
    return np.array(left, np.int64)


def _longest_first(rows: Ints, weights: Floats, load: Floats, capacity: Floats) -> Ints:
    """Heaviest first, each to the slot where it ends soonest; ties to the lower slot."""
    result = np.full(len(weights), -1, np.int64)
    heaps: list[tuple[float, list[tuple[float, int]]]] = []
    for speed in np.unique(capacity).tolist():
        heap = [(float(load[s]), s) for s in np.flatnonzero(capacity == speed).tolist()]
        heapq.heapify(heap)
        heaps.append((speed, heap))
    sizes = weights[rows].tolist()
    if len(heaps) == 1:
        heap = heaps[0][1]
        replace = heapq.heapreplace
        slots = []
        for size in sizes:
            least, slot = heap[0]
            slots.append(slot)
            replace(heap, (least + size, slot))
        result[rows] = slots
        return result
    for row, size in zip(rows.tolist(), sizes, strict=True):
        _, slot, heap = min(
            ((heap[0][0] + size) / speed, heap[0][1], heap) for speed, heap in heaps
        )
        heapq.heapreplace(heap, (heap[0][0] + size, slot))
        result[row] = slot
    return result


def _relabelled(
    greedy: Ints, owner: Ints, weights: Floats, capacity: Floats, taken: Floats | None
) -> Ints:
    """Hand the shares of an answer to the slots (of equal capacity) that own most of them."""
    if taken is not None and taken.any():
        return greedy
    both = np.flatnonzero(owner >= 0)
    pair = greedy[both] * len(capacity) + owner[both]
    pairs, where = np.unique(pair, return_inverse=True)
    common = np.bincount(where, weights[both])
    label = np.full(len(capacity), -1, np.int64)
    used = np.zeros(len(capacity), np.bool_)
    for i in np.lexsort((pairs, -common)).tolist():
        share, slot = divmod(int(pairs[i]), len(capacity))
        if label[share] < 0 and not used[slot] and capacity[share] == capacity[slot]:
            label[share] = slot
            used[slot] = True
    for share in np.flatnonzero(label < 0).tolist():
        free = np.flatnonzero(~used & (capacity == capacity[share]))
        label[share] = int(free[0])
        used[free[0]] = True
    return np.asarray(label[greedy])
