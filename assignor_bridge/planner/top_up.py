"""`minRecordsPerTask` where ranges may be cut: slots that have too little get the ends of others'.

Joining two tasks would double the load of one. So the slot with most records gives the end of its
largest piece, as much as is missing and it can spare; no slot that gives falls below the minimum.
What cannot be helped so (nobody can spare enough, or all that could be had is of ranges that the
slot reads a part of already) is left to `pack`, which joins.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.pieces import Pieces

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Batch

    #: A piece: row, start, end.
    Piece = tuple[int, int, int]


def top_up(batch: Batch, pieces: Pieces, least: int) -> Pieces:
    """Bring each slot that has any work to `least` records, as far as others can spare them."""
    records = np.bincount(pieces.slot, (pieces.end - pieces.start).astype(np.float64), batch.slots)
    short = np.flatnonzero((records > 0) & (records < least))
    if not len(short):
        return pieces
    of_slot = _Slots(pieces)
    givers = [(-int(records[slot]), slot) for slot in np.flatnonzero(records > least).tolist()]
    heapq.heapify(givers)
    for slot in short.tolist():
        missing = least - int(records[slot])
        passed_over = []
        while missing > 0 and givers:
            negative, giver = heapq.heappop(givers)
            taken = of_slot.hand_over(giver, slot, min(missing, -negative - least))
            missing -= taken
            if not taken:
                passed_over.append((negative, giver))
            elif -negative - taken > least:
                heapq.heappush(givers, (negative + taken, giver))
        for each in passed_over:
            heapq.heappush(givers, each)
    return of_slot.pieces()


class _Slots:
    """The pieces of each slot, as lists where they change."""

    def __init__(self, pieces: Pieces) -> None:
        self._before = pieces
        self._order = np.argsort(pieces.slot, kind="stable")
        self._sorted = pieces.slot[self._order]
        self._changed: dict[int, list[Piece]] = {}

    def _of(self, slot: int) -> list[Piece]:
        if slot not in self._changed:
            first, last = np.searchsorted(self._sorted, (slot, slot + 1)).tolist()
            at, p = self._order[first:last], self._before
            self._changed[slot] = list(
                zip(p.row[at].tolist(), p.start[at].tolist(), p.end[at].tolist(), strict=True)
            )
        return self._changed[slot]

    def hand_over(self, giver: int, taker: int, most: int) -> int:
        """Move up to so many records from the end of a piece; return how many."""
        theirs, mine = self._of(giver), self._of(taker)
        known = {row for row, _, _ in mine}
        sizes = [
            (end - start, -row, i) for i, (row, start, end) in enumerate(theirs) if row not in known
        ]
        if not sizes:
            return 0
        size, _, i = max(sizes)
        row, start, end = theirs[i]
        taken = min(size, most)
        mine.append((row, end - taken, end))
        if taken == size:
            theirs.pop(i)
        else:
            theirs[i] = (row, start, end - taken)
        return taken

    def pieces(self) -> Pieces:
        """All pieces, in the order of ranges and offsets."""
        before = self._before
        same = ~np.isin(before.slot, list(self._changed))
        rows = [(*piece, slot) for slot, mine in self._changed.items() for piece in mine]
        columns = np.array(rows, np.int64).reshape(-1, 4).T
        row, start, end, slot = (
            np.append(old[same], new)
            for old, new in zip(
                (before.row, before.start, before.end, before.slot), columns, strict=True
            )
        )
        order = np.lexsort((start, row))
        return Pieces(row[order], start[order], end[order], slot[order])
