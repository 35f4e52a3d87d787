"""Pieces: which slot reads which part of which range, as columns; and where a range is cut."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, chain
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
    rows, starts, ends, slots = _shared(batch, cuts)
    order = np.argsort(np.append(kept, rows), kind="stable")  # shares are in order of offsets
    return Pieces(
        np.append(kept, rows)[order],
        np.append(batch.start[kept], starts)[order],
        np.append(batch.end[kept], ends)[order],
        np.append(whole[kept], slots)[order],
    )


def _shared(batch: Batch, cuts: Sequence[Cut]) -> tuple[Ints, Ints, Ints, Ints]:
    """Row, start, end and slot of each share that is not empty."""
    count = np.fromiter([len(cut.slots) for cut in cuts], np.int64, len(cuts))
    row = np.repeat(np.fromiter([cut.row for cut in cuts], np.int64, len(cuts)), count)
    slot = np.fromiter(chain.from_iterable([cut.slots for cut in cuts]), np.int64, len(row))
    done = np.fromiter(
        chain.from_iterable([accumulate(cut.amounts) for cut in cuts]), np.float64, len(row)
    )
    last = np.cumsum(count) - 1
    size = batch.size[row]
    part = np.rint(size * np.minimum(1.0, done / np.repeat(done[last], count)))
    part[last] = np.inf
    inside = part < 2.0**63
    until = size.copy()
    until[inside] = np.minimum(size[inside], part[inside].astype(np.int64))
    since = np.append(0, until[:-1])
    since[last - count + 1] = 0
    some = until > since
    row = row[some]
    start = batch.start[row]
    return row, start + since[some], start + until[some], slot[some]
