"""Decide, under dynamic allocation, when to request executors and which executors to free.

With one task per slot Spark never sees waiting tasks, and with tasks on all executors none is ever
idle. So a plan requests executors by adding tasks, and frees executors by gathering partitions on
the others (docs/internals/design.md). The others then have up to twice a calm batch's load, far
from both thresholds, so that the decision does not oscillate. An executor is in use if it owns a
partition in the state, or read a piece in the last batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.errors import elide, pluralize

if TYPE_CHECKING:
    from assignor_bridge.model import Allocation
    from assignor_bridge.planner.batch import Flags, MicroBatch
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.table import PartitionTable

#: Seconds of work per slot above which a batch requests executors. By default, Spark does so once
#: tasks have waited this long (`spark.dynamicAllocation.schedulerBacklogTimeout`).
BUSY_S = 1.0
#: Minimum predicted seconds of a task that is added only to request executors.
MIN_TASK_S = 0.25
#: Maximum tasks per slot of the largest allowed cluster, so that some still wait for a slot when
#: its last executor starts. An unlimited cluster gets at most one task per range instead.
MAX_TASKS_PER_SLOT = 4
#: Maximum consecutive requesting batches in which additional tasks may run on any executor.
OPEN_BATCHES = 3
CALM_S = 0.25  # a calm batch has less work per slot, in seconds
CALM_SHARE = 0.25  # a calm batch has less work per slot, as a share of the time between batches
#: Number of consecutive calm batches after which executors are freed.
CALM_BATCHES = 10


@dataclass(frozen=True, eq=False)
class Demand:
    """The executors that a batch uses, and how many tasks it needs to request more executors."""

    #: Whether each slot's executor is in use.
    in_use: Flags
    #: Minimum number of tasks, like `minPartitions`; None if no executors are requested.
    min_tasks: int | None
    #: Number of consecutive calm batches (0 after freeing executors), or minus requesting batches.
    calm_streak: int
    #: Sentences about requested executors.
    request_notes: tuple[str, ...] = ()
    #: Sentences about freed executors; consumer group assignors free none.
    gathering_notes: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether all but the first task of a slot may run anywhere."""
        return self.min_tasks is not None and self.calm_streak >= -OPEN_BATCHES


def estimate_demand(batch: MicroBatch, table: PartitionTable, weights: Weights) -> Demand:
    """Return which executors to use, and how many tasks to plan to request more executors."""
    all_slots, last_streak = np.ones(batch.slots, np.bool_), table.state.calm
    allocation = batch.allocation
    if allocation is None or not batch.range_count:
        return Demand(all_slots, None, last_streak)
    present_count = _count_present_executors(batch)
    speed = batch.executor_slots / weights.slowness
    if may_request_executors(batch):
        tasks = _count_tasks_to_request(batch, allocation, weights, float(speed.sum()))
        if tasks is not None:
            limit = "none" if allocation.unlimited else f"{allocation.max_executors}"
            counts = f"({present_count} present, limit: {limit})"
            note = f"plans at least {pluralize(tasks, 'task')} to request executors {counts}"
            return Demand(all_slots, tasks, min(0, last_streak) - 1, (note,))
    if weights.basis != "seconds" or not present_count:
        return Demand(all_slots, None, 0)
    is_kept, calm_streak = _choose_kept_executors(batch, allocation, table, weights)
    notes = []
    if not is_kept.all():
        idle_ids = [batch.executors[i].id for i in np.flatnonzero(~is_kept).tolist()]
        kept_text = f"{int(is_kept.sum())} of {present_count} executors"
        noun = "executor" if len(idle_ids) == 1 else "executors"
        notes = [f"only {kept_text} are used, so Spark may remove {noun} {elide(idle_ids)}"]
    return Demand(is_kept[batch.slot_executor], None, calm_streak, (), tuple(notes))


def may_request_executors(batch: MicroBatch) -> bool:
    """Return whether Spark may start more executors if tasks wait for a slot."""
    allocation = batch.allocation
    return allocation is not None and _count_present_executors(batch) < allocation.max_executors


def _count_present_executors(batch: MicroBatch) -> int:
    """Return the number of executors that take tasks, even if they give this stream no slot."""
    return 0 if batch.anonymous else len(batch.executors) + batch.unused_executor_count


def _count_tasks_to_request(
    batch: MicroBatch, allocation: Allocation, weights: Weights, total_speed: float
) -> int | None:
    """Return how many tasks to plan to request executors; None if no more are needed or useful."""
    executors, slots = _count_present_executors(batch), 0 if batch.anonymous else batch.slots
    wanted_slots = batch.options.slots
    if isinstance(wanted_slots, int) and slots >= wanted_slots:  # more executors would be idle
        return None
    useful_tasks = batch.range_count
    if weights.basis == "seconds":
        seconds = batch.backlog_ratio * float(weights.work.sum())
        if executors and seconds <= BUSY_S * total_speed:
            return None
        useful_tasks = max(1, math.floor(seconds / MIN_TASK_S))
    min_records = batch.options.min_records_per_task or 1
    useful_tasks = min(useful_tasks, int(max(1, batch.total_offsets // min_records)))
    absent_executors = allocation.max_executors - executors
    max_tasks = MAX_TASKS_PER_SLOT * (slots + absent_executors * allocation.slots_per_executor)
    tasks = min(useful_tasks, batch.range_count if allocation.unlimited else max_tasks)
    return tasks if tasks > slots else None


def _choose_kept_executors(
    batch: MicroBatch, allocation: Allocation, table: PartitionTable, weights: Weights
) -> tuple[Flags, int]:
    """Return which executors to use (all if those in use are busy), and the new `calm_streak`."""
    executor_count, seconds = len(batch.executors), batch.backlog_ratio * float(weights.work.sum())
    speed = batch.executor_slots / weights.slowness
    owner_slots = table.owner[table.owner >= 0]
    partition_counts = np.bincount(batch.slot_executor[owner_slots], minlength=executor_count)
    # The state names one reader of a cut range; the others are known only from the reports.
    reader_ids = batch.reports.executors
    is_used = (partition_counts > 0) | np.isin([e.id for e in batch.executors], reader_ids)
    if not is_used.any() or seconds > BUSY_S * float(speed[is_used].sum()):
        return np.ones(executor_count, np.bool_), 0
    is_owned = table.range_owner >= 0
    range_executor = batch.slot_executor[table.range_owner[is_owned]]
    owned_work = np.bincount(range_executor, weights.work[is_owned], executor_count)
    ranking = np.lexsort((np.arange(executor_count), -partition_counts, -owned_work, ~is_used))
    kept_count = max(min(max(1, allocation.min_executors), executor_count), int(is_used.sum()))
    interval_s, calm_streak = allocation.seconds_since_last_plan, 0
    # The batch is calm if the executors in use have more than `calm_slots` slots of usual speed.
    calm_slots = math.inf  # without an interval, no batch is calm
    if interval_s:
        calm_slots = max(seconds / CALM_S, seconds / interval_s / CALM_SHARE)
    if calm_slots < float(speed[is_used].sum()):
        calm_streak = min(max(0, table.state.calm) + 1, CALM_BATCHES)
    if calm_streak == CALM_BATCHES:
        sufficient_count = 1 + int(np.searchsorted(np.cumsum(speed[ranking]), calm_slots / 2))
        calm_streak = 0
        kept_count = min(kept_count, max(sufficient_count, allocation.min_executors))
    return np.isin(np.arange(executor_count), ranking[:kept_count]), calm_streak
