"""Divide ranges among zones if reads across zones have a price: balance, then zones, then owners.

Promises, in order:

1. No slot gets more than `place` allows, with or without zones.
2. As little work as possible is read in a zone without a replica. To reduce it, a range leaves its
   owner's zone only if that pays, and only while the other zone is below its fill level. So small
   changes of load do not move ranges back and forth.
3. Within a zone, the promises of `place` hold. For each zone and group of similar ranges,
   at most a few ranges are cut between zones.

If near and far zones share a range, the far zones read its tail. A consumer fetches beyond the end
of its piece, and in a far zone those bytes would cross zones unused. The range's last near reader
owns it (`find_last_near_pieces`), so the next batch is cut in the same way.

`transport` decides how much of each group of ranges each zone reads, `release` which ranges these
are, and `place` how each zone's slots share the work of their zone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from assignor_bridge.assignors.whole import place_whole
from assignor_bridge.planner.pieces import Shares
from assignor_bridge.planner.place import USED_ALLOWANCE, Capacity, release
from assignor_bridge.planner.transport import Groups, ZoneCapacity, assign_groups_to_zones
from checkpoints.sorting import stable_order

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Flags, Floats, Ints, MicroBatch
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.pieces import Pieces

#: Maximum zones that placement supports, because there can be a group for each subset of zones.
MAX_ZONES = 8
#: `ZoneCapacity`'s fields, in that order, above a zone's fair share, as shares of `max_imbalance`:
#: quota, fill level (a zone takes near work up to it), and limit (it keeps its work up to it).
_ZONE_LEVELS = (0.0, 0.7, 0.85)
#: Minimum work that moves to another zone, as a share of the smallest quota; it avoids some cuts.
_MIN_PIECE = 0.002
#: Share of a range below which an amount is a rounding error.
_ROUNDING = 1e-9
#: Price of a move, in the currency of `zonePricePerGb`: 20 ms of a slot that costs 0.05 per hour.
_PRICE_OF_MOVE = 0.02 * 0.05 / 3600
_BYTES_PER_GB = 1e9
#: Bytes per offset until bytes are reported.
_ASSUMED_BYTES_PER_OFFSET = 100.0


class ZoneMap(NamedTuple):
    """Zones of the slots that take part (numbered from 0), and which ranges are near to them."""

    slot_zone: Ints
    #: Whether each zone (column) is near to each range (row).
    near: Flags
    #: Near zones of each range, as a bit mask.
    near_zones: Ints
    #: Whether it pays to move each range out of a far zone.
    pays: Flags


def map_zones(batch: MicroBatch, weights: Weights, slots: Ints) -> ZoneMap | None:
    """Return which zones ranges are near to; None if zones make no difference or are not used."""
    zones, price = batch.zones, batch.options.zone_price_per_gb
    if zones is None or batch.replicas is None or not price:
        return None
    slot_zone = zones.zone_of_executor[batch.slot_executor[slots]]
    takes_part = np.bincount(slot_zone) > 0
    present_zones, slot_zone = np.flatnonzero(takes_part), (np.cumsum(takes_part) - 1)[slot_zone]
    near = zones.near[:, present_zones]
    differs = near.any(axis=1) & ~near.all(axis=1)
    if len(present_zones) > MAX_ZONES or not differs.any():
        return None
    pays = predict_bytes(batch, weights) * (price / _BYTES_PER_GB) >= _PRICE_OF_MOVE
    near_zones = near @ (1 << np.arange(len(present_zones)))
    code = batch.replicas.code
    return ZoneMap(slot_zone, near[code], near_zones[code], pays)


def find_last_near_pieces(batch: MicroBatch, pieces: Pieces) -> Ints:
    """Return the index of each cut range's last piece with a near reader; none without zones."""
    zones, replicas = batch.zones, batch.replicas
    has_price = bool(batch.options.zone_price_per_gb)
    if zones is None or replicas is None or not has_price or len(zones.names) > MAX_ZONES:
        return np.empty(0, np.int64)
    cut_pieces = np.flatnonzero(np.bincount(pieces.row)[pieces.row] > 1)
    zone = zones.zone_of_executor[batch.slot_executor[pieces.slot[cut_pieces]]]
    near_pieces = cut_pieces[zones.near[replicas.code[pieces.row[cut_pieces]], zone]]
    near_pieces = near_pieces[np.lexsort((pieces.start[near_pieces], pieces.row[near_pieces]))]
    return np.asarray(near_pieces[np.flatnonzero(np.diff(pieces.row[near_pieces], append=-1))])


def predict_bytes(batch: MicroBatch, weights: Weights) -> Floats:
    """Return the predicted bytes of each range, from its offsets until bytes are reported."""
    if weights.bytes is None:
        return np.asarray(batch.size * _ASSUMED_BYTES_PER_OFFSET, np.float64)
    return weights.bytes


class Parts(NamedTuple):
    """Parts of ranges (one element per part), each read in one zone, and the slots' capacity."""

    row: Ints
    zone: Ints
    work: Floats
    #: Slot of the part's zone that read the range last; -1 if none.
    owner: Ints
    #: Quotas of a zone's slots add up to the work of its parts.
    capacity: Capacity
    slot_zone: Ints
    #: As in `ZoneMap`; None if zones are not used.
    near: Flags | None


def divide_by_zone(
    work: Floats, owner: Ints, capacity: Capacity, zones: ZoneMap | None, min_piece: float
) -> Parts:
    """Divide the ranges' work among zones; without zones, each range is one part.

    `owner` is the slot that read each range last, -1 if none.
    """
    quota, executor, max_imbalance = capacity.quota, capacity.executor, capacity.max_imbalance
    if zones is None:
        return Parts(np.arange(len(work)), owner * 0, work, owner, capacity, executor * 0, None)
    row, zone, part_work = _cut_into_parts(work, owner, capacity, zones, min_piece)
    zone_quota = np.bincount(zones.slot_zone, quota)
    zone_fill = np.bincount(zone, part_work, len(zone_quota)) / zone_quota
    slot_fill = np.maximum(zone_fill, 1e-300)[zones.slot_zone]
    allowance = (1 + USED_ALLOWANCE * max_imbalance) / slot_fill - 1
    slot_imbalance = np.maximum(0.0, allowance) / USED_ALLOWANCE
    part_owner = np.where(np.append(zones.slot_zone, -1)[owner[row]] == zone, owner[row], -1)
    part_capacity = Capacity(quota * slot_fill, executor, slot_imbalance)
    return Parts(row, zone, part_work, part_owner, part_capacity, zones.slot_zone, zones.near)


def join_parts(parts: Parts, shares: Shares, work: Floats, owner: Ints) -> Shares:
    """Turn shares of parts into shares of ranges, those of near readers first if zones are used."""
    if parts.near is None:
        return shares
    # Rounding can lose a part next to a 10^16 times larger one: use the first slot of its zone.
    unplaced_parts = np.flatnonzero(np.bincount(shares.row, minlength=len(parts.row)) == 0)
    if len(unplaced_parts):
        slots_by_zone = np.argsort(parts.slot_zone, kind="stable")
        sorted_zones = parts.slot_zone[slots_by_zone]
        slot = slots_by_zone[np.searchsorted(sorted_zones, parts.zone[unplaced_parts])]
        added_shares = (unplaced_parts, slot, parts.work[unplaced_parts])
        shares = Shares(*(np.append(a, b) for a, b in zip(shares, added_shares, strict=True)))
    row = parts.row[shares.row]
    is_significant = shares.amount > _ROUNDING * work[row]  # rounding can leave slivers
    is_significant |= (np.bincount(row, is_significant) == 0)[row]
    shares = Shares(row, shares.slot, shares.amount).take(is_significant)
    return _sort_shares(shares, owner, ~parts.near[shares.row, parts.slot_zone[shares.slot]])


def place_parts_whole(parts: Parts, work: Floats, owner: Ints, capacity: Capacity) -> Ints:
    """Return the slot of each range: one of the zone that reads its largest part."""
    by_work = np.lexsort((parts.work, parts.row))
    range_zone, slot = np.empty((2, len(work)), np.int64)
    range_zone[parts.row[by_work]] = parts.zone[by_work]  # the largest part's zone is written last
    for zone in np.unique(range_zone).tolist():
        rows, zone_slots = (np.flatnonzero(z == zone) for z in (range_zone, parts.slot_zone))
        local_slot = np.full(len(parts.slot_zone) + 1, -1, np.int64)
        local_slot[zone_slots] = np.arange(len(zone_slots))
        zone_work, zone_owner = work[rows], local_slot[owner[rows]]
        quota, executor = capacity.quota[zone_slots], capacity.executor[zone_slots]
        imbalance = float(capacity.max_imbalance)
        zone_slot = place_whole(zone_work, zone_owner, quota, executor, max_imbalance=imbalance)
        slot[rows] = zone_slots[zone_slot]
    return slot


def _cut_into_parts(
    work: Floats, owner: Ints, capacity: Capacity, zones: ZoneMap, min_piece: float
) -> tuple[Ints, Ints, Floats]:
    """Return the range, the zone, and the work of each part.

    1. Group ranges by their near zones, their owner's zone, and whether a move pays.
    2. Decide how much of each group each zone reads (`assign_groups_to_zones`).
    3. Decide how much of each range leaves its zone (`release`).
    4. Give the released work of each group to its target zones. With several targets, ranges
       without an owner are laid end to end and cut; the others fill one zone after the other.
    5. Keep the remainder in the owner's zone.
    """
    # 1. Group ranges. On ties, the group with the largest range gives work away first.
    zone_count = zones.near.shape[1]
    home = np.append(zones.slot_zone, -1)[owner]
    keys = (zones.near_zones * (zone_count + 1) + home + 1) * 2 + zones.pays
    largest_work = np.zeros(int(keys.max()) + 1)
    np.maximum.at(largest_work, keys, work)
    used_keys = np.flatnonzero(largest_work)
    group_of_key = np.empty(len(largest_work), np.int64)
    used_keys = used_keys[np.argsort(-largest_work[used_keys], kind="stable")]
    group_of_key[used_keys] = np.arange(len(used_keys))
    group = group_of_key[keys]
    sample_row = np.empty(len(used_keys), np.int64)
    sample_row[group] = np.arange(len(work))  # any range of each group
    group_work = np.asarray(np.bincount(group, work), np.float64)
    groups = Groups(group_work, home[sample_row], zones.near[sample_row], zones.pays[sample_row])
    # 2. Decide how much each zone reads.
    zone_quota = np.asarray(np.bincount(zones.slot_zone, capacity.quota, zone_count), np.float64)
    levels = (zone_quota * (1 + share * capacity.max_imbalance) for share in _ZONE_LEVELS)
    flow = assign_groups_to_zones(groups, ZoneCapacity(*levels))
    group_numbers = np.arange(len(sample_row))
    staying_work = np.where(groups.home >= 0, flow[group_numbers, groups.home], 0.0)
    leaving_work = groups.work - staying_work
    # 3. Decide how much of each range leaves its zone.
    min_piece = max(_MIN_PIECE * float(capacity.quota.min()), min_piece)
    flow[group_numbers, groups.home] *= groups.home < 0
    is_target = flow > 0
    no_target = np.flatnonzero(~is_target.any(axis=1))  # all work stays, or was rounded to 0
    flow[no_target, groups.near[no_target].argmax(axis=1)] = 1.0
    has_one_target = (flow > 0).sum(axis=1) == 1
    gives_work = (groups.home >= 0) & (leaving_work > min_piece)
    giver = np.where((gives_work & has_one_target)[group], group, -1)
    min_pieces = np.full(len(sample_row), min_piece)
    released_work = np.where(home < 0, work, release(work, giver, leaving_work, min_pieces))
    # 4. Give released work to the target zones.
    leaving_rows = np.flatnonzero(released_work > 0)
    rows = leaving_rows[has_one_target[group[leaving_rows]]]
    parts = [(rows, flow.argmax(axis=1)[group[rows]], released_work[rows])]
    for number in np.flatnonzero(~has_one_target & (groups.home < 0)).tolist():
        rows = leaving_rows[group[leaving_rows] == number]
        rows = rows[np.argsort(-released_work[rows], kind="stable")]
        if len(rows):
            parts.append(_cut_at_zone_shares(rows, released_work[rows], flow[number], min_piece))
    for number in np.flatnonzero(~has_one_target & gives_work).tolist():
        rows = np.flatnonzero(group == number)
        work_by_zone = _release_to_zones(work[rows], flow[number], min_piece)
        released_work[rows] = work_by_zone.sum(axis=1)
        index, target = np.nonzero(work_by_zone)
        parts.append((rows[index], target, work_by_zone[index, target]))
    # 5. Keep the remainder.
    kept_work = np.maximum(work - released_work, 0.0)
    rows = np.flatnonzero(kept_work > _ROUNDING * work)
    parts.append((rows, home[rows], kept_work[rows]))
    row, zone, part_work = (np.concatenate(column) for column in zip(*parts, strict=True))
    return row, zone, part_work


def _release_to_zones(work: Floats, zone_work: Floats, min_piece: float) -> Floats:
    """Return how much released work of each range (row) each zone (column) gets.

    `zone_work` is the work that each zone takes, 0 for none. It comes from ranges that are still
    whole, if these have enough: the reader of a part of a range also fetches some of the next part.
    """
    work_by_zone, remaining_work = np.zeros((len(work), len(zone_work))), work.copy()
    min_pieces = np.full(len(zone_work), min_piece)
    for zone in np.argsort(-zone_work, kind="stable")[: np.count_nonzero(zone_work)].tolist():
        is_eligible = remaining_work == work
        if remaining_work[is_eligible].sum() <= zone_work[zone] + min_piece:
            is_eligible = remaining_work > 0
        giver = np.where(is_eligible & (remaining_work > 0), 0, -1)
        work_by_zone[:, zone] = release(remaining_work, giver, zone_work[[zone]], min_pieces)
        remaining_work -= work_by_zone[:, zone]
    return work_by_zone


def _cut_at_zone_shares(
    row: Ints, work: Floats, share: Floats, min_piece: float
) -> tuple[Ints, Ints, Floats]:
    """Lay ranges end to end over zones, the largest share first, and cut where a share ends.

    Return the range, the zone, and the work of each part. A share's end within `min_piece` of a
    range's end moves there, so that nothing is cut.
    """
    zone = np.argsort(-share, kind="stable")
    edges = np.append(0.0, np.cumsum(work))
    ends = np.cumsum(share[zone]) * (edges[-1] / share.sum())
    next_edge = np.clip(np.searchsorted(edges, ends), 1, len(work))
    low, high = edges[next_edge - 1], edges[next_edge]
    nearest = np.where(ends - low <= high - ends, low, high)
    ends = np.maximum.accumulate(np.where(np.abs(ends - nearest) <= min_piece, nearest, ends))
    ends[-1] = edges[-1]
    inner_ends = ends[ends < edges[-1]]  # sorted, as edges are
    is_distinct = np.diff(inner_ends, prepend=-1.0) > 0
    cuts = inner_ends[is_distinct & (edges[np.searchsorted(edges, inner_ends)] != inner_ends)]
    index = np.append(np.arange(len(row)), np.searchsorted(edges, cuts) - 1)
    part_ends = np.append(edges[1:], cuts)
    order = np.lexsort((index, part_ends))
    index, part_ends = index[order], part_ends[order]
    is_cut = np.bincount(index)[index] > 1
    part_work = np.where(is_cut, np.diff(part_ends, prepend=0.0), work[index])
    return row[index], zone[np.minimum(np.searchsorted(ends, part_ends), len(zone) - 1)], part_work


def _sort_shares(shares: Shares, owner: Ints, is_far: Flags) -> Shares:
    """Sort by range; within a range, near readers first, then the owner, then small amounts."""
    row, slot, amount = shares
    order = stable_order(row)
    cut_positions = np.flatnonzero(np.bincount(row)[row[order]] > 1)
    index = order[cut_positions]
    moves = slot[index] != owner[row[index]]
    order[cut_positions] = index[np.lexsort((amount[index], moves, is_far[index], row[index]))]
    return shares.take(order)
