"""Placement with splitting: who reads what, so that no slot takes much longer than the ideal.

Promises, in order, with `fair` for the work that each slot would do in the ideal case:

1. No slot gets more than `(1 + max_imbalance) * fair` (rounding to whole offsets apart), whoever
   read what before, and however many executors have come or gone.
2. Ranges stay with the slot that read them last: inside the limit nothing moves. A slot beyond it
   gives away the tail of one range if that is enough (its own consumer goes on with the head), else
   of a few, else its largest ranges as well; to slots of its own executor first.
3. Few pieces: not more than one a range and two a slot.

Ties go to the lower slot and the earlier range.

`release` brings each overloaded slot down. What it gives, and what is new, goes to the slot with
most room if it fits whole, largest first (`_fit`). The rest is laid end to end beside the room
below `fair`, which is as long, and cut where a slot's room ends (`_wrap`, McNaughton's rule).

Two slots with a fair share of 6 each; the first read both ranges, 8 and 4, before:

>>> work, owner = np.array([8.0, 4.0]), np.array([0, 0])
>>> placed = place(work, owner, np.array([6.0, 6.0]), np.array([0, 1]), max_imbalance=0.05)
>>> for row, slot, amount in zip(*placed):
...     print(f"range {row}: slot {slot} reads {amount:.4g}")
range 0: slot 0 reads 2.135
range 0: slot 1 reads 5.865
range 1: slot 0 reads 4
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.pieces import Shares
from checkpoints.sorting import stable_order

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Floats, Ints

#: Share of the allowance that placement uses up; the rest is for rounding to whole offsets.
USED_ALLOWANCE = 0.9
#: Least share of a slot's time that is cut off or left: less is not worth a cold consumer; and the
#: same where nothing was read before, so that all are cold.
_GRAIN, _FRESH_GRAIN = 0.02, 0.001
#: Cuts that a slot which gives work away may make at most; two if all slots do.
_MOST_CUTS = 4
_ROUNDING = 1e-9  # what sums of floats may be off by


def place(  # noqa: PLR0917
    work: Floats,
    owner: Ints,
    fair: Floats,
    slot_executor: Ints,
    max_imbalance: float | Floats,
    least: float = 0.0,
    zones: tuple[Ints, Ints] | None = None,
) -> Shares:
    """Give each range, whole or cut, to slots.

    Parameters
    ----------
    work, owner
        Predicted work of each range, more than 0, and the slot that read it last, -1 for none.
    fair, slot_executor
        Fair share of each slot (its part of all work, by speed), and its executor.
    max_imbalance
        How far beyond its fair share a slot may go, as a share of it; perhaps of each.
    least
        Less work than this is not cut off or left; where it is much, it outranks the promises.
    zones
        Zone of each range and of each slot: no other reads it. Fair shares add up to a zone's work.
    """
    owned = owner >= 0
    fresh = not owned.any()  # nothing to keep: then the ideal itself
    allowance = 0.0 if fresh else USED_ALLOWANCE * max_imbalance
    # `_wrap` may give a slot a grain too much at both ends: that is within the limit still.
    share = _FRESH_GRAIN if fresh else np.minimum(_GRAIN, np.divide(allowance, 2))
    grain = np.maximum(fair * share, least)
    fair = fair * (1 + _ROUNDING)
    limit = fair * (1 + allowance)
    load = np.asarray(np.bincount(owner[owned], work[owned], len(fair)), np.float64)
    overloaded = load > limit
    giver = np.where(owned & overloaded[owner], owner, -1)
    released = release(work, giver, load - fair * (1 + allowance / 2), grain)
    load -= np.bincount(np.maximum(giver, 0), released, len(fair))
    waits, kept = np.where(owned, released, work), np.where(owned, work - released, 0.0)
    given: list[Shares] = []

    def room() -> Floats:
        return np.where(overloaded, 0.0, limit - load)

    def give(shares: Shares) -> None:
        given.append(shares)
        load[:] += np.bincount(shares.slot, shares.amount, len(fair))
        waits[shares.row] = 0.0

    home = slot_executor[owner]
    give(_fit(waits * owned, home, room(), slot_executor))
    give(_wrap(waits * owned, home, fair - load, slot_executor, grain))
    home, slot_executor = zones or (home * 0, slot_executor * 0)  # now anywhere
    give(_wrap(waits * (waits > room().max()), home, fair - load, slot_executor, grain))
    give(_fit(waits, home, room(), slot_executor))
    give(_wrap(waits, home, fair - load, slot_executor, grain))
    # What stays comes first, the largest share last: its reader has the range in the next batch.
    row, slot, amount = (np.concatenate(column) for column in zip(*given, strict=True))
    ranked, stays = np.argsort(amount, kind="stable"), np.flatnonzero(kept)
    order = stable_order(np.append(stays, row[ranked]))
    return Shares(
        np.append(stays, row[ranked])[order],
        np.append(owner[stays], slot[ranked])[order],
        np.append(kept[stays], amount[ranked])[order],
    )


def release(work: Floats, giver: Ints, excess: Floats, grain: Floats) -> Floats:
    """Return how much of each range its slot gives away, to be rid of its excess within a grain.

    `giver` is its slot, -1 where that is not overloaded. The largest go whole until a few cuts are
    enough; then one range if it is enough, the smallest such: least work changes hands next time.
    """
    released, row = np.zeros(len(work)), np.flatnonzero(giver >= 0)
    row = row[np.lexsort((-work[row], giver[row]))]
    if not len(row):
        return released
    size = work[row]
    new = np.append(True, giver[row][1:] != giver[row][:-1])
    first, group, at = np.flatnonzero(new), np.cumsum(new) - 1, np.arange(len(row))
    slot = giver[row[first]]
    rest, least, count = excess[slot], grain[slot], len(slot)
    before, headless = np.append(0.0, np.cumsum(size)), np.maximum(size - least[group], 0.0)
    in_need = int(np.count_nonzero(headless[first] < rest))  # one cut is not enough for these
    cuts = min(_MOST_CUTS, 1 + len(grain) // max(in_need, 1))
    by_cuts, end = np.append(0.0, np.cumsum(headless)), np.append(first[1:], len(row))[group]
    at_most = before[at] - before[first][group] + by_cuts[np.minimum(at + cuts, end)] - by_cuts[at]
    whole = at_most < rest[group]
    released[row[whole]] = size[whole]
    rest -= np.bincount(group[whole], size[whole], count)
    largest = first + np.bincount(group[whole], minlength=count)
    for _ in range(cuts):
        enough = group[(size >= (rest + least)[group]) & (at >= largest[group])]
        one = largest + np.maximum(np.bincount(enough, minlength=count), 1) - 1
        open_ = np.flatnonzero(rest > least)
        one = one[open_]
        most = np.where(size[one] < 2 * least[open_], size[one], headless[one])
        released[row[one]] = np.minimum(rest[open_], most)
        rest[open_] -= released[row[one]]
        largest[open_] += 1
    return released


def _fit(waits: Floats, group: Ints, room: Floats, slot_group: Ints) -> Shares:
    """Give what fits whole, largest first, to the slot with most room in the range's group."""
    heaps: dict[int, list[tuple[float, int]]] = {}
    free, groups = room.tolist(), slot_group.tolist()
    for slot in np.argsort(-room, kind="stable").tolist():
        heaps.setdefault(groups[slot], []).append((-free[slot], slot))
    row = np.flatnonzero(waits)
    row = row[np.argsort(-waits[row], kind="stable")]
    taken = [-1] * len(row)
    for i, (of, size) in enumerate(zip(group[row].tolist(), waits[row].tolist(), strict=True)):
        negative, slot = heaps[of][0]
        if size <= -negative:
            taken[i] = slot
            heapq.heapreplace(heaps[of], (negative + size, slot))
    fits = np.flatnonzero(np.array(taken) >= 0)
    return Shares(row[fits], np.array(taken, np.int64)[fits], waits[row[fits]])


def _wrap(waits: Floats, group: Ints, room: Floats, slot_group: Ints, grain: Floats) -> Shares:
    """Share what waits among the slots of its group, those with most room first.

    A group's free room counts as one more range, and what it has no room for is left. Where room
    ends within a grain of the end of a range, it ends there: nothing is cut.
    """
    row = np.flatnonzero(waits)
    if not len(row):
        return Shares(row, row, waits[row])
    row = row[np.lexsort((-waits[row], group[row]))]
    room = np.maximum(room, 0.0)
    supply, needed = np.bincount(slot_group, room), np.bincount(group[row], waits[row])
    through = np.cumsum(waits[row]) - (np.cumsum(needed) - needed)[group[row]]
    row = row[through <= supply[group[row]]]
    free = np.maximum(supply - np.bincount(group[row], waits[row], len(supply)), 0.0)
    order = np.argsort(np.append(group[row], np.arange(len(supply))), kind="stable")
    range_ends = np.cumsum(np.append(waits[row], free)[order])
    row = np.append(row, np.full(len(supply), -1))[order]
    slots = np.lexsort((-room, slot_group))
    slot_ends = np.cumsum(room[slots])[:-1]
    edges = np.append(0.0, range_ends)
    after = np.minimum(np.searchsorted(edges, slot_ends), len(row))
    low, high = edges[np.maximum(after - 1, 0)], edges[after]
    nearest = np.where(slot_ends - low <= high - slot_ends, low, high)
    loose = np.minimum(grain[slots[:-1]], grain[slots[1:]])
    slot_ends = np.where(np.abs(slot_ends - nearest) <= loose, nearest, slot_ends)
    slot_ends = np.maximum.accumulate(slot_ends)
    cuts = np.setdiff1d(slot_ends[slot_ends < range_ends[-1]], edges)
    ends = np.append(range_ends, cuts)
    order = np.argsort(ends, kind="stable")
    row, ends = np.append(row, row[np.searchsorted(range_ends, cuts)])[order], ends[order]
    slot, amount = slots[np.searchsorted(slot_ends, ends)], np.diff(ends, prepend=0.0)
    return Shares(row[row >= 0], slot[row >= 0], amount[row >= 0])
