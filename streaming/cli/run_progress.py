"""What `assignor run` prints about its queries: a line now and then, and how much each has read."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer
from pyspark.sql.streaming.listener import StreamingQueryListener

from streaming.observe.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable

#: Least time between two lines about a query.
_EVERY_S = 10.0


@dataclass(slots=True)
class _Count:
    """Batches and rows of one query in this run."""

    batches: int = 0
    rows: int = 0
    last_batch: int = -1
    line_at: float = float("-inf")


class RunProgress(StreamingQueryListener):
    """Counts batches and rows by query id, and writes a line a query each ten seconds at most."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: dict[str, _Count] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Leave it to `assignor run` to name the queries and to tell their end."""

    onQueryIdle = onQueryTerminated = onQueryStarted  # noqa: N815

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Count a batch; Spark reports the last one again while a query is idle."""
        progress = event.progress
        count = self._counts.setdefault(str(progress.id), _Count())
        if progress.numInputRows == 0 or progress.batchId <= count.last_batch:
            return
        count.last_batch = progress.batchId
        count.batches += 1
        count.rows += progress.numInputRows
        now = self._clock()
        if now - count.line_at >= _EVERY_S:
            count.line_at = now
            seconds = (progress.durationMs or {}).get("triggerExecution", 0) / 1000
            rows = counted(progress.numInputRows, "row")
            line = f"{progress.name}: batch {progress.batchId}, {rows} in {seconds:.1f} s"
            if count.batches > 1:
                line += f"; {counted(count.rows, 'row')} so far"
            typer.echo(line, err=True)

    def summary(self, query_id: str) -> str:
        """Return how much a query has read."""
        count = self._counts.get(query_id, _Count())
        batches = counted(count.batches, "batch", "batches")
        return f"{batches}, {counted(count.rows, 'row')}"
