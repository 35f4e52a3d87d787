"""Placing what may go anywhere: largest first, and the slot with most room takes it.

An amount goes whole to that slot if it fits or is not worth cutting; else as few slots as have the
room share it. `_one_by_one` says how it is meant, and is slow: Python looks at each slot that takes
part. So what fits whole is placed in rounds, and the rest in runs whose arithmetic is done at once,
for as long as that gives the same to the last bit.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.room import ROUNDING, evenly

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Floats, Ints
    from assignor_bridge.planner.room import Shares

#: From so many amounts on a round is tried.
_MANY = 64
#: A run that places fewer does not pay: the next `_MANY` are placed one by one.
_FEW = 8


class Anywhere:
    """Amounts to be placed, largest first, and the slots that have room."""

    def __init__(  # noqa: PLR0917
        self,
        rows: Ints,
        amounts: Floats,
        spare: Floats,
        capacity: Floats,
        grain: float,
        fresh: bool,
        shares: Shares,
    ) -> None:
        self.rows = rows
        self.amounts = amounts
        self.spare = spare
        #: Fair share of each slot.
        self.fair = capacity
        #: What is not worth cutting, by slot.
        self.few = 2 * grain * capacity
        #: Nothing was read before: fill slot after slot, as the wrap-around rule does, for fewest
        #: pieces in the end. Else what stays free is divided evenly.
        self.fresh = fresh
        self.shares = shares

    def place(self) -> None:
        """Place all."""
        at, end = 0, len(self.rows)
        while at < end:
            if end - at >= _MANY:
                at = self._whole_round(at)
            before = at
            at = self._run(at)
            if at - before < _FEW:
                at = self._one_by_one(at, min(end, at + _MANY))

    def _whole_round(self, at: int) -> int:
        """Place what fits whole; returns the next to be placed."""
        slots = _whole(self.amounts[at:], self.spare, self.few)
        now = slice(at, at + len(slots))
        self.shares.take_many(self.rows[now], slots, self.amounts[now])
        return at + len(slots)

    def _run(self, at: int) -> int:
        """Take slots in order of their room; returns the next amount to be placed.

        What slots that share an amount evenly have left is not said here: before one of them could
        come up again the run ends. It ends, too, where a round will do.
        """
        order = np.argsort(-self.spare, kind="stable")
        new = list(zip((-self.spare[order]).tolist(), order.tolist(), strict=True))
        again: list[tuple[float, int]] = []  # a heap of slots that were given to and have room left
        few, fair, largest = self.few.tolist(), self.fair.tolist(), self.fair.max()
        taken: list[int] = []
        room: list[float] = []
        counts: list[int] = []
        sums: list[tuple[float, float, float]] = []
        here, floor, whole, slots = 0, 0.0, 0, len(new)
        for amount in self.amounts[at:].tolist():
            enough, before, found, total, count = amount * (1 - ROUNDING), 0.0, 0.0, 0.0, 0
            while found < enough:
                if again and (here == slots or again[0] < new[here]):
                    negative, slot = heapq.heappop(again)
                elif here < slots:
                    negative, slot = new[here]
                    here += 1
                else:
                    break
                if -negative <= floor:
                    break
                taken.append(slot)
                room.append(-negative)
                before = found
                found -= negative
                total += fair[slot]
                count += 1
                if count == 1 and amount < few[slot]:
                    break
            if found < enough and (count != 1 or amount >= few[taken[-1]]):
                break
            whole = whole + 1 if count == 1 else 0
            counts.append(count)
            sums.append((before, found, total))
            if count == 1 or self.fresh:
                left = -negative - max(0.0, amount - before)
                if left > floor:
                    heapq.heappush(again, (-left, slot))
            else:
                floor = max(floor, (found - amount) * largest / total * (1 + ROUNDING))
            if whole > _MANY:
                break
        end, used = at + len(counts), sum(counts)
        had = np.array(room[:used], np.float64)
        self._give(at, end, np.array(taken[:used], np.int64), had, counts, sums)
        return end

    def _give(  # noqa: PLR0917
        self,
        at: int,
        end: int,
        slot: Ints,
        had: Floats,
        counts: list[int],
        sums: list[tuple[float, float, float]],
    ) -> None:
        """Divide each amount over the slots that take it.

        Parameters
        ----------
        slot, had
            Slots in the order in which they are taken, and the room that each had then.
        counts
            How many of them take each amount.
        sums
            For each amount: the room of its slots but the last, that of all, and their capacity.
        """
        count = np.array(counts, np.int64)
        amount = np.repeat(self.amounts[at:end], count)
        before, found, total = np.repeat(np.array(sums).reshape(-1, 3), count, axis=0).T
        if self.fresh:
            parts = had.copy()
            last = np.cumsum(count) - 1
            parts[last] = (amount - before)[last]
        else:
            parts = had - (found - amount) * self.fair[slot] / total
        parts = np.where(np.repeat(count, count) == 1, amount, np.maximum(parts, 0.0))
        self.spare[slot] = had - parts  # of a slot that is taken twice, the last counts
        self.shares.take_many(np.repeat(self.rows[at:end], count), slot, parts)

    def _one_by_one(self, at: int, end: int) -> int:
        """Look for the slots with most room each time."""
        order = np.argsort(-self.spare, kind="stable")
        heap = list(zip((-self.spare[order]).tolist(), order.tolist(), strict=True))
        few, fair = self.few.tolist(), self.fair.tolist()
        for row, amount in zip(
            self.rows[at:end].tolist(), self.amounts[at:end].tolist(), strict=True
        ):
            negative, slot = heap[0]
            if amount > -negative and amount >= few[slot]:
                taken, room = _with_most_room(heap, amount)
            else:
                heapq.heappop(heap)
                taken, room = [slot], [-negative]
            if len(taken) == 1:
                parts = [amount]
            elif self.fresh:
                parts = [max(0.0, free) for free in room[:-1]]
                parts.append(max(0.0, amount - sum(parts)))
            else:
                parts = evenly(room, [fair[slot] for slot in taken], amount)
            for slot, free, part in zip(taken, room, parts, strict=True):
                heapq.heappush(heap, (part - free, slot))
            self.shares.take(row, taken, parts)
        negatives, slots = zip(*heap, strict=True)
        self.spare[list(slots)] = -np.array(negatives)
        return end


def _with_most_room(heap: list[tuple[float, int]], amount: float) -> tuple[list[int], list[float]]:
    """Take slots off the heap until there is room for the amount; all, if there is too little."""
    taken: list[int] = []
    room: list[float] = []
    found = 0.0
    enough = amount * (1 - ROUNDING)
    while heap and found < enough and (not taken or heap[0][0] < 0):
        negative, slot = heapq.heappop(heap)
        taken.append(slot)
        room.append(-negative)
        found -= negative
    if found < enough:  # no room anywhere (no allowance): all go beyond it alike
        heap.sort()
        taken += [slot for _, slot in heap]
        room += [-negative for negative, _ in heap]
        heap.clear()
    return taken, room


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
        if count < min(_MANY, len(order)):
            break
    return np.concatenate(found)
