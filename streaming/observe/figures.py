"""Measurements of a run by batch and by task, and figures computed from them."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from assignor_bridge.model import Executor

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """A successful or running task of a stage that reads records or is running."""

    #: `<executor>/<slot>`; the slot is inferred, because Spark reports only the executor.
    slot: str
    #: Seconds from the start of the batch's first task.
    start_s: float
    seconds: float
    records: int
    #: Whether it ran on a preferred executor (Spark's locality level PROCESS_LOCAL).
    local: bool


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """A micro-batch, measured from Spark's UI and, in the demo, from its progress."""

    batch: int
    #: Seconds from trigger to commit, or without its progress, of its jobs; 0 while one runs.
    seconds: float
    records: int = 0
    tasks: tuple[TaskFigures, ...] = ()
    #: Slots that existed when the batch started, sorted by executor.
    slots: tuple[str, ...] = ()
    #: Unread offsets when the batch started, by partition name.
    lag: Mapping[str, int] = field(default_factory=dict)
    #: The source's metrics, by their full name.
    metrics: Mapping[str, str] = field(default_factory=dict)
    #: Ages of the batch's newest and oldest record at the commit, in seconds; None if not measured.
    newest_age_s: float | None = None
    oldest_age_s: float | None = None
    is_running: bool = False

    def sum_records_by_slot(self) -> dict[str, int]:
        """Return the number of records that each slot read, 0 for an idle slot."""
        return _sum_by_name(self.slots, ((task.slot, task.records) for task in self.tasks))

    def sum_seconds_by_slot(self) -> dict[str, float]:
        """Return the seconds that each slot worked, 0 for an idle slot."""
        return _sum_by_name(self.slots, ((task.slot, task.seconds) for task in self.tasks))


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Micro-batches of one query."""

    name: str
    batches: tuple[BatchFigures, ...]
    #: Number of first batches that are excluded because they warm up caches and consumers.
    warm_up_batches: int = 0
    #: The executors when the last batch started, if known.
    executors: tuple[Executor, ...] = ()

    @property
    def slots(self) -> tuple[str, ...]:
        """All slots that existed in any batch, sorted by executor."""
        return tuple(sorted({slot for b in self.batches for slot in b.slots}, key=_get_sort_key))

    @property
    def measured_batches(self) -> tuple[BatchFigures, ...]:
        """The batches after the warm-up, or all batches if there are none after it."""
        return self.batches[self.warm_up_batches :] or self.batches

    @property
    def measured_tasks(self) -> Iterator[TaskFigures]:
        """The tasks of the measured batches."""
        return (task for batch in self.measured_batches for task in batch.tasks)

    @property
    def median_batch_seconds(self) -> float:
        """Median duration of a batch; 0 without batches."""
        seconds = [batch.seconds for batch in self.measured_batches]
        return statistics.median(seconds) if seconds else 0.0

    @property
    def median_read_seconds(self) -> float:
        """Median time from the start of the first to the end of the last reading task, or 0."""
        batch_tasks = [batch.tasks for batch in self.measured_batches if batch.tasks]
        spans = [max(task.start_s + task.seconds for task in tasks) for tasks in batch_tasks]
        return statistics.median(spans) if spans else 0.0

    @property
    def busiest_records_ratio(self) -> float:
        """Mean of `max_over_mean` of the slots' records in each batch; 0 without batches."""
        return _mean([max_over_mean(b.sum_records_by_slot()) for b in self.measured_batches])

    @property
    def busiest_seconds_ratio(self) -> float:
        """Mean of `max_over_mean` of the slots' seconds in each batch; 0 without batches."""
        return _mean([max_over_mean(b.sum_seconds_by_slot()) for b in self.measured_batches])

    @property
    def mean_tasks(self) -> float:
        """Mean number of reading tasks per batch; 0 without batches."""
        return _mean([float(len(b.tasks)) for b in self.measured_batches])

    @property
    def hit_rate(self) -> float | None:
        """Share of reading tasks that ran on a preferred executor; None without tasks."""
        were_local = [task.local for task in self.measured_tasks]
        return sum(were_local) / len(were_local) if were_local else None

    def list_metric_values(self, name: str) -> list[float]:
        """Return the values of a metric, one per measured batch that has it."""
        return [float(b.metrics[name]) for b in self.measured_batches if name in b.metrics]

    def sum_records_by_slot(self) -> dict[str, int]:
        """Return the number of records that each slot read in all measured batches."""
        return _sum_by_name(self.slots, ((task.slot, task.records) for task in self.measured_tasks))

    def sum_seconds_by_slot(self) -> dict[str, float]:
        """Return the seconds that each slot worked in all measured batches."""
        return _sum_by_name(self.slots, ((task.slot, task.seconds) for task in self.measured_tasks))


def max_over_mean(loads: Mapping[str, int] | Mapping[str, float]) -> float:
    """Return the largest load divided by the mean load; 1.0 if there is no load."""
    mean = sum(loads.values()) / len(loads) if loads else 0
    return max(loads.values()) / mean if mean else 1.0


def _get_sort_key(slot: str) -> tuple[int, str, int]:
    executor, _, number = slot.rpartition("/")
    return len(executor), executor, int(number)


def _sum_by_name(names: Iterable[str], pairs: Iterable[tuple[str, _Number]]) -> dict[str, _Number]:
    sums: dict[str, Any] = dict.fromkeys(names, 0)
    for name, value in pairs:
        sums[name] = sums.get(name, 0) + value
    return sums


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
