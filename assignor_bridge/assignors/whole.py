"""`lag-aware-sticky` for whole partitions: groups, the library, and `assignor.split=false`.

In Spark `lag-aware-sticky` splits partitions, by another algorithm: `planner.place`.

Assumption: all members subscribe to the same topics. A member's time is its load divided by its
capacity; the ideal time is the total load divided by the total capacity. Promises, in order:

1. No member exceeds the limit: the time of the greedy longest-first (LPT) answer, or the ideal time
   plus `max_imbalance`, whichever is longer. LPT is within 4/3 of the best for equal capacities. If
   moves and swaps do not reach the limit, 1.04 times LPT is accepted.
2. A partition stays with the member whose claim is valid (see `claims`). Only a member above the
   limit releases partitions: the smallest sufficient one, or else the largest ones that fit
   elsewhere. If none fits, it swaps a partition for a smaller one. A released partition prefers a
   slot with room on the same executor (the member id before the last `/`); the others go, largest
   first, to the slot that then ends first.
3. If this breaks promise 1, the LPT answer is used, with each share at its main previous owner of
   equal capacity (if all members have the same subscription).

If subscriptions differ, each set of topics with the same subscribers is balanced on top of the
previous sets, starting with the fewest subscribers. Overall balance and stability are not promised.

Ties go to the first member and partition by name. Racks are ignored. Kafka has no counterpart:
`LagBasedPartitionAssignor` (KAFKA-5337) balances counts and ignores owners.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.claims import resolve_claims
from assignor_bridge.assignors.group import Assignment

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assignor_bridge.assignors.group import Group

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

#: Accepted excess over the greedy answer's time, as a fraction, if moves and swaps miss the limit.
_MAX_EXCESS_OVER_GREEDY = 0.04
_MAX_SWAP_SLOTS = 50  # maximum number of slots tried for a swap, starting with the most room
_ROUNDING_ERROR = 1e-9  # relative error of float sums


def assign_lag_aware_sticky(group: Group) -> Assignment:
    """Balance lags by the members' capacities, with few moves; the module lists the promises.

    >>> from assignor_bridge.assignors import Group, Member
    >>> owner = Member("C0", {"t0"}, {"t0": [1, 2]}, generation=4)
    >>> lags = {"t0": {0: 100_000, 1: 60_000, 2: 50_000}}
    >>> print(assign_lag_aware_sticky(Group((owner, Member("C1", {"t0"})), {"t0": 3}, lags)))
    C0: [t0p1, t0p2]
    C1: [t0p0]
    """
    members = group.members
    capacity = np.array([m.capacity for m in members], np.float64)
    catalog = group.catalog
    # A small weight is added to each lag, so that partitions without lag are balanced too.
    lags = np.array(group.lag_list(), np.float64)
    weights = lags + max(float(lags.sum()), 1.0) * 1e-9 / max(1, len(lags))
    owner = resolve_claims(group).owner.astype(np.int64)
    executor = np.unique([m.id.rpartition("/")[0] or m.id for m in members], return_inverse=True)[1]
    new_owner = np.full(catalog.total, -1, np.int64)
    load = np.zeros(len(members))
    topics_by_subscribers: dict[tuple[int, ...], list[int]] = {}
    for topic, subscribers in group.subscribers.items():
        topics_by_subscribers.setdefault(subscribers, []).append(catalog.index[topic])
    for subscribers in sorted(topics_by_subscribers, key=lambda members: (len(members), members)):
        ids = catalog.all_of(topics_by_subscribers[subscribers])
        member_of_slot = np.array(subscribers, np.int64)
        slot_of_member = np.full(len(members) + 1, -1, np.int64)  # the last cell is for -1
        slot_of_member[member_of_slot] = np.arange(len(member_of_slot))
        slot_of_row = place_whole(
            weights[ids],
            slot_of_member[owner[ids]],
            capacity[member_of_slot],
            executor[member_of_slot],
            base_load=load[member_of_slot],
        )
        new_owner[ids] = member_of_slot[slot_of_row]
        load += np.bincount(new_owner[ids], weights[ids], len(members))
    return Assignment(group, new_owner)


def place_whole(
    weights: Floats,
    owner: Ints,
    capacity: Floats,
    executor: Ints,
    *,
    max_imbalance: float = 0.05,
    base_load: Floats | None = None,
) -> Ints:
    """Return the slot of each weight; the module docstring lists the promises.

    `owner` is the previous slot of each weight, -1 for none. Each slot has a `capacity` (relative
    speed), an `executor`, and a `base_load`. `max_imbalance` is a fraction of the ideal time.

    Steps: (1) compute the limit; (2) release weights from slots above it; (3) assign weights
    without a slot, first on the same executor if there is room, then longest first; (4) move and
    swap until no slot is above the limit or none can be improved. If one stays above both the limit
    and 1.04 times the greedy time, use the greedy answer.

    >>> weights, capacity = np.array([5.0, 4.0, 3.0, 2.0]), np.ones(2)
    >>> place_whole(weights, np.array([0, 0, 0, 1]), capacity, np.array([0, 1])).tolist()
    [1, 0, 0, 1]
    """
    base = np.zeros(len(capacity)) if base_load is None else base_load

    def sum_load(slots: Ints) -> Floats:
        is_placed = slots >= 0
        return base + np.bincount(slots[is_placed], weights[is_placed], len(capacity))

    # 1. Compute the limit.
    rows = np.argsort(-weights, kind="stable")
    greedy_slots = np.empty_like(owner)
    greedy_slots[rows] = assign_longest_first(weights[rows], base, capacity)
    greedy_time = float((sum_load(greedy_slots) / capacity).max(initial=0.0))
    ideal_time = float((base.sum() + weights.sum()) / capacity.sum())
    max_time = max(greedy_time, ideal_time * (1 + max_imbalance)) * (1 + _ROUNDING_ERROR)
    max_load = max_time * capacity
    # 2. Release weights.
    keeps_owner = owner >= 0
    keeps_owner[_choose_releases(rows, weights, owner, sum_load(owner), max_load)] = False
    slot_of_row = np.where(keeps_owner, owner, -1)
    # 3. Assign weights without a slot.
    unplaced_rows = rows[~keeps_owner[rows]]
    room = max_load - sum_load(slot_of_row)
    slot_of_row[unplaced_rows] = _assign_on_same_executor(
        weights[unplaced_rows], owner[unplaced_rows], room, executor
    )
    unplaced_rows = unplaced_rows[slot_of_row[unplaced_rows] < 0]
    slot_of_row[unplaced_rows] = assign_longest_first(
        weights[unplaced_rows], sum_load(slot_of_row), capacity
    )
    # 4. Move and swap.
    slot_of_row = _repair(slot_of_row, weights, sum_load(slot_of_row), max_load)
    tolerated_time = max(max_time, greedy_time * (1 + _MAX_EXCESS_OVER_GREEDY))
    if (sum_load(slot_of_row) > tolerated_time * capacity * (1 + _ROUNDING_ERROR)).any():
        return greedy_slots if base.any() else _relabel(greedy_slots, owner, weights, capacity)
    return slot_of_row


def assign_longest_first(weights: Floats, load: Floats, capacity: Floats) -> Ints:
    """Assign each of the descending weights to the slot that then ends first; ties by slot."""
    slots = []
    if (capacity == capacity[0]).all():
        heap = [(slot_load, slot) for slot, slot_load in enumerate(load.tolist())]
        heapq.heapify(heap)
        for weight in weights.tolist():
            min_load, slot = heap[0]
            slots.append(slot)
            heapq.heapreplace(heap, (min_load + weight, slot))
    else:
        ends, time_per_load = load / capacity, 1 / capacity
        for weight in weights.tolist():
            slot = int((ends + weight * time_per_load).argmin())
            slots.append(slot)
            ends[slot] += weight * time_per_load[slot]
    return np.array(slots, np.int64)


def _choose_releases(
    rows: Ints, weights: Floats, owner: Ints, load: Floats, max_load: Floats
) -> Ints:
    """Return the rows to release from slots above the limit; `rows` has all, heaviest first.

    Each released row fits into the slot with the most room, or alone exceeds its slot's limit.
    """
    overloaded_slots = np.flatnonzero(load > max_load)
    if not len(overloaded_slots):
        return overloaded_slots
    order = rows[np.argsort(owner[rows], kind="stable")]
    bounds = np.append(overloaded_slots, overloaded_slots + 1)
    spans = np.searchsorted(owner[order], bounds).reshape(2, -1).T
    max_room = float((max_load - load).max())
    releases: list[Ints] = []
    for slot, (start, end) in zip(overloaded_slots.tolist(), spans.tolist(), strict=True):
        owned_rows = order[start:end]
        owned_weights = weights[owned_rows]
        owned_rows = owned_rows[(owned_weights <= max_room) | (owned_weights > max_load[slot])]
        owned_weights, excess = weights[owned_rows], float(load[slot] - max_load[slot])
        sufficient_indices = np.flatnonzero(owned_weights >= excess)
        if len(sufficient_indices):
            releases.append(owned_rows[sufficient_indices[-1:]])
        else:
            release_count = int(np.searchsorted(np.cumsum(owned_weights), excess)) + 1
            releases.append(owned_rows[:release_count])
    return np.concatenate(releases)


def _assign_on_same_executor(weights: Floats, owner: Ints, room: Floats, executor: Ints) -> Ints:
    """Assign each weight in order to the roomiest slot of its owner's executor; -1 if none fits."""
    room_left = room.tolist()
    slots_by_executor: dict[int, list[int]] = {}
    for slot, code in enumerate(executor.tolist()):
        slots_by_executor.setdefault(code, []).append(slot)
    assigned_slots = []
    owner_executor = np.where(owner >= 0, executor[owner], -1)
    for weight, code in zip(weights.tolist(), owner_executor.tolist(), strict=True):
        slot = max(slots_by_executor.get(code, ()), key=room_left.__getitem__, default=-1)
        if slot >= 0 and weight <= room_left[slot]:
            room_left[slot] -= weight
            assigned_slots.append(slot)
        else:
            assigned_slots.append(-1)
    return np.array(assigned_slots, np.int64)


def _repair(slot_of_row: Ints, weights: Floats, load: Floats, max_load: Floats) -> Ints:
    """Move and swap rows, each time from the most overloaded slot for which this helps."""
    room = max_load - load
    if (room >= 0).all():
        return slot_of_row
    slot_of_row, is_stuck = slot_of_row.copy(), np.zeros(len(room), np.bool_)
    for _ in range(4 * len(room) + 20):
        slot = int(np.where(is_stuck, np.inf, room / max_load).argmin())
        if room[slot] >= 0 or is_stuck[slot]:
            break
        change = _find_move(slot, slot_of_row, weights, room) or _find_swap(
            slot, slot_of_row, weights, room
        )
        if change is None:
            is_stuck[slot] = True
            continue
        for row, target in change:
            room[slot_of_row[row]] += weights[row]
            room[target] -= weights[row]
            slot_of_row[row] = target
    return slot_of_row


def _find_move(
    slot: int, slot_of_row: Ints, weights: Floats, room: Floats
) -> list[tuple[int, int]] | None:
    """Return the move of the lightest row that suffices and fits the roomiest slot, or None."""
    roomiest_slot = int(room.argmax())
    rows = np.flatnonzero(slot_of_row == slot)
    row_weights = weights[rows]
    fitting_rows = rows[(row_weights >= -room[slot]) & (row_weights <= room[roomiest_slot])]
    if not len(fitting_rows):
        return None
    return [(int(fitting_rows[weights[fitting_rows].argmin()]), roomiest_slot)]


def _find_swap(
    slot: int, slot_of_row: Ints, weights: Floats, room: Floats
) -> list[tuple[int, int]] | None:
    """Return the first swap or move that ends the excess, else the best; None if none helps."""
    excess = -float(room[slot])
    rows = np.flatnonzero(slot_of_row == slot)
    rows = rows[np.argsort(weights[rows], kind="stable")]
    best: tuple[float, list[tuple[int, int]]] | None = None
    for target in np.argsort(-room, kind="stable")[:_MAX_SWAP_SLOTS].tolist():
        target_room = float(room[target])
        if target_room <= 0:
            break
        target_rows = np.flatnonzero(slot_of_row == target)
        target_rows = target_rows[np.argsort(weights[target_rows], kind="stable")]
        # A move is a swap for a row of weight 0.
        returned_weights = np.append(0.0, weights[target_rows])
        # Index of the lightest returned row that keeps the target slot within its limit.
        index = np.searchsorted(returned_weights, weights[rows] - target_room)
        gain = weights[rows] - returned_weights[np.minimum(index, len(returned_weights) - 1)]
        gain[index == len(returned_weights)] = 0.0
        i = int(gain.argmax())
        if gain[i] > (best[0] if best else 0.0):
            change = [(int(rows[i]), target)]
            if index[i]:
                change.append((int(target_rows[index[i] - 1]), slot))
            best = float(gain[i]), change
        if best and best[0] >= excess:
            break
    return best[1] if best else None


def _relabel(greedy_slots: Ints, owner: Ints, weights: Floats, capacity: Floats) -> Ints:
    """Give each greedy share to its main owner, or else to a free slot, of equal capacity."""
    owned_rows = np.flatnonzero(owner >= 0)
    pair_codes = greedy_slots[owned_rows] * len(capacity) + owner[owned_rows]
    pairs, pair_index = np.unique(pair_codes, return_inverse=True)
    common_weight = np.bincount(pair_index, weights[owned_rows])
    slot_of_share = np.full(len(capacity), -1, np.int64)
    is_used = np.zeros(len(capacity), np.bool_)
    for i in np.lexsort((pairs, -common_weight)).tolist():
        share, slot = divmod(int(pairs[i]), len(capacity))
        if slot_of_share[share] < 0 and not is_used[slot] and capacity[share] == capacity[slot]:
            slot_of_share[share] = slot
            is_used[slot] = True
    for share in np.flatnonzero(slot_of_share < 0).tolist():
        free_slots = np.flatnonzero(~is_used & (capacity == capacity[share]))
        slot_of_share[share] = int(free_slots[0])
        is_used[free_slots[0]] = True
    return np.asarray(slot_of_share[greedy_slots])
