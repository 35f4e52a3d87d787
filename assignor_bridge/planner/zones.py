"""Placement where it costs something to read from another zone: balance, then zone, then stay.

Promises, in order:

1. No slot gets more than `place` allows it, zones or not.
2. As little work as possible is read in a zone without a replica. What has an owner leaves its zone
   for that only if it pays, and only while the other zone is not filled; so nothing goes to and fro
   while loads change a little.
3. Within a zone, what `place` promises: ranges stay, and pieces are few. A range is cut between
   zones only where the share of a zone ends, and at most once a group of ranges that are alike.

Of a range that near and far zones share, the far ones read the tail: a consumer fetches beyond the
end of its piece, which there would cross zones for nothing. The range stays with the last reader
that is near (`last_near`), so the next batch is cut in the same way.

How much of each group of ranges each zone reads is decided first (`transport`), then which ranges
these are, as a slot gives work away: whole, the largest first, and the tail of one. Then each
zone's slots share what their zone has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from assignor_bridge.assignors.whole import place_whole
from assignor_bridge.planner.pieces import Shares
from assignor_bridge.planner.place import USED_ALLOWANCE, place, release
from assignor_bridge.planner.transport import Groups, ZoneCapacity, assign_groups_to_zones
from checkpoints.sorting import stable_order

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Flags, Floats, Ints, MicroBatch
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.pieces import Pieces

#: More zones are not looked at: the number of sets of them, and so of groups, would explode.
MAX_ZONES = 8
#: Shares of the allowance: to what zones are filled with what is near to them, and what they keep.
_FILLED, _KEPT = 0.7, 0.85
#: Share of a slot's time to which the work of zones is rounded, to cut less.
_GRAIN = 0.002
#: Share of a range that is none.
_ROUNDING = 1e-9
#: What a move costs, in the money of `zonePricePerGb`: a slot waits 20 ms for a cold consumer, at
#: 0.05 an hour.
_PRICE_OF_MOVE = 0.02 * 0.05 / 3600
_GB = 1e9
#: Bytes of a record while none were reported.
_ASSUMED_BYTES = 100.0


class Nearness(NamedTuple):
    """What placement knows about zones: of the slots that take part, and of the ranges."""

    slot_zone: Ints
    #: By range and zone: whether a replica is there.
    near: Flags
    #: By range: its set of zones, as a number; and whether it pays to move it out of a far one.
    kind: Ints
    pays: Flags


def compute_nearness(batch: MicroBatch, weights: Weights, slots: Ints) -> Nearness | None:
    """Return what placement must know; None where zones make no difference, or have no price."""
    zones, price = batch.zones, batch.settings.zone_price_per_gb
    if zones is None or batch.replicas is None or not price:
        return None
    slot_zone = zones.of_executor[batch.slot_executor[slots]]
    here = np.bincount(slot_zone) > 0
    present, slot_zone = np.flatnonzero(here), (np.cumsum(here) - 1)[slot_zone]
    near = zones.near[:, present]
    differs = near.any(axis=1) & ~near.all(axis=1)
    if len(present) > MAX_ZONES or not differs.any():
        return None
    pays = predict_bytes(batch, weights) * (price / _GB) >= _PRICE_OF_MOVE
    kinds = near @ (1 << np.arange(len(present)))
    code = batch.replicas.code
    return Nearness(slot_zone, near[code], kinds[code], pays)


def find_last_near_pieces(batch: MicroBatch, pieces: Pieces) -> Ints:
    """Return the last piece with a near reader of each cut range; none if zones do not count."""
    zones, replicas = batch.zones, batch.replicas
    if zones is None or replicas is None or not batch.settings.zone_price_per_gb:
        return np.empty(0, np.int64)
    if len(np.unique(zones.of_executor[batch.slot_executor])) > MAX_ZONES:
        return np.empty(0, np.int64)
    cut = np.flatnonzero(np.bincount(pieces.row, minlength=batch.ranges)[pieces.row] > 1)
    zone = zones.of_executor[batch.slot_executor[pieces.slot[cut]]]
    near = cut[zones.near[replicas.code[pieces.row[cut]], zone]]
    near = near[np.lexsort((pieces.start[near], pieces.row[near]))]
    return np.asarray(near[np.flatnonzero(np.diff(pieces.row[near], append=-1))])


def predict_bytes(batch: MicroBatch, weights: Weights) -> Floats:
    """Return the predicted bytes of each range."""
    if weights.bytes is None:
        return np.asarray(batch.size * _ASSUMED_BYTES, np.float64)
    return weights.bytes


def place_in_zones(  # noqa: PLR0917
    work: Floats,
    owner: Ints,
    fair: Floats,
    slot_executor: Ints,
    max_imbalance: float,
    least: float,
    zones: Nearness,
) -> Shares:
    """Give each range, whole or cut, to slots; see `place` for what the others are."""
    row, zone, amount = _divide_among_zones(work, owner, fair, max_imbalance, least, zones)
    share = np.bincount(zones.slot_zone, fair)
    level = np.maximum(np.bincount(zone, amount, len(share)) / share, 1e-300)[zones.slot_zone]
    most = np.maximum(0.0, (1 + USED_ALLOWANCE * max_imbalance) / level - 1) / USED_ALLOWANCE
    at = np.where(np.append(zones.slot_zone, -1)[owner[row]] == zone, owner[row], -1)
    placed = place(amount, at, fair * level, slot_executor, most, least, (zone, zones.slot_zone))
    # Beside a range that is 10^16 times as large one may be lost: any slot of its zone will do.
    lost = np.flatnonzero(np.bincount(placed.row, minlength=len(row)) == 0)
    if len(lost):
        by_zone = np.argsort(zones.slot_zone, kind="stable")
        slot = by_zone[np.searchsorted(zones.slot_zone[by_zone], zone[lost])]
        more = (lost, slot, amount[lost])
        placed = Shares(*(np.append(*both) for both in zip(placed, more, strict=True)))
    row = row[placed.row]
    real = placed.amount > _ROUNDING * work[row]  # else where the sums of two zones meet
    real |= (np.bincount(row, real) == 0)[row]
    shares = Shares(row[real], placed.slot[real], placed.amount[real])
    return _sort_shares(shares, owner, ~zones.near[shares.row, zones.slot_zone[shares.slot]])


def place_whole_in_zones(  # noqa: PLR0917
    work: Floats,
    owner: Ints,
    fair: Floats,
    slot_executor: Ints,
    max_imbalance: float,
    zones: Nearness,
) -> Ints:
    """Return the slot of each range; where zones would cost balance, as if there were none."""
    row, zone, amount = _divide_among_zones(work, owner, fair, max_imbalance, 0.0, zones)
    largest = np.lexsort((amount, row))
    zone_of = np.empty(len(work), np.int64)
    zone_of[row[largest]] = zone[largest]  # of several, the one with the largest part
    local, slot = np.full(len(fair) + 1, -1, np.int64), np.empty(len(work), np.int64)
    for number in np.unique(zone_of).tolist():
        rows, slots = np.flatnonzero(zone_of == number), np.flatnonzero(zones.slot_zone == number)
        local[slots] = np.arange(len(slots))
        placed = place_whole(
            work[rows], local[owner[rows]], fair[slots], slot_executor[slots], max_imbalance
        )
        local[slots] = -1
        slot[rows] = slots[placed]
    plain = place_whole(work, owner, fair, slot_executor, max_imbalance)
    busiest, without = (
        float((np.bincount(s, work, len(fair)) / fair).max()) for s in (slot, plain)
    )
    return slot if busiest <= max(without, 1 + max_imbalance) else plain


def _divide_among_zones(  # noqa: PLR0917
    work: Floats, owner: Ints, fair: Floats, max_imbalance: float, least: float, zones: Nearness
) -> tuple[Ints, Ints, Floats]:
    """Divide the ranges among zones: a range, a zone and an amount of work for each part."""
    count = zones.near.shape[1]
    home = np.append(zones.slot_zone, -1)[owner]
    keys = (zones.kind * (count + 1) + home + 1) * 2 + zones.pays
    largest = np.zeros(int(keys.max()) + 1)
    np.maximum.at(largest, keys, work)
    used = np.flatnonzero(largest)
    place = np.empty(len(largest), np.int64)
    # Of groups that are as good, that with the largest range gives work away: by one tail.
    place[used[np.argsort(-largest[used], kind="stable")]] = np.arange(len(used))
    group = place[keys]
    one = np.empty(len(used), np.int64)
    one[group] = np.arange(len(work))  # any range of each group
    amount_of = np.asarray(np.bincount(group, work), np.float64)
    groups = Groups(amount_of, home[one], zones.near[one], zones.pays[one])
    share = np.asarray(np.bincount(zones.slot_zone, fair, count), np.float64)
    filled, kept_most = share * (1 + _FILLED * max_imbalance), share * (1 + _KEPT * max_imbalance)
    room = ZoneCapacity(share, filled, kept_most)
    flow = assign_groups_to_zones(groups, room)
    numbers = np.arange(len(one))
    stays = np.where(groups.home >= 0, flow[numbers, groups.home], 0.0)
    out = groups.work - stays
    grain = max(_GRAIN * float(fair.min()), least)
    flow[numbers, groups.home] *= groups.home < 0
    targets = flow > 0
    lost = np.flatnonzero(~targets.any(axis=1))  # too little beside the others to be allotted
    flow[lost, groups.near[lost].argmax(axis=1)] = 1.0
    single = (flow > 0).sum(axis=1) == 1
    gives = (groups.home >= 0) & (out > grain)
    giver = np.where((gives & single)[group], group, -1)
    released = np.where(home < 0, work, release(work, giver, out, np.full(len(one), grain)))
    leaving = np.flatnonzero(released > 0)
    rows = leaving[single[group[leaving]]]
    parts = [(rows, flow.argmax(axis=1)[group[rows]], released[rows])]
    for number in np.flatnonzero(~single & (groups.home < 0)).tolist():
        rows = leaving[group[leaving] == number]
        rows = rows[np.argsort(-released[rows], kind="stable")]
        if len(rows):
            parts.append(_cut_at_zone_shares(rows, released[rows], flow[number], grain))
    for number in np.flatnonzero(~single & gives).tolist():
        rows = np.flatnonzero(group == number)
        given = _release_to_zones(work[rows], flow[number], grain)
        released[rows] = given.sum(axis=1)
        at, to = np.nonzero(given)
        parts.append((rows[at], to, given[at, to]))
    kept = np.maximum(work - released, 0.0)
    rows = np.flatnonzero(kept > _ROUNDING * work)
    parts.append((rows, home[rows], kept[rows]))
    row, zone, amount = (np.concatenate(column) for column in zip(*parts, strict=True))
    return row, zone, amount


def _release_to_zones(work: Floats, share: Floats, grain: float) -> Floats:
    """Return how much of each range (row) each zone (column) gets of what one zone gives away.

    Of other ranges than the zones before, as long as there are enough: of two parts of a range, the
    reader of the first would fetch the second as well.
    """
    given, left = np.zeros((len(work), len(share))), work.copy()
    for zone in np.argsort(-share, kind="stable")[: np.count_nonzero(share)].tolist():
        some = left == work
        if left[some].sum() <= share[zone] + grain:
            some = left > 0
        giver = np.where(some & (left > 0), 0, -1)
        given[:, zone] = release(left, giver, share[[zone]], np.full(len(share), grain))
        left -= given[:, zone]
    return given


def _cut_at_zone_shares(
    row: Ints, size: Floats, share: Floats, grain: float
) -> tuple[Ints, Ints, Floats]:
    """Lay ranges end to end over zones, the largest share first; cut where a share ends.

    Not where that is within a grain of the end of a range.
    """
    zone = np.argsort(-share, kind="stable")
    edges = np.append(0.0, np.cumsum(size))
    ends = np.cumsum(share[zone]) * (edges[-1] / share.sum())
    after = np.clip(np.searchsorted(edges, ends), 1, len(size))
    low, high = edges[after - 1], edges[after]
    nearest = np.where(ends - low <= high - ends, low, high)
    ends = np.maximum.accumulate(np.where(np.abs(ends - nearest) <= grain, nearest, ends))
    ends[-1] = edges[-1]
    inner = ends[ends < edges[-1]]  # sorted, as edges are
    new = np.diff(inner, prepend=-1.0) > 0
    cuts = inner[new & (edges[np.searchsorted(edges, inner)] != inner)]
    place = np.append(np.arange(len(row)), np.searchsorted(edges, cuts) - 1)
    points = np.append(edges[1:], cuts)
    order = np.lexsort((place, points))
    place, points = place[order], points[order]
    cut = np.bincount(place)[place] > 1
    amount = np.where(cut, np.diff(points, prepend=0.0), size[place])
    return row[place], zone[np.minimum(np.searchsorted(ends, points), len(zone) - 1)], amount


def _sort_shares(shares: Shares, owner: Ints, far: Flags) -> Shares:
    """Sort by range; of one that zones share, those with a replica come first.

    Of these and of the others, what stays comes first, and the largest last.
    """
    row, slot, amount = shares
    order = stable_order(row)
    several = np.flatnonzero(np.bincount(row)[row[order]] > 1)
    mixed = order[several]
    moves = slot[mixed] != owner[row[mixed]]
    order[several] = mixed[np.lexsort((amount[mixed], moves, far[mixed], row[mixed]))]
    return Shares(row[order], slot[order], amount[order])
