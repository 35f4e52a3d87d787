"""Explain the plan of one batch by planning it again: why each slot reads its partitions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from assignor_bridge.errors import AssignorError
from assignor_bridge.model import Partition
from assignor_bridge.options import LAG_AWARE_STICKY
from assignor_bridge.planner.costs import predict
from assignor_bridge.planner.learning import learn
from assignor_bridge.planner.plan import plan_step
from assignor_bridge.planner.table import load_table
from streaming.observe.words import describe_tail_reader, format_seconds
from streaming.replay.plan_log import name_executor
from streaming.simulator.play import is_spark_mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from assignor_bridge.assignors.protocol import Assignor
    from assignor_bridge.planner.batch import MicroBatch
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.plan import PlannedBatch
    from assignor_bridge.planner.table import PartitionTable
    from streaming.replay.kept_batch import KeptBatch

Change = Literal["stays", "moved", "cut", "new", "orphaned"]
#: Reasons with fixed texts.
_REASONS: Mapping[Change, str] = {
    "new": "no executor had read it before, so it went to the least busy slots",
    "orphaned": "its executor is gone, so it went to the least busy slots",
    "stays": "the same executor read it last",
}


@dataclass(frozen=True)
class Piece:
    """An offset range of a partition that one task reads."""

    #: The slot that reads it; for a tail task, the slot that it was cut from.
    executor: str
    slot: int
    start: int
    end: int
    is_in_tail: bool = False
    #: Executors that a tail task prefers alike; empty for other tasks, and in local mode.
    tail_executors: tuple[str, ...] = ()

    def __str__(self) -> str:
        reader = f"by executor {self.executor} slot {self.slot}"
        if self.is_in_tail:
            reader = f"in the tail, by {describe_tail_reader(self.tail_executors)}"
        return f"[{self.start:,}, {self.end:,}) {reader}"

    def as_json(self) -> dict[str, Any]:
        """Return the piece as JSON values; in the tail, `executor` is None and `slot` is -1."""
        offsets = {"start": self.start, "end": self.end}
        if self.is_in_tail:
            tail_executors = list(self.tail_executors)
            return {"executor": None, "slot": -1, **offsets, "tailExecutors": tail_executors}
        return {"executor": self.executor, "slot": self.slot, **offsets}


@dataclass(frozen=True)
class PartitionStory:
    """One partition in one batch: its previous slot, its current slots, and the reason."""

    partition: Partition
    change: Change
    #: Slot that read it last, as `<executor>/<slot>`; None if new, or if its executor is gone.
    previous_slot: str | None
    pieces: Sequence[Piece]
    why: str
    #: Predicted cost, in the plan's unit.
    predicted_cost: float
    #: Reported seconds, scaled to a usual executor; None if no report is stored.
    took_s: float | None


@dataclass(frozen=True, eq=False)
class Explanation:
    """The explanation of one batch's plan."""

    kept_batch: KeptBatch
    outcome: PlannedBatch
    weights: Weights
    stories: Sequence[PartitionStory]
    #: Number of partitions in `kept_batch.readers` that have the same reader in the plan.
    matching_partitions: int

    def as_json(self, stories: Sequence[PartitionStory]) -> dict[str, Any]:
        """Return the batch and the given stories as JSON values."""
        return {
            "batch": self.kept_batch.number,
            "assignor": self.outcome.assignor,
            "origin": self.kept_batch.origin,
            "readersNamed": len(self.kept_batch.readers),
            "readersAgree": self.matching_partitions,
            "reasons": list(self.outcome.reasons),
            "costUnit": self.weights.unit.strip(),
            "partitions": [
                {
                    "partition": str(story.partition),
                    "change": story.change,
                    "before": story.previous_slot,
                    "pieces": [piece.as_json() for piece in story.pieces],
                    "why": story.why,
                    "predicted": story.predicted_cost,
                    "tookSeconds": story.took_s,
                }
                for story in stories
            ],
        }


def format_amount(amount: float, weights: Weights, digits: int = 2) -> str:
    """Format a predicted cost or load in the plan's unit; `digits` applies to seconds only."""
    is_time = weights.basis == "seconds"
    return format_seconds(amount, digits) if is_time else f"{amount:,.0f}{weights.unit}"


def explain_batch(
    kept_batch: KeptBatch, names: Sequence[str], find_assignor: Callable[[str], Assignor]
) -> Explanation:
    """Plan a batch again and explain each partition.

    A state does not name the assignor. Therefore, the first plan is used that matches most readers
    in the state, of those with the batch's own options and with each assignor in `names`.
    """
    outcome, match_count = _plan_again(kept_batch, names, find_assignor)
    table = load_table(kept_batch.old_state, outcome.batch)
    new_state = learn(table, outcome.batch).state
    weights = predict(new_state, table.line, outcome.batch)
    stories = _explain_partitions(kept_batch, outcome, table, weights)
    return Explanation(kept_batch, outcome, weights, stories, match_count)


def _plan_again(
    kept_batch: KeptBatch, names: Sequence[str], find_assignor: Callable[[str], Assignor]
) -> tuple[PlannedBatch, int]:
    outcome = plan_step(kept_batch.batch, kept_batch.old_state, find_assignor)
    match_count = _count_matches(kept_batch, outcome)
    for name in names:
        if match_count == len(kept_batch.readers):
            break
        if is_spark_mapping(name):
            continue
        options = replace(kept_batch.batch.options, assignors=(name,))
        try:
            batch = replace(kept_batch.batch, options=options)
            other_outcome = plan_step(batch, kept_batch.old_state, find_assignor)
        except AssignorError:  # an assignor that refuses the batch did not plan it
            continue
        if (other_count := _count_matches(kept_batch, other_outcome)) > match_count:
            outcome, match_count = other_outcome, other_count
    return outcome, match_count


def _count_matches(kept_batch: KeptBatch, outcome: PlannedBatch) -> int:
    """Count the partitions whose last piece belongs to the executor named in the state.

    A piece in the tail belongs to the slot that it was cut from. If zones share a partition, the
    state names the last reader in its zone, which may differ.
    """
    batch, pieces = outcome.batch, outcome.tasks.pieces
    last_pieces = np.flatnonzero(pieces.end == batch.end[pieces.row])
    executor = batch.slot_executor[pieces.slot[last_pieces]].tolist()
    owner_by_partition = {
        _name_partition(batch, row): batch.executors[index].id
        for row, index in zip(pieces.row[last_pieces].tolist(), executor, strict=True)
    }
    return sum(owner_by_partition.get(tp) == reader for tp, reader in kept_batch.readers.items())


def _explain_partitions(
    kept_batch: KeptBatch, outcome: PlannedBatch, table: PartitionTable, weights: Weights
) -> list[PartitionStory]:
    batch, pieces = outcome.batch, outcome.tasks.pieces
    pieces_by_row = _list_pieces(outcome)
    slot_slowness = weights.slowness[batch.slot_executor]
    owner = table.range_owner  # the slot that read each range's partition last, or -1
    is_owned = owner >= 0
    piece_work = pieces.predict_work(batch, weights)
    slot_load = np.bincount(pieces.slot, piece_work, batch.slots) * slot_slowness
    unmoved_load = np.bincount(owner[is_owned], weights.work[is_owned], batch.slots) * slot_slowness
    ideal_load = float(slot_load.max(initial=0.0)) / (1 + float(outcome.metrics["imbalance"]))
    load_limit = ideal_load * (1 + batch.options.max_imbalance)
    stories = []
    for row in range(batch.range_count):
        tp = _name_partition(batch, row)
        owner_slot, work = int(owner[row]), float(weights.work[row])
        previous_slot = _name_slot(batch, owner_slot) if owner_slot >= 0 else None
        had_reader = bool(table.had_reader[table.line[row]])
        change = _classify(pieces_by_row[row], previous_slot, had_reader)
        if outcome.assignor != LAG_AWARE_STICKY:
            why = f"{outcome.assignor} uses its own rules"
        elif change in _REASONS:
            why = _REASONS[change]
            if work * slot_slowness.min() > load_limit and not batch.options.split:
                why += "; its cost exceeds the limit, but assignor.split=false forbids a split"
        elif work * slot_slowness.min() > load_limit:
            why = f"its cost is {format_amount(work, weights)}, more than one slot may take"
        elif owner_slot >= 0 and unmoved_load[owner_slot] > load_limit:
            load_text = format_amount(float(unmoved_load[owner_slot]), weights)
            why = f"if it stayed, its slot would take {load_text}"
        else:
            cause = "its previous slot had room" if owner_slot >= 0 else "it has no previous slot"
            why = f"{cause}; see the reasons for the plan"
        why += _describe_tail(pieces_by_row[row])
        if outcome.assignor == LAG_AWARE_STICKY:
            # With two digits, the limit could look the same as the ideal load.
            why += f"; a slot's limit is {format_amount(load_limit, weights, 3)}"
        slot_name = None if previous_slot is None else "{}/{}".format(*previous_slot)
        took_s = kept_batch.took_s_by_partition.get(tp)
        stories.append(PartitionStory(tp, change, slot_name, pieces_by_row[row], why, work, took_s))
    return stories


def _list_pieces(outcome: PlannedBatch) -> dict[int, list[Piece]]:
    """Return the pieces of each range by its row, in offset order."""
    batch, tasks = outcome.batch, outcome.tasks
    pieces, ids = tasks.pieces, [executor.id for executor in batch.executors]
    tail_executors = [tuple(ids[i] for i in indexes) for indexes in tasks.tail_executors]
    pieces_by_row: dict[int, list[Piece]] = defaultdict(list)
    columns = (pieces.row, pieces.start, pieces.end, pieces.slot, tasks.task)
    for row, start, end, slot, task in sorted(zip(*(c.tolist() for c in columns), strict=True)):
        tail = () if task < tasks.head_count else (True, tail_executors[task - tasks.head_count])
        pieces_by_row[row].append(Piece(*_name_slot(batch, slot), start, end, *tail))
    return pieces_by_row


def _describe_tail(pieces: Sequence[Piece]) -> str:
    """Return a clause about the pieces in the tail; empty without any."""
    tail_offsets = sum(piece.end - piece.start for piece in pieces if piece.is_in_tail)
    if not tail_offsets:
        return ""
    share = tail_offsets / sum(piece.end - piece.start for piece in pieces)
    share_text = f"{share:.0%}" if share >= 0.005 else "less than 1%"
    return f"; {share_text} of it is in the tail, which compensates for unpredictable times"


def _name_partition(batch: MicroBatch, row: int) -> Partition:
    return Partition(batch.topics[int(batch.topic[row])], int(batch.partition[row]))


def _name_slot(batch: MicroBatch, slot: int) -> tuple[str, int]:
    executor = name_executor(batch.executors[int(batch.slot_executor[slot])])
    return executor.id, int(batch.slot_number[slot])


def _classify(
    pieces: Sequence[Piece], previous_slot: tuple[str, int] | None, had_reader: bool
) -> Change:
    # A tail does not move its partition.
    heads = [piece for piece in pieces if not piece.is_in_tail]
    head_slots = {(piece.executor, piece.slot) for piece in heads}
    tail_slots = {(piece.executor, piece.slot) for piece in pieces if piece.is_in_tail}
    if len(heads) + len(tail_slots - head_slots) > 1:
        return "cut"
    if previous_slot is None:
        return "orphaned" if had_reader else "new"
    return "stays" if pieces[0].executor == previous_slot[0] else "moved"
