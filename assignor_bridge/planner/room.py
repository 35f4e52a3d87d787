"""What was given out: shares, collected as they come up and sorted out as columns at the end."""

from __future__ import annotations

from itertools import chain, repeat
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.ordering import stable_order
from assignor_bridge.planner.pieces import Cuts

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Floats, Ints

#: What sums of floats may be off by.
ROUNDING = 1e-9


class Shares:
    """What was given out: one cell a share, those of a range side by side."""

    def __init__(self) -> None:
        self._taken: list[tuple[int, list[int], list[float]]] = []
        self._rounds: list[tuple[Ints, Ints, Floats]] = []

    def take(self, row: int, slots: list[int], parts: list[float]) -> None:
        """Note a range that `slots` share."""
        self._taken.append((row, slots, parts))

    def take_many(self, rows: Ints, slots: Ints, parts: Floats) -> None:
        """Note one share each."""
        self._rounds.append((rows, slots, parts))

    def settle(self, whole: Ints, home: Ints, kept: Floats) -> Cuts:
        """Put shares of a range in reading order: what stays at home first, the largest last.

        Parameters
        ----------
        whole
            Slot of each range that stays whole; filled in for those that one slot got.
        home, kept
            Slot and work of the head of each range that stays where it was; -1 for no slot.
        """
        row, slot, part = self._columns()
        alone = np.bincount(row, minlength=len(whole)) == 1
        whole[row[alone[row]]] = slot[alone[row]]
        several = ~(alone & (home < 0))[row]
        row, slot, part = row[several], slot[several], part[several]
        order = np.lexsort((slot, part, row))
        row, slot, part = row[order], slot[order], part[order]
        goes_home = home[row] == slot
        kept[row[goes_home]] += part[goes_home]
        some = part > 0
        nothing = (np.bincount(row[some], minlength=len(whole)) == 0) & (home < 0)
        first = np.append(True, row[1:] != row[:-1])[: len(row)]
        use = (some | (first & nothing[row])) & ~goes_home
        heads = np.flatnonzero(home >= 0)
        row = np.append(heads, row[use])
        order = stable_order(row)
        row = row[order]
        slot = np.append(home[heads], slot[use])[order]
        part = np.append(kept[heads], part[use])[order]
        count = np.bincount(row, minlength=len(whole))
        single = count[row] == 1
        whole[row[single]] = slot[single]
        whole[row[~single]] = -1
        return Cuts(row[~single], slot[~single], part[~single])

    def _columns(self) -> tuple[Ints, Ints, Floats]:
        flat = chain.from_iterable
        count = sum([len(slots) for _, slots, _ in self._taken])
        row = flat([repeat(row, len(slots)) for row, slots, _ in self._taken])
        slot = flat([slots for _, slots, _ in self._taken])
        part = flat([parts for _, _, parts in self._taken])
        rounds = zip(*self._rounds, strict=True) if self._rounds else ((), (), ())
        rows, slots, parts = rounds
        return (
            np.concatenate((np.fromiter(row, np.int64, count), *rows)),
            np.concatenate((np.fromiter(slot, np.int64, count), *slots)),
            np.concatenate((np.fromiter(part, np.float64, count), *parts)),
        )


def evenly(room: list[float], capacity: list[float], amount: float) -> list[float]:
    """Divide so that the same share of the time of each slot stays free."""
    if len(room) == 1:
        return [amount]
    free = sum(room) - amount
    total = sum(capacity)
    return [max(0.0, r - free * c / total) for r, c in zip(room, capacity, strict=True)]
