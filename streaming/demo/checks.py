"""What the demo verifies before it calls itself a success."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streaming.observe.check import Check

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streaming.demo.flights import Expected
    from streaming.observe.figures import RunFigures


def same_batches(sparks: RunFigures, ours: RunFigures, sizes: Sequence[int]) -> Check:
    """Check that each batch of both runs has the records of its turn."""
    read = [[batch.records for batch in run.batches] for run in (sparks, ours)]
    words = " and ".join(f"{sum(r):,} records in {len(r)} batches" for r in read)
    return Check("both read the same batches", all(r == list(sizes) for r in read), words)


def table_checks(mode: str, expected: Expected, table: Mapping[str, Any]) -> list[Check]:
    """Compare what a Delta table holds with what was written to the topic."""
    rows = sum(expected.flights.values())
    count, distinct, first, last = table["ids"]
    wrong = sorted(
        carrier
        for carrier in {*expected.flights, *table["flights"]}
        if expected.flights.get(carrier) != table["flights"].get(carrier)
        or expected.delay_min.get(carrier) != table["delay_min"].get(carrier)
    )
    return [
        Check(
            f"each flight is in Delta exactly once ({mode})",
            (count, distinct, first, last) == (rows, rows, 0, rows - 1),
            f"{count:,} rows, {distinct:,} different flights, {rows:,} written",
        ),
        Check(
            f"flights and delays by carrier are right ({mode})",
            not wrong,
            f"wrong for {', '.join(wrong)}" if wrong else f"{len(expected.flights)} carriers",
        ),
    ]


def run_checks(run: RunFigures, rows: int, *, assignor: str | None) -> list[Check]:
    """Check that the tasks read all flights once, and with the planner that was asked for."""
    read = sum(task.records for batch in run.batches for task in batch.tasks)
    complete = Check(
        f"the tasks read each flight once ({run.name})", read == rows, f"{read:,} records"
    )
    if assignor is None:
        used = sorted({m for batch in run.batches for m in batch.metrics if "assignor." in m})
        words = ", ".join(used) or "no planner"
        return [complete, Check(f"Spark's own mapping ran ({run.name})", not used, words)]
    planned = [batch.metrics.get("assignor.strategy") for batch in run.batches]
    hits = planned.count(assignor)
    fallbacks = max((int(b.metrics.get("assignor.fallbacks", 0)) for b in run.batches), default=0)
    words = f"{hits} of {len(planned)} batches by {assignor}, {fallbacks} fallbacks"
    holds = hits == len(planned) > 0 and fallbacks == 0
    return [complete, Check(f"every batch was planned ({run.name})", holds, words)]
