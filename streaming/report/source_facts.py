"""What is known of one source of a query, batch by batch, and the figures drawn from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assignor_bridge.model import Partition

#: Lag that grows: in so many of the last batches, and in so many more pairs of them up than down
#: (Kendall's tau).
_LEAST_OF_TREND, _MOST_OF_TREND, _TREND = 6, 100, 0.6


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """What is known of one batch; empty or None where nobody says."""

    batch: int
    #: Offsets that it read, and those that waited when it began, by partition.
    read: Mapping[Partition, int]
    waiting: Mapping[Partition, int] = field(default_factory=dict)
    #: The run of the query that it is of.
    run: str | None = None
    #: When its trigger began, in seconds since 1970, and how long it took until its commit.
    began_s: float | None = None
    seconds: float | None = None
    slots: int | None = None
    #: Offsets of the largest piece of each partition that one slot reads.
    pieces: Mapping[Partition, int] = field(default_factory=dict)
    #: Seconds that each slot read.
    slot_seconds: Mapping[str, float] = field(default_factory=dict)
    #: Share of its reads that ran where they were planned.
    as_planned: float | None = None
    #: Share of what was planned for an executor that others read.
    taken: Mapping[str, float] = field(default_factory=dict)
    held_back_by: str | None = None
    #: Predicted share by which the busiest slot is above the ideal, by the planner's metrics.
    imbalance: float | None = None

    @property
    def limited(self) -> bool:
        """Whether more waited than it read."""
        return bool(self.waiting) and sum(self.waiting.values()) > sum(self.read.values())


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What is known of one source of a query; its batches read something."""

    batches: Sequence[SourceBatch] = ()
    #: Who placed the last batch, `spark` for Spark's mapping; None if no input says it.
    assignor: str | None = None
    #: Whether a partition may be cut, as far as known.
    split: bool | None = None
    #: How many times as long as a usual one a record takes, by partition that differs.
    costs: Mapping[Partition, float] = field(default_factory=dict)
    #: How many times as long as a usual one each executor takes, and its host.
    slowness: Mapping[str, float] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)
    #: Shares of topics, by name in lower case.
    weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def slots(self) -> int | None:
        """Slots of the last batch that knows them."""
        return next((b.slots for b in reversed(self.batches) if b.slots), None)

    @property
    def last_run(self) -> list[SourceBatch]:
        """The batches since the query was last started, as far as somebody says."""
        run = next((b.run for b in reversed(self.batches) if b.run), None)
        return [b for b in self.batches if b.run == run]

    @property
    def growth(self) -> float | None:
        """How many times as many records arrive as are read, where lag grows; None elsewhere."""
        known = [b for b in self.last_run if b.waiting][-_MOST_OF_TREND:]
        if len(known) < _LEAST_OF_TREND:
            return None
        lag = [sum(b.waiting.values()) for b in known]
        read = [sum(b.read.values()) for b in known]
        pairs = [(after > before) - (after < before) for before, after in combinations(lag, 2)]
        third = len(known) // 3
        grown = median(lag[-third:]) - median(lag[:third])
        if sum(pairs) < _TREND * len(pairs) or grown < median(read):
            return None
        return 1 + (lag[-1] - lag[0]) / max(1, sum(read[:-1]))

    @property
    def busy(self) -> float | None:
        """Share of the batches' time that slots read; None where nobody says."""
        known = [b for b in self.batches if b.slot_seconds and b.slots and b.seconds]
        there = sum((b.slots or 0) * (b.seconds or 0.0) for b in known)
        return sum(sum(b.slot_seconds.values()) for b in known) / there if there else None

    @property
    def reading(self) -> float | None:
        """Share of the batches' time until the busiest slot had read; None where nobody says."""
        known = [b for b in self.batches if b.slot_seconds and b.seconds]
        there = sum(b.seconds or 0.0 for b in known)
        return sum(max(b.slot_seconds.values()) for b in known) / there if there else None

    @property
    def awake(self) -> float:
        """Share of the time in which there was a batch, 1 where nobody says."""
        known = [(b.began_s, b.seconds) for b in self.last_run if b.began_s and b.seconds]
        if len(known) < 2:
            return 1.0
        (first, _), (last, took) = known[0], known[-1]
        return min(1.0, sum(seconds for _, seconds in known) / max(last + took - first, 1e-9))
