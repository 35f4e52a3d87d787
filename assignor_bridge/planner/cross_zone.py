"""Measure how much a plan reads across zones, and suggest changes that reduce it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from assignor_bridge.errors import elide, pluralize
from assignor_bridge.planner.zones import MAX_ZONES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assignor_bridge.planner.batch import Flags, Floats, MicroBatch
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.pieces import Pieces
    from assignor_bridge.planner.racks import Replicas, Zones

#: Maximum share of the work that may cross zones without a suggestion.
_NEGLIGIBLE_SHARE = 0.005
#: Maximum number of racks in a reason.
_MAX_LISTED_RACKS = 3


class ZoneCrossing(NamedTuple):
    """The data that a plan reads in a zone without a replica of it."""

    offsets: int
    #: Share of the batch's bytes, or of its work until bytes are reported.
    share: float
    #: Sentences for people: a summary, then what causes the crossing or reduces it.
    reasons: tuple[str, ...]


def measure_cross_zone(batch: MicroBatch, weights: Weights, pieces: Pieces) -> ZoneCrossing | None:
    """Return how much the pieces read across zones; None if no replica's rack is known."""
    if batch.zones is None or batch.replicas is None:
        return None
    zone = batch.zones.zone_of_executor[batch.slot_executor[pieces.slot]]
    crosses = ~batch.zones.near[batch.replicas.code[pieces.row], zone]
    offsets = pieces.end - pieces.start
    range_amount = weights.work if weights.bytes is None else weights.bytes  # work or bytes
    piece_amount = (range_amount / batch.size)[pieces.row] * offsets
    share = float(piece_amount[crosses].sum() / max(piece_amount.sum(), 1e-300))
    reasons = tuple(_explain_cross_zone(batch, batch.zones, batch.replicas, weights, share))
    return ZoneCrossing(int(offsets[crosses].sum()), share, reasons)


def _explain_cross_zone(
    batch: MicroBatch, zones: Zones, replicas: Replicas, weights: Weights, share: float
) -> Iterator[str]:
    set_work = np.asarray(np.bincount(replicas.code, weights.work, len(replicas.racks)), np.float64)
    total_work = max(float(set_work.sum()), 1e-300)
    unknown_work = sum(set_work[i] for i, racks in enumerate(replicas.racks) if not racks)
    rack_count = len(set(zones.names) - {None})
    if not rack_count:
        yield "no executor has a rack: all are treated as near to every partition"
        return
    note = f"({pluralize(rack_count, 'rack')} with executors)"
    if unknown_work > _NEGLIGIBLE_SHARE * total_work:
        note += f"; {unknown_work / total_work:.0%} of the work has replicas in unknown racks"
    if None in zones.names:
        note += "; executors without a rack are treated as near to all"
    yield f"{share:.1%} of the data read crosses zones {note}"
    no_replica_racks = sorted({r for r in zones.names if r} - frozenset().union(*replicas.racks))
    if no_replica_racks:
        yield f"executors run in {_format_racks(no_replica_racks)}, where no replica is known"
    speed = batch.executor_slots / weights.slowness
    speed_share = np.bincount(zones.zone_of_executor, speed, len(zones.names)) / speed.sum()
    if (zone_count := len(zones.names)) > MAX_ZONES:
        yield f"zones are not used: executors form {zone_count} zones, the maximum is {MAX_ZONES}"
    elif share > _NEGLIGIBLE_SHARE:
        yield from _suggest_changes(batch, zones, replicas, set_work / total_work, speed_share)


def _suggest_changes(
    batch: MicroBatch, zones: Zones, replicas: Replicas, work_share: Floats, speed_share: Floats
) -> Iterator[str]:
    """Suggest where to add executors or replicas; report the minimum work that crosses zones.

    `work_share` is each rack set's share of all work; `speed_share` is each zone's share of speed.
    """
    is_unreachable = ~zones.near.any(axis=1)
    if (far_share := float(work_share[is_unreachable].sum())) > _NEGLIGIBLE_SHARE:
        racks = frozenset().union(*(replicas.racks[i] for i in np.flatnonzero(is_unreachable)))
        yield (
            f"{far_share:.1%} of the work has replicas only in {_format_racks(sorted(racks))}, "
            "where no executors run: add executors there, or replicas in racks with executors"
        )
    max_share = speed_share * (1 + batch.options.max_imbalance)
    is_full, crossing_share = _find_full_zones(work_share, zones.near, max_share)
    if crossing_share <= _NEGLIGIBLE_SHARE:
        return
    names = [name for name, full in zip(zones.names, is_full, strict=True) if full and name]
    excess_share = work_share[~zones.near[:, ~is_full].any(axis=1) & ~is_unreachable].sum()
    yield (
        f"at least {crossing_share + far_share:.1%} must cross zones: {excess_share:.0%} of the "
        f"work is near only to executors in {_format_racks(names)}, which have "
        f"{speed_share[is_full].sum():.0%} of the total speed: add executors there, or replicas "
        "near other executors"
    )


def _find_full_zones(work: Floats, near: Flags, max_work: Floats) -> tuple[Flags, float]:
    """Flag the zones that cannot read all work near only to them; return the work that must cross.

    For every subset of zones, near reads are at most the maxima of the subset plus all work that is
    near to a zone outside it. The smallest of these bounds is reached (max-flow min-cut theorem).
    """
    zones = np.arange(near.shape[1])
    subsets = np.asarray(np.arange(1 << len(zones))[:, None] >> zones & 1, np.bool_)
    is_near_elsewhere = (near & ~subsets[:, None, :]).any(axis=2)
    max_near_work = subsets @ max_work + is_near_elsewhere @ work
    best_subset = int(max_near_work.argmin())
    return subsets[best_subset], float(work[near.any(axis=1)].sum() - max_near_work[best_subset])


def _format_racks(racks: list[str]) -> str:
    return f"{'rack' if len(racks) == 1 else 'racks'} {elide(racks, _MAX_LISTED_RACKS)}"
