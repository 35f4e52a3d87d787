"""Explain a plan: metrics for programs, and reasons (one sentence per fact) for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from assignor_bridge.errors import pluralize
from assignor_bridge.planner.cross_zone import measure_cross_zone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assignor_bridge.planner.batch import Flags, Ints, MicroBatch
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.demand import Demand
    from assignor_bridge.planner.flagship import Placement
    from assignor_bridge.planner.pieces import Pieces
    from assignor_bridge.planner.table import PartitionTable
    from assignor_bridge.planner.tail import TailCut
    from assignor_bridge.planner.task_list import TaskList

#: Hit rate below which the plan advises raising `spark.locality.wait`.
_GOOD_HIT_RATE = 0.8
#: Maximum number of partitions, or of executors, in a reason.
_MAX_NAMES = 3


class _Moves(NamedTuple):
    """Moves of the ranges whose partitions had a reader before (one flag per range)."""

    #: The executor no longer takes part, and no new executor on its host replaces it.
    orphaned: Flags
    #: Another executor reads the first piece.
    moved: Flags
    #: The same executor reads the first piece, but less than half of the offsets.
    handed_over: Flags
    #: The same executor reads the first piece, and at least half of the offsets.
    kept: Flags
    #: Share of the batch's offsets that moved to another executor.
    moved_share: float


def _compare_with_last_readers(batch: MicroBatch, table: PartitionTable, pieces: Pieces) -> _Moves:
    """Compare each range's executors with its partition's last reader."""
    owner, is_owned = table.range_owner, table.range_owner >= 0
    orphaned = ~is_owned & table.had_reader[table.line]
    last_executor = np.where(is_owned, batch.slot_executor[owner], -1)
    is_kept = last_executor[pieces.row] == batch.slot_executor[pieces.slot]
    kept_sizes = np.where(is_kept, pieces.end - pieces.start, 0).astype(np.float64)
    kept_offsets = np.bincount(pieces.row, kept_sizes, batch.range_count)
    keeps_start = np.zeros(batch.range_count, np.bool_)
    keeps_start[pieces.row[is_kept & (pieces.start == batch.start[pieces.row])]] = True
    keeps_most = 2 * kept_offsets >= batch.size
    moved, handed_over = is_owned & ~keeps_start, keeps_start & ~keeps_most
    moved_offsets = float((batch.size - kept_offsets)[is_owned | orphaned].sum())
    moved_share = moved_offsets / max(batch.total_offsets, 1.0)
    return _Moves(orphaned, moved, handed_over, keeps_start & keeps_most, moved_share)


def explain(
    batch: MicroBatch,
    table: PartitionTable,
    weights: Weights,
    placement: Placement,
    tasks: TaskList,
    *,
    demand: Demand,
    generation: int,
    prediction_error: float | None,
    state_warning: str | None,
) -> tuple[dict[str, str | int | float], list[str]]:
    """Return metrics (camelCase, without prefix) and reasons; the first reason is a summary."""
    pieces, bound = tasks.pieces, placement.bound
    slowness = weights.slowness[batch.slot_executor]
    load = np.bincount(pieces.slot, pieces.predict_work(batch, weights), batch.slots)
    max_time = float((load * slowness).max(initial=0.0))
    imbalance = max(0.0, max_time / bound - 1) if bound > 0 else 0.0
    piece_counts = np.bincount(pieces.row, minlength=batch.range_count)
    is_split = piece_counts > 1
    moves = _compare_with_last_readers(batch, table, pieces)
    cross_zone = measure_cross_zone(batch, weights, pieces)
    executor_count = len(set(batch.slot_executor[tasks.slot].tolist()))
    metrics: dict[str, str | int | float] = {
        "strategy": placement.assignor,
        "tasks": len(tasks),
        "executors": executor_count,
        "slots": batch.slots,
        "partitions": batch.range_count,
        "pieces": len(pieces),
        "splitPartitions": int(is_split.sum()),
        "movedPartitions": int((moves.moved | moves.orphaned).sum()),
        "movedOffsets": round(moves.moved_share, 4),
        "imbalance": round(imbalance, 6),
        "weights": weights.basis,
        "generation": generation,
    }
    unusual_executors = np.argsort(-np.abs(np.log(weights.slowness)), kind="stable")[:_MAX_NAMES]
    cut_note, is_group = "", placement.assignment is not None  # a group's partitions are never cut
    if imbalance > batch.options.max_imbalance and not (batch.options.split or is_group):
        cut_note = "; partitions cannot be cut: assignor.split=false"
    reasons = [
        f"{placement.assignor}: {batch.total_offsets:,.0f} offsets of "
        f"{pluralize(batch.range_count, 'partition')} in {pluralize(len(tasks), 'task')} on "
        f"{pluralize(executor_count, 'executor')}; busiest slot "
        f"{_format_amount(max_time, weights)}, ideal {_format_amount(bound, weights)}, "
        f"{imbalance:.1%} over{cut_note}",
        *placement.refusals,
        *demand.request_notes,
        *placement.notes,
        *tasks.notes,
        weights.description,
        *(
            f"executor {batch.executors[i].id} takes {weights.slowness[i]:.2f} times as long as a "
            "typical executor for the same records"
            for i in unusual_executors.tolist()
            if round(weights.slowness[i], 2) != 1
        ),
        *_describe_moves(batch, table, weights, moves, bound=bound, max_time=max_time),
    ]
    if is_split.any():
        split_partitions = _format_partitions(batch, is_split)
        reasons.append(f"split {split_partitions} into {piece_counts[is_split].sum()} pieces")
    if placement.refusals:
        metrics["fallbackReason"] = "; ".join(placement.refusals)
    if cross_zone is not None:
        metrics["crossZoneOffsets"] = cross_zone.offsets
        metrics["predictedCrossZoneShare"] = round(cross_zone.share, 4)
        reasons += cross_zone.reasons
        if zone_advice := cross_zone.reasons[1:]:
            metrics["zoneAdvice"] = "; ".join(zone_advice)
    if prediction_error is not None:
        metrics["predictionError"] = round(prediction_error, 4)
    if table.hit_rate is not None:
        metrics["plannedHitRate"] = round(table.hit_rate, 4)
        if table.hit_rate < _GOOD_HIT_RATE:
            metrics["advice"] = advice = (
                f"only {table.hit_rate:.0%} of the last batch's reads ran where planned: raise "
                "spark.locality.wait above the time for which executors are busy, or keep "
                "other stages off them"
            )
            reasons.append(advice)
    if state_warning is not None:
        metrics["stateWarning"] = state_warning
        reasons.append(f"planned without earlier state: {state_warning}")
    return metrics, reasons


def explain_tail(
    cut: TailCut | None, unpredictability: float | None
) -> tuple[dict[str, str | int | float], list[str]]:
    """Return the metrics of the shared tail, and a sentence if there is a tail."""
    share, tasks = (0.0, 0) if cut is None else (cut.share, cut.task_count)
    metrics: dict[str, str | int | float] = {"tailShare": round(share, 4), "tailTasks": tasks}
    if unpredictability is not None:
        metrics["unpredictability"] = round(unpredictability, 4)
    if cut is None:
        return metrics, []
    note = (
        f"{share:.0%} of the work is in {pluralize(tasks, 'task')} for any free slot, "
        f"because task times deviated by {unpredictability:.0%} from their predictions"
    )
    return metrics, [note]


def _describe_moves(
    batch: MicroBatch,
    table: PartitionTable,
    weights: Weights,
    moves: _Moves,
    *,
    bound: float,
    max_time: float,
) -> Iterator[str]:
    """Describe moved and kept partitions, and the load that the moves avoid, if they avoid any."""
    if moves.orphaned.any():
        orphans = _format_partitions(batch, moves.orphaned)
        yield f"{orphans} moved because the executor left or has no slots for this query"
    is_owned = table.range_owner >= 0
    if not is_owned.any():
        return
    yield (
        f"kept {moves.kept.sum()} of {is_owned.sum()} partitions on their executor; "
        f"{moves.moved_share:.1%} of the offsets moved to another executor"
    )
    owners, owned_work = table.range_owner[is_owned], weights.work[is_owned]
    stay_load = np.bincount(owners, owned_work, batch.slots)
    stay_time = float((stay_load * weights.slowness[batch.slot_executor]).max())
    if stay_time > max_time and bound > 0:
        yield (
            "without moves the busiest slot would have at least "
            f"{_format_amount(stay_time, weights)} ({stay_time / bound - 1:.1%} over the ideal), "
            f"{_format_amount(stay_time - max_time, weights)} more than planned"
        )
    if moves.moved.any():
        yield f"moved {_format_partitions(batch, moves.moved)}"
    if moves.handed_over.any():
        yield (
            f"handed over {_format_partitions(batch, moves.handed_over)}: the same executor reads "
            "the beginning, other executors most of the offsets"
        )


def _format_partitions(batch: MicroBatch, flags: Flags) -> str:
    rows: Ints = np.flatnonzero(flags)
    names = ", ".join(batch.format_partition(row) for row in rows[:_MAX_NAMES].tolist())
    more = f" and {len(rows) - _MAX_NAMES} more" if len(rows) > _MAX_NAMES else ""
    return f"{pluralize(len(rows), 'partition')} ({names}{more})"


def _format_amount(value: float, weights: Weights) -> str:
    return (f"{value:,.0f}" if value >= 1000 else f"{value:.4g}") + weights.unit
