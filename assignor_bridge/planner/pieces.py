"""Pieces: which slot reads which part of which range, as columns; and where a range is cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.planner.batch import Batch, Floats, Ints


@dataclass(frozen=True, eq=False)
class Pieces:
    """One cell a piece, in the order of its range and its offsets."""

    #: Index of the range in the batch.
    row: Ints
    start: Ints
    end: Ints
    slot: Ints

    def __len__(self) -> int:
        return len(self.row)

    def weight(self, batch: Batch, weights: Floats) -> Floats:
        """Predicted work of each piece: its share of its range's."""
        share = (self.end - self.start) / batch.size[self.row]
        return np.asarray(weights[self.row] * share)


@dataclass(frozen=True, slots=True)
class Cut:
    """How one range is shared: slots in reading order, and the work that each gets."""

    row: int
    slots: Sequence[int]
    amounts: Sequence[float]


def assemble(batch: Batch, whole: Ints, cuts: Sequence[Cut]) -> Pieces:
    """Turn placements into offsets.

    Parameters
    ----------
    whole
        Slot of each range that stays in one piece, -1 for those in `cuts`.
    cuts
        The ranges that are shared. Cuts fall between offsets, so a share may come out empty and
        is dropped; the shares of a range always add up to it.
    """
    kept = np.flatnonzero(whole >= 0)
    rows: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    slots: list[int] = []
    for cut in cuts:
        first, last = int(batch.start[cut.row]), int(batch.end[cut.row])
        size, total = last - first, sum(cut.amounts)
        done, position = 0.0, first
        for i, (slot, amount) in enumerate(zip(cut.slots, cut.amounts, strict=True)):
            done += amount
            if i == len(cut.slots) - 1:
                until = last
            else:
                until = min(last, max(position, first + round(size * min(1.0, done / total))))
            if until > position:
                rows.append(cut.row)
                starts.append(position)
                ends.append(until)
                slots.append(slot)
                position = until
    row = np.concatenate((kept, np.array(rows, np.int64)))
    start = np.concatenate((batch.start[kept], np.array(starts, np.int64)))
    end = np.concatenate((batch.end[kept], np.array(ends, np.int64)))
    where = np.concatenate((whole[kept], np.array(slots, np.int64)))
    if not rows:
        return Pieces(row, start, end, where)
    order = np.lexsort((start, row))
    return Pieces(row[order], start[order], end[order], where[order])
