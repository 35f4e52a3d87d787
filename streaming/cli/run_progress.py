"""What `assignor run` tells of its queries: a line now and then, and what each has done."""

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
class _Done:
    """What one query has done in this run."""

    batches: int = 0
    rows: int = 0
    last_batch: int = -1
    told_at: float = float("-inf")


class RunProgress(StreamingQueryListener):
    """Counts batches and rows by query id, and writes a line a query each ten seconds at most."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._done: dict[str, _Done] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing to tell: `assignor run` names the queries."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing has happened."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """`assignor run` tells the end."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Count a batch; Spark tells the last one again while a query is idle."""
        progress = event.progress
        done = self._done.setdefault(str(progress.id), _Done())
        if progress.numInputRows == 0 or progress.batchId <= done.last_batch:
            return
        done.last_batch = progress.batchId
        done.batches += 1
        done.rows += progress.numInputRows
        now = self._clock()
        if now - done.told_at >= _EVERY_S:
            done.told_at = now
            seconds = (progress.durationMs or {}).get("triggerExecution", 0) / 1000
            rows = counted(progress.numInputRows, "row")
            line = f"{progress.name}: batch {progress.batchId}, {rows} in {seconds:.1f} s"
            if done.batches > 1:
                line += f"; {counted(done.rows, 'row')} so far"
            typer.echo(line, err=True)

    def summary(self, query_id: str) -> str:
        """Say what a query has done."""
        done = self._done.get(query_id, _Done())
        batches = counted(done.batches, "batch", "batches")
        return f"{batches}, {counted(done.rows, 'row')}"
