"""Why a plan is as it is: metrics for machines, one line a fact for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.options import FLAGSHIP
from assignor_bridge.planner.flagship import bound_seconds
from assignor_bridge.planner.owners import hit_rate
from assignor_bridge.planner.weights import in_words

if TYPE_CHECKING:
    from assignor_bridge.options import PlannerOptions
    from assignor_bridge.planner.batch import Batch, Ints
    from assignor_bridge.planner.flagship import Placement
    from assignor_bridge.planner.ledger import Ledger
    from assignor_bridge.planner.pack import Tasks
    from assignor_bridge.planner.weights import Weights

#: Below this share of hits the user is told about `spark.locality.wait`.
GOOD_HIT_RATE = 0.8
#: Names of partitions that a line lists at most.
_LISTED = 3


@dataclass(frozen=True, eq=False)
class Moves:
    """What happened to the partitions that had a reader before."""

    #: Ranges whose first piece another executor reads now, though theirs is still there.
    moved: Ints
    #: Ranges whose executor is gone and not replaced on its host.
    orphaned: Ints
    #: Ranges that are read where they were, for the greater part.
    kept: Ints
    #: Ranges that are begun where they were, and read elsewhere for the greater part.
    handed_over: Ints
    #: Share of the batch's offsets that another executor reads than the one that had them before.
    offsets: float


def moves(ledger: Ledger, owner: Ints, tasks: Tasks) -> Moves:
    """Compare who reads each range with its last reader.

    Parameters
    ----------
    owner
        Slot that had each line's partition before, -1 for none.
    """
    batch, pieces = ledger.batch, tasks.pieces
    before = owner[ledger.line]
    lost = np.flatnonzero((before < 0) & (ledger.member[ledger.line] >= 0))
    home = np.where(before >= 0, batch.slot_executor[before], -1)
    stays = home[pieces.row] == batch.slot_executor[pieces.slot]
    length = (pieces.end - pieces.start).astype(np.float64)
    stayed = np.bincount(pieces.row, np.where(stays, length, 0.0), batch.ranges)
    begun_there = home == batch.slot_executor[head_slots(batch, tasks)]
    mostly = 2 * stayed >= batch.size
    known = before >= 0
    elsewhere = (batch.size - stayed)[known].sum() + batch.size[lost].sum(dtype=np.float64)
    return Moves(
        np.flatnonzero(known & ~begun_there),
        lost,
        np.flatnonzero(known & begun_there & mostly),
        np.flatnonzero(known & begun_there & ~mostly),
        float(elsewhere) / batch.total if batch.total else 0.0,
    )


def head_slots(batch: Batch, tasks: Tasks) -> Ints:
    """Slot that reads the first piece of each range."""
    pieces = tasks.pieces
    first = pieces.start == batch.start[pieces.row]
    slot = np.full(batch.ranges, -1, np.int64)
    slot[pieces.row[first]] = pieces.slot[first]
    return slot


def explain(  # noqa: PLR0917
    ledger: Ledger,
    weights: Weights,
    owner: Ints,
    placement: Placement,
    tasks: Tasks,
    name: str,
    options: PlannerOptions,
) -> tuple[dict[str, str | int | float], list[str]]:
    """Metrics (camelCase, without prefix) and reasons (the first is the summary)."""
    batch, pieces = ledger.batch, tasks.pieces
    slowness = weights.slowness[batch.slot_executor]
    work = pieces.weight(batch, weights.work, weights.fixed)
    seconds = np.bincount(pieces.slot, work, batch.slots) * slowness
    whole_only = name == FLAGSHIP and not options.split
    bound = bound_seconds(batch, weights, placement.share, split=not whole_only)
    busiest = float(seconds.max(initial=0.0))
    imbalance = max(0.0, busiest / bound - 1) if bound > 0 else 0.0
    parts = np.bincount(pieces.row, minlength=batch.ranges)
    split = np.flatnonzero(parts > 1)
    done = moves(ledger, owner, tasks)
    executors = int(np.count_nonzero(np.bincount(batch.slot_executor[tasks.slot])))
    metrics: dict[str, str | int | float] = {
        "strategy": name,
        "tasks": len(tasks),
        "executors": executors,
        "slots": batch.slots,
        "partitions": batch.ranges,
        "pieces": len(pieces),
        "splitPartitions": len(split),
        "movedPartitions": len(done.moved) + len(done.orphaned),
        "movedOffsets": round(done.offsets, 4),
        "imbalance": round(imbalance, 6),
        "weights": weights.basis,
    }
    if ledger.prediction_error is not None:
        metrics["predictionError"] = round(ledger.prediction_error, 4)
    unit = "s" if weights.basis == "seconds" else f" {_unit(weights)}"
    reasons = [
        f"{name}: {batch.total:,.0f} offsets of {_count(batch.ranges, 'partition')} in "
        f"{_count(len(tasks), 'task')} on {_count(executors, 'executor')}; busiest slot "
        f"{_amount(busiest)}{unit}, ideal {_amount(bound)}{unit}, {imbalance:.1%} over",
        *placement.notes,
        *tasks.notes,
        in_words(ledger, weights.basis),
        *_slow_lines(batch, weights),
        *_move_lines(ledger, weights, owner, done, bound, busiest, unit),
    ]
    if len(split):
        most = int(parts[split].sum())
        reasons.append(f"split {_named(batch, split)} into {most} pieces")
    rate = hit_rate(ledger)
    if rate is not None:
        metrics["plannedHitRate"] = round(rate, 4)
        if rate < GOOD_HIT_RATE:
            advice = (
                f"only {rate:.0%} of the last batch's reads ran where planned: raise "
                "spark.locality.wait above the time for which executors are busy, or keep "
                "other stages off them"
            )
            metrics["advice"] = advice
            reasons.append(advice)
    return metrics, reasons


def _slow_lines(batch: Batch, weights: Weights) -> list[str]:
    unusual = np.flatnonzero(weights.slowness != 1)
    ranked = unusual[np.argsort(-np.abs(np.log(weights.slowness[unusual])), kind="stable")]
    return [
        f"executor {batch.executors[i].id} counts as {weights.slowness[i]:.2g} times "
        "as slow as a usual one"
        for i in ranked[:_LISTED].tolist()
    ]


def _move_lines(  # noqa: PLR0917
    ledger: Ledger,
    weights: Weights,
    owner: Ints,
    done: Moves,
    bound: float,
    busiest: float,
    unit: str,
) -> list[str]:
    """Say what stayed, what moved, and what the busiest slot would do had all stayed."""
    batch = ledger.batch
    lines = []
    if len(done.orphaned):
        lines.append(f"the executors of {_named(batch, done.orphaned)} are gone: read elsewhere")
    before = owner[ledger.line]
    known = len(done.kept) + len(done.moved) + len(done.handed_over)
    if not known:
        return lines
    lines.append(
        f"kept {len(done.kept)} of {known} partitions at their executor; "
        f"{done.offsets:.1%} of the offsets are read elsewhere than before"
    )
    has = before >= 0
    slowness = weights.slowness[batch.slot_executor]
    stay = np.bincount(before[has], weights.work[has], batch.slots) * slowness
    had = float(stay.max(initial=0.0))
    if had > busiest and bound > 0:
        lines.append(
            f"left in place the busiest slot would take {_amount(had)}{unit} "
            f"({had / bound - 1:.1%} over the ideal): gained {_amount(had - busiest)}{unit}"
        )
    if len(done.moved):
        lines.append(f"moved {_named(batch, done.moved)}")
    if len(done.handed_over):
        lines.append(
            f"handed over {_named(batch, done.handed_over)}: begun at their executor, the greater "
            "part is read elsewhere"
        )
    return lines


def _named(batch: Batch, rows: Ints) -> str:
    listed = ", ".join(batch.name(int(row)) for row in rows[:_LISTED])
    more = f" and {len(rows) - _LISTED} more" if len(rows) > _LISTED else ""
    return f"{_count(len(rows), 'partition')} ({listed}{more})"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _unit(weights: Weights) -> str:
    return "records" if weights.basis == "records" else "records of mean bytes"
