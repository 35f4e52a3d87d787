"""Dynamic allocation: how many tasks ask Spark for executors, and which executors are let go.

Spark adds an executor when tasks wait for longer than a second, and removes one that has had none
for a while. With a task a slot nothing ever waits, and with tasks on all executors none is ever
idle, so a plan for executors that come and go says with its tasks what it wants:

- **More.** A batch that would keep the slots busy for longer than `BUSY_S` is cut into tasks of
  `TASK_S`, at most `TASKS_A_SLOT` for each slot of the most executors allowed, or (no limit is set,
  or no costs are known yet) a task a partition, as Spark's own mapping does. A slot's first
  task stays with its executor; the others may run anywhere, so that a new executor takes them as
  soon as it is there. After `OPEN_BATCHES` such batches in a row they stay, too: asking in vain on
  a full cluster must not cost warm consumers for ever. Once the executors are there, a slot has a
  task again.
- **Fewer.** When the executors in use were almost idle for `CALM_BATCHES` batches in a row, the
  partitions are gathered at those that own most of them, and the others get nothing. Almost idle:
  a slot has work for less than `CALM_S` in a batch, and for less than `CALM_SHARE` of the time.
  Those kept end up at twice as much, far from both ends, so the decision does not swing.
- **All again**, at once, when those in use would be busy for longer than `BUSY_S`.

An executor is in use when it owns a partition: the sticky state says so, nothing else is kept but
for how many batches in a row things have been so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from assignor_bridge.model import Allocation
    from assignor_bridge.options import PlannerOptions
    from assignor_bridge.planner.batch import Batch, Flags, Floats, Ints
    from assignor_bridge.planner.ledger import Ledger
    from assignor_bridge.planner.weights import Weights

#: Seconds of work a slot beyond which a batch asks: Spark asks after as long a wait
#: (`spark.dynamicAllocation.schedulerBacklogTimeout`).
BUSY_S = 1.0
#: Least predicted seconds of a task that is made only to ask.
TASK_S = 0.25
#: So many tasks for each slot that may come: some must still wait when the last executor is asked.
TASKS_A_SLOT = 4
#: Batches in a row that ask with tasks which may run anywhere.
OPEN_BATCHES = 3
#: Seconds of work a slot below which a batch is calm.
CALM_S = 0.25
#: Share of the time between batches below which a batch is calm.
CALM_SHARE = 0.25
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


def demand(ledger: Ledger, weights: Weights, owner: Ints, options: PlannerOptions) -> Demand:
    """Say what to ask for, and which executors to use.

    Parameters
    ----------
    owner
        Slot that read each line's partition last, -1 for none.
    """
    batch = ledger.batch
    everybody = np.ones(batch.slots, np.bool_)
    allocation = batch.allocation
    if allocation is None or not batch.ranges:
        return Demand(everybody, None, ledger.before.calm)
    seconds = float(weights.work.sum()) if weights.basis == "seconds" else None
    speed = batch.executor_slots / weights.slowness
    present = 0 if batch.anonymous else len(batch.executors)
    asked = None
    if present < allocation.max_executors:
        asked = _tasks_to_ask_with(
            batch, allocation, seconds, float(speed.sum()) if present else 0.0, options
        )
    if asked is not None:
        most = "any number" if allocation.unlimited else f"{allocation.max_executors}"
        asking = (f"asks for executors with {asked} tasks: {present} of {most} are there",)
        return Demand(everybody, asked, min(0, ledger.before.calm) - 1, asking)
    if seconds is None or not present:
        return Demand(everybody, None, 0)
    kept, calm = _kept(ledger, weights, owner, allocation, speed)
    gathering: tuple[str, ...] = ()
    if not kept.all():
        idle = ", ".join(batch.executors[i].id for i in np.flatnonzero(~kept)[:3].tolist())
        more = ", …" if (~kept).sum() > 3 else ""
        gathering = (
            f"there is work for {int(kept.sum())} of {present} executors, "
            f"Spark may remove {idle}{more}",
        )
    return Demand(kept[batch.slot_executor], None, calm, (), gathering)


def _tasks_to_ask_with(
    batch: Batch,
    allocation: Allocation,
    seconds: float | None,
    speed: float,
    options: PlannerOptions,
) -> int | None:
    """Count the tasks that are worth their executor; None when the slots are enough."""
    if seconds is not None and seconds <= BUSY_S * speed:
        return None
    worth = batch.ranges if seconds is None else max(1, math.floor(seconds / TASK_S))
    if options.min_records_per_task:
        worth = min(worth, int(max(1, batch.total // options.min_records_per_task)))
    if allocation.unlimited:
        most = batch.ranges
    else:
        absent = allocation.max_executors - (0 if batch.anonymous else len(batch.executors))
        here = 0 if batch.anonymous else batch.slots
        most = TASKS_A_SLOT * (here + absent * allocation.slots_per_executor)
    asked = min(worth, most)
    return asked if asked > (0 if batch.anonymous else batch.slots) else None


def _kept(
    ledger: Ledger, weights: Weights, owner: Ints, allocation: Allocation, speed: Floats
) -> tuple[Flags, int]:
    """Choose the executors that go on, and count calm batches."""
    batch, executors = ledger.batch, len(speed)
    everybody = np.ones(executors, np.bool_)
    lines = np.bincount(batch.slot_executor[owner[owner >= 0]], minlength=executors)
    used = lines > 0
    least = min(max(1, allocation.min_executors), executors)
    seconds = float(weights.work.sum())
    if not used.any() or seconds > BUSY_S * float(speed[used].sum()):
        return everybody, 0
    mine = owner[ledger.line]
    owned = mine >= 0
    has = np.bincount(batch.slot_executor[mine[owned]], weights.work[owned], executors)
    ranked = np.lexsort((np.arange(executors), -lines, -has, ~used))
    since = allocation.seconds_since_last_plan
    # Slots that would have work for all of a calm batch, and for all of a calm share of the time.
    needed = math.inf if not since else max(seconds / CALM_S, seconds / since / CALM_SHARE)
    if needed >= float(speed[used].sum()):
        return _first(ranked, max(least, int(used.sum()))), 0
    calm = min(max(0, ledger.before.calm) + 1, CALM_BATCHES)
    if calm < CALM_BATCHES:
        return _first(ranked, max(least, int(used.sum()))), calm
    enough = 1 + int(np.searchsorted(np.cumsum(speed[ranked]), needed / 2))
    return _first(ranked, min(max(least, enough), int(max(least, used.sum())))), 0


def _first(ranked: Ints, count: int) -> Flags:
    flags = np.zeros(len(ranked), np.bool_)
    flags[ranked[:count]] = True
    return flags
