"""Pieces: which slot reads which offsets of which range, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Floats, Ints, MicroBatch
    from assignor_bridge.planner.costs import Weights


class Shares(NamedTuple):
    """Who does how much of the work of which range: one cell a share."""

    #: Index of the range in the batch.
    row: Ints
    slot: Ints
    amount: Floats


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

    def take(self, order: Ints) -> Pieces:
        """Return some of the pieces, in this order."""
        return Pieces(self.row[order], self.start[order], self.end[order], self.slot[order])

    def work(self, batch: MicroBatch, weights: Weights) -> Floats:
        """Return the predicted work of each: its share of its range's, but the fixed part whole."""
        share = (self.end - self.start) / batch.size[self.row]
        work, fixed = weights.work[self.row], weights.fixed[self.row]
        return np.asarray(fixed + (work - fixed) * share)

    def records_by_slot(self, slots: int) -> Floats:
        """Return the number of offsets that each slot reads."""
        sizes = (self.end - self.start).astype(np.float64)
        return np.bincount(self.slot, sizes, slots).astype(np.float64)


def cut_ranges(batch: MicroBatch, shares: Shares, fixed: Floats) -> Pieces:
    """Turn work into offsets: cuts fall between them, where the shares of a range say.

    A share may come out empty and is dropped; those of a range always add up to it.

    Parameters
    ----------
    shares
        Those of a range side by side, in the order in which it is read; each range has some.
    fixed
        Work of each range that each of its shares holds; offsets stand for the rest. A share that
        is no more than that is dropped, unless that would be much of the range.
    """
    row = shares.row
    start, end = batch.start[row], batch.end[row]
    several = np.flatnonzero(np.bincount(row, minlength=batch.ranges)[row] > 1)
    if len(several):
        records = np.maximum(shares.amount - fixed[row], 0.0)
        small = np.bincount(row, np.where(records > 0, 0.0, shares.amount), batch.ranges)
        apart = (small <= np.minimum(fixed, 0.5 * np.bincount(row, records, batch.ranges)))[row]
        amount = np.where(apart, records, shares.amount)[several]
        since, until = _divide_offsets(batch.size[row[several]], row[several], amount)
        end[several] = start[several] + until
        start[several] += since
    return Pieces(row, start, end, shares.slot).take(np.flatnonzero(end > start))


def _divide_offsets(size: Ints, row: Ints, amount: Floats) -> tuple[Ints, Ints]:
    """Divide the offsets of each row in proportion to amounts: where parts begin and end.

    Added up row by row: beside 2^62 offsets of another row, ten would be lost.
    """
    first = np.flatnonzero(np.append(True, row[1:] != row[:-1]))
    after = np.append(first[1:], len(row))
    amounts, spans = amount.tolist(), zip(first.tolist(), after.tolist(), strict=True)
    added = chain.from_iterable(accumulate(amounts[a:b]) for a, b in spans)
    sums = np.fromiter(added, np.float64, len(row))
    part = np.rint(size * np.minimum(1.0, sums / np.repeat(sums[after - 1], after - first)))
    part[after - 1] = np.inf
    inside, until = part < 2.0**63, size.copy()
    until[inside] = np.minimum(size[inside], part[inside].astype(np.int64))
    since = np.append(0, until[:-1])
    since[first] = 0
    return since, until
