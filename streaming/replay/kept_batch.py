"""One batch as its planner saw it, from what is kept of it: the plan log, states, the offset log.

- A plan log has what the planner was asked, and with the next batch what readers reported.
- Three states are kept in a checkpoint. That of the batch has the costs that its plan was made
  with, and the reader of each partition: of its end, or where zones share it, of the last piece
  near its replicas. That of the batch before has who had read what; and the one after has what the
  batch cost. Options and racks are not in them.
- The offset log has the ranges of the last 100 batches. What was known then is played again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from assignor_bridge.errors import OptionError
from assignor_bridge.model import Executor, Partition
from assignor_bridge.options import LAG_AWARE_STICKY, parse_options
from assignor_bridge.planner.batch import ANONYMOUS, Observed, coded, lay_out
from assignor_bridge.planner.costs import LEAST_DENSITY, log_slowness, paces_of
from checkpoints.state_text import decode_or_empty
from checkpoints.sticky_state import KnownExecutor, StickyState
from streaming.observe.words import counted
from streaming.replay.cluster import cluster_for
from streaming.replay.log import DRIVER
from streaming.replay.plan_log import read_plan_log, with_a_name
from streaming.replay.player import played_until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from assignor_bridge.assignors.protocol import Assignor
    from assignor_bridge.planner.batch import Batch
    from checkpoints.log_files import KafkaOffsets
    from streaming.replay.log import CheckpointLog, ReplayBatch


@dataclass(frozen=True, eq=False)
class KeptBatch:
    """What a plan was made from, and what came of it."""

    number: int
    batch: Batch
    #: The state before the batch; what its reports said is in it, or in the batch.
    before: StickyState
    #: In words, where all this is from.
    origin: str
    #: Executor that the checkpoint names as each partition's reader; empty if it names none.
    readers: Mapping[Partition, str]
    #: Seconds that each partition took on a usual executor; empty where nobody has reported.
    took: Mapping[Partition, float]
    #: Where `took` is from, or why there is none.
    took_origin: str


def kept_batch(
    log: CheckpointLog,
    source: str,
    number: int | None,
    plan_log: Path | None,
    find: Callable[[str], Assignor],
) -> KeptBatch:
    """Return what is kept of a batch; of the newest that read something, unless one is named.

    A batch that the plan log lacks is taken from the checkpoint. Raises OptionError when that has
    no such batch, or the plan log cannot be read.
    """
    batches = [batch for batch in log.sources[source] if batch.records]
    chosen = [b for b in batches if number is None or b.batch == number][-1:]
    if not chosen:
        span = f"{batches[0].batch} to {batches[-1].batch}" if batches else "none"
        raise OptionError(
            f"--batch {number}: the checkpoint has no such batch that read something; it has {span}"
            if number is not None
            else f"no batch of {log.title(source)} read anything: there is nothing to explain"
        )
    if plan_log is not None:
        kept = _from_plan_log(plan_log, batches, chosen[0], find)
        if kept is not None:
            return kept
    states = _states_by_batch(log, source)
    if chosen[0].batch in states:
        kept = _from_states(states, chosen[0])
    else:
        kept = _played_again(log, source, batches, chosen[0])
    if plan_log is None:
        return kept
    return replace(kept, origin=f"{kept.origin}. --plan-log {plan_log} does not have this batch")


def _from_plan_log(
    path: Path,
    batches: Sequence[ReplayBatch],
    chosen: ReplayBatch,
    find: Callable[[str], Assignor],
) -> KeptBatch | None:
    """Return the batch of a plan log, None where the log lacks it."""
    later = [batch for batch in batches if batch.batch >= chosen.batch]
    plans = {plan.number: plan for plan in read_plan_log(path, later[:2], find)}
    plan = plans.pop(chosen.batch, None)
    if plan is None:
        return None
    after = next(iter(plans.values()), None)
    took: dict[Partition, float] = {}
    why = "no later batch is in the plan log: what this one took came with the next"
    if after is not None:
        took, why = _reported(after.batch, plan.outcome.state), "as its readers reported"
    then = "the same as then" if plan.as_then else "not the same: another version made it"
    origin = f"the plan log; planned again, the plan is {then}"
    before = decode_or_empty(plan.state)[0]
    batch, before = _with_a_name(plan.batch, before)
    return KeptBatch(chosen.batch, batch, before, origin, {}, took, why)


def _reported(after: Batch, state: StickyState) -> dict[Partition, float]:
    """Return the seconds that were reported of each partition, as on a usual executor."""
    seen = after.observed
    slowness = np.exp(log_slowness(paces_of(state, seen.executors)))[seen.executor]
    took: dict[Partition, float] = {}
    columns = seen.topic.tolist(), seen.partition.tolist(), (seen.seconds / slowness).tolist()
    for topic, partition, seconds in zip(*columns, strict=True):
        tp = Partition(seen.topics[topic], partition)
        if seconds > 0:
            took[tp] = took.get(tp, 0.0) + seconds
    return took


def _states_by_batch(log: CheckpointLog, source: str) -> dict[int, StickyState]:
    """Return the states that are kept, by batch; their files have numbers of their own.

    A state knows where its batch ended, and no two batches that read something end alike.
    """
    ends = {b.batch_id: b.ends[source] for b in log.checkpoint.batches if source in b.ends}
    read = {batch.batch for batch in log.sources[source] if batch.records}
    found: dict[int, StickyState] = {}
    for state in log.checkpoint.kept_states.get(source, ()):
        number = next((n for n in sorted(read, reverse=True) if _ended(state, ends[n])), None)
        if number is not None:
            found[number] = state
    return found


def _ended(state: StickyState, ends: KafkaOffsets) -> bool:
    """Return whether a state's positions are the ends of a batch."""
    columns = state.topic.tolist(), state.partition.tolist(), state.position.tolist()
    known = [
        (ends.get(state.topics[topic], {}).get(partition), position)
        for topic, partition, position in zip(*columns, strict=True)
        if position >= 0
    ]
    shared = [(end, position) for end, position in known if end is not None]
    return bool(shared) and all(end == position for end, position in shared)


def _from_states(states: Mapping[int, StickyState], chosen: ReplayBatch) -> KeptBatch:
    state = states[chosen.batch]
    before = next((s for s in states.values() if s.batches == state.batches - 1), None)
    after = next((s for s in states.values() if s.batches == state.batches + 1), None)
    had = StickyState.empty() if before is None else before
    executors = [Executor(r.executor, r.host, r.slots) for r in state.readers]
    named = executors and executors[0].id != ANONYMOUS
    batch = _laid_out(
        chosen, executors if named else [], Observed.none(), sum(e.slots for e in executors)
    )
    batch, began = _with_a_name(batch, _with_costs(had, state))
    readers = {Partition(*tp): r.executor for tp, r in state.last_executors().items()}
    # A piece of a partition that is read elsewhere is not in a state: the reader of its end is.
    origin = "the states in the checkpoint, and default options and racks, which they do not hold"
    if before is None and state.batches > 1:
        origin += ". The readers of the batch before are not kept any more"
    why = "the state of the batch after it is not kept"
    took: dict[Partition, float] = {}
    if after is not None:
        took, why = _as_learned(after, chosen), "as learned from its reports, to within 3%"
    return KeptBatch(chosen.batch, batch, began, origin, readers, took, why)


def _with_costs(before: StickyState, after: StickyState) -> StickyState:
    """Return who had read what by one state, with the costs of the other: as the plan had it."""
    place = _keys(after)
    rows = np.array([place.get(key, -1) for key in _keys(before)], np.int64)
    known = rows >= 0

    def costs(name: str) -> Any:
        column = getattr(after, name)
        return np.where(known, column[rows] if len(column) else np.nan, np.nan)

    names = ("cost", "last_cost", "evidence", "bytes", "density")
    columns: dict[str, Any] = {name: costs(name) for name in names}
    return replace(before, paces=after.paces, common=after.common, **columns)


def _keys(state: StickyState) -> dict[tuple[str, int], int]:
    pairs = zip(state.topic.tolist(), state.partition.tolist(), strict=True)
    return {(state.topics[topic], number): row for row, (topic, number) in enumerate(pairs)}


def _as_learned(after: StickyState, chosen: ReplayBatch) -> dict[Partition, float]:
    """Return what each partition of a batch took: the state after it remembers its last report."""
    place = _keys(after)
    took: dict[Partition, float] = {}
    for r in chosen.ranges:
        row = place.get((r.topic, r.partition))
        if row is None or np.isnan(after.last_cost[row]) or np.isnan(after.common.level):
            continue
        density = 1.0 if np.isnan(after.density[row]) else max(after.density[row], LEAST_DENSITY)
        cost = float(np.exp(after.common.level + after.last_cost[row]))
        took[r.tp] = took.get(r.tp, 0.0) + cost * (after.common.fixed + r.size * float(density))
    return took


def _played_again(
    log: CheckpointLog, source: str, batches: Sequence[ReplayBatch], chosen: ReplayBatch
) -> KeptBatch:
    """Return the batch after all before it were planned again."""
    cluster = cluster_for(log, source, batches)
    earlier = [batch for batch in batches if batch.batch < chosen.batch]
    player = played_until(earlier, cluster)
    batch = _laid_out(chosen, cluster.executors, player.observed, 1)
    took = {
        r.tp: cluster.unusual.get(r.tp, cluster.cost_s) * r.size for r in chosen.ranges if r.size
    }
    # Without what comes after the semicolon: options of `assignor replay`.
    executors_by, cost_by = (
        cluster.origins[name].partition(";")[0] for name in ("executors", "cost")
    )
    origin = (
        "its offsets alone, which is all that is kept of it: all batches of the log are planned "
        f"again, on {counted(len(cluster.executors), 'executor')} ({executors_by})"
    )
    why = f"estimated: costs {cost_by}"
    if cost_by == "assumed":
        took, why = {}, "its readers' reports are not kept"
    return KeptBatch(chosen.batch, batch, player.state, origin, {}, took, why)


def _laid_out(
    chosen: ReplayBatch, executors: Sequence[Executor], observed: Observed, parallelism: int
) -> Batch:
    return lay_out(
        coded([r.topic for r in chosen.ranges]),
        np.array([r.partition for r in chosen.ranges], np.int64),
        np.array([r.start for r in chosen.ranges], np.int64),
        np.array([r.end for r in chosen.ranges], np.int64),
        executors,
        parse_options({"assignor": LAG_AWARE_STICKY}),
        observed,
        max(parallelism, 1),
        partitions=chosen.partitions,
    )


def _with_a_name(batch: Batch, before: StickyState) -> tuple[Batch, StickyState]:
    """Give the executor of local mode a name, as if it were one of a cluster."""
    if not batch.anonymous:
        return batch, before
    executor = with_a_name(batch.executors[0])
    readers = tuple(
        KnownExecutor(DRIVER, DRIVER, r.slots) if r.executor == ANONYMOUS else r
        for r in before.readers
    )
    return replace(batch, executors=(executor,)), replace(before, readers=readers)
