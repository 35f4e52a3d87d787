"""The results of a simulated batch, and of one mapping over some batches."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class PlayedBatch:
    """The result of one simulated batch."""

    batch: int
    #: Seconds until the last task ended.
    seconds: float
    #: Lower bound on `seconds` in hindsight: the larger of all work divided by the speed of all
    #: slots, and the most expensive record (it cannot be split) on the fastest executor.
    bound_seconds: float
    tasks: int
    #: Number of partitions with data.
    partitions: int
    #: Number of partitions that changed executor although the previous executor is present. The
    #: readers of a tail do not count, because they do not own its partitions.
    moved_partitions: int
    #: Seconds spent on records by executor ID, without starts of tasks and consumers.
    busy_seconds: Mapping[str, float]
    #: Share of bytes read by executors in zones without a replica; None without zones.
    cross_zone_share: float | None = None
    #: Predicted share by which the plan's busiest slot is above the ideal; None if no
    #: assignor planned it. `regret_share` minus this was not predicted.
    planned_imbalance: float | None = None
    #: Number of partitions that another executor than their last reader starts to read, although
    #: that reader (perhaps of a tail) is present.
    cold_partitions: int = 0

    @property
    def regret_share(self) -> float:
        """Share by which the batch took longer than the ideal; 0 without work."""
        return self.seconds / self.bound_seconds - 1 if self.bound_seconds else 0.0


@dataclass(frozen=True, slots=True)
class MappingResult:
    """The results of one mapping over some batches."""

    name: str
    batches: Sequence[PlayedBatch] = ()
    #: The planner's reasons for each batch; empty if not recorded.
    reasons: Sequence[tuple[str, ...]] = ()
    #: Reason why the mapping could not be played; None if it was played.
    error: str | None = None

    @property
    def seconds(self) -> float:
        """Total reading time of all batches."""
        return sum(p.seconds for p in self.batches)

    @property
    def median_seconds(self) -> float:
        """Median time of a batch; raise StatisticsError without batches."""
        return median(p.seconds for p in self.batches)

    @property
    def times_ideal(self) -> float:
        """Time of all batches divided by the sum of their `bound_seconds`; 1 without work."""
        ideal = sum(p.bound_seconds for p in self.batches)
        return self.seconds / ideal if ideal else 1.0

    @property
    def mean_regret_seconds(self) -> float:
        """Mean seconds of a batch above the best time in hindsight; 0 without batches."""
        return fmean(p.seconds - p.bound_seconds for p in self.batches) if self.batches else 0.0

    @property
    def mean_regret_share(self) -> float:
        """Mean `regret_share` of a batch; raise StatisticsError without batches."""
        return fmean(p.regret_share for p in self.batches)

    @property
    def worst_regret_share(self) -> float:
        """Largest `regret_share` of a batch; 0 without batches."""
        return max((p.regret_share for p in self.batches), default=0.0)

    @property
    def mean_tasks(self) -> float:
        """Mean number of tasks per batch; 0 without batches."""
        return fmean(p.tasks for p in self.batches) if self.batches else 0.0

    @property
    def mean_moved_partitions(self) -> float:
        """Mean number of partitions per batch that move to another executor."""
        return fmean(p.moved_partitions for p in self.batches) if self.batches else 0.0

    @property
    def moved_share(self) -> float:
        """Moved partitions of all batches as a share of all partitions with data."""
        moves = sum(p.moved_partitions for p in self.batches)
        return moves / (sum(p.partitions for p in self.batches) or 1)

    @property
    def mean_cross_zone_share(self) -> float | None:
        """Mean share of bytes that crossed zones; None without zones."""
        shares = [p.cross_zone_share for p in self.batches if p.cross_zone_share is not None]
        return fmean(shares) if shares else None

    @property
    def mean_cold_share(self) -> float:
        """Mean share of cold partitions of a batch; raise StatisticsError without batches."""
        return fmean(p.cold_partitions / max(1, p.partitions) for p in self.batches)
