"""`lag-aware-sticky` on whole partitions: groups, the library, and `assignor.split=false`.

In Spark `lag-aware-sticky` cuts partitions, by another algorithm: `planner.place`.

Promises, in order, for members that all subscribe to the same topics:

1. No member takes longer than the limit: what greedy longest-first (LPT) reaches, or the ideal and
   `max_imbalance` of it, whichever is longer. A member's time is its load over its capacity; the
   ideal is all load over all capacity. LPT is within 4/3 of the best for equal capacities. Where
   moves and swaps do not reach the limit, 1.04 times LPT will do.
2. A partition stays with the member that owns it at the highest claimed generation. Only a member
   beyond the limit gives partitions up: one if one is enough, the smallest such, else the largest
   for which there is room. Where there is none, it swaps one for a smaller one. Inside the limit
   nothing moves. What has no owner goes, largest first, to where it ends soonest; what has one, to
   another slot of its executor (the part of the member id before the last `/`) if there is room.
3. Where all that misses 1, the LPT answer is taken, its shares handed to those that own most of
   them.

Members that subscribe to different topics are balanced topic set by topic set, those with fewest
subscribers first, each on top of what is there already. Nobody gets what it does not subscribe to;
how even the whole is, and that asking again moves nothing, is not promised then.

Ties go to the member and partition that come first by name. Racks are not looked at. Ours; Kafka
has nothing like it: `LagBasedPartitionAssignor` (KAFKA-5337) balances counts and forgets owners.
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

#: How far beyond the greedy answer stickiness may go where few moves do not reach the limit.
_SLACK = 0.04
#: Slots that are tried for a swap, those with most room first.
_TRIED = 50
#: What sums of floats may be off by.
_ROUNDING = 1e-9


def lag_aware_sticky(group: Group) -> Assignment:
    """Balance the lags over the members' capacities, moving as little as that allows.

    >>> from assignor_bridge.assignors import Group, Member
    >>> owner = Member("C0", {"t0"}, {"t0": [1, 2]}, generation=4)
    >>> lags = {"t0": {0: 100_000, 1: 60_000, 2: 50_000}}
    >>> print(lag_aware_sticky(Group((owner, Member("C1", {"t0"})), {"t0": 3}, lags)))
    C0: [t0p1, t0p2]
    C1: [t0p0]
    """
    members = group.members
    capacity = np.array([m.capacity for m in members], np.float64)
    catalog = group.catalog
    # A partition without lag weighs a little, so that those are spread as well.
    lags = np.array(group.lag_list(), np.float64)
    weights = lags + max(float(lags.sum()), 1.0) * 1e-9 / max(1, len(lags))
    owner = resolve_claims(group).owner.astype(np.int64)
    executor = np.unique([m.id.rpartition("/")[0] or m.id for m in members], return_inverse=True)[1]
    result = np.full(catalog.total, -1, np.int64)
    load = np.zeros(len(members))
    topics_of: dict[tuple[int, ...], list[int]] = {}
    for topic, subscribers in group.subscribers.items():
        topics_of.setdefault(subscribers, []).append(catalog.index[topic])
    for subscribers in sorted(topics_of, key=lambda members: (len(members), members)):
        mine = catalog.all_of(topics_of[subscribers])
        index = np.array(subscribers, np.int64)
        local = np.full(len(members) + 1, -1, np.int64)
        local[index] = np.arange(len(index))
        placed = place_whole(
            weights[mine], local[owner[mine]], capacity[index], executor[index], taken=load[index]
        )
        result[mine] = index[placed]
        load += np.bincount(result[mine], weights[mine], len(members))
    return Assignment(group, result)


def place_whole(  # noqa: PLR0917
    weights: Floats,
    owner: Ints,
    capacity: Floats,
    executor: Ints,
    max_imbalance: float = 0.05,
    taken: Floats | None = None,
) -> Ints:
    """Give each weight to one slot, with the promises of this module; return the slots.

    `owner` is the slot that had it last, -1 for none. By slot: `capacity` is its relative speed,
    `executor` where it is, `taken` the load that it has already. `max_imbalance` is how far beyond
    the ideal a slot may go before it gives anything up, as a share of it.
    """
    before = np.zeros(len(capacity)) if taken is None else taken

    def load_of(slots: Ints) -> Floats:
        given = slots >= 0
        return before + np.bincount(slots[given], weights[given], len(capacity))

    rows = np.argsort(-weights, kind="stable")
    greedy = np.empty_like(owner)
    greedy[rows] = _longest_first(weights[rows], before, capacity)
    greedy_time = float((load_of(greedy) / capacity).max(initial=0.0))
    ideal_time = float((before.sum() + weights.sum()) / capacity.sum())
    limit_time = max(greedy_time, ideal_time * (1 + max_imbalance)) * (1 + _ROUNDING)
    limit = limit_time * capacity

    stays = owner >= 0
    stays[_given_up(rows, weights, owner, load_of(owner), limit)] = False
    placed = np.where(stays, owner, -1)
    homeless = rows[~stays[rows]]
    room = limit - load_of(placed)
    placed[homeless] = _on_same_executor(weights[homeless], owner[homeless], room, executor)
    homeless = homeless[placed[homeless] < 0]
    placed[homeless] = _longest_first(weights[homeless], load_of(placed), capacity)
    placed = _repaired(placed, weights, load_of(placed), limit)
    will_do = max(limit_time, greedy_time * (1 + _SLACK)) * capacity * (1 + _ROUNDING)
    if (load_of(placed) > will_do).any():
        return greedy if before.any() else _relabelled(greedy, owner, weights, capacity)
    return placed


def _longest_first(sizes: Floats, load: Floats, capacity: Floats) -> Ints:
    """Give each, in order, to the slot where it ends soonest; ties to the lower slot."""
    slots = []
    if (capacity == capacity[0]).all():
        heap = [(ends, slot) for slot, ends in enumerate(load.tolist())]
        heapq.heapify(heap)
        for size in sizes.tolist():
            least, slot = heap[0]
            slots.append(slot)
            heapq.heapreplace(heap, (least + size, slot))
    else:
        ends, duration = load / capacity, 1 / capacity
        for size in sizes.tolist():
            slot = int((ends + size * duration).argmin())
            slots.append(slot)
            ends[slot] += size * duration[slot]
    return np.array(slots, np.int64)


def _given_up(rows: Ints, weights: Floats, owner: Ints, load: Floats, limit: Floats) -> Ints:
    """Choose what the slots beyond the limit give up, of what some other slot has room for.

    `rows` are all, heaviest first.
    """
    over = np.flatnonzero(load > limit)
    if not len(over):
        return over
    order = rows[np.argsort(owner[rows], kind="stable")]
    first = np.searchsorted(owner[order], np.append(over, over + 1)).reshape(2, -1).T
    most = float((limit - load).max())
    given: list[Ints] = []
    for slot, (start, end) in zip(over.tolist(), first.tolist(), strict=True):
        mine = order[start:end]
        mine = mine[(weights[mine] <= most) | (weights[mine] > limit[slot])]
        excess = float(load[slot] - limit[slot])
        enough = np.flatnonzero(weights[mine] >= excess)
        if len(enough):
            given.append(mine[enough[-1:]])
        else:
            given.append(mine[: int(np.searchsorted(np.cumsum(weights[mine]), excess)) + 1])
    return np.concatenate(given)


def _on_same_executor(sizes: Floats, owner: Ints, room: Floats, executor: Ints) -> Ints:
    """Give each, in order, to the slot of its owner's executor with most room; -1 without room."""
    free = room.tolist()
    slots_of: dict[int, list[int]] = {}
    for slot, name in enumerate(executor.tolist()):
        slots_of.setdefault(name, []).append(slot)
    slots = []
    home = np.where(owner >= 0, executor[owner], -1)
    for size, name in zip(sizes.tolist(), home.tolist(), strict=True):
        best = max(slots_of.get(name, ()), key=free.__getitem__, default=-1)
        if best >= 0 and size <= free[best]:
            free[best] -= size
            slots.append(best)
        else:
            slots.append(-1)
    return np.array(slots, np.int64)


def _repaired(placed: Ints, weights: Floats, load: Floats, limit: Floats) -> Ints:
    """Move and swap what is in slots beyond the limit, one at a time, the worst slot first."""
    room = limit - load
    if (room >= 0).all():
        return placed
    placed, stuck = placed.copy(), np.zeros(len(room), np.bool_)
    for _ in range(4 * len(room) + 20):
        slot = int(np.where(stuck, np.inf, room / limit).argmin())
        if room[slot] >= 0 or stuck[slot]:
            break
        change = _move(slot, placed, weights, room) or _swap(slot, placed, weights, room)
        if change is None:
            stuck[slot] = True
            continue
        for row, target in change:
            room[placed[row]] += weights[row]
            room[target] -= weights[row]
            placed[row] = target
    return placed


def _move(slot: int, placed: Ints, weights: Floats, room: Floats) -> list[tuple[int, int]] | None:
    """Find the lightest range whose move brings a slot within its limit, and another not beyond."""
    target = int(room.argmax())
    mine = np.flatnonzero(placed == slot)
    sizes = weights[mine]
    fitting = mine[(sizes >= -room[slot]) & (sizes <= room[target])]
    if not len(fitting):
        return None
    return [(int(fitting[weights[fitting].argmin()]), target)]


def _swap(slot: int, placed: Ints, weights: Floats, room: Floats) -> list[tuple[int, int]] | None:
    """Find two ranges to swap for the same, or else what helps most: a swap, or a move."""
    excess = -float(room[slot])
    mine = np.flatnonzero(placed == slot)
    mine = mine[np.argsort(weights[mine], kind="stable")]
    best: tuple[float, list[tuple[int, int]]] | None = None
    for target in np.argsort(-room, kind="stable")[:_TRIED].tolist():
        free = float(room[target])
        if free <= 0:
            break
        theirs = np.flatnonzero(placed == target)
        theirs = theirs[np.argsort(weights[theirs], kind="stable")]
        # Nothing in return counts as a range of no weight.
        back = np.append(0.0, weights[theirs])
        # Of theirs, the lightest that leaves the other within its limit.
        place = np.searchsorted(back, weights[mine] - free)
        gain = weights[mine] - back[np.minimum(place, len(back) - 1)]
        gain[place == len(back)] = 0.0
        i = int(gain.argmax())
        if gain[i] > (best[0] if best else 0.0):
            change = [(int(mine[i]), target)]
            if place[i]:
                change.append((int(theirs[place[i] - 1]), slot))
            best = float(gain[i]), change
        if best and best[0] >= excess:
            break
    return best[1] if best else None


def _relabelled(greedy: Ints, owner: Ints, weights: Floats, capacity: Floats) -> Ints:
    """Hand the shares of an answer to the slots (of equal capacity) that own most of them."""
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
