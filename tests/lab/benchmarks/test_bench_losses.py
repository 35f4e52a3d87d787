"""Workloads where little or nothing can be gained: balanced lags, few records, cheap records, costs
that nobody can foresee.

Four executors of one slot. All ways run side by side and take turns, one whole batch a round; a
record's cost, where it has one, is modelled by sleeping at every tenth record. `times_ours` is
a way's batch over ours in the same round, the median: below 1 it is faster than the option.
"Spark: default" is that; the other ways of Spark have `fetch.max.wait.ms=1`, and `minPartitions`
and `maxRecordsPerPartition` about eight and four tasks a slot.

`balanced` has the same number of records in each partition, and all cost the same. `chance` is the
same, but what a record costs is drawn anew for each partition in each batch, from 0.25 to 4 ms.
`1:50` has lags by Zipf's law (1.2), and costs by partition from 0.1 to 5 ms; `1:50, few partitions`
has fewer of them than slots. `few` are five new records in each of four partitions.

The option has the shared tail (`assignor.tail=auto`, the default), and in a second row none. The
first seven rounds are not measured, because a tail needs three predicted batches. `times_best` is
the median of the rounds' ratios to the Spark setting with the lowest median, with its 95% interval.

Where the option is slower, docs/losses.md says why.

`ASSIGNOR_BENCH_SCALE=0.1` and `-k chance` try a part of it, and write nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.benchmarks.report import is_written, write_report
from tests.lab.benchmarks.turns import (
    NO_WAIT,
    OURS,
    SCALE,
    Work,
    cluster,
    compare_by_rounds,
    find_best_of_spark,
    rows_of,
    take_turns,
)
from tests.support.strategies_snapshots import generate_lags

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from streaming.kafka.embedded import EmbeddedBroker

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

SLOTS, ROUNDS = 4, max(2, int(15 * SCALE))


def sleeping(milliseconds: str) -> str:
    """Ten times as long at every tenth record: fewer wake-ups than one for each."""
    sleep = f"java_method('java.lang.Thread', 'sleep', CAST(10 * {milliseconds} AS BIGINT))"
    return f"CASE WHEN offset % 10 = 9 THEN {sleep} END"


#: A number from -2 to 2, drawn by partition and batch of 250 records.
_DRAWN = "(pmod(xxhash64(partition, offset div 250), 401) / 100.0 - 2)"
WORKLOADS: dict[str, Work] = {
    "balanced, cheap: 16 x 20,000 records": Work.of([20_000] * 16),
    "balanced, 1 ms a record: 16 x 250": Work.of([250] * 16, sleeping("1")),
    "balanced, a partition a slot: 4 x 1,000 of 1 ms": Work.of([1_000] * 4, sleeping("1")),
    "few: 4 x 5 records": Work.of([5] * 4),
    "chance: 16 x 250 records of 0.25 to 4 ms": Work.of([250] * 16, sleeping(f"pow(2, {_DRAWN})")),
    "1:50: Zipf 1.2, 16 partitions, 4,000 records of 0.1 to 5 ms": Work.of(
        generate_lags("zipf-1.2", 16, 4_000), sleeping("0.1 * pow(50, partition / 15.0)")
    ),
    "1:50, few partitions: Zipf 1.2, 3 partitions, 4,000 records of 0.1 to 5 ms": Work.of(
        generate_lags("zipf-1.2", 3, 4_000), sleeping("0.1 * pow(50, partition / 2.0)")
    ),
}
WARM_UP = 7


def ways(work: Work) -> dict[str, dict[str, str]]:
    least, most = str(8 * SLOTS), str(max(1, work.records // (4 * SLOTS)))
    return {
        "Spark: default": {},
        "Spark: no wait": NO_WAIT,
        f"Spark: minPartitions={least}": {"minPartitions": least} | NO_WAIT,
        f"Spark: maxRecordsPerPartition={most}": {"maxRecordsPerPartition": most} | NO_WAIT,
        "lag-aware-sticky": OURS,
        "lag-aware-sticky, tail=off": OURS | {"assignor.tail": "off"},
    }


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = cluster(tmp_path_factory.mktemp("spark"), SLOTS)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def rows() -> Iterator[list[dict[str, Any]]]:
    """Collects the figures and writes them when all are there."""
    collected: list[dict[str, Any]] = []
    yield collected
    whole = len({row["workload"] for row in collected}) == len(WORKLOADS)
    if SCALE == 1 and collected and is_written(whole):
        write_report(
            "losses", title="Where little can be gained", rows=collected, notes=__doc__ or "",
            command="make bench (tests/lab/benchmarks/test_bench_losses.py)",
        )  # fmt: skip


@pytest.mark.parametrize("name", WORKLOADS)
def test_losses(
    spark: SparkSession, broker: EmbeddedBroker, rows: list[dict[str, Any]], name: str
) -> None:
    work = WORKLOADS[name]
    took = take_turns(spark, broker.bootstrap_servers, work, ways(work), ROUNDS, WARM_UP)
    best = find_best_of_spark(took)
    for row in rows_of(name, work, took, "lag-aware-sticky"):
        times_best, interval = compare_by_rounds(took[row["way"]], took[best])
        rows.append(row | {"times_best": times_best, "interval": interval})
    print(*rows[-len(took) :], sep="\n", flush=True)
