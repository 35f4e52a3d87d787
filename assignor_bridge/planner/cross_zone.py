"""What a plan reads across zones: figures, and what would have to change, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from assignor_bridge.errors import elide
from assignor_bridge.planner.zones import MOST_ZONES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assignor_bridge.planner.batch import Batch, Flags, Floats
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.pieces import Pieces
    from assignor_bridge.planner.racks import Replicas, Zones

#: A share of the work that crosses zones, or crosses needlessly, and is worth no words.
_LITTLE = 0.005
#: Racks that a line lists at most.
_LISTED = 3


class CrossZone(NamedTuple):
    """What is read in another zone than its replicas."""

    offsets: int
    #: Share of the batch's bytes, or of its records where no bytes are known.
    share: float
    #: One line a fact.
    reasons: tuple[str, ...]


def cross_zone(batch: Batch, weights: Weights, pieces: Pieces) -> CrossZone | None:
    """Return what the pieces read across zones; None where nobody named racks."""
    if batch.zones is None or batch.replicas is None:
        return None
    zone = batch.zones.of_executor[batch.slot_executor[pieces.slot]]
    crosses = ~batch.zones.near[batch.replicas.code[pieces.row], zone]
    sizes = pieces.end - pieces.start
    size = weights.work if weights.bytes is None else weights.bytes
    parts = (size / batch.size)[pieces.row] * sizes
    share = float(parts[crosses].sum() / max(parts.sum(), 1e-300))
    return CrossZone(
        int(sizes[crosses].sum()),
        share,
        tuple(_reasons(batch, batch.zones, batch.replicas, weights, share)),
    )


def _reasons(
    batch: Batch, zones: Zones, replicas: Replicas, weights: Weights, share: float
) -> Iterator[str]:
    code = replicas.code
    of_set = np.asarray(np.bincount(code, weights.work, len(replicas.racks)), np.float64)
    total = max(float(of_set.sum()), 1e-300)
    unknown = float(sum(of_set[i] for i, held in enumerate(replicas.racks) if not held)) / total
    named, where = len(set(zones.names) - {None}), ""
    if not named:
        yield "no executor has a rack: all count as near to every partition"
        return
    if unknown > 0 or None in zones.names:
        where = f"; {unknown:.0%} of the work has replicas in racks that nobody named" * (
            unknown > 0
        ) + "; executors without a rack count as near to all" * (None in zones.names)
    yield f"{share:.1%} of what is read crosses zones ({named} racks with executors){where}"
    strangers = sorted({r for r in zones.names if r} - frozenset().union(*replicas.racks))
    if strangers:
        yield f"no partition has a replica in {_listed(strangers)}, where executors are"
    slots = batch.executor_slots / weights.slowness
    speed = np.bincount(zones.of_executor, slots, len(zones.names)) / slots.sum()
    if len(zones.names) > MOST_ZONES:
        yield f"zones do not count: placement looks at {MOST_ZONES} racks with executors at most"
    elif share > _LITTLE:
        yield from _what_to_change(batch, zones, replicas, of_set / total, speed)


def _what_to_change(
    batch: Batch, zones: Zones, replicas: Replicas, work: Floats, speed: Floats
) -> Iterator[str]:
    """Tell which racks have more of the replicas' work than executors, and the least that is."""
    nowhere = ~zones.near.any(axis=1)
    if (lost := float(work[nowhere].sum())) > _LITTLE:
        racks = sorted(frozenset().union(*(replicas.racks[i] for i in np.flatnonzero(nowhere))))
        yield (
            f"{lost:.1%} of the work has replicas only in {_listed(racks)}, where no executor is: "
            "executors there, or replicas in racks with executors, would help"
        )
    full, least = _full_zones(work, zones.near, speed * (1 + batch.settings.max_imbalance))
    if least <= _LITTLE:
        return
    names = [name for name, is_full in zip(zones.names, full, strict=True) if is_full and name]
    only = ~zones.near[:, ~full].any(axis=1) & ~nowhere
    yield (
        f"at least {least + lost:.1%} must cross: {work[only].sum():.0%} of the work has replicas "
        f"only in {_listed(names)}, and executors there are {speed[full].sum():.0%} of all: more "
        "executors there, or replicas of these partitions elsewhere, would help"
    )


def _full_zones(work: Floats, near: Flags, most: Floats) -> tuple[Flags, float]:
    """Return the zones that are full of work which has replicas only there, and what crosses.

    The least cut: for each set of zones, these read their most, and all else is read elsewhere.
    """
    zones = near.shape[1]
    full = np.asarray(np.arange(1 << zones)[:, None] >> np.arange(zones) & 1, np.bool_)
    elsewhere = (near & ~full[:, None, :]).any(axis=2)
    read = full @ most + elsewhere @ work
    best = int(read.argmin())
    return full[best], float(work[near.any(axis=1)].sum() - read[best])


def _listed(racks: list[str]) -> str:
    return f"{'rack' if len(racks) == 1 else 'racks'} {elide(racks, _LISTED)}"
