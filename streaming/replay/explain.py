"""Why each partition of one batch is where it is: the batch is planned again, and compared."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from assignor_bridge.errors import AssignorError
from assignor_bridge.model import Partition
from assignor_bridge.options import LAG_AWARE_STICKY
from assignor_bridge.planner.costs import predict
from assignor_bridge.planner.learn import learn
from assignor_bridge.planner.plan import plan_step
from assignor_bridge.planner.table import load
from streaming.observe.words import seconds_text
from streaming.replay.plan_log import name_local_executor
from streaming.simulator.play import is_sparks, tasks_of_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from assignor_bridge.assignors.protocol import Assignor
    from assignor_bridge.planner.batch import Batch
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.plan import Outcome
    from assignor_bridge.planner.table import PartitionTable
    from streaming.replay.kept_batch import KeptBatch

Change = Literal["stays", "moved", "cut", "new", "orphaned"]
#: Reasons that need no figure.
_REASONS: Mapping[Change, str] = {
    "new": "no executor had read it, so it went to the least busy slots",
    "orphaned": "its executor is gone, so it went to the least busy slots",
    "stays": "its executor read it last",
}


@dataclass(frozen=True)
class Piece:
    """The offsets of a partition that one slot reads."""

    executor: str
    slot: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"[{self.start:,}, {self.end:,}) by executor {self.executor} slot {self.slot}"


@dataclass(frozen=True)
class PartitionStory:
    """One partition in one batch: its slot before, its slots now, and the reason."""

    partition: Partition
    change: Change
    #: Slot that read it last, as `<executor>/<slot>`; None if that executor is gone.
    before: str | None
    pieces: Sequence[Piece]
    why: str
    #: Predicted cost, in the unit of the plan.
    predicted: float
    #: Seconds that readers reported; None if they are not kept.
    took: float | None


@dataclass(frozen=True, eq=False)
class Explanation:
    """One batch, explained."""

    kept: KeptBatch
    outcome: Outcome
    weights: Weights
    stories: Sequence[PartitionStory]
    #: How many of `kept.readers` the plan agrees with.
    agreeing: int

    def as_json(self, stories: Sequence[PartitionStory]) -> dict[str, Any]:
        """Return the batch and some of its partitions as JSON values."""
        return {
            "batch": self.kept.number,
            "assignor": self.outcome.assignor,
            "origin": self.kept.origin,
            "readersNamed": len(self.kept.readers),
            "readersAgree": self.agreeing,
            "reasons": list(self.outcome.reasons),
            "costUnit": self.weights.unit.strip(),
            "partitions": [
                {
                    "partition": str(story.partition),
                    "change": story.change,
                    "before": story.before,
                    "pieces": [vars(piece) for piece in story.pieces],
                    "why": story.why,
                    "predicted": story.predicted,
                    "tookSeconds": story.took,
                }
                for story in stories
            ],
        }


def amount_text(work: float, weights: Weights, digits: int = 2) -> str:
    """Write a predicted cost in the unit of the plan."""
    is_time = weights.basis == "seconds"
    return seconds_text(work, digits) if is_time else f"{work:,.0f}{weights.unit}"


def explain_batch(
    kept: KeptBatch, names: Sequence[str], find: Callable[[str], Assignor]
) -> Explanation:
    """Plan a batch again and give the reason for each partition.

    A state does not name the assignor: if the plan of the default one disagrees with the readers
    that the state names, the one of `names` that agrees best is taken.
    """
    outcome, agreeing = _plan_again(kept, names, find)
    table = load(kept.before, outcome.batch)
    learned, _ = learn(table, outcome.batch)
    weights = predict(learned, table.line, outcome.batch)
    stories = _tell_stories(kept, outcome, table, weights)
    return Explanation(kept, outcome, weights, stories, agreeing)


def _plan_again(
    kept: KeptBatch, names: Sequence[str], find: Callable[[str], Assignor]
) -> tuple[Outcome, int]:
    outcome = plan_step(kept.batch, kept.before, find)
    agreeing = _count_agreeing(kept, outcome)
    for name in names:
        if agreeing == len(kept.readers):
            break
        if is_sparks(name):
            continue
        settings = replace(kept.batch.settings, assignors=(name,))
        try:
            other = plan_step(replace(kept.batch, settings=settings), kept.before, find)
        except AssignorError:  # this assignor refuses the batch, so it did not plan it
            continue
        if (others_agreeing := _count_agreeing(kept, other)) > agreeing:
            outcome, agreeing = other, others_agreeing
    return outcome, agreeing


def _count_agreeing(kept: KeptBatch, outcome: Outcome) -> int:
    """Count the partitions whose last offset is read by the executor that the state names.

    If zones share a partition, the state names the last near reader, which may be another one.
    """
    last: dict[Partition, tuple[int, str | None]] = {}
    for task in tasks_of_plan(outcome):
        for r in task.ranges:
            last[r.tp] = max(last.get(r.tp, (-1, None)), (r.end, task.executor), key=lambda e: e[0])
    return sum(last.get(tp, (0, None))[1] == reader for tp, reader in kept.readers.items())


def _tell_stories(
    kept: KeptBatch, outcome: Outcome, table: PartitionTable, weights: Weights
) -> list[PartitionStory]:
    batch, pieces = outcome.batch, outcome.tasks.pieces
    pieces_of: dict[int, list[Piece]] = defaultdict(list)
    columns = (pieces.row, pieces.start, pieces.end, pieces.slot)
    for row, start, end, slot in sorted(zip(*(c.tolist() for c in columns), strict=True)):
        pieces_of[row].append(Piece(*_slot_of(batch, slot), start, end))
    slowness = weights.slowness[batch.slot_executor]
    owner = table.range_owner
    owned = owner >= 0
    load = np.bincount(pieces.slot, pieces.work(batch, weights), batch.slots) * slowness
    load_if_left = np.bincount(owner[owned], weights.work[owned], batch.slots) * slowness
    ideal = float(load.max(initial=0.0)) / (1 + float(outcome.metrics["imbalance"]))
    limit = ideal * (1 + batch.settings.max_imbalance)
    stories = []
    for row in range(batch.ranges):
        tp = Partition(batch.topics[int(batch.topic[row])], int(batch.partition[row]))
        slot, work = int(owner[row]), float(weights.work[row])
        before = _slot_of(batch, slot) if slot >= 0 else None
        change = _name_change(pieces_of[row], before, bool(table.had_reader[table.line[row]]))
        if outcome.assignor != LAG_AWARE_STICKY:
            why = f"{outcome.assignor} decides by its own rule"
        elif change in _REASONS:
            why = _REASONS[change]
            if work * slowness.min() > limit and not batch.settings.split:
                why += "; it cannot be cut: assignor.split=false"
        elif work * slowness.min() > limit:
            why = f"it is {amount_text(work, weights)}, more than one slot may take"
        elif slot >= 0 and load_if_left[slot] > limit:
            left = amount_text(float(load_if_left[slot]), weights)
            why = f"left in place its slot would take {left}"
        else:
            why = "its own slot had room: see the reasons of the plan"
        # With two digits the limit could read the same as a fair share.
        why += f"; a slot's limit is {amount_text(limit, weights, 3)}"
        name = None if before is None else "{}/{}".format(*before)
        took = kept.took.get(tp)
        stories.append(PartitionStory(tp, change, name, pieces_of[row], why, work, took))
    return stories


def _slot_of(batch: Batch, slot: int) -> tuple[str, int]:
    executor = name_local_executor(batch.executors[int(batch.slot_executor[slot])])
    return executor.id, int(batch.slot_number[slot])


def _name_change(
    pieces: Sequence[Piece], before: tuple[str, int] | None, had_reader: bool
) -> Change:
    if len(pieces) > 1:
        return "cut"
    if before is None:
        return "orphaned" if had_reader else "new"
    return "stays" if pieces[0].executor == before[0] else "moved"
