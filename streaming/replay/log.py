"""A checkpoint as what its batches read, how long they took, and what the planner knew of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from assignor_bridge.errors import OptionError
from assignor_bridge.model import Executor, OffsetRange
from assignor_bridge.planner.costs import factors
from checkpoints.folders import CheckpointError, open_folder
from checkpoints.offset_log import read_checkpoint
from streaming.replay.player import LoggedBatch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from checkpoints.offset_log import Checkpoint
    from checkpoints.sticky_state import StickyState


@dataclass(frozen=True, slots=True)
class CheckpointLog:
    """What a checkpoint tells of its query's Kafka sources."""

    name: str
    query_id: str | None
    #: By source: its batches, as far as their first offsets are known.
    sources: Mapping[str, Sequence[LoggedBatch]]
    #: By batch: from its plan to its commit, where the files' times can be trusted.
    seconds: Mapping[int, float]
    #: The planner's newest state, by source.
    states: Mapping[str, StickyState]
    #: All of its states that are kept, by source, the oldest first.
    kept_states: Mapping[str, Sequence[StickyState]] = field(default_factory=dict)


def read_log(location: str) -> CheckpointLog:
    """Read a checkpoint of any query with a Kafka source.

    Raises
    ------
    OptionError
        When it is none, or cannot be read.
    """
    try:
        found = read_checkpoint(open_folder(location))
    except CheckpointError as error:
        raise OptionError(str(error)) from error
    return CheckpointLog(
        found.name,
        found.query_id,
        {source: _batches(found, source) for source in found.sources},
        _seconds(found, Path(found.name, "commits")),
        found.states,
        found.kept_states,
    )


def _batches(found: Checkpoint, source: str) -> list[LoggedBatch]:
    """Give what each batch read: from where the batch before it ended.

    The first batch that is kept has no beginning, unless it is the query's first; nor has one
    after a gap. A partition that was not there before begins at 0, as Spark reads it.
    """
    batches = []
    before, last = found.begins.get(source), -1
    for batch in found.batches:
        ends = batch.ends.get(source)
        if batch.batch_id != last + 1:
            before = None
        last = batch.batch_id
        if ends is None:
            continue
        if before is not None:
            ranges = [
                OffsetRange(topic, number, start, end)
                for topic, partitions in sorted(ends.items())
                for number, end in sorted(partitions.items())
                if (start := before.get(topic, {}).get(number, 0)) < end
            ]
            batches.append(LoggedBatch(batch.batch_id, ranges))
        before = ends
    return batches


def _seconds(found: Checkpoint, commits: Path) -> dict[int, float]:
    """Give how long batches took, by when Spark wrote their commits.

    A copied checkpoint has the times of the copy: a commit that would be later than the next
    batch's plan is not believed.
    """
    seconds = {}
    for batch, after in pairwise(found.batches):
        if batch.timestamp_ms is None or after.timestamp_ms is None or not batch.committed:
            continue
        try:
            end = Path(commits, str(batch.batch_id)).stat().st_mtime
        except OSError:
            continue
        took = end - batch.timestamp_ms / 1000
        if took > 0 and end <= after.timestamp_ms / 1000 + 1:
            seconds[batch.batch_id] = took
    return seconds


@dataclass(frozen=True)
class Costs:
    """Seconds on a usual executor, as the planner counts with them."""

    #: A record of a usual partition.
    record: float
    #: A range, beside its records.
    range: float
    #: A record, by name of the partitions that differ from the usual.
    unusual: Mapping[str, float]


def executors_in(state: StickyState | None) -> tuple[Executor, ...]:
    """Give the executors of the last planned batch; none where there is no state."""
    readers = state.readers if state else ()
    return tuple(Executor(r.executor, r.host, r.slots) for r in readers if r.executor)


def costs_in(state: StickyState | None) -> Costs | None:
    """Give what the planner learned of costs; None where it learned nothing."""
    if state is None or not math.isfinite(state.common.level):
        return None
    each, own = math.exp(state.common.level), factors(state)
    if not state.common.relied_on:  # the planner counts with records alone
        return Costs(each, 0.0, {})
    return Costs(
        each,
        state.common.fixed * each,
        {
            f"{state.topics[topic]}-{partition}": each * math.exp(factor)
            for topic, partition, cost, factor in zip(
                state.topic.tolist(),
                state.partition.tolist(),
                state.cost.tolist(),
                own.tolist(),
                strict=True,
            )
            if factor and math.isfinite(cost)
        },
    )
