"""Placement with splitting: who reads what, so that no slot takes much longer than the ideal.

Promises, in order, with `fair` for the work that each slot would do in the ideal case:

1. No slot gets more than `(1 + max_imbalance) * fair` (rounding to whole offsets apart), whoever
   read what before, and however many executors have come or gone.
2. Ranges stay with the slot that read them last. Only a slot beyond the limit gives work away:
   the tail of one range if that is enough (its own consumer goes on with the head, and the reader
   of the tail holds what comes next), else its largest ranges, and the tail of one. Inside the
   limit nothing moves, so noise is not chased. Other slots of the same executor come first.
3. Few pieces: at most one cut for each slot that gives and two for each that gets.

Ties go to the lower slot and the earlier range. Not looked at: racks, and what the future brings.

How: `_release` cuts each overloaded slot down, once. What is released, and what nobody read before,
goes largest first and whole to the slot with most room (`_fit`), on its own executor if it can.
What fits nowhere is laid end to end, and so is the room up to `fair` of the slots with most of it:
where the one's boundaries cross the other's, ranges are cut (`_wrap`, McNaughton's wrap-around
rule). Room never lacks: what the others are below `fair` is what waits for a place.

Two slots with a fair share of 6 each; the first read both ranges, 8 and 4, in the batch before:

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

from assignor_bridge.planner.ordering import stable_order
from assignor_bridge.planner.pieces import Shares

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Floats, Ints

#: Share of the allowance that placement uses up; the rest is for rounding to whole offsets.
_USED_ALLOWANCE = 0.9
#: Least share of a slot's time that is cut off or left: less is not worth a cold consumer.
_GRAIN = 0.02
#: The same for a batch where nothing was read before, and every piece is a cold read anyway.
_FRESH_GRAIN = 0.001
#: Cuts that a slot which gives work away may make at most; two if all slots do.
_MOST_CUTS = 4
#: What sums of floats may be off by.
_ROUNDING = 1e-9


def place(
    work: Floats, owner: Ints, fair: Floats, slot_executor: Ints, max_imbalance: float
) -> Shares:
    """Give each range, whole or cut, to slots.

    Parameters
    ----------
    work
        Predicted work of each range, more than 0.
    owner
        Slot that read the range last, -1 for none.
    fair
        Fair share of each slot: its part of the total work, by speed.
    slot_executor
        Executor of each slot.
    max_imbalance
        How far beyond its fair share a slot may go, as a share of it.
    """
    owned = owner >= 0
    fresh = not owned.any()  # nothing to keep: then the ideal itself
    allowance = 0.0 if fresh else _USED_ALLOWANCE * max_imbalance
    limit = fair * ((1 + allowance) * (1 + _ROUNDING))
    # `_wrap` may give a slot a grain too much at both ends: that is within the limit still.
    grain = fair * (_FRESH_GRAIN if fresh else min(_GRAIN, allowance / 2))

    load = np.asarray(np.bincount(owner[owned], work[owned], len(fair)), np.float64)
    overloaded = load > limit
    giver = np.where(owned & overloaded[owner], owner, -1)
    released = _release(work, giver, load - fair * (1 + allowance / 2), grain)
    load -= np.bincount(np.maximum(giver, 0), released, len(fair))
    kept = np.where(owned, work - released, 0.0)
    waits = np.where(owned, released, work)
    given: list[Shares] = []

    def room() -> Floats:
        return np.where(overloaded, 0.0, limit - load)

    def give(shares: Shares) -> None:
        given.append(shares)
        load[:] += np.bincount(shares.slot, shares.amount, len(fair))
        waits[shares.row] = 0.0

    home, own = slot_executor[owner], np.where(owned, 1.0, 0.0)
    give(_fit(waits * own, home, room(), slot_executor))
    give(_wrap(waits * own, home, fair - load, slot_executor, grain))
    home, slot_executor = np.zeros_like(home), np.zeros_like(slot_executor)
    give(_wrap(waits * (waits > room().max()), home, fair - load, slot_executor, grain))
    give(_fit(waits, home, room(), slot_executor))
    give(_wrap(waits, home, fair - load, slot_executor, grain))
    return _in_reading_order(kept, owner, given)


def _release(work: Floats, giver: Ints, excess: Floats, grain: Floats) -> Floats:
    """Say how much of each range its slot gives away, to be rid of its excess within a grain.

    The largest are given whole until a few cuts are enough. Then one range, if that is enough: the
    smallest such, so that least work changes hands in the next batch. A head of a grain stays.

    Parameters
    ----------
    giver
        Slot of each range, if that is overloaded; else -1.
    excess
        What each slot has too much.
    """
    released = np.zeros(len(work))
    row = np.flatnonzero(giver >= 0)
    if not len(row):
        return released
    row = row[np.lexsort((-work[row], giver[row]))]
    size = work[row]
    new = np.append(True, giver[row][1:] != giver[row][:-1])
    first, group = np.flatnonzero(new), np.cumsum(new) - 1
    slot = giver[row[first]]
    rest, least = excess[slot], grain[slot]
    cuts = min(_MOST_CUTS, 1 + len(grain) // len(slot))
    without_head = np.maximum(size - least[group], 0.0)
    before = np.append(0.0, np.cumsum(size))
    cut = np.append(0.0, np.cumsum(without_head))
    at, end = np.arange(len(row)), np.append(first[1:], len(row))[group]
    enough = cut[np.minimum(at + cuts, end)] - cut[at] + before[at] - before[first][group]
    whole = enough < rest[group]
    released[row[whole]] = size[whole]
    rest = rest - np.bincount(group[whole], size[whole], len(slot))
    next_one = first + np.bincount(group[whole], minlength=len(slot))
    for _ in range(cuts):
        fits = (size >= (rest + least)[group]) & (at >= next_one[group])
        count = np.bincount(group[fits], minlength=len(slot))
        active = np.flatnonzero(rest > least)
        one = (next_one + np.maximum(count, 1) - 1)[active]
        most = np.where(size[one] < 2 * least[active], size[one], without_head[one])
        amount = np.minimum(rest[active], most)
        released[row[one]] = amount
        rest[active] -= amount
        next_one[active] += 1
    return released


def _fit(waits: Floats, group: Ints, room: Floats, slot_group: Ints) -> Shares:
    """Give what fits whole, largest first, to the slot with most room in the range's group."""
    slots = np.flatnonzero(room > 0)
    slots = slots[np.argsort(-room[slots], kind="stable")]
    heaps: dict[int, list[tuple[float, int]]] = {}
    for of, negative, slot in zip(
        slot_group[slots].tolist(), (-room[slots]).tolist(), slots.tolist(), strict=True
    ):
        heaps.setdefault(of, []).append((negative, slot))
    row = _largest_first(waits)
    taken = []
    for of, size in zip(group[row].tolist(), waits[row].tolist(), strict=True):
        heap = heaps.get(of)
        if heap and size <= -heap[0][0]:
            negative, slot = heap[0]
            heapq.heapreplace(heap, (negative + size, slot))
            taken.append(slot)
        else:
            taken.append(-1)
    slot = np.array(taken, np.int64)
    fits = slot >= 0
    return Shares(row[fits], slot[fits], waits[row[fits]])


def _wrap(waits: Floats, group: Ints, room: Floats, slot_group: Ints, grain: Floats) -> Shares:
    """Share what waits among the slots of its group, those with most room first.

    Ranges are laid end to end, group by group, and so is the room of the slots; a group's free room
    counts as one more range. What a group has no room for is left. A boundary of a slot within a
    grain of a range's is moved there: nothing is cut.
    """
    row = _largest_first(waits)
    if not len(row):
        return Shares(row, row, waits[row])
    row = row[np.argsort(group[row], kind="stable")]
    room = np.maximum(room, 0.0)
    has = np.bincount(slot_group, room)
    wanted = np.bincount(group[row], waits[row], len(has))
    before = (np.cumsum(wanted) - wanted)[group[row]]
    row = row[np.cumsum(waits[row]) - before <= has[group[row]] * (1 + _ROUNDING)]
    free = has - np.bincount(group[row], waits[row], len(has))

    order = np.argsort(np.append(group[row], np.arange(len(has))), kind="stable")
    size = np.append(waits[row], np.maximum(free, 0.0))[order]
    row = np.append(row, np.full(len(has), -1))[order]
    range_ends = np.cumsum(size)
    slots = np.lexsort((-room, slot_group))
    slot_ends = np.cumsum(room[slots])[:-1]
    edges = np.append(0.0, range_ends)
    after = np.minimum(np.searchsorted(edges, slot_ends), len(edges) - 1)
    low, high = edges[np.maximum(after - 1, 0)], edges[after]
    nearest = np.where(slot_ends - low <= high - slot_ends, low, high)
    loose = np.minimum(grain[slots[:-1]], grain[slots[1:]])
    slot_ends = np.where(np.abs(slot_ends - nearest) <= loose, nearest, slot_ends)
    slot_ends = np.maximum.accumulate(slot_ends)

    cuts = np.setdiff1d(slot_ends[slot_ends < range_ends[-1]], edges)
    ends = np.append(range_ends, cuts)
    which = np.append(np.arange(len(row)), np.searchsorted(range_ends, cuts))
    order = np.argsort(ends, kind="stable")
    ends, row = ends[order], row[which[order]]
    slot, amount = slots[np.searchsorted(slot_ends, ends)], np.diff(ends, prepend=0.0)
    return Shares(row[row >= 0], slot[row >= 0], amount[row >= 0])


def _largest_first(waits: Floats) -> Ints:
    row = np.flatnonzero(waits)
    return np.asarray(row[np.argsort(-waits[row], kind="stable")])


def _in_reading_order(kept: Floats, owner: Ints, given: list[Shares]) -> Shares:
    """List the shares by range: what stays where it was first, then the largest last.

    Who reads the end of a range is its owner in the next batch.
    """
    row, slot, amount = (np.concatenate(column) for column in zip(*given, strict=True))
    smallest_first = np.argsort(amount, kind="stable")
    stays = np.flatnonzero(kept)
    row = np.append(stays, row[smallest_first])
    slot = np.append(owner[stays], slot[smallest_first])
    amount = np.append(kept[stays], amount[smallest_first])
    order = stable_order(row)
    return Shares(row[order], slot[order], amount[order])
