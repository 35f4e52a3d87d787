"""Facts about one source of a query, batch by batch, and figures computed from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assignor_bridge.model import Partition

_MIN_TREND_BATCHES = 6  # batches needed to detect growing lag
_MAX_TREND_BATCHES = 100  # latest batches used to detect growing lag
_MIN_TAU = 0.6  # minimum of Kendall's tau for growing lag


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Facts about one batch of a source; a field is empty or None if no input has it."""

    batch: int
    #: Number of offsets that the batch read, by partition.
    read_offsets: Mapping[Partition, int]
    #: Number of unread offsets when the batch started, by partition.
    unread_offsets: Mapping[Partition, int] = field(default_factory=dict)
    #: ID of the run of the query in which the batch was read.
    run_id: str | None = None
    #: Start of the trigger, in seconds since 1970.
    start_s: float | None = None
    #: Seconds from trigger to commit; without a metrics log, of its jobs, or from plan to commit.
    seconds: float | None = None
    slots: int | None = None
    #: Largest number of offsets of each partition that one slot reads.
    piece_offsets: Mapping[Partition, int] = field(default_factory=dict)
    #: Seconds that each slot spent reading.
    slot_seconds: Mapping[str, float] = field(default_factory=dict)
    #: Share of the reads that ran on their planned executor.
    hit_rate: float | None = None
    #: Share of each executor's planned offsets that other executors read.
    share_elsewhere: Mapping[str, float] = field(default_factory=dict)
    #: Limit that held records back; `nothing` if none did, `spark` after a fallback.
    held_back_by: str | None = None
    #: Predicted time of the busiest slot above the ideal, as a share of the ideal.
    imbalance: float | None = None

    @property
    def is_limited(self) -> bool:
        """Whether a limit left unread offsets for later batches."""
        return sum(self.unread_offsets.values()) > sum(self.read_offsets.values())


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """Facts about one source of a query; each of its batches has data."""

    batches: Sequence[SourceBatch] = ()
    #: Assignor of the last batch, `spark` for Spark's default; None if unknown.
    assignor: str | None = None
    #: Whether partitions may be split; None if unknown.
    split: bool | None = None
    #: Cost of a record relative to a usual partition, for partitions that differ.
    relative_costs: Mapping[Partition, float] = field(default_factory=dict)
    #: Reading time of each executor relative to a usual executor.
    slowness: Mapping[str, float] = field(default_factory=dict)
    #: Host of each executor.
    hosts: Mapping[str, str] = field(default_factory=dict)
    #: Topic weights, by lower-case name.
    weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def slots(self) -> int | None:
        """Number of slots in the last batch for which it is known."""
        return next((b.slots for b in reversed(self.batches) if b.slots), None)

    @property
    def last_run(self) -> list[SourceBatch]:
        """The batches since the last start of the query; all batches if no input has run IDs."""
        run_id = next((b.run_id for b in reversed(self.batches) if b.run_id), None)
        return [b for b in self.batches if b.run_id == run_id]

    @property
    def arrival_ratio(self) -> float | None:
        """Records that arrive per record read, if lag is known to grow; otherwise None."""
        batches = [b for b in self.last_run if b.unread_offsets][-_MAX_TREND_BATCHES:]
        if len(batches) < _MIN_TREND_BATCHES:
            return None
        lags = [sum(b.unread_offsets.values()) for b in batches]
        read_counts = [sum(b.read_offsets.values()) for b in batches]
        signs = [(after > before) - (after < before) for before, after in combinations(lags, 2)]
        third = len(batches) // 3
        increase = median(lags[-third:]) - median(lags[:third])
        if sum(signs) < _MIN_TAU * len(signs) or increase < median(read_counts):
            return None
        return 1 + (lags[-1] - lags[0]) / max(1, sum(read_counts[:-1]))

    @property
    def busy_share(self) -> float | None:
        """Share of slot time spent reading; None if unknown."""
        batches = [b for b in self.batches if b.slot_seconds and b.slots and b.seconds]
        total_s = sum((b.slots or 0) * (b.seconds or 0.0) for b in batches)
        return sum(sum(b.slot_seconds.values()) for b in batches) / total_s if total_s else None

    @property
    def reading_share(self) -> float | None:
        """Busiest slot's reading time as a share of batch time; None if unknown."""
        batches = [b for b in self.batches if b.slot_seconds and b.seconds]
        total_s = sum(b.seconds or 0.0 for b in batches)
        return sum(max(b.slot_seconds.values()) for b in batches) / total_s if total_s else None

    @property
    def running_share(self) -> float:
        """Share of the last run's time in which a batch was running; 1 if unknown."""
        times = [(b.start_s, b.seconds) for b in self.last_run if b.start_s and b.seconds]
        if len(times) < 2:
            return 1.0
        (first_s, _), (last_s, took_s) = times[0], times[-1]
        return min(1.0, sum(seconds for _, seconds in times) / max(last_s + took_s - first_s, 1e-9))
