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
#: From so many ranges on it is faster to place a round of them at once.
_LEAST_ROUND = 64
#: What sums of floats may be off by.
_ROUNDING = 1e-9


class Room:
    """What each slot may still take, and what was given to it so far."""

    def __init__(
        self,
        spare: list[float],
        capacity: list[float],
        heads: dict[int, tuple[int, float]],
        whole: Ints,
    ) -> None:
        self.spare = spare
        self.capacity = capacity
        #: Slot and work of the head that stays where it was, by row.
        self.heads = heads
        #: Slot of each range that stays whole, -1 for the others.
        self.whole = whole
        #: Ranges that are shared.
        self.cuts: list[Cut] = []

    def take(self, row: int, slots: list[int], shares: list[float]) -> None:
        """Book a row's shares on `slots`; the largest share is read last, after the head."""
        spare = self.spare
        for slot, part in zip(slots, shares, strict=True):
            spare[slot] -= part
        self._book(row, sorted(zip(shares, slots, strict=True)))

    def take_whole(self, rows: Ints, slots: Ints, amounts: Floats, spare: Floats) -> None:
        """Book a row after the other on one slot each; `spare` is what that leaves."""
        self.spare[:] = spare.tolist()
        if not self.heads:
            self.whole[rows] = slots
            return
        for row, slot, amount in zip(rows.tolist(), slots.tolist(), amounts.tolist(), strict=True):
            self._book(row, [(amount, slot)])

    def _book(self, row: int, parts: list[tuple[float, int]]) -> None:
        if parts[0][0] <= 0:
            parts = [part for part in parts if part[0] > 0] or parts[:1]
        if row in self.heads:
            home, kept = self.heads[row]
            kept += sum([part for part, slot in parts if slot == home])
            parts = [(kept, home), *[part for part in parts if part[1] != home and part[0] > 0]]
        if len(parts) == 1:
            self.whole[row] = parts[0][1]
        else:
            amounts, slots = zip(*parts, strict=True)
            self.cuts.append(Cut(row, slots, amounts))

    def evenly(self, slots: list[int], amount: float) -> list[float]:
        """Divide so that the same share of the time of each of `slots` stays free."""
        if len(slots) == 1:
            return [amount]
        free = sum([self.spare[s] for s in slots]) - amount
        total = sum([self.capacity[s] for s in slots])
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
    whole = owner.copy()
    whole[lent] = -1
    room = Room((full - load).tolist(), capacity.tolist(), heads, whole)
    left = _place_at_home(lent, amounts, slot_executor[lender], room, slot_executor)
    rows = np.append(np.flatnonzero(~owned), lent[left])
    sizes = np.append(weights[~owned], amounts[left])
    largest = np.lexsort((rows, -sizes))
    _place_anywhere(rows[largest], sizes[largest], room, grain, fresh)
    return room.whole, room.cuts


def _lend(  # noqa: PLR0917
    weights: Floats, owner: Ints, over: Ints, load: Floats, target: Floats, grain: Floats
) -> tuple[Ints, Floats, Floats]:
    """Choose what the overloaded slots `over` give away.

    Returns
    -------
    tuple
        Rows, how much of each (all: no head stays), and the load that remains of each slot.
    """
    is_over = np.zeros(int(owner.max(initial=0)) + 2, np.bool_)
    is_over[over] = True
    rows = np.flatnonzero(is_over[owner])
    rows = rows[np.lexsort((-weights[rows], owner[rows]))]
    size, slot = weights[rows], np.searchsorted(over, owner[rows])
    excess = load - target
    enough = np.bincount(slot[size >= (excess + grain)[slot]], minlength=len(over))
    first = np.searchsorted(slot, np.arange(len(over) + 1))
    # One range is enough for most: the smallest that is, so that least work changes hands in the
    # next batch.
    one = np.flatnonzero(enough)
    at = first[one] + enough[one] - 1
    amount = np.maximum(excess[one], np.minimum(grain[one], size[at] - grain[one]))
    left = load.copy()
    left[one] -= amount
    given: list[int] = []
    amounts: list[float] = []
    names, sizes, ends = rows.tolist(), size.tolist(), first.tolist()
    for i in np.flatnonzero(enough == 0).tolist():
        remains, goal, least = float(load[i]), float(excess[i]), float(grain[i])
        for row, part in _give_away(
            names[ends[i] : ends[i + 1]], sizes[ends[i] : ends[i + 1]], goal, least
        ):
            given.append(row)
            amounts.append(part)
            remains -= part
        left[i] = remains
    return (
        np.append(rows[at], np.array(given, np.int64)),
        np.append(amount, np.array(amounts, np.float64)),
        left,
    )


def _give_away(
    rows: list[int], sizes: list[float], excess: float, grain: float
) -> list[tuple[int, float]]:
    """Choose what makes up for the excess of a slot: rows, largest first, and how much of each."""
    given = []
    for row, size in zip(rows, sizes, strict=True):
        if excess <= 0:
            break
        amount = size if size < 2 * grain else min(size - grain, max(excess, grain))
        given.append((row, amount))
        excess -= amount
    return given


def _place_at_home(
    rows: Ints, amounts: Floats, executor: Ints, room: Room, slot_executor: Ints
) -> list[int]:
    """Place on other slots of the lender's executor; returns what does not fit, as indices."""
    spare = room.spare
    free = np.bincount(slot_executor, np.maximum(np.array(spare), 0))
    fits = amounts <= free[executor] * (1 + _ROUNDING)
    left: list[int] = np.flatnonzero(~fits).tolist()
    order = np.flatnonzero(fits)
    order = order[np.lexsort((rows[order], -amounts[order], executor[order]))]
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


def _place_anywhere(rows: Ints, amounts: Floats, room: Room, grain: float, fresh: bool) -> None:
    """Largest first, whole to the slot with most room, or shared by as few slots as have room."""
    spare = room.spare
    few = 2 * grain * np.array(room.capacity)  # what is not worth cutting
    least = few.tolist()
    share = room.one_by_one if fresh else room.evenly
    heap = [(-free, slot) for slot, free in enumerate(spare)]
    heapq.heapify(heap)
    names, sizes = rows.tolist(), amounts.tolist()
    at = no_round_before = 0
    while at < len(names):
        amount = sizes[at]
        negative, slot = heap[0]
        if amount > -negative and amount >= least[slot]:
            taken = _with_most_room(heap, amount)
            room.take(names[at], taken, share(taken, amount))
            for slot in taken:
                heapq.heappush(heap, (-spare[slot], slot))
            at += 1
        elif at < no_round_before or len(names) - at < _LEAST_ROUND:
            room.take(names[at], [slot], [amount])
            heapq.heapreplace(heap, (-spare[slot], slot))
            at += 1
        else:
            left = np.array(spare)
            slots = _whole(amounts[at:], left, few)
            now = slice(at, at + len(slots))
            room.take_whole(rows[now], slots, amounts[now], left)
            at += len(slots)
            no_round_before = at + _LEAST_ROUND
            heap = [(-free, slot) for slot, free in enumerate(spare)]
            heapq.heapify(heap)


def _with_most_room(heap: list[tuple[float, int]], amount: float) -> list[int]:
    """Take slots off the heap until there is room for the amount; all, if there is too little."""
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
    return taken


def _whole(amounts: Floats, spare: Floats, few: Floats) -> Ints:
    """Give one amount after the other, as long as they fit, to the slot with most room in `spare`.

    The same as looking for that slot each time, in rounds: with the slots in order of their room,
    each takes one amount, up to the first that has less room than one that was given to has left.
    """
    found: list[Ints] = []
    at = 0
    while at < len(amounts):
        order = np.argsort(-spare, kind="stable")[: len(amounts) - at]
        size, free = amounts[at : at + len(order)], spare[order]
        left = free - size
        good = (size <= free) | (size < few[order])
        good[1:] &= np.maximum.accumulate(left)[:-1] < free[1:]
        count = len(good) if good.all() else int(good.argmin())
        spare[order[:count]] = left[:count]
        found.append(order[:count])
        at += count
        if count < min(_LEAST_ROUND, len(order)):
            break
    return np.concatenate(found)
