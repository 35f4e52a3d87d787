"""Count the records that a job's queries read and write, from Spark's progress events."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_LOG = logging.getLogger(__name__)
#: Name of the observed metric for a sink's rows; no source can have this name.
WRITTEN_METRIC = "assignor.written"
#: Fraction of bad records above which a query warns.
_MAX_BAD_FRACTION = 0.01


@dataclass(slots=True)
class QueryResult:
    """Counts of one query in this run."""

    name: str
    #: Table or topic to which it writes, with secrets hidden; None for the console.
    target: str | None
    is_table: bool = False
    #: Whether it writes a source's bad records, for which it reads the source again.
    is_dead_letter: bool = False
    batches: int = 0
    read: int = 0
    #: Rows passed to the sink; for an upsert, before the merge and including deletes.
    written: int = 0
    #: Bad records, which `read` includes.
    bad: int = 0


@dataclass(frozen=True, slots=True)
class JobResult:
    """Result of a job's run: sums over its sinks, and the result of each query."""

    name: str
    #: Time from the end of planning to the stop of the job, or until now if it is running.
    seconds: float
    batches: int
    #: Records read; a record that two sinks read is counted twice.
    read: int
    written: int
    bad: int
    #: Rows written to each table, including dead-letter tables.
    tables: dict[str, int]
    queries: tuple[QueryResult, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data for JSON."""
        return asdict(self)


def sum_results(name: str, seconds: float, results: Iterable[QueryResult]) -> JobResult:
    """Copy and add up the queries' results; only the sums in `tables` include dead letters."""
    copies = tuple(replace(result) for result in results)
    sums = {
        field: sum(getattr(result, field) for result in copies if not result.is_dead_letter)
        for field in ("batches", "read", "written", "bad")
    }
    tables = {result.target or "": 0 for result in copies if result.is_table}
    for result in copies:
        if result.is_table:
            tables[result.target or ""] += result.written
    return JobResult(name=name, seconds=round(seconds, 3), tables=tables, queries=copies, **sums)


class ProgressCounter(StreamingQueryListener):
    """Adds each batch to its query's result, and warns once per query if many records are bad."""

    def __init__(
        self,
        title: str,
        results: Iterable[QueryResult],
        on_progress: Callable[[QueryResult, Any], None] | None,
    ) -> None:
        self._title = title
        self._result_by_query = {result.name: result for result in results}
        self._last_batch_by_query: dict[str, int] = {}
        self._warned_queries: set[str] = set()
        self._on_progress = on_progress

    def onQueryStarted(self, event: Any) -> None:
        """Do nothing."""

    onQueryIdle = onQueryTerminated = onQueryStarted

    def onQueryProgress(self, event: Any) -> None:
        """Add a batch with records to its query's result, unless it was already counted."""
        progress = event.progress
        result = self._result_by_query.get(progress.name)
        is_counted = progress.batchId <= self._last_batch_by_query.get(progress.name, -1)
        if result is None or is_counted or progress.numInputRows == 0:
            return
        self._last_batch_by_query[result.name] = progress.batchId
        metrics = progress.observedMetrics
        result.batches += 1
        result.read += progress.numInputRows
        result.bad += sum(row["bad_records"] for row in metrics.values() if "bad_records" in row)
        if WRITTEN_METRIC in metrics:
            result.written += metrics[WRITTEN_METRIC]["rows"]
        is_exempt = result.name in self._warned_queries or result.is_dead_letter
        if result.bad > _MAX_BAD_FRACTION * result.read and not is_exempt:
            self._warned_queries.add(result.name)
            message = (
                "%s: more than 1%% of the records that query %r has read are bad (%s of %s): check "
                "the schema; the 'reason' column of a dead-letter table explains each"
            )
            counts = f"{result.bad:,}", f"{result.read:,}"
            _LOG.warning(message, self._title, result.name, *counts)
        if self._on_progress is not None:
            self._on_progress(result, progress)
