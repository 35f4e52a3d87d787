"""Place ranges on slots, and cut some, so that no slot takes much longer than its fair share.

Promises, in order; a slot's `quota` is its fair share of all work, by speed:

1. No slot gets more than `(1 + max_imbalance) * quota`, apart from rounding to whole offsets.
2. Ranges stay with the slot that read them last while that slot is within the limit. A slot above
   it gives away the tail of one range, because its consumer can continue with the head. If that is
   not enough, it gives away the tails of a few ranges, and then its largest ranges as well. Slots
   of the same executor take them first.
3. There are few pieces: at most one per range plus two per slot.

Ties go to the lower slot and the earlier range.

Example: two slots have a quota of 6 each; the first read both ranges last, with work 8 and 4.

>>> work, owner = np.array([8.0, 4.0]), np.array([0, 0])
>>> capacity = Capacity(np.array([6.0, 6.0]), executor=np.array([0, 1]), max_imbalance=0.05)
>>> placed = place(work, owner, capacity)
>>> for row, slot, amount in zip(*placed):
...     print(f"range {row}: slot {slot} reads {amount:.4g}")
range 0: slot 0 reads 2.135
range 0: slot 1 reads 5.865
range 1: slot 0 reads 4
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.planner.pieces import Shares
from checkpoints.sorting import stable_order

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Floats, Ints

#: Share of `max_imbalance` that placement uses; the remainder covers rounding to whole offsets.
USED_ALLOWANCE = 0.9
#: Minimum piece, as a share of a slot's quota. A smaller piece is not worth a cold consumer.
_MIN_PIECE = 0.02
_MIN_PIECE_IF_COLD = 0.001  # if no range was read before, so that all consumers are cold
#: Maximum cuts by an overloaded slot; fewer, but at least two, if many slots need several.
_MAX_CUTS = 4
_ROUNDING = 1e-9  # upper bound of the relative error of a sum of floats


@dataclass(frozen=True, eq=False)
class Capacity:
    """Capacity of the slots that take part (one element per slot)."""

    #: Fair share of all work, by speed.
    quota: Floats
    executor: Ints
    #: Maximum load above the quota, as a share of it; one value, or one per slot.
    max_imbalance: float | Floats


def place(
    work: Floats,
    owner: Ints,
    capacity: Capacity,
    pools: tuple[Ints, Ints] | None = None,
    min_piece: float = 0.0,
) -> Shares:
    """Return how much of each range's work each slot does.

    1. Release the work of overloaded slots above the middle of their allowance (`release`).
    2. Keep released work on its executor: whole if it fits (`_fit_whole`), else cut.
    3. Cut ranges that are larger than any slot's room, before whole ranges use up the room.
    4. Fit the other ranges whole, largest first, and cut those that fit nowhere.
    5. Sort by range: the share that stays comes first and the largest share last, because its
       reader owns the range in the next batch.

    `work` is the work of each range (above 0), and `owner` the slot that read it last (-1: none).
    `pools` has the pool of each range and of each slot (default: one pool). A range is placed on
    slots of its pool, and the quotas of a pool's slots add up to its work. `min_piece` is the least
    work of a piece and of its range's remainder; a large value outranks the promises.
    """
    quota, executor = capacity.quota, capacity.executor
    # 1. Release the excess of overloaded slots.
    is_owned = owner >= 0
    all_cold = not is_owned.any()  # no range to keep, so aim at the exact quota
    allowance = 0.0 if all_cold else USED_ALLOWANCE * capacity.max_imbalance
    # `_wrap_around` may exceed a slot's room by two minimum pieces, which is within the limit.
    min_share = _MIN_PIECE_IF_COLD if all_cold else np.minimum(_MIN_PIECE, allowance / 2)
    min_pieces = np.maximum(quota * min_share, min_piece)
    quota = quota * (1 + _ROUNDING)
    limit = quota * (1 + allowance)
    load = np.asarray(np.bincount(owner[is_owned], work[is_owned], len(quota)), np.float64)
    is_overloaded = load > limit
    giver = np.where(is_owned & is_overloaded[owner], owner, -1)
    released_work = release(work, giver, load - quota * (1 + allowance / 2), min_pieces)
    load -= np.bincount(np.maximum(giver, 0), released_work, len(quota))
    unassigned_work = np.where(is_owned, released_work, work)
    kept_work = np.where(is_owned, work - released_work, 0.0)
    steps: list[Shares] = []  # the shares that each step assigned

    def get_room_to_limit() -> Floats:
        return np.where(is_overloaded, 0.0, limit - load)

    def assign(shares: Shares) -> None:
        steps.append(shares)
        load[:] += np.bincount(shares.slot, shares.amount, len(quota))
        unassigned_work[shares.row] = 0.0

    # 2. Keep released work on its executor.
    owner_executor = executor[owner]
    assign(_fit_whole(unassigned_work * is_owned, owner_executor, get_room_to_limit(), executor))
    room = quota - load
    assign(_wrap_around(unassigned_work * is_owned, owner_executor, room, executor, min_pieces))
    # 3. Cut the largest ranges.
    pool, slot_pool = pools or (np.zeros_like(owner), np.zeros_like(executor))
    is_large = unassigned_work > get_room_to_limit().max()
    assign(_wrap_around(unassigned_work * is_large, pool, quota - load, slot_pool, min_pieces))
    # 4. Fit or cut the other ranges.
    assign(_fit_whole(unassigned_work, pool, get_room_to_limit(), slot_pool))
    assign(_wrap_around(unassigned_work, pool, quota - load, slot_pool, min_pieces))
    # 5. Sort by range.
    assigned_shares = Shares(*(np.concatenate(column) for column in zip(*steps, strict=True)))
    assigned_shares = assigned_shares.take(np.argsort(assigned_shares.amount, kind="stable"))
    kept_rows = np.flatnonzero(kept_work)
    kept_shares = Shares(kept_rows, owner[kept_rows], kept_work[kept_rows])
    shares = Shares(*(np.append(a, b) for a, b in zip(kept_shares, assigned_shares, strict=True)))
    return shares.take(stable_order(shares.row))


def release(work: Floats, giver: Ints, excess: Floats, min_pieces: Floats) -> Floats:
    """Return how much of each range its slot gives away; an excess up to a minimum piece may stay.

    1. Release whole ranges, largest first, until a few cuts can release the remaining excess.
    2. Cut the smallest range that is large enough alone, because this moves the least work in the
       next batch. If no range is large enough, cut the largest one and repeat.

    `giver` is the overloaded slot of each range (its group in `planner.zones`), -1 if none.
    `excess` and `min_pieces` have one element per giver.
    """
    released_work, row = np.zeros(len(work)), np.flatnonzero(giver >= 0)
    row = row[np.lexsort((-work[row], giver[row]))]
    if not len(row):
        return released_work
    row_work = work[row]
    is_new_giver = np.append(True, giver[row][1:] != giver[row][:-1])
    first_index, giver_index = np.flatnonzero(is_new_giver), np.cumsum(is_new_giver) - 1
    index, slot = np.arange(len(row)), giver[row[first_index]]
    remaining_excess, min_piece, giver_count = excess[slot], min_pieces[slot], len(slot)
    work_before = np.append(0.0, np.cumsum(row_work))
    max_tail = np.maximum(row_work - min_piece[giver_index], 0.0)  # leaves a head worth reading
    needs_several_cuts = max_tail[first_index] < remaining_excess
    max_cuts = min(_MAX_CUTS, 1 + len(min_pieces) // max(int(needs_several_cuts.sum()), 1))
    # 1. Release a range whole if all larger ranges and the largest allowed tails are not enough.
    tails_before = np.append(0.0, np.cumsum(max_tail))
    end_index = np.append(first_index[1:], len(row))[giver_index]
    tails_until = tails_before[np.minimum(index + max_cuts, end_index)]
    larger_work = work_before[index] - work_before[first_index][giver_index]
    max_release = larger_work + tails_until - tails_before[index]
    is_released_whole = max_release < remaining_excess[giver_index]
    released_work[row[is_released_whole]] = row_work[is_released_whole]
    whole_giver = giver_index[is_released_whole]
    remaining_excess -= np.bincount(whole_giver, row_work[is_released_whole], giver_count)
    largest_range = first_index + np.bincount(whole_giver, minlength=giver_count)
    # 2. Cut one range per giver and round.
    for _ in range(max_cuts):
        is_sufficient = row_work >= (remaining_excess + min_piece)[giver_index]
        is_sufficient &= index >= largest_range[giver_index]
        sufficient_counts = np.bincount(giver_index[is_sufficient], minlength=giver_count)
        givers = np.flatnonzero(remaining_excess > min_piece)
        cut_range = (largest_range + np.maximum(sufficient_counts, 1) - 1)[givers]
        cut_range_work, cut_row = row_work[cut_range], row[cut_range]
        is_too_small = cut_range_work < 2 * min_piece[givers]
        max_part = np.where(is_too_small, cut_range_work, max_tail[cut_range])
        released_work[cut_row] = np.minimum(remaining_excess[givers], max_part)
        remaining_excess[givers] -= released_work[cut_row]
        largest_range[givers] += 1
    return released_work


def _fit_whole(unassigned_work: Floats, pool: Ints, room: Floats, slot_pool: Ints) -> Shares:
    """Assign each range that fits whole, largest first, to its pool's slot with the most room."""
    heap_by_pool: dict[int, list[tuple[float, int]]] = {}
    rooms, slot_pools = room.tolist(), slot_pool.tolist()
    for slot in np.argsort(-room, kind="stable").tolist():
        heap_by_pool.setdefault(slot_pools[slot], []).append((-rooms[slot], slot))
    row = np.flatnonzero(unassigned_work)
    row = row[np.argsort(-unassigned_work[row], kind="stable")]
    slot_of_row = [-1] * len(row)
    ranges = zip(pool[row].tolist(), unassigned_work[row].tolist(), strict=True)
    for i, (range_pool, range_work) in enumerate(ranges):
        negative_room, slot = heap_by_pool[range_pool][0]
        if range_work <= -negative_room:
            slot_of_row[i] = slot
            heapq.heapreplace(heap_by_pool[range_pool], (negative_room + range_work, slot))
    slot = np.array(slot_of_row, np.int64)
    return Shares(row, slot, unassigned_work[row]).take(slot >= 0)


def _wrap_around(
    unassigned_work: Floats, pool: Ints, room: Floats, slot_pool: Ints, min_pieces: Floats
) -> Shares:
    """Lay ranges end to end over the room of their pool's slots, and cut where a slot's room ends.

    This is McNaughton's wrap-around rule; slots with the most room come first. A slot's end within
    a minimum piece of a range's end moves there, to avoid a cut. Excess ranges stay unassigned.
    """
    row = np.flatnonzero(unassigned_work)
    if not len(row):
        return Shares(row, row, unassigned_work[row])
    row = row[np.lexsort((-unassigned_work[row], pool[row]))]
    room = np.maximum(room, 0.0)
    supply, demand = np.bincount(slot_pool, room), np.bincount(pool[row], unassigned_work[row])
    work_until = np.cumsum(unassigned_work[row]) - (np.cumsum(demand) - demand)[pool[row]]
    row = row[work_until <= supply[pool[row]]]
    # Each pool's spare room becomes an additional range at its end, with row -1.
    spare = np.maximum(supply - np.bincount(pool[row], unassigned_work[row], len(supply)), 0.0)
    order = np.argsort(np.append(pool[row], np.arange(len(supply))), kind="stable")
    range_ends = np.cumsum(np.append(unassigned_work[row], spare)[order])
    row = np.append(row, np.full(len(supply), -1))[order]
    slots = np.lexsort((-room, slot_pool))
    slot_ends = np.cumsum(room[slots])[:-1]
    edges = np.append(0.0, range_ends)
    next_edge = np.minimum(np.searchsorted(edges, slot_ends), len(row))
    low, high = edges[np.maximum(next_edge - 1, 0)], edges[next_edge]
    nearest = np.where(slot_ends - low <= high - slot_ends, low, high)
    tolerance = np.minimum(min_pieces[slots[:-1]], min_pieces[slots[1:]])
    slot_ends = np.where(np.abs(slot_ends - nearest) <= tolerance, nearest, slot_ends)
    slot_ends = np.maximum.accumulate(slot_ends)
    cuts = np.setdiff1d(slot_ends[slot_ends < range_ends[-1]], edges)
    ends = np.append(range_ends, cuts)
    order = np.argsort(ends, kind="stable")
    row, ends = np.append(row, row[np.searchsorted(range_ends, cuts)])[order], ends[order]
    slot, amount = slots[np.searchsorted(slot_ends, ends)], np.diff(ends, prepend=0.0)
    return Shares(row, slot, amount).take(row >= 0)
