"""Placing on other slots of the lender's executor: its consumers' caches are next door there.

Largest first, on as few slots as have the room, of which the same share stays free. Executors have
nothing to do with each other here, so the largest amounts of all of them are placed at once, then
the next; what is left of few executors goes one by one, which is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.room import ROUNDING, evenly

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Flags, Floats, Ints
    from assignor_bridge.planner.room import Shares

#: From so many executors on it is faster to place an amount of each at once.
_MANY = 12


class AtHome:
    """The slots of executors, and the room that they have."""

    def __init__(
        self, slot_executor: Ints, spare: Floats, capacity: Floats, shares: Shares
    ) -> None:
        self.slot_executor = slot_executor
        self.spare = spare
        self.capacity = capacity
        self.shares = shares

    def place(self, rows: Ints, amounts: Floats, executor: Ints) -> Ints:
        """Place what fits; returns what does not, as places in the columns.

        Parameters
        ----------
        executor
            The one that each row is at home at.
        """
        free = np.bincount(self.slot_executor, np.maximum(self.spare, 0))
        fits = amounts <= free[executor] * (1 + ROUNDING)
        order = np.flatnonzero(fits)
        order = order[np.lexsort((rows[order], -amounts[order], executor[order]))]
        home = executor[order]
        turn = np.arange(len(order)) - np.searchsorted(home, home)
        rounds = int((np.bincount(turn) >= _MANY).sum())
        left = [np.flatnonzero(~fits)]
        for number in range(rounds):
            now = order[turn == number]
            placed = self._one_of_each(rows[now], amounts[now], executor[now])
            left.append(now[~placed])
        later = order[turn >= rounds]
        placed = self._one_by_one(rows[later], amounts[later], executor[later])
        left.append(later[~placed])
        return np.concatenate(left)

    def _one_of_each(self, rows: Ints, amounts: Floats, executor: Ints) -> Flags:
        """Place one amount on each of different executors; says which could be."""
        first = np.searchsorted(self.slot_executor, executor)
        count = np.searchsorted(self.slot_executor, executor, "right") - first
        place = np.arange(int(count.max()))
        slot = np.minimum(first[:, None] + place, len(self.spare) - 1)
        room = np.where(place < count[:, None], np.maximum(self.spare[slot], 0), 0)
        ranked = np.argsort(-room, axis=1, kind="stable")
        slot, room = np.take_along_axis(slot, ranked, 1), np.take_along_axis(room, ranked, 1)
        found = np.cumsum(room, axis=1)
        amount = amounts[:, None]
        placed = found[:, -1] >= amounts
        use = (room > 0) & placed[:, None]
        use[:, 1:] &= found[:, :-1] < amount
        room = np.where(use, room, 0)
        capacity = np.where(use, self.capacity[slot], 0)
        free = np.cumsum(room, axis=1)[:, -1:] - amount
        with np.errstate(invalid="ignore"):
            part = np.maximum(0, room - free * capacity / np.cumsum(capacity, axis=1)[:, -1:])
        uses = np.count_nonzero(use, axis=1)
        part = np.where(uses[:, None] == 1, amount, part)[use]
        self.spare[slot[use]] -= part
        self.shares.take_many(np.repeat(rows, uses), slot[use], part)
        return placed

    def _one_by_one(self, rows: Ints, amounts: Floats, executor: Ints) -> Flags:
        """Place one amount after the other; says which could be."""
        placed = np.zeros(len(rows), np.bool_)
        spare, capacity = self.spare.tolist(), self.capacity.tolist()
        for i, (row, amount, first, last) in enumerate(
            zip(
                rows.tolist(),
                amounts.tolist(),
                np.searchsorted(self.slot_executor, executor).tolist(),
                np.searchsorted(self.slot_executor, executor, "right").tolist(),
                strict=True,
            )
        ):
            taken: list[int] = []
            found = 0.0
            for negative, slot in sorted([(-spare[slot], slot) for slot in range(first, last)]):
                if found >= amount or negative >= 0:
                    break
                taken.append(slot)
                found -= negative
            if found >= amount:
                room, fair = [spare[s] for s in taken], [capacity[s] for s in taken]
                parts = evenly(room, fair, amount)
                for slot, part in zip(taken, parts, strict=True):
                    spare[slot] -= part
                self.shares.take(row, taken, parts)
                placed[i] = True
        self.spare[:] = spare
        return placed
