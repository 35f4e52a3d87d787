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
from bisect import bisect_right
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
    """What each slot may still take, and what was given to it so far."""

    def __init__(
        self, spare: list[float], capacity: list[float], heads: dict[int, tuple[int, float]]
    ) -> None:
        self.spare = spare
        self.capacity = capacity
        #: Slot and work of the head that stays where it was, by row.
        self.heads = heads
        #: Ranges that went whole to a slot: row and slot.
        self.rows: list[int] = []
        self.slots: list[int] = []
        #: Ranges that are shared.
        self.cuts: list[Cut] = []

    def take(self, row: int, slots: list[int], shares: list[float]) -> None:
        """Book a row's shares on `slots`; the largest share is read last, after the head."""
        for slot, part in zip(slots, shares, strict=True):
            self.spare[slot] -= part
        parts = sorted(zip(shares, slots, strict=True))
        if row in self.heads:
            home, kept = self.heads[row]
            kept += sum(part for part, slot in parts if slot == home)
            parts = [(kept, home), *((part, slot) for part, slot in parts if slot != home)]
        parts = [p for p in parts if p[0] > 0] or parts[:1]
        if len(parts) == 1:
            self.rows.append(row)
            self.slots.append(parts[0][1])
        else:
            self.cuts.append(Cut(row, [slot for _, slot in parts], [part for part, _ in parts]))

    def evenly(self, slots: list[int], amount: float) -> list[float]:
        """Divide so that the same share of the time of each of `slots` stays free."""
        if len(slots) == 1:
            return [amount]
        free = sum(self.spare[s] for s in slots) - amount
        total = sum(self.capacity[s] for s in slots)
        return [max(0.0, self.spare[s] - free * self.capacity[s] / total) for s in slots]

    def one_by_one(self, slots: list[int], amount: float) -> list[float]:
        """Fill slot after slot, as the wrap-around rule does: fewest pieces in the end."""
        shares = [max(0.0, self.spare[s]) for s in slots[:-1]]
        return [*shares, max(0.0, amount - sum(shares)) if shares else amount]


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
        Executor of each slot: rises.
    allowance
        How far beyond the fair share a slot may go, as a share of it.

    Returns
    -------
    tuple
        The slot of each range that stays whole (-1 for the others), and the cuts.
    """
    owned = owner >= 0
    fresh = not owned.any()  # nothing to keep: then the ideal itself
    used = 0.0 if fresh else allowance * _USED_ALLOWANCE
    full = capacity * (1 + used)
    grain = _FRESH_GRAIN if fresh else min(_GRAIN, used / 2)
    load = np.asarray(np.bincount(owner[owned], weights[owned], len(capacity)), np.float64)
    over = np.flatnonzero(load > full * (1 + _ROUNDING))
    lent, amounts, load[over] = _lend(
        weights, owner, over, load[over], capacity[over] * (1 + used / 2), grain * capacity[over]
    )
    lender, kept = owner[lent], weights[lent] - amounts
    cut = amounts < weights[lent]
    heads = dict(
        zip(
            lent[cut].tolist(), zip(lender[cut].tolist(), kept[cut].tolist(), strict=True),
            strict=True,
        )
    )  # fmt: skip
    room = Room((full - load).tolist(), capacity.tolist(), heads)
    left = _place_at_home(lent, amounts, slot_executor[lender], room, slot_executor)
    rows = np.append(np.flatnonzero(~owned), lent[left])
    sizes = np.append(weights[~owned], amounts[left])
    largest = np.lexsort((rows, -sizes))
    _place_anywhere(rows[largest].tolist(), sizes[largest].tolist(), room, grain, fresh)
    whole = owner.copy()
    whole[lent] = -1
    whole[room.rows] = room.slots
    return whole, room.cuts


def _lend(  # noqa: PLR0917
    weights: Floats, owner: Ints, over: Ints, load: Floats, target: Floats, grain: Floats
) -> tuple[Ints, Floats, Floats]:
    """Choose what the overloaded slots `over` give away.

    Returns
    -------
    tuple
        Rows, how much of each (all: no head stays), and the load that remains of each slot.
    """
    given: list[tuple[int, float]] = []
    left: list[float] = []
    rows = np.flatnonzero(np.isin(owner, over))
    rows = rows[np.lexsort((-weights[rows], owner[rows]))]
    first = np.append(np.searchsorted(owner[rows], over), len(rows)).tolist()
    names, negative = rows.tolist(), (-weights[rows]).tolist()
    for i, (busy, goal, least) in enumerate(
        zip(load.tolist(), target.tolist(), grain.tolist(), strict=True)
    ):
        mine = slice(first[i], first[i + 1])
        remains = busy
        for row, amount in _give_away(names[mine], negative[mine], busy - goal, least):
            given.append((row, amount))
            remains -= amount
        left.append(remains)
    return (
        np.array([row for row, _ in given], np.int64),
        np.array([amount for _, amount in given], np.float64),
        np.array(left, np.float64),
    )


def _give_away(
    rows: list[int], negative: list[float], excess: float, grain: float
) -> list[tuple[int, float]]:
    """Choose what makes up for the excess of a slot: rows, largest first, and how much of each.

    `negative` holds the rows' weights, each times -1.
    """
    enough = bisect_right(negative, -(excess + grain))
    if enough:  # the smallest that is enough: least work changes hands in the next batch
        size = -negative[enough - 1]
        return [(rows[enough - 1], max(excess, min(grain, size - grain)))]
    given = []
    for row, negative_size in zip(rows, negative, strict=True):
        if excess <= 0:
            break
        size = -negative_size
        amount = size if size < 2 * grain else min(size - grain, max(excess, grain))
        given.append((row, amount))
        excess -= amount
    return given


def _place_at_home(
    rows: Ints, amounts: Floats, executor: Ints, room: Room, slot_executor: Ints
) -> list[int]:
    """Place on other slots of the lender's executor; returns what does not fit, as indices."""
    spare = room.spare
    left: list[int] = []
    order = np.lexsort((rows, -amounts, executor))
    home = executor[order]
    for i, row, amount, first, last in zip(
        order.tolist(),
        rows[order].tolist(),
        amounts[order].tolist(),
        np.searchsorted(slot_executor, home).tolist(),
        np.searchsorted(slot_executor, home, "right").tolist(),
        strict=True,
    ):
        taken: list[int] = []
        found = 0.0
        for negative, slot in sorted([(-spare[slot], slot) for slot in range(first, last)]):
            if found >= amount or negative >= 0:
                break
            taken.append(slot)
            found -= negative
        if found >= amount:
            room.take(row, taken, room.evenly(taken, amount))
        else:
            left.append(i)
    return left


def _place_anywhere(
    rows: list[int], amounts: list[float], room: Room, grain: float, fresh: bool
) -> None:
    """Largest first, whole to the slot with most room, or shared by as few slots as have room."""
    spare, heads = room.spare, room.heads
    few = [2 * grain * fair for fair in room.capacity]  # what is not worth cutting
    heap = [(-free, slot) for slot, free in enumerate(spare)]
    heapq.heapify(heap)
    for row, amount in zip(rows, amounts, strict=True):
        negative, slot = heap[0]
        if amount <= -negative or amount < few[slot]:
            if row in heads:
                room.take(row, [slot], [amount])
            else:
                room.rows.append(row)
                room.slots.append(slot)
                spare[slot] -= amount
            heapq.heapreplace(heap, (-spare[slot], slot))
            continue
        taken: list[int] = []
        found = 0.0
        enough = amount * (1 - _ROUNDING)
        while heap and found < enough and (not taken or heap[0][0] < 0):
            negative, slot = heapq.heappop(heap)
            taken.append(slot)
            found -= negative
        if found < enough:  # no room anywhere (no allowance): all go beyond it alike
            taken += [slot for _, slot in heap]
            heap.clear()
        share = room.one_by_one if fresh else room.evenly
        room.take(row, taken, share(taken, amount))
        for slot in taken:
            heapq.heappush(heap, (-spare[slot], slot))
