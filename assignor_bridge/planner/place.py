"""Placement with splitting: who reads what, so that no slot takes much longer than the ideal.

The yardstick is McNaughton's wrap-around rule: work that can be cut anywhere fits into `m` slots in
exactly `total / m`. Promises, in order:

1. No slot gets more than `(1 + allowance)` of its fair share (rounding to whole offsets apart).
2. Ranges stay with the slot that read them last. Only a slot beyond the allowance gives work
   away: the tail of one range if that is enough (its own consumer goes on with the head, and the
   reader of the tail holds what comes next), else of several, largest first. Inside the allowance
   nothing moves, so noise is not chased; what is given away is never less than a grain of a slot's
   time, so that a cold consumer is worth it.
3. Few pieces: what has to find a place is not cut where it fits whole (largest first, to the slot
   with most room); otherwise it is shared by as few slots as have the room, on one executor if
   possible.

Ties go to the lower slot and the earlier range. Not looked at: racks, and what the future brings.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.pieces import Cut

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Floats, Ints

#: Share of the allowance that placement uses up; the rest is for rounding to whole offsets.
_USED_ALLOWANCE = 0.9
#: Least share of a slot's time that a cut gives away or leaves, while the allowance permits.
_GRAIN = 0.02
#: The same for a batch where nothing was read before, and every piece is a cold read anyway.
_FRESH_GRAIN = 0.001
#: What sums of floats may be off by.
_ROUNDING = 1e-9


class Room:
    """What each slot may still take; finds the slots with most of it."""

    def __init__(self, spare: list[float], capacity: list[float], fill: bool) -> None:
        self.spare = spare
        self.capacity = capacity
        #: Fill one slot after the other, as the wrap-around rule does: fewest pieces in the end.
        self.fill = fill

    def share(self, slots: list[int], amount: float) -> list[float]:
        """Divide `amount` among `slots`, which have room for it.

        Either slot after slot, or so that the same share of each slot's time stays free.
        """
        if self.fill:
            shares = [max(0.0, self.spare[s]) for s in slots[:-1]]
            return [*shares, max(0.0, amount - sum(shares))]
        free = sum(self.spare[s] for s in slots) - amount
        total = sum(self.capacity[s] for s in slots)
        return [max(0.0, self.spare[s] - free * self.capacity[s] / total) for s in slots]


def place(
    weights: Floats, owner: Ints, capacity: Floats, slot_executor: Ints, allowance: float
) -> tuple[Ints, list[Cut]]:
    """Give each range, whole or cut, to slots.

    Parameters
    ----------
    weights
        Predicted work of each range, more than 0.
    owner
        Slot that read the range last, -1 for none.
    capacity
        Fair share of each slot: its part of the total work, by speed.
    slot_executor
        Executor of each slot.
    allowance
        How far beyond the fair share a slot may go, as a share of it.

    Returns
    -------
    tuple
        The slot of each range that stays whole (-1 for the others), and the cuts.
    """
    fresh = not (owner >= 0).any()  # nothing to keep: then the ideal itself
    used = 0.0 if fresh else allowance * _USED_ALLOWANCE
    full = capacity * (1 + used)
    grain = _FRESH_GRAIN if fresh else min(_GRAIN, used / 2)
    whole = owner.copy()
    load = np.bincount(owner[owner >= 0], weights[owner >= 0], len(capacity))
    heads: dict[int, tuple[int, float]] = {}
    homeless = [(-float(weights[row]), int(row)) for row in np.flatnonzero(owner < 0)]
    lent: dict[int, list[tuple[float, int]]] = {}
    by_owner = np.argsort(owner, kind="stable")
    first = np.searchsorted(owner[by_owner], np.arange(len(capacity) + 1)).tolist()
    for slot in np.flatnonzero(load > full * (1 + _ROUNDING)).tolist():
        rows = by_owner[first[slot] : first[slot + 1]]
        target = float(capacity[slot] * (1 + used / 2))
        for row, amount in _give_away(
            weights[rows], rows, float(load[slot]), target, grain * float(capacity[slot])
        ):
            whole[row] = -1
            if amount < weights[row]:
                heads[row] = (slot, float(weights[row]) - amount)
            load[slot] -= amount
            lent.setdefault(int(slot_executor[slot]), []).append((-amount, row))
    room = Room((full - load).tolist(), capacity.tolist(), fresh)
    cuts: dict[int, Cut] = {}
    for executor in sorted(lent):
        homeless += _place_at_home(
            executor, sorted(lent[executor]), room, slot_executor, heads, cuts
        )
    homeless.sort()
    _place_anywhere(homeless, room, grain, heads, cuts)
    result = []
    for row in sorted(cuts):
        cut = cuts[row]
        if len(cut.slots) == 1:
            whole[row] = cut.slots[0]
        else:
            result.append(cut)
    return whole, result


def _give_away(
    weights: Floats, rows: Ints, load: float, target: float, grain: float
) -> list[tuple[int, float]]:
    """Choose what an overloaded slot gives: rows, and how much of each (all: no head stays)."""
    excess = load - target
    order = np.lexsort((rows, -weights))
    sizes, names = weights[order].tolist(), rows[order].tolist()
    enough = [i for i, size in enumerate(sizes) if size >= excess + grain]
    if enough:  # the smallest that is enough: least work changes hands in the next batch
        return [(names[enough[-1]], max(excess, min(grain, sizes[enough[-1]] - grain)))]
    given = []
    for name, size in zip(names, sizes, strict=True):
        if excess <= 0:
            break
        cuttable = size >= 2 * grain
        amount = size if not cuttable else min(size - grain, max(excess, grain))
        given.append((name, amount))
        excess -= amount
    return given


def _place_at_home(  # noqa: PLR0917
    executor: int,
    lent: list[tuple[float, int]],
    room: Room,
    slot_executor: Ints,
    heads: dict[int, tuple[int, float]],
    cuts: dict[int, Cut],
) -> list[tuple[float, int]]:
    """Place on the other slots of the executor; returns what does not fit there."""
    first, last = np.searchsorted(slot_executor, [executor, executor + 1]).tolist()
    left = []
    for negative, row in lent:
        amount = -negative
        by_room = sorted(range(first, last), key=lambda s: (-room.spare[s], s))
        taken: list[int] = []
        found = 0.0
        for slot in by_room:
            if found >= amount or room.spare[slot] <= 0:
                break
            taken.append(slot)
            found += room.spare[slot]
        if found >= amount:
            _take(row, taken, amount, room, heads, cuts)
        else:
            left.append((negative, row))
    return left


def _place_anywhere(
    homeless: list[tuple[float, int]],
    room: Room,
    grain: float,
    heads: dict[int, tuple[int, float]],
    cuts: dict[int, Cut],
) -> None:
    """Largest first, whole to the slot with most room, or shared by as few slots as have room."""
    spare = room.spare
    heap = [(-free, slot) for slot, free in enumerate(spare)]
    heapq.heapify(heap)
    for negative, row in homeless:
        amount = -negative
        free, slot = heap[0]
        if amount <= -free or amount < 2 * grain * room.capacity[slot]:
            _take(row, [slot], amount, room, heads, cuts)
            heapq.heapreplace(heap, (-spare[slot], slot))
            continue
        taken: list[int] = []
        found = 0.0
        while heap and found < amount * (1 - _ROUNDING) and (not taken or -heap[0][0] > 0):
            free, slot = heapq.heappop(heap)
            taken.append(slot)
            found += spare[slot]
        if found < amount * (
            1 - _ROUNDING
        ):  # no room anywhere (no allowance): all go beyond it alike
            taken += [slot for _, slot in heap]
            heap.clear()
        _take(row, taken, amount, room, heads, cuts)
        for slot in taken:
            heapq.heappush(heap, (-spare[slot], slot))


def _take(  # noqa: PLR0917
    row: int,
    slots: list[int],
    amount: float,
    room: Room,
    heads: dict[int, tuple[int, float]],
    cuts: dict[int, Cut],
) -> None:
    """Book `amount` of a row on `slots`; the largest share is read last, after the head."""
    shares = [amount] if len(slots) == 1 else room.share(slots, amount)
    for slot, part in zip(slots, shares, strict=True):
        room.spare[slot] -= part
    parts = sorted(zip(shares, slots, strict=True))
    if row in heads:
        home, kept = heads[row]
        kept += sum(part for part, slot in parts if slot == home)
        parts = [(kept, home), *((part, slot) for part, slot in parts if slot != home)]
    parts = [p for p in parts if p[0] > 0] or parts[:1]
    cuts[row] = Cut(row, [slot for _, slot in parts], [part for part, _ in parts])
