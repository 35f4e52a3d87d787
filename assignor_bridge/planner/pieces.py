"""Pieces: which slot reads which part of which range, as columns; and where a range is cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

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


class Cut(NamedTuple):
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
    if not cuts:
        return Pieces(kept, batch.start[kept], batch.end[kept], whole[kept])
    shared = [cut.row for cut in cuts]
    rows: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    slots: list[int] = []
    for cut, first, last in zip(
        cuts, batch.start[shared].tolist(), batch.end[shared].tolist(), strict=True
    ):
        row, size, total = cut.row, last - first, sum(cut.amounts)
        done, position, left = 0.0, first, len(cut.slots)
        for slot, amount in zip(cut.slots, cut.amounts, strict=True):
            done += amount
            left -= 1
            part = size * min(1.0, done / total)
            until = min(last, first + round(part)) if left else last
            if until > position:
                rows.append(row)
                starts.append(position)
                ends.append(until)
                slots.append(slot)
                position = until
    order = np.argsort(np.append(kept, rows), kind="stable")  # shares are in order of offsets
    return Pieces(
        np.append(kept, rows)[order],
        np.append(batch.start[kept], starts)[order],
        np.append(batch.end[kept], ends)[order],
        np.append(whole[kept], slots)[order],
    )
