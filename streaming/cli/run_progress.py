"""What `assignor run` prints about its queries: a line now and then, and the result of each."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import typer

from assignor_bridge.errors import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from streaming.pipeline.progress import QueryResult

#: Least time between two lines about a query.
_MIN_INTERVAL_S = 10.0


class ProgressLines:
    """Prints a line about a query every ten seconds at most, when a batch of it has ended."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._printed_at: dict[str, float] = {}

    def __call__(self, result: QueryResult, progress: Any) -> None:
        """Print a line about a batch, unless the last one was printed just now."""
        now = self._clock()
        if now - self._printed_at.get(result.name, float("-inf")) < _MIN_INTERVAL_S:
            return
        self._printed_at[result.name] = now
        seconds = (progress.durationMs or {}).get("triggerExecution", 0) / 1000
        rows = counted(progress.numInputRows, "record")
        line = f"{result.name}: batch {progress.batchId}, {rows} in {seconds:.1f} s"
        typer.echo(
            line + (f"; {format_counts(result)} so far" if result.batches > 1 else ""), err=True
        )


def format_counts(result: QueryResult) -> str:
    """Return what a query has read, written, and found bad.

    >>> from streaming.pipeline.progress import QueryResult
    >>> format_counts(QueryResult("pay", "tables/pay", batches=1, read=20_005, written=20_000, bad=5))
    '20,005 read, 20,000 written, 5 bad'
    """
    bad = "" if result.is_dead_letter else f", {result.bad:,} bad"
    return f"{result.read:,} read, {result.written:,} written{bad}"


def format_summary(result: QueryResult) -> str:
    """Return the line about a query that has ended."""
    batches = counted(result.batches, "batch", "batches")
    target = f" ({result.target})" if result.target else ""
    return f"{result.name}: done, {batches}: {format_counts(result)}{target}"
