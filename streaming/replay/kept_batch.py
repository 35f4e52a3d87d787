"""Read one batch's plan input from the plan log, or from the states in the checkpoint.

- A line of the plan log has the whole input; the next line has the times that readers reported.
- A checkpoint has the last three states. The state of a batch has the costs used for its plan and
  the last reader of each partition; the previous state has the readers before the batch. States do
  not have options or racks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from assignor_bridge.errors import OptionError
from assignor_bridge.model import Executor, Partition
from assignor_bridge.options import LAG_AWARE_STICKY, parse_options
from assignor_bridge.planner.batch import ANONYMOUS, ReadReports, build_batch, encode_names
from assignor_bridge.planner.costs import compute_log_slowness, get_paces
from checkpoints.state_text import decode_or_empty
from checkpoints.sticky_state import StickyState
from streaming.replay.plan_log import read_plan_log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from assignor_bridge.assignors.protocol import Assignor
    from assignor_bridge.planner.batch import MicroBatch
    from checkpoints.log_files import KafkaOffsets
    from streaming.replay.log import CheckpointLog, ReplayBatch


@dataclass(frozen=True, eq=False)
class KeptBatch:
    """The input of one plan, and the parts of its result that are stored."""

    number: int
    batch: MicroBatch
    #: The state before the batch.
    old_state: StickyState
    #: Text that describes where the input comes from.
    origin: str
    #: Last reader of each partition, from the checkpoint; empty with a plan log or in local mode.
    readers: Mapping[Partition, str] = field(default_factory=dict)
    #: Reported seconds of each partition, scaled to a usual executor; empty if not stored.
    took_s_by_partition: Mapping[Partition, float] = field(default_factory=dict)


def read_kept_batch(
    log: CheckpointLog,
    source: str,
    number: int | None,
    plan_log: Path | None,
    find_assignor: Callable[[str], Assignor],
) -> KeptBatch:
    """Return one batch with data (by default the last), from the plan log if the log has it.

    Raises OptionError if the checkpoint has no such batch with data, if neither the plan log nor a
    state has its input, or if the plan log's batch cannot be read or planned again.
    """
    batches = [batch for batch in log.batches_by_source[source] if batch.offset_count]
    if not batches:
        raise OptionError(f"no batch of {log.name_source(source)} has data: nothing to explain")
    target = next((b for b in reversed(batches) if number is None or b.batch == number), None)
    if target is None:
        first, last = batches[0].batch, batches[-1].batch
        choice = f"one from {first} to {last}" if first < last else str(last)
        problem = "the checkpoint has no batch with this number and data"
        raise OptionError(f"--batch {number}: {problem}: choose {choice}")
    if plan_log is not None:
        logged_batch = _read_from_plan_log(plan_log, batches, target, find_assignor)
        if logged_batch is not None:
            return logged_batch
    state_by_batch = _match_states(log, source, batches)
    if target.batch not in state_by_batch:
        numbers_text = ", ".join(map(str, sorted(state_by_batch))) or "none"
        log_clause = "" if plan_log is None else f"plan log {plan_log} does not have it, and "
        raise OptionError(
            f"batch {target.batch}: {log_clause}the checkpoint has no state of it (batches with a "
            f"state: {numbers_text}): give the plan log of this batch (assignor.planLog)"
        )
    kept_batch = _rebuild_batch(state_by_batch, target)
    if plan_log is None:
        return kept_batch
    origin = f"{kept_batch.origin}. The plan log {plan_log} does not have this batch"
    return replace(kept_batch, origin=origin)


def _read_from_plan_log(
    path: Path,
    batches: Sequence[ReplayBatch],
    target: ReplayBatch,
    find_assignor: Callable[[str], Assignor],
) -> KeptBatch | None:
    """Return the batch, with the times from the next batch's line; None if the log lacks it."""
    target_and_next = [batch for batch in batches if batch.batch >= target.batch][:2]
    plans = read_plan_log(path, target_and_next, find_assignor)
    plan_by_batch = {plan.number: plan for plan in plans}
    plan = plan_by_batch.pop(target.batch, None)
    if plan is None:
        return None
    took_s_by_partition: Mapping[Partition, float] = {}
    for next_plan in plan_by_batch.values():  # at most one
        took_s_by_partition = _sum_report_seconds(next_plan.batch.reports, plan.outcome.state)
    comparison = "the same plan"
    if not plan.is_reproduced:
        comparison = "a different plan, probably because another version made the logged one"
    origin = f"the plan log; replanning gives {comparison}"
    old_state = decode_or_empty(plan.state_text)[0]
    return KeptBatch(target.batch, plan.batch, old_state, origin, {}, took_s_by_partition)


def _sum_report_seconds(reports: ReadReports, state: StickyState) -> dict[Partition, float]:
    """Return each partition's reported warm seconds, scaled to a usual executor, if positive."""
    slowness = np.exp(compute_log_slowness(get_paces(state, reports.executors)))
    took_s_by_partition: dict[Partition, float] = {}
    columns = reports.topic, reports.partition, reports.warm_seconds / slowness[reports.executor]
    for topic, partition, seconds in zip(*(c.tolist() for c in columns), strict=True):
        tp = Partition(reports.topics[topic], partition)
        if seconds > 0:
            took_s_by_partition[tp] = took_s_by_partition.get(tp, 0.0) + seconds
    return took_s_by_partition


def _match_states(
    log: CheckpointLog, source: str, batches: Sequence[ReplayBatch]
) -> dict[int, StickyState]:
    """Return the states by batch number: that of the newest batch with the same ends, if any."""
    ends_by_batch = {b.batch_id: b.ends[source] for b in log.checkpoint.batches if source in b.ends}
    state_by_batch: dict[int, StickyState] = {}
    for state in log.checkpoint.kept_states.get(source, ()):
        for batch in reversed(batches):
            if _ends_at(state, ends_by_batch[batch.batch]):
                state_by_batch[batch.batch] = state
                break
    return state_by_batch


def _ends_at(state: StickyState, ends: KafkaOffsets) -> bool:
    columns = state.topic.tolist(), state.partition.tolist(), state.position.tolist()
    pairs = [
        (ends.get(state.topics[topic], {}).get(partition), position)
        for topic, partition, position in zip(*columns, strict=True)
        if position >= 0
    ]
    shared_pairs = [(end, position) for end, position in pairs if end is not None]
    return bool(shared_pairs) and all(end == position for end, position in shared_pairs)


def _rebuild_batch(state_by_batch: Mapping[int, StickyState], target: ReplayBatch) -> KeptBatch:
    """Return a batch that has a state, with default options and without racks."""
    state = state_by_batch[target.batch]
    states = state_by_batch.values()
    previous_state = next((s for s in states if s.batches == state.batches - 1), None)
    executors = [Executor(r.executor, r.host, r.slots) for r in state.readers]
    is_named = bool(executors) and executors[0].id != ANONYMOUS
    batch = build_batch(
        encode_names([r.topic for r in target.ranges]),
        np.array([r.partition for r in target.ranges], np.int64),
        np.array([r.start for r in target.ranges], np.int64),
        np.array([r.end for r in target.ranges], np.int64),
        executors if is_named else [],
        options=parse_options({"assignor": LAG_AWARE_STICKY}),
        reports=ReadReports.empty(),
        parallelism=max(sum(e.slots for e in executors), 1),
        partitions=target.partition_counts,
    )
    old_state = _copy_costs(previous_state or StickyState.empty(), state)
    origin = "the states in the checkpoint, with default options and no racks (states have neither)"
    if previous_state is None and state.batches > 1:
        origin += ". The readers of the previous batch are no longer stored"
    last_readers = {Partition(*tp): r.executor for tp, r in state.map_last_executors().items()}
    partitions_read = {r.tp for r in target.ranges}
    readers = {tp: executor for tp, executor in last_readers.items() if tp in partitions_read}
    return KeptBatch(target.batch, batch, old_state, origin, readers)


def _copy_costs(old_state: StickyState, new_state: StickyState) -> StickyState:
    """Return `old_state` with the costs of `new_state`: the planner learns them before it plans."""
    row_by_partition = {tp: row for row, tp in enumerate(_list_partitions(new_state))}
    rows = np.array([row_by_partition.get(tp, -1) for tp in _list_partitions(old_state)], np.int64)

    def copy_column(name: str) -> Any:
        column = getattr(new_state, name)
        return np.where(rows >= 0, column[rows] if len(column) else np.nan, np.nan)

    column_names = ("cost", "last_cost", "evidence", "bytes", "density")
    columns: dict[str, Any] = {name: copy_column(name) for name in column_names}
    common, spreads = new_state.common, new_state.spreads
    return replace(old_state, paces=new_state.paces, common=common, spreads=spreads, **columns)


def _list_partitions(state: StickyState) -> list[tuple[str, int]]:
    pairs = zip(state.topic.tolist(), state.partition.tolist(), strict=True)
    return [(state.topics[topic], number) for topic, number in pairs]
