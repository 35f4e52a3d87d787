"""Why a plan is as it is: metrics for machines, one line a fact for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from assignor_bridge.errors import pluralize
from assignor_bridge.planner.cross_zone import cross_zone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assignor_bridge.planner.batch import Batch, Flags, Ints
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.demand import Demand
    from assignor_bridge.planner.flagship import Placement
    from assignor_bridge.planner.pack import Tasks
    from assignor_bridge.planner.pieces import Pieces
    from assignor_bridge.planner.table import PartitionTable

#: Below this share of hits the user is told about `spark.locality.wait`.
GOOD_HIT_RATE = 0.8
#: Names that a line lists at most.
_LISTED = 3


class _Moves(NamedTuple):
    """What happened to the ranges whose partitions had a reader before; flags, one a range."""

    #: The executor is gone and not replaced on its host.
    orphaned: Flags
    #: The first piece is read by another executor now.
    moved: Flags
    #: Begun by the same executor, and read elsewhere for the greater part.
    handed_over: Flags
    #: Begun by the same executor, which reads the greater part.
    kept: Flags
    #: Share of the batch's offsets that another executor reads than the one that had them before.
    offsets: float


def _moves(batch: Batch, table: PartitionTable, pieces: Pieces) -> _Moves:
    """Compare who reads each range with its last reader."""
    owner, owned = table.range_owner, table.range_owner >= 0
    orphaned = ~owned & table.had_reader[table.line]
    home = np.where(owned, batch.slot_executor[owner], -1)
    stays = home[pieces.row] == batch.slot_executor[pieces.slot]
    sizes = np.where(stays, pieces.end - pieces.start, 0).astype(np.float64)
    stayed = np.bincount(pieces.row, sizes, batch.ranges)
    begun = np.zeros(batch.ranges, np.bool_)
    begun[pieces.row[stays & (pieces.start == batch.start[pieces.row])]] = True
    mostly = 2 * stayed >= batch.size
    elsewhere = float((batch.size - stayed)[owned | orphaned].sum()) / max(batch.total, 1.0)
    return _Moves(orphaned, owned & ~begun, begun & ~mostly, begun & mostly, elsewhere)


def explain(  # noqa: PLR0917
    batch: Batch,
    table: PartitionTable,
    weights: Weights,
    demand: Demand,
    placement: Placement,
    tasks: Tasks,
    generation: int,
    prediction_error: float | None,
    state_warning: str | None,
) -> tuple[dict[str, str | int | float], list[str]]:
    """Return metrics (camelCase, without prefix) and reasons (the first is the summary)."""
    pieces, bound = tasks.pieces, placement.bound
    slowness = weights.slowness[batch.slot_executor]
    load = np.bincount(pieces.slot, pieces.work(batch, weights), batch.slots)
    busiest = float((load * slowness).max(initial=0.0))
    imbalance = max(0.0, busiest / bound - 1) if bound > 0 else 0.0
    parts = np.bincount(pieces.row, minlength=batch.ranges)
    split = parts > 1
    moves = _moves(batch, table, pieces)
    crossing = cross_zone(batch, weights, pieces)
    executors = len(set(batch.slot_executor[tasks.slot].tolist()))
    metrics: dict[str, str | int | float] = {
        "strategy": placement.assignor,
        "tasks": len(tasks),
        "executors": executors,
        "slots": batch.slots,
        "partitions": batch.ranges,
        "pieces": len(pieces),
        "splitPartitions": int(split.sum()),
        "movedPartitions": int((moves.moved | moves.orphaned).sum()),
        "movedOffsets": round(moves.offsets, 4),
        "imbalance": round(imbalance, 6),
        "weights": weights.basis,
        "generation": generation,
    }
    whole = ""
    if imbalance > batch.settings.max_imbalance and not batch.settings.split:
        whole = "; partitions cannot be cut: assignor.split=false"
    reasons = [
        f"{placement.assignor}: {batch.total:,.0f} offsets of "
        f"{pluralize(batch.ranges, 'partition')} in {pluralize(len(tasks), 'task')} on "
        f"{pluralize(executors, 'executor')}; busiest slot {_amount(busiest, weights)}, ideal "
        f"{_amount(bound, weights)}, {imbalance:.1%} over{whole}",
        *placement.refusals,
        *demand.asking,
        *placement.notes,
        *tasks.notes,
        weights.words,
        *(
            f"executor {batch.executors[i].id} counts as {weights.slowness[i]:.2g} times as slow "
            "as a usual one"
            for i in np.argsort(-np.abs(np.log(weights.slowness)), kind="stable")[:_LISTED].tolist()
            if weights.slowness[i] != 1
        ),
        *_move_lines(batch, table, weights, moves, bound, busiest),
    ]
    if split.any():
        reasons.append(f"split {_named(batch, split)} into {parts[split].sum()} pieces")
    if placement.refusals:
        metrics["fallbackReason"] = "; ".join(placement.refusals)
    if crossing is not None:
        metrics["crossZoneOffsets"] = crossing.offsets
        metrics["predictedCrossZoneShare"] = round(crossing.share, 4)
        reasons += crossing.reasons
        if changes := crossing.reasons[1:]:
            metrics["zoneAdvice"] = "; ".join(changes)
    if prediction_error is not None:
        metrics["predictionError"] = round(prediction_error, 4)
    if table.hit_rate is not None:
        metrics["plannedHitRate"] = round(table.hit_rate, 4)
        if table.hit_rate < GOOD_HIT_RATE:
            metrics["advice"] = advice = (
                f"only {table.hit_rate:.0%} of the last batch's reads ran where planned: raise "
                "spark.locality.wait above the time for which executors are busy, or keep "
                "other stages off them"
            )
            reasons.append(advice)
    if state_warning is not None:
        metrics["stateWarning"] = state_warning
        reasons.append(f"planned without memory: {state_warning}")
    return metrics, reasons


def _move_lines(  # noqa: PLR0917
    batch: Batch,
    table: PartitionTable,
    weights: Weights,
    moves: _Moves,
    bound: float,
    busiest: float,
) -> Iterator[str]:
    """Tell what stayed, what moved, and what the busiest slot would do had all stayed."""
    if moves.orphaned.any():
        yield f"the executors of {_named(batch, moves.orphaned)} are gone: read elsewhere"
    owned = table.range_owner >= 0
    if not owned.any():
        return
    yield (
        f"kept {moves.kept.sum()} of {owned.sum()} partitions at their executor; "
        f"{moves.offsets:.1%} of the offsets are read elsewhere than before"
    )
    stay = np.bincount(table.range_owner[owned], weights.work[owned], batch.slots)
    had = float((stay * weights.slowness[batch.slot_executor]).max())
    if had > busiest and bound > 0:
        yield (
            f"left in place the busiest slot would take {_amount(had, weights)} "
            f"({had / bound - 1:.1%} over the ideal): gained {_amount(had - busiest, weights)}"
        )
    if moves.moved.any():
        yield f"moved {_named(batch, moves.moved)}"
    if moves.handed_over.any():
        yield (
            f"handed over {_named(batch, moves.handed_over)}: begun at their executor, the greater "
            "part is read elsewhere"
        )


def _named(batch: Batch, ranges: Flags) -> str:
    rows: Ints = np.flatnonzero(ranges)
    listed = ", ".join(batch.name(row) for row in rows[:_LISTED].tolist())
    more = f" and {len(rows) - _LISTED} more" if len(rows) > _LISTED else ""
    return f"{pluralize(len(rows), 'partition')} ({listed}{more})"


def _amount(value: float, weights: Weights) -> str:
    return (f"{value:,.0f}" if value >= 1000 else f"{value:.4g}") + weights.unit
