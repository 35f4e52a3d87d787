"""Pieces: which slot reads which offsets of which range, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Flags, Floats, Ints, MicroBatch
    from assignor_bridge.planner.costs import Weights


class Shares(NamedTuple):
    """The slot that does each share of a range's work (one element per share)."""

    #: Index of the range in the batch.
    row: Ints
    slot: Ints
    amount: Floats  # of work

    def take(self, order: Ints | Flags) -> Shares:
        """Return the shares at these indices, in this order, or with these flags."""
        return Shares(self.row[order], self.slot[order], self.amount[order])


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of ranges (one element per piece), sorted by range and offset unless noted."""

    #: Index of the range in the batch.
    row: Ints
    start: Ints
    end: Ints
    slot: Ints

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def whole(cls, batch: MicroBatch, slot: Ints) -> Pieces:
        """Return each range as one piece."""
        return cls(np.arange(batch.range_count), batch.start, batch.end, slot)

    def take(self, order: Ints) -> Pieces:
        """Return the pieces at these indices, in this order."""
        return Pieces(self.row[order], self.start[order], self.end[order], self.slot[order])

    def append(self, other: Pieces) -> Pieces:
        """Return these pieces, followed by the others."""
        return Pieces(
            np.append(self.row, other.row),
            np.append(self.start, other.start),
            np.append(self.end, other.end),
            np.append(self.slot, other.slot),
        )

    def predict_work(self, batch: MicroBatch, weights: Weights) -> Floats:
        """Return each piece's predicted work: a share of the variable work, plus the fixed work."""
        share_of_range = (self.end - self.start) / batch.size[self.row]
        work, fixed_work = weights.work[self.row], weights.fixed_work[self.row]
        return np.asarray(fixed_work + (work - fixed_work) * share_of_range)

    def count_offsets_by_slot(self, slots: int) -> Floats:
        """Return the number of offsets that each slot reads."""
        sizes = (self.end - self.start).astype(np.float64)
        return np.bincount(self.slot, sizes, slots).astype(np.float64)


def cut_ranges(batch: MicroBatch, shares: Shares, fixed_work: Floats) -> Pieces:
    """Turn shares of work into pieces: cut each range between offsets, in proportion to its shares.

    Each share includes its range's fixed work once. The variable work, above it, determines the
    offsets; if shares without variable work do much of the range's work, all work does. The shares
    of a range are adjacent, in the order of their offsets. Empty pieces are dropped.
    """
    row = shares.row
    start, end = batch.start[row], batch.end[row]
    cut_shares = np.flatnonzero(np.bincount(row, minlength=batch.range_count)[row] > 1)
    if len(cut_shares):
        variable_work = np.maximum(shares.amount - fixed_work[row], 0.0)
        # A share without variable work gets no offsets; that is accepted if such shares are small.
        fixed_only_work = np.where(variable_work > 0, 0.0, shares.amount)
        max_work = np.minimum(fixed_work, 0.5 * np.bincount(row, variable_work, batch.range_count))
        subtracts_fixed = np.bincount(row, fixed_only_work, batch.range_count) <= max_work
        work = np.where(subtracts_fixed[row], variable_work, shares.amount)[cut_shares]
        cut_row = row[cut_shares]
        relative_start, relative_end = _divide_offsets(batch.size[cut_row], cut_row, work)
        end[cut_shares] = start[cut_shares] + relative_end
        start[cut_shares] += relative_start
    return Pieces(row, start, end, shares.slot).take(np.flatnonzero(end > start))


def _divide_offsets(size: Ints, row: Ints, work: Floats) -> tuple[Ints, Ints]:
    """Return the first and end offset of each part of a range, relative to the range's start.

    `size`, `row`: number of offsets and index of each part's range. Offsets are divided in
    proportion to `work`. Sums are formed range by range, because rounding would lose ten offsets
    next to another range's 2^62.
    """
    first = np.flatnonzero(np.append(True, row[1:] != row[:-1]))
    after = np.append(first[1:], len(row))
    work_list, bounds = work.tolist(), zip(first.tolist(), after.tolist(), strict=True)
    running_sums = chain.from_iterable(accumulate(work_list[a:b]) for a, b in bounds)
    sums = np.fromiter(running_sums, np.float64, len(row))
    end_estimate = np.rint(size * np.minimum(1.0, sums / np.repeat(sums[after - 1], after - first)))
    end_estimate[after - 1] = np.inf
    fits, relative_end = end_estimate < 2.0**63, size.copy()  # fits into an int64
    relative_end[fits] = np.minimum(size[fits], end_estimate[fits].astype(np.int64))
    relative_start = np.append(0, relative_end[:-1])
    relative_start[first] = 0
    return relative_start, relative_end
