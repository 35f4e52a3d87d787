"""Pieces: which slot reads which part of which range, as columns; and where a range is cut."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from assignor_bridge.planner.ordering import stable_order

if TYPE_CHECKING:
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


class Cuts(NamedTuple):
    """How ranges are shared: one cell a share, those of a range side by side, in reading order."""

    row: Ints
    slot: Ints
    #: Work that the slot gets.
    amount: Floats


def assemble(batch: Batch, whole: Ints, cuts: Cuts | None = None) -> Pieces:
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
    if cuts is None or not len(cuts.row):
        return Pieces(kept, batch.start[kept], batch.end[kept], whole[kept])
    rows, starts, ends, slots = _shared(batch, cuts)
    order = stable_order(np.append(kept, rows))  # shares are in order of offsets
    return Pieces(
        np.append(kept, rows)[order],
        np.append(batch.start[kept], starts)[order],
        np.append(batch.end[kept], ends)[order],
        np.append(whole[kept], slots)[order],
    )


def _shared(batch: Batch, cuts: Cuts) -> tuple[Ints, Ints, Ints, Ints]:
    """Row, start, end and slot of each share that is not empty."""
    row, slot = cuts.row, cuts.slot
    first = np.flatnonzero(np.append(True, row[1:] != row[:-1]))
    after = np.append(first[1:], len(row))
    count, last = after - first, after - 1
    amounts, spans = cuts.amount.tolist(), zip(first.tolist(), after.tolist(), strict=True)
    done = np.fromiter(
        chain.from_iterable([accumulate(amounts[a:b]) for a, b in spans]), np.float64, len(row)
    )
    size = batch.size[row]
    part = np.rint(size * np.minimum(1.0, done / np.repeat(done[last], count)))
    part[last] = np.inf
    inside = part < 2.0**63
    until = size.copy()
    until[inside] = np.minimum(size[inside], part[inside].astype(np.int64))
    since = np.append(0, until[:-1])
    since[first] = 0
    some = until > since
    row = row[some]
    start = batch.start[row]
    return row, start + since[some], start + until[some], slot[some]
