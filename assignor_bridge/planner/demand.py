"""Dynamic allocation: how many tasks ask Spark for executors, and which executors are let go.

With a task a slot nothing ever waits, and with tasks on all executors none is ever idle, so a plan
for executors that come and go says with its tasks what it wants: see docs/internals/design.md.
Gathered partitions leave those kept with twice as much, far from both ends, so the decision does
not swing. An executor is in use when it owns a partition, as the sticky state says, or has read a
piece of one in the last batch, as the reports say. Nothing else is kept but for how many batches in
a row things have been so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from assignor_bridge.model import Allocation
    from assignor_bridge.planner.batch import Flags, MicroBatch
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.table import PartitionTable

#: Seconds of work a slot beyond which a batch asks: Spark asks after as long a wait
#: (`spark.dynamicAllocation.schedulerBacklogTimeout`).
BUSY_S = 1.0
#: Least predicted seconds of a task that is made only to ask.
MIN_TASK_S = 0.25
#: So many tasks for each slot that may come: some must still wait when the last executor is asked.
TASKS_PER_SLOT = 4
#: Batches in a row that ask with tasks which may run anywhere.
OPEN_BATCHES = 3
#: Seconds of work a slot, and share of the time between batches, below which a batch is calm.
CALM_S, CALM_SHARE = 0.25, 0.25
#: Calm batches in a row after which executors are let go.
CALM_BATCHES = 10


@dataclass(frozen=True, eq=False)
class Demand:
    """What a batch is worth."""

    #: Slots that take part: those of the executors in use.
    in_use: Flags
    #: Least number of tasks, as `minPartitions`; None where nothing is asked for.
    tasks: int | None
    #: Calm batches in a row so far; below 0, batches in a row that asked.
    calm: int
    #: Lines for people: what is asked for, and who gets nothing. Only the flagship gathers.
    asking: tuple[str, ...] = ()
    gathering: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether all but the first task of a slot may run anywhere."""
        return self.tasks is not None and self.calm >= -OPEN_BATCHES


def estimate_demand(batch: MicroBatch, table: PartitionTable, weights: Weights) -> Demand:
    """Say what to ask for, and which executors to use."""
    all_slots, before = np.ones(batch.slots, np.bool_), table.state.calm
    allocation = batch.allocation
    if allocation is None or not batch.ranges:
        return Demand(all_slots, None, before)
    present = _count_present_executors(batch)
    speed = batch.executor_slots / weights.slowness
    if present < allocation.max_executors:
        asked = _count_tasks_to_request(batch, allocation, weights, float(speed.sum()))
        if asked is not None:
            most = "any number" if allocation.unlimited else f"{allocation.max_executors}"
            asking = (f"asks for executors with {asked} tasks: {present} of {most} are there",)
            return Demand(all_slots, asked, min(0, before) - 1, asking)
    if weights.basis != "seconds" or not present:
        return Demand(all_slots, None, 0)
    kept, calm = _choose_kept_executors(batch, allocation, table, weights)
    gathering: tuple[str, ...] = ()
    if not kept.all():
        idle = ", ".join(batch.executors[i].id for i in np.flatnonzero(~kept)[:3].tolist())
        more = ", …" if (~kept).sum() > 3 else ""
        gathering = (
            f"there is work for {int(kept.sum())} of {present} executors, "
            f"Spark may remove {idle}{more}",
        )
    return Demand(kept[batch.slot_executor], None, calm, (), gathering)


def _count_present_executors(batch: MicroBatch) -> int:
    """Count the executors that are there, those of other streams too."""
    return 0 if batch.anonymous else len(batch.executors) + batch.left_out


def _count_tasks_to_request(
    batch: MicroBatch, allocation: Allocation, weights: Weights, speed: float
) -> int | None:
    """Count the tasks that are worth their executor; None when the slots are enough."""
    present, slots = _count_present_executors(batch), 0 if batch.anonymous else batch.slots
    wanted = batch.settings.slots
    if isinstance(wanted, int) and slots >= wanted:  # further executors would stay idle
        return None
    worth, seconds = batch.ranges, batch.backlog * float(weights.work.sum())
    if weights.basis == "seconds":
        if present and seconds <= BUSY_S * speed:
            return None
        worth = max(1, math.floor(seconds / MIN_TASK_S))
    worth = min(worth, int(max(1, batch.total // (batch.settings.min_records_per_task or 1))))
    absent = allocation.max_executors - present
    most = TASKS_PER_SLOT * (slots + absent * allocation.slots_per_executor)
    asked = min(worth, batch.ranges if allocation.unlimited else most)
    return asked if asked > slots else None


def _choose_kept_executors(
    batch: MicroBatch, allocation: Allocation, table: PartitionTable, weights: Weights
) -> tuple[Flags, int]:
    """Choose the executors that go on, and count calm batches."""
    executors, seconds = len(batch.executors), batch.backlog * float(weights.work.sum())
    speed = batch.executor_slots / weights.slowness
    lines = np.bincount(batch.slot_executor[table.owner[table.owner >= 0]], minlength=executors)
    # Who reads the tail of a cut range owns it; the readers of its other pieces own nothing.
    used = (lines > 0) | np.isin([e.id for e in batch.executors], batch.observed.executors)
    if not used.any() or seconds > BUSY_S * float(speed[used].sum()):
        return np.ones(executors, np.bool_), 0
    owned = table.range_owner >= 0
    home = batch.slot_executor[table.range_owner[owned]]
    work = np.bincount(home, weights.work[owned], executors)
    ranked = np.lexsort((np.arange(executors), -lines, -work, ~used))
    count = max(min(max(1, allocation.min_executors), executors), int(used.sum()))
    since, calm = allocation.seconds_since_last_plan, 0
    # Slots that would have work for all of a calm batch, and for all of a calm share of the time.
    needed = math.inf if not since else max(seconds / CALM_S, seconds / since / CALM_SHARE)
    if needed < float(speed[used].sum()):
        calm = min(max(0, table.state.calm) + 1, CALM_BATCHES)
    if calm == CALM_BATCHES:
        enough = 1 + int(np.searchsorted(np.cumsum(speed[ranked]), needed / 2))
        count, calm = min(count, max(enough, allocation.min_executors)), 0
    return np.isin(np.arange(executors), ranked[:count]), calm
