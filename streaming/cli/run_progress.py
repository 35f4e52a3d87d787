"""Print the progress of the queries of `assignor run`, and format their results."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import typer

from assignor_bridge.errors import pluralize

if TYPE_CHECKING:
    from collections.abc import Callable

    from streaming.pipeline.row_counts import QueryResult

_MIN_INTERVAL_S = 10.0


class ProgressLines:
    """Prints a line about a query when a batch ends, at most every ten seconds per query."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_print_s: dict[str, float] = {}

    def __call__(self, result: QueryResult, progress: Any) -> None:
        """Print a line about a batch, unless its query's last line is less than ten seconds old."""
        now_s = self._clock()
        if now_s - self._last_print_s.get(result.name, float("-inf")) < _MIN_INTERVAL_S:
            return
        self._last_print_s[result.name] = now_s
        seconds = (progress.durationMs or {}).get("triggerExecution", 0) / 1000
        records = pluralize(progress.numInputRows, "record")
        line = f"{result.name}: batch {progress.batchId}, {records} in {seconds:.1f} s"
        totals = f"; {format_counts(result)} so far" if result.batches > 1 else ""
        typer.echo(line + totals, err=True)


def format_counts(result: QueryResult) -> str:
    """Format the counts of records read, rows written, and bad records (omitted for dead letters).

    >>> from streaming.pipeline.row_counts import QueryResult
    >>> format_counts(QueryResult("pay", "tables/p", batches=1, read=20_005, written=20_000, bad=5))
    '20,005 read, 20,000 written, 5 bad'
    """
    bad_text = "" if result.is_dead_letter else f", {result.bad:,} bad"
    return f"{result.read:,} read, {result.written:,} written{bad_text}"


def format_summary(result: QueryResult) -> str:
    """Format the result line of a query that has ended."""
    batches = pluralize(result.batches, "batch", "batches")
    target = f" ({result.target})" if result.target else ""
    return f"{result.name}: done, {batches}: {format_counts(result)}{target}"
