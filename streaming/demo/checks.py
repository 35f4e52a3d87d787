"""Check the data and the plans of a demo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streaming.observe.check_result import Check

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streaming.demo.flights import ExpectedTable
    from streaming.observe.figures import RunFigures


def check_batches(runs: Sequence[RunFigures], sizes: Sequence[int]) -> Check:
    """Check that each batch of both runs has the expected number of records."""
    counts = [[batch.records for batch in run.batches] for run in runs]
    detail = " and ".join(f"{sum(c):,} records in {len(c)} batches" for c in counts)
    return Check("both modes read the same batches", all(c == list(sizes) for c in counts), detail)


def check_table(mode: str, expected_table: ExpectedTable, table: Mapping[str, Any]) -> list[Check]:
    """Check the result of `Mode.query_table` against the flights written to the topic."""
    flight_count = sum(expected_table.flights.values())
    id_count, distinct_count, *_ = table["ids"]
    wrong_carriers = sorted(
        carrier
        for carrier in {*expected_table.flights, *table["flights"]}
        if expected_table.flights.get(carrier) != table["flights"].get(carrier)
        or expected_table.delay_min.get(carrier) != table["delay_min"].get(carrier)
    )
    return [
        Check(
            f"each flight is in Delta exactly once ({mode})",
            table["ids"] == [flight_count, flight_count, 0, flight_count - 1],
            f"{id_count:,} ids, {distinct_count:,} different, {flight_count:,} flights written",
        ),
        Check(
            f"flights and delays by carrier are correct ({mode})",
            not wrong_carriers,
            f"{len(expected_table.flights)} carriers, wrong: {', '.join(wrong_carriers) or 'none'}",
        ),
    ]


def check_run(run: RunFigures, rows: int, *, assignor: str | None) -> list[Check]:
    """Check that `rows` records were read, and `assignor` planned each batch, or none if None."""
    records = sum(task.records for batch in run.batches for task in batch.tasks)
    name = f"the tasks read as many records as flights were written ({run.name})"
    read_check = Check(name, records == rows, f"{records:,} records, {rows:,} flights")
    if assignor is None:
        names = sorted({m for batch in run.batches for m in batch.metrics if "assignor." in m})
        detail = ", ".join(names) or "no assignor metrics"
        return [read_check, Check(f"no assignor planned a batch ({run.name})", not names, detail)]
    strategies = [batch.metrics.get("assignor.strategy") for batch in run.batches]
    planned_count = strategies.count(assignor)
    fallbacks = max((int(b.metrics.get("assignor.fallbacks", 0)) for b in run.batches), default=0)
    detail = f"{planned_count} of {len(strategies)} batches by {assignor}; fallbacks: {fallbacks}"
    holds = planned_count == len(strategies) > 0 and fallbacks == 0
    return [read_check, Check(f"every batch was planned ({run.name})", holds, detail)]
