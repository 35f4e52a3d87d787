"""What Spark's UI or history server tells of a query: its micro-batches, executors and slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streaming.observe.figures import BatchFigures


@dataclass(frozen=True, slots=True)
class UiExecutor:
    """An executor that is there or was; the driver in local mode."""

    executor: str
    host: str
    slots: int
    start_s: float
    #: None while it is there.
    end_s: float | None = None

    def was_there(self, time_s: float) -> bool:
        """Whether it was there at a moment, in seconds since 1970."""
        return self.start_s <= time_s and (self.end_s is None or time_s < self.end_s)


@dataclass(frozen=True, slots=True)
class UiBatch:
    """One micro-batch as its jobs tell it."""

    query_id: str
    #: None when the user gave none.
    name: str | None
    run_id: str
    batch: int
    #: Seconds since 1970.
    start_s: float
    #: From the first job's start to the last one's end; None while one runs.
    seconds: float | None
    stages: tuple[int, ...]

    @property
    def label(self) -> str:
        """The name that people know the query by."""
        return self.name or self.query_id


@dataclass(frozen=True, slots=True)
class UiRun:
    """Batches of one query with their tasks, and the executors there were."""

    #: Of the UI, and of the application: its name, id and Spark's version.
    where: str
    application: str
    batches: tuple[UiBatch, ...]
    #: As many; the tasks that read records.
    figures: tuple[BatchFigures, ...]
    executors: tuple[UiExecutor, ...]

    @property
    def slots(self) -> tuple[str, ...]:
        """All slots that were there in some batch, by executor."""
        return self._slots(self.batches)

    def slots_in(self, batch: UiBatch) -> tuple[str, ...]:
        """Give the slots that were there when a batch began."""
        return self._slots([batch])

    def _slots(self, batches: Iterable[UiBatch]) -> tuple[str, ...]:
        starts = [batch.start_s for batch in batches]
        return tuple(
            f"{e.executor}/{slot}"
            for e in sorted(self.executors, key=lambda e: (len(e.executor), e.executor))
            if any(e.was_there(start) for start in starts)
            for slot in range(e.slots)
        )
