"""The report's section on zones: what crossed them by the log of metrics, and what that costs."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean
from typing import TYPE_CHECKING

from streaming.replay.bill import gigabytes, money
from streaming.replay.traffic import GB
from streaming.report import page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streaming.observe.query_progress import BatchProgress
    from streaming.report.query_facts import QueryFacts

_HEAD = (
    "", "predicted", "measured", "GB received a day", "GB across zones a day", "cost a day",
    "imbalance",
)  # fmt: skip
_DAY_S = 86_400


def section(facts: QueryFacts) -> list[str]:
    """Write the section; nothing where nobody knows of zones."""
    indexes = sorted({s.index for p in facts.progress for s in p.sources})
    rows = []
    for index in indexes:
        predicted, measured, imbalance = (
            _numbers(facts.progress, index, name)
            for name in ("predictedCrossZoneShare", "crossZoneShare", "imbalance")
        )
        crossed = _a_day(facts.progress, index, "crossZoneBytes")
        if not predicted and not measured and crossed is None:
            continue
        received = _a_day(facts.progress, index, "receivedBytes")
        rows.append(
            [
                f"source {index}" if len(indexes) > 1 else "this query",
                _mean(predicted),
                _mean(measured),
                "" if received is None else gigabytes(received),
                "" if crossed is None else gigabytes(crossed),
                "" if crossed is None else money(crossed / GB * facts.price_per_gb),
                _mean(imbalance),
            ]
        )
    if not rows:
        return []
    return [
        page.table(_HEAD, rows),
        page.note(
            "Shares of the bytes that cross zones, predicted and measured, and what was received "
            f"from brokers, by the log of metrics; at {facts.price_per_gb:g} per GB "
            "(--price-per-gb). What other mappings would cost, and ours without zones, is said "
            "where racks are known (--racks)."
        ),
    ]


def _numbers(progress: Sequence[BatchProgress], index: int, name: str) -> list[float]:
    told = (s.number(name) for p in progress if p.has_data for s in p.sources if s.index == index)
    return [number for number in told if number is not None]


def _mean(shares: Sequence[float]) -> str:
    return f"{fmean(shares):.1%}" if shares else ""


def _a_day(progress: Sequence[BatchProgress], index: int, name: str) -> float | None:
    """Return by how much a metric that counts from the start of each run grows in a day."""
    runs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for batch in progress:
        for source in batch.sources:
            if source.index == index and (number := source.number(name)) is not None:
                runs[batch.run_id].append((batch.timestamp_s, number))
    grown = sum(counts[-1][1] - counts[0][1] for counts in runs.values())
    seconds = sum(counts[-1][0] - counts[0][0] for counts in runs.values())
    return grown / seconds * _DAY_S if seconds > 0 else None
