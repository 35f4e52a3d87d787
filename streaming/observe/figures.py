"""What was measured of a run, batch by batch and task by task, and the numbers drawn from it."""

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
    """One finished task that read from Kafka."""

    #: Executor slot that ran it, named `<executor>/<slot>`.
    slot: str
    #: From the start of the batch's first task.
    start_s: float
    seconds: float
    records: int
    #: Whether it ran where it was planned to run (Spark's locality level PROCESS_LOCAL).
    local: bool


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """One micro-batch, by Spark's UI, by its progress, or by both."""

    batch: int
    #: From trigger to commit by the progress, from the first job to the last one by Spark's UI.
    seconds: float
    records: int = 0
    tasks: tuple[TaskFigures, ...] = ()
    #: The slots there were when it began, by executor.
    slots: tuple[str, ...] = ()
    #: Records not yet read when the batch began, by partition name.
    lag: Mapping[str, int] = field(default_factory=dict)
    #: The source's metrics of the progress.
    metrics: Mapping[str, str] = field(default_factory=dict)
    #: Age of its newest and its oldest record when it was committed, where somebody measured it.
    newest_s: float | None = None
    oldest_s: float | None = None
    is_running: bool = False

    def slot_records(self) -> dict[str, int]:
        """Return the records that each slot read, 0 for an idle one."""
        return _sums(self.slots, ((task.slot, task.records) for task in self.tasks))

    def slot_seconds(self) -> dict[str, float]:
        """Return the seconds that each slot worked, 0 for an idle one."""
        return _sums(self.slots, ((task.slot, task.seconds) for task in self.tasks))


@dataclass(frozen=True, slots=True)
class RunFigures:
    """The micro-batches of one query, or of one run of a job."""

    name: str
    batches: tuple[BatchFigures, ...]
    #: The first batches, this many, warm caches and consumers, and are left out of the sums.
    warm_up: int = 0
    #: Those there were when the last batch began, as far as they are known.
    executors: tuple[Executor, ...] = ()

    @property
    def slots(self) -> tuple[str, ...]:
        """All slots that were there in some batch, by executor."""
        return tuple(sorted({slot for b in self.batches for slot in b.slots}, key=_by_executor))

    @property
    def measured(self) -> tuple[BatchFigures, ...]:
        """The batches that count, all of them when there are too few."""
        return self.batches[self.warm_up :] or self.batches

    @property
    def measured_tasks(self) -> Iterator[TaskFigures]:
        """The tasks of these."""
        return (task for batch in self.measured for task in batch.tasks)

    @property
    def batch_seconds(self) -> float:
        """Median duration of a batch."""
        return statistics.median([b.seconds for b in self.measured]) if self.batches else 0.0

    @property
    def read_seconds(self) -> float:
        """Median time from the first read task's start to the last one's end."""
        spans = [max(t.start_s + t.seconds for t in b.tasks) for b in self.measured if b.tasks]
        return statistics.median(spans) if spans else 0.0

    @property
    def imbalance(self) -> float:
        """Busiest slot over mean slot, by records: mean over the batches, 1.0 is even."""
        return _mean([max_over_mean(b.slot_records()) for b in self.measured])

    @property
    def imbalance_of_time(self) -> float:
        """Busiest slot over mean slot, by seconds of work: mean over the batches, 1.0 is even."""
        return _mean([max_over_mean(b.slot_seconds()) for b in self.measured])

    @property
    def tasks(self) -> float:
        """Mean number of read tasks a batch."""
        return _mean([float(len(b.tasks)) for b in self.measured])

    @property
    def hit_rate(self) -> float | None:
        """Share of read tasks that ran where they were planned; None without tasks."""
        local = [task.local for task in self.measured_tasks]
        return sum(local) / len(local) if local else None

    def metric(self, name: str) -> list[float]:
        """Return one `assignor.*` metric of each batch that has it."""
        return [float(b.metrics[name]) for b in self.measured if name in b.metrics]

    def slot_records(self) -> dict[str, int]:
        """Return the records that each slot read over all measured batches."""
        return _sums(self.slots, ((task.slot, task.records) for task in self.measured_tasks))

    def slot_seconds(self) -> dict[str, float]:
        """Return the seconds that each slot worked over all measured batches."""
        return _sums(self.slots, ((task.slot, task.seconds) for task in self.measured_tasks))


def max_over_mean(load: Mapping[str, int] | Mapping[str, float]) -> float:
    """Return the largest load over the mean; 1.0 without any."""
    mean = sum(load.values()) / len(load) if load else 0
    return max(load.values()) / mean if mean else 1.0


def _by_executor(slot: str) -> tuple[int, str, int]:
    executor, _, number = slot.rpartition("/")
    return len(executor), executor, int(number)


def _sums(names: Iterable[str], values: Iterable[tuple[str, _Number]]) -> dict[str, _Number]:
    sums: dict[str, Any] = dict.fromkeys(names, 0)
    for name, value in values:
        sums[name] = sums.get(name, 0) + value
    return sums


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
