"""What became of each partition in one batch: who had it, who reads it now, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from assignor_bridge.model import Partition
from assignor_bridge.options import LAG_AWARE_STICKY
from streaming.observe.words import seconds_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assignor_bridge.planner.batch import Batch
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.plan import Outcome
    from assignor_bridge.planner.table import PartitionTable

#: A plan may exceed the limit by so much, because pieces are whole offsets.
_ROUNDING = 1.005

Change = Literal["stays", "moved", "cut", "new", "orphaned"]


@dataclass(frozen=True)
class Piece:
    """What one slot reads of a partition."""

    executor: str
    slot: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"[{self.start:,}, {self.end:,}) by executor {self.executor} slot {self.slot}"


@dataclass(frozen=True)
class PartitionStory:
    """What became of one partition in one batch, and why."""

    partition: Partition
    change: Change
    #: The slot that had read it last, as `<executor>/<slot>`; None for none that is there.
    before: str | None
    pieces: Sequence[Piece]
    why: str
    predicted: float
    took: float | None


def stories_of(
    took: Mapping[Partition, float], outcome: Outcome, table: PartitionTable, weights: Weights
) -> list[PartitionStory]:
    """Return what became of each partition of a batch."""
    batch, pieces = outcome.batch, outcome.tasks.pieces
    slowness = weights.slowness[batch.slot_executor]
    load = np.bincount(pieces.slot, pieces.work(batch, weights), batch.slots) * slowness
    ideal = float(load.max(initial=0.0)) / (1 + float(outcome.metrics["imbalance"]))
    limit = ideal * (1 + batch.settings.max_imbalance)
    owner = table.range_owner
    stay = np.bincount(owner[owner >= 0], weights.work[owner >= 0], batch.slots) * slowness

    def unit(work: float, digits: int = 2) -> str:
        is_time = weights.basis == "seconds"
        return seconds_text(work, digits) if is_time else f"{work:,.0f}{weights.unit}"

    fastest = float(slowness.min())
    above = ", above the limit: see the reasons of the plan"
    if not batch.settings.split:
        above = ", above the limit, and cannot be cut: assignor.split=false"
    pieces_of: list[list[Piece]] = [[] for _ in range(batch.ranges)]
    slot_load = [0.0] * batch.ranges
    columns = (pieces.row, pieces.slot, pieces.start, pieces.end)
    for row, slot, start, end in sorted(zip(*(c.tolist() for c in columns), strict=True)):
        executor = batch.executors[int(batch.slot_executor[slot])].id
        pieces_of[row].append(Piece(executor, int(batch.slot_number[slot]), start, end))
        slot_load[row] = max(slot_load[row], float(load[slot]))
    stories = []
    for row, of_row in enumerate(pieces_of):
        of_row.sort(key=lambda piece: piece.start)
        tp = Partition(batch.topics[int(batch.topic[row])], int(batch.partition[row]))
        slot = int(owner[row])
        before = None if slot < 0 else _slot_name(batch, slot)
        change = _change(of_row, before, had_reader=bool(table.had_reader[table.line[row]]))
        why = _why(
            change,
            outcome.assignor,
            unit(float(weights.work[row])),
            # With two digits the limit could be the same as a fair share.
            f"a slot's limit is {unit(limit, 3)} (a fair share and assignor.maxImbalance of it); "
            f"its slot takes {unit(slot_load[row], 3)}"
            + (above if slot_load[row] > limit * _ROUNDING else ""),
            None if slot < 0 else (unit(float(stay[slot])), float(stay[slot]) > limit),
            alone=float(weights.work[row]) * fastest > limit,
        )
        stories.append(
            PartitionStory(tp, change, before, of_row, why, float(weights.work[row]), took.get(tp))
        )
    return stories


def _slot_name(batch: Batch, slot: int) -> str:
    return f"{batch.executors[int(batch.slot_executor[slot])].id}/{int(batch.slot_number[slot])}"


def _change(pieces: Sequence[Piece], before: str | None, *, had_reader: bool) -> Change:
    if len(pieces) > 1:
        return "cut"
    if before is None:
        return "orphaned" if had_reader else "new"
    return "stays" if pieces[0].executor == before.rpartition("/")[0] else "moved"


def _why(
    change: Change,
    assignor: str,
    work: str,
    rule: str,
    stay: tuple[str, bool] | None,
    *,
    alone: bool,
) -> str:
    """Return the reason.

    `rule` has a slot's limit and load; `stay` is the load of the partition's last slot if all had
    stayed, and whether that is above the limit.
    """
    if assignor != LAG_AWARE_STICKY:
        rule = f"{assignor} decides by its own rule (docs/assignors.md)"
        stay = None if stay is None else (stay[0], False)
    match change:
        case "new":
            return f"no executor had read it: {work} went to the least busy slots; {rule}"
        case "orphaned":
            return f"its executor is gone: {work} went to the least busy slots; {rule}"
        case "stays":
            return f"its executor read it last; {rule}"
        case "cut" if alone:
            return f"it is {work}, more than one slot may take; {rule}"
        case "cut" | "moved" if stay is not None and stay[1]:
            return f"left in place its slot would take {stay[0]}; {rule}"
        case _:
            return f"its own slot had room: see the reasons of the plan; {rule}"
