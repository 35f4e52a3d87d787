"""What a plan reads across zones: figures, and what would have to change, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from assignor_bridge.planner.transport import Groups, Room, allot
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
    full = speed * (1 + batch.settings.max_imbalance)
    home = np.full(len(work), -1)
    flow = allot(
        Groups(work, home, zones.near, np.ones(len(work), np.bool_)), Room(speed, full, full)
    )
    far = flow * ~zones.near
    far[nowhere] = 0.0
    if (least := float(far.sum())) <= _LITTLE:
        return
    short = _short_of_executors(zones.near, flow, far)
    names = [name for name, is_short in zip(zones.names, short, strict=True) if is_short and name]
    only = ~zones.near[:, ~short].any(axis=1) & ~nowhere
    yield (
        f"at least {least + lost:.1%} must cross: {work[only].sum():.0%} of the work has replicas "
        f"only in {_listed(names)}, and executors there are {speed[short].sum():.0%} of all: more "
        "executors there, or replicas of these partitions elsewhere, would help"
    )


def _short_of_executors(near: Flags, flow: Floats, far: Floats) -> Flags:
    """Return the zones that are full of work which has replicas in them alone."""
    short = near[far.sum(axis=1) > 0].any(axis=0)
    while True:
        stuck = (flow * near)[:, short].sum(axis=1) > 0
        more = short | near[stuck].any(axis=0)
        if (more == short).all():
            return np.asarray(short)
        short = more


def _listed(racks: list[str]) -> str:
    more = f" and {len(racks) - _LISTED} more" if len(racks) > _LISTED else ""
    return f"{'rack' if len(racks) == 1 else 'racks'} {', '.join(racks[:_LISTED])}{more}"
