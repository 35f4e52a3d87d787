"""Read the batch ranges, batch durations, and learned costs of a checkpoint."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.model import Executor, OffsetRange, Partition
from assignor_bridge.planner.costs import compute_log_factors, compute_log_slowness, get_paces
from streaming.observe.checkpoint_files import read_checkpoint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from checkpoints.offset_log import Checkpoint
    from checkpoints.sticky_state import StickyState

#: ID of the executor in local mode, as in Spark's UI.
DRIVER = "driver"


@dataclass(frozen=True, slots=True)
class ReplayBatch:
    """The ranges that one batch of the log read."""

    batch: int
    ranges: Sequence[OffsetRange]
    #: Highest partition number plus one by topic, with or without data; None if unknown.
    partition_counts: Mapping[str, int] | None = None

    @property
    def offset_count(self) -> int:
        """Number of offsets in the ranges."""
        return sum(r.size for r in self.ranges)


@dataclass(frozen=True, slots=True)
class CheckpointLog:
    """The offset log of a query with Kafka sources."""

    checkpoint: Checkpoint
    #: Batches with known start offsets, by source.
    batches_by_source: Mapping[str, Sequence[ReplayBatch]]
    #: Seconds from plan to commit; batches without plausible file times are omitted.
    seconds_by_batch: Mapping[int, float]

    def name_source(self, source: str) -> str:
        """Return the display name of a source."""
        name = self.checkpoint.name
        return f"{name}, source {source}" if len(self.batches_by_source) > 1 else name


def read_checkpoint_log(location: str) -> CheckpointLog:
    """Read a checkpoint of any query with a Kafka source; raise what `read_checkpoint` raises."""
    checkpoint = read_checkpoint(location)
    return CheckpointLog(
        checkpoint,
        {source: _compute_ranges(checkpoint, source) for source in checkpoint.sources},
        _compute_durations(checkpoint, Path(checkpoint.name, "commits")),
    )


def _compute_ranges(checkpoint: Checkpoint, source: str) -> list[ReplayBatch]:
    """Return the ranges that each batch read; they start where the previous batch ended.

    Batches with an unknown start are omitted: the first stored one (unless it is the query's first)
    and one after a gap. A new partition starts at 0, even if Spark starts later.
    """
    batches = []
    starts, last_batch_id = checkpoint.begins.get(source), -1
    for batch in checkpoint.batches:
        ends = batch.ends.get(source)
        if batch.batch_id != last_batch_id + 1:
            starts = None
        last_batch_id = batch.batch_id
        if ends is None:
            continue
        if starts is not None:
            ranges = [
                OffsetRange(topic, number, start, end)
                for topic, partitions in sorted(ends.items())
                for number, end in sorted(partitions.items())
                if (start := starts.get(topic, {}).get(number, 0)) < end
            ]
            counts = {topic: max(offsets) + 1 for topic, offsets in ends.items() if offsets}
            batches.append(ReplayBatch(batch.batch_id, ranges, counts))
        starts = ends
    return batches


def _compute_durations(checkpoint: Checkpoint, commits: Path) -> dict[int, float]:
    """Return the seconds that batches took, from the times of Spark's commit files.

    In a copied checkpoint these may be the times of the copy. Omits uncommitted batches, the last
    one, unknown times, and ends before the batch's plan or over 1 s after the next batch's plan.
    """
    seconds_by_batch = {}
    for batch, next_batch in pairwise(checkpoint.batches):
        if batch.timestamp_ms is None or next_batch.timestamp_ms is None or not batch.committed:
            continue
        try:
            end_s = Path(commits, str(batch.batch_id)).stat().st_mtime
        except OSError:
            continue
        duration_s = end_s - batch.timestamp_ms / 1000
        if duration_s > 0 and end_s <= next_batch.timestamp_ms / 1000 + 1:
            seconds_by_batch[batch.batch_id] = duration_s
    return seconds_by_batch


@dataclass(frozen=True)
class Costs:
    """The costs learned by the planner, in seconds on a usual executor."""

    #: Cost of a record of a usual partition.
    record_s: float
    #: Fixed cost of a range, without its records.
    range_s: float
    #: Cost of a record by partition, for partitions that differ from the usual.
    unusual_costs: Mapping[Partition, float]
    #: Slowness relative to a usual executor, by ID, for executors that differ.
    slowness: Mapping[str, float] = field(default_factory=dict)


def list_executors(state: StickyState | None) -> tuple[Executor, ...]:
    """Return the executors of the state's batch (in local mode, `driver`); none without a state."""
    readers = state.readers if state else ()
    return tuple(Executor(r.executor or DRIVER, r.host or DRIVER, r.slots) for r in readers)


def compute_costs(state: StickyState | None) -> Costs | None:
    """Return the learned costs, without differences that the planner ignores; None if unknown."""
    if state is None or not math.isfinite(state.common.level):
        return None
    record_s = math.exp(state.common.level)
    columns = (state.topic, state.partition, state.cost, compute_log_factors(state))
    unusual_costs = {
        Partition(state.topics[topic], partition): record_s * math.exp(factor)
        for topic, partition, cost, factor in zip(*(c.tolist() for c in columns), strict=True)
        if factor and math.isfinite(cost)
    }
    factors = np.exp(compute_log_slowness(get_paces(state, state.paces))).tolist()
    slowness = {name: f for name, f in zip(state.paces, factors, strict=True) if f != 1}
    return Costs(record_s, state.common.fixed, unusual_costs, slowness)
