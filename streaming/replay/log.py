"""A checkpoint as what its batches read, how long they took, and what the planner knew of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.model import Executor, OffsetRange, Partition
from assignor_bridge.planner.costs import factors, log_slowness, paces_of
from streaming.observe.checkpoint_files import read_checkpoint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from checkpoints.offset_log import Checkpoint
    from checkpoints.sticky_state import StickyState


#: Name of the executor of local mode, as in Spark's UI.
DRIVER = "driver"


@dataclass(frozen=True, slots=True)
class ReplayBatch:
    """What one batch of the log read."""

    batch: int
    ranges: Sequence[OffsetRange]
    #: One more than the highest partition of each topic then, with data or without; None: unknown.
    partitions: Mapping[str, int] | None = None

    @property
    def records(self) -> int:
        """Offsets in its ranges."""
        return sum(r.size for r in self.ranges)


@dataclass(frozen=True, slots=True)
class CheckpointLog:
    """What a checkpoint knows of its query's Kafka sources."""

    checkpoint: Checkpoint
    #: By source: its batches, as far as their first offsets are known.
    sources: Mapping[str, Sequence[ReplayBatch]]
    #: By batch: from its plan to its commit, where the files' times can be trusted.
    seconds: Mapping[int, float]

    def title(self, source: str) -> str:
        """Name one source for people."""
        name = self.checkpoint.name
        return f"{name}, source {source}" if len(self.sources) > 1 else name


def read_log(location: str) -> CheckpointLog:
    """Read a checkpoint of any query with a Kafka source; raises OptionError when it cannot be."""
    checkpoint = read_checkpoint(location)
    return CheckpointLog(
        checkpoint,
        {source: _batches(checkpoint, source) for source in checkpoint.sources},
        _seconds(checkpoint, Path(checkpoint.name, "commits")),
    )


def _batches(checkpoint: Checkpoint, source: str) -> list[ReplayBatch]:
    """Return what each batch read: from where the batch before it ended.

    The first batch that is kept has no beginning, unless it is the query's first; nor has one
    after a gap. A partition that was not there before begins at 0, as Spark reads it.
    """
    batches = []
    before, last = checkpoint.begins.get(source), -1
    for batch in checkpoint.batches:
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
            live = {topic: max(of) + 1 for topic, of in ends.items() if of}
            batches.append(ReplayBatch(batch.batch_id, ranges, live))
        before = ends
    return batches


def _seconds(checkpoint: Checkpoint, commits: Path) -> dict[int, float]:
    """Return how long batches took, by when Spark wrote their commits.

    A copied checkpoint has the times of the copy: a commit that would be later than the next
    batch's plan is not believed.
    """
    seconds = {}
    for batch, after in pairwise(checkpoint.batches):
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
    #: A range, without its records.
    range: float
    #: A record, by partition that differs from the usual.
    unusual: Mapping[Partition, float]
    #: How many times as slow as usual executors are, by id of those that differ.
    slowness: Mapping[str, float] = field(default_factory=dict)


def stored_executors(state: StickyState | None) -> tuple[Executor, ...]:
    """Return the executors of the last planned batch; none without a state."""
    readers = state.readers if state else ()
    return tuple(Executor(r.executor or DRIVER, r.host or DRIVER, r.slots) for r in readers)


def learned_costs(state: StickyState | None) -> Costs | None:
    """Return what the planner learned of costs; None where it learned nothing."""
    if state is None or not math.isfinite(state.common.level):
        return None
    each = math.exp(state.common.level)
    if not state.common.relied_on:  # the planner counts with records alone
        return Costs(each, 0.0, {})
    columns = (state.topic, state.partition, state.cost, factors(state))
    unusual = {
        Partition(state.topics[topic], partition): each * math.exp(factor)
        for topic, partition, cost, factor in zip(*(c.tolist() for c in columns), strict=True)
        if factor and math.isfinite(cost)
    }
    slow = np.exp(log_slowness(paces_of(state, state.paces))).tolist()
    slowness = {name: factor for name, factor in zip(state.paces, slow, strict=True) if factor != 1}
    return Costs(each, state.common.fixed * each, unusual, slowness)
