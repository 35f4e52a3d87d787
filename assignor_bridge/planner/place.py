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
#: Minimum piece, as a share of a slot's time. A smaller piece is not worth a cold consumer.
_MIN_PIECE = 0.02
_MIN_PIECE_IF_COLD = 0.001  # if no range was read before, so that all consumers are cold
#: Maximum cuts by an overloaded slot; two if all slots need more than one cut.
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
    owned = owner >= 0
    all_cold = not owned.any()  # no range to keep, so aim at the exact quota
    allowance = 0.0 if all_cold else USED_ALLOWANCE * capacity.max_imbalance
    # `_wrap_around` may exceed a slot's room by two of `min_pieces`, which is within the limit.
    min_share = _MIN_PIECE_IF_COLD if all_cold else np.minimum(_MIN_PIECE, allowance / 2)
    min_pieces = np.maximum(quota * min_share, min_piece)
    quota = quota * (1 + _ROUNDING)
    limit = quota * (1 + allowance)
    load = np.asarray(np.bincount(owner[owned], work[owned], len(quota)), np.float64)
    overloaded = load > limit
    giver = np.where(owned & overloaded[owner], owner, -1)
    released_work = release(work, giver, load - quota * (1 + allowance / 2), min_pieces)
    load -= np.bincount(np.maximum(giver, 0), released_work, len(quota))
    unassigned_work = np.where(owned, released_work, work)
    kept_work = np.where(owned, work - released_work, 0.0)
    steps: list[Shares] = []  # the shares that each step assigned

    def compute_room() -> Floats:
        return np.where(overloaded, 0.0, limit - load)

    def assign(shares: Shares) -> None:
        steps.append(shares)
        load[:] += np.bincount(shares.slot, shares.amount, len(quota))
        unassigned_work[shares.row] = 0.0

    # 2. Keep released work on its executor.
    group = executor[owner]
    assign(_fit_whole(unassigned_work * owned, group, compute_room(), executor))
    assign(_wrap_around(unassigned_work * owned, group, quota - load, executor, min_pieces))
    # 3. Cut the largest ranges.
    group, slot_group = pools or (group * 0, executor * 0)
    too_large = unassigned_work > compute_room().max()
    assign(_wrap_around(unassigned_work * too_large, group, quota - load, slot_group, min_pieces))
    # 4. Fit or cut the other ranges.
    assign(_fit_whole(unassigned_work, group, compute_room(), slot_group))
    assign(_wrap_around(unassigned_work, group, quota - load, slot_group, min_pieces))
    # 5. Sort by range.
    assigned_shares = Shares(*(np.concatenate(column) for column in zip(*steps, strict=True)))
    assigned_shares = assigned_shares.take(np.argsort(assigned_shares.amount, kind="stable"))
    kept_rows = np.flatnonzero(kept_work)
    kept_shares = Shares(kept_rows, owner[kept_rows], kept_work[kept_rows])
    shares = Shares(*(np.append(*both) for both in zip(kept_shares, assigned_shares, strict=True)))
    return shares.take(stable_order(shares.row))


def release(work: Floats, giver: Ints, excess: Floats, min_piece: Floats) -> Floats:
    """Return how much of each range its slot gives away; an excess up to `min_piece` may stay.

    1. Release whole ranges, largest first, until a few cuts can release the remaining excess.
    2. Cut the smallest range that is large enough alone, because this moves the least work in the
       next batch. If no range is large enough, cut the largest one and repeat.

    `giver` is the slot of each range, -1 if that slot is not overloaded. `excess` and `min_piece`
    have one element per slot.
    """
    released_work, row = np.zeros(len(work)), np.flatnonzero(giver >= 0)
    row = row[np.lexsort((-work[row], giver[row]))]
    if not len(row):
        return released_work
    size = work[row]
    new_giver = np.append(True, giver[row][1:] != giver[row][:-1])
    first, group = np.flatnonzero(new_giver), np.cumsum(new_giver) - 1
    index, slot = np.arange(len(row)), giver[row[first]]
    remaining, min_pieces, giver_count = excess[slot], min_piece[slot], len(slot)
    size_before = np.append(0.0, np.cumsum(size))
    max_tail = np.maximum(size - min_pieces[group], 0.0)  # leaves a head worth reading
    givers_of_several = int(np.count_nonzero(max_tail[first] < remaining))  # one cut is too little
    max_cuts = min(_MAX_CUTS, 1 + len(min_piece) // max(givers_of_several, 1))
    # 1. Release a range whole if all larger ranges and the largest allowed tails are not enough.
    tails_before, end = np.append(0.0, np.cumsum(max_tail)), np.append(first[1:], len(row))[group]
    tails_until = tails_before[np.minimum(index + max_cuts, end)]
    max_release = size_before[index] - size_before[first][group] + tails_until - tails_before[index]
    is_released_whole = max_release < remaining[group]
    released_work[row[is_released_whole]] = size[is_released_whole]
    remaining -= np.bincount(group[is_released_whole], size[is_released_whole], giver_count)
    largest_range = first + np.bincount(group[is_released_whole], minlength=giver_count)
    # 2. Cut one range per giver and round.
    for _ in range(max_cuts):
        is_sufficient = (size >= (remaining + min_pieces)[group]) & (index >= largest_range[group])
        sufficient_ranges = np.bincount(group[is_sufficient], minlength=giver_count)
        givers = np.flatnonzero(remaining > min_pieces)
        cut_range = (largest_range + np.maximum(sufficient_ranges, 1) - 1)[givers]
        cut_size, cut_row = size[cut_range], row[cut_range]
        max_part = np.where(cut_size < 2 * min_pieces[givers], cut_size, max_tail[cut_range])
        released_work[cut_row] = np.minimum(remaining[givers], max_part)
        remaining[givers] -= released_work[cut_row]
        largest_range[givers] += 1
    return released_work


def _fit_whole(unassigned_work: Floats, group: Ints, room: Floats, slot_group: Ints) -> Shares:
    """Assign each range that fits whole, largest first, to its group's slot with the most room."""
    heaps: dict[int, list[tuple[float, int]]] = {}
    rooms, slot_groups = room.tolist(), slot_group.tolist()
    for slot in np.argsort(-room, kind="stable").tolist():
        heaps.setdefault(slot_groups[slot], []).append((-rooms[slot], slot))
    row = np.flatnonzero(unassigned_work)
    row = row[np.argsort(-unassigned_work[row], kind="stable")]
    slot_of_row = [-1] * len(row)
    ranges = zip(group[row].tolist(), unassigned_work[row].tolist(), strict=True)
    for i, (range_group, size) in enumerate(ranges):
        negative_room, slot = heaps[range_group][0]
        if size <= -negative_room:
            slot_of_row[i] = slot
            heapq.heapreplace(heaps[range_group], (negative_room + size, slot))
    slot = np.array(slot_of_row, np.int64)
    return Shares(row, slot, unassigned_work[row]).take(slot >= 0)


def _wrap_around(
    unassigned_work: Floats, group: Ints, room: Floats, slot_group: Ints, min_piece: Floats
) -> Shares:
    """Lay ranges end to end over the room of their group's slots, and cut where a slot's room ends.

    This is McNaughton's wrap-around rule; slots with the most room come first. A slot's end within
    `min_piece` of a range's end moves there, so that nothing is cut. Excess ranges stay unassigned.
    """
    row = np.flatnonzero(unassigned_work)
    if not len(row):
        return Shares(row, row, unassigned_work[row])
    row = row[np.lexsort((-unassigned_work[row], group[row]))]
    room = np.maximum(room, 0.0)
    supply, demand = np.bincount(slot_group, room), np.bincount(group[row], unassigned_work[row])
    work_until = np.cumsum(unassigned_work[row]) - (np.cumsum(demand) - demand)[group[row]]
    row = row[work_until <= supply[group[row]]]
    # Each group's spare room becomes an additional range at its end, with row -1.
    spare = np.maximum(supply - np.bincount(group[row], unassigned_work[row], len(supply)), 0.0)
    order = np.argsort(np.append(group[row], np.arange(len(supply))), kind="stable")
    range_ends = np.cumsum(np.append(unassigned_work[row], spare)[order])
    row = np.append(row, np.full(len(supply), -1))[order]
    slots = np.lexsort((-room, slot_group))
    slot_ends = np.cumsum(room[slots])[:-1]
    edges = np.append(0.0, range_ends)
    next_edge = np.minimum(np.searchsorted(edges, slot_ends), len(row))
    low, high = edges[np.maximum(next_edge - 1, 0)], edges[next_edge]
    nearest = np.where(slot_ends - low <= high - slot_ends, low, high)
    tolerance = np.minimum(min_piece[slots[:-1]], min_piece[slots[1:]])
    slot_ends = np.where(np.abs(slot_ends - nearest) <= tolerance, nearest, slot_ends)
    slot_ends = np.maximum.accumulate(slot_ends)
    cuts = np.setdiff1d(slot_ends[slot_ends < range_ends[-1]], edges)
    ends = np.append(range_ends, cuts)
    order = np.argsort(ends, kind="stable")
    row, ends = np.append(row, row[np.searchsorted(range_ends, cuts)])[order], ends[order]
    slot, amount = slots[np.searchsorted(slot_ends, ends)], np.diff(ends, prepend=0.0)
    return Shares(row, slot, amount).take(row >= 0)
