"""What a batch costs that has next to nothing to read, part by part, beside Spark's rate source.

77 records a batch in two tasks, into nothing and into a Delta table: from Spark's rate source
(`rate-micro-batch`), and from 77 of a topic's 200 partitions, a record each, with the option and
with Spark's best setting (fetch.max.wait.ms=1, a consumer cache for all). With LocalFiles, logs
of Spark and Delta are written without processes, as by `assignor run`. Each query runs twice, one
after the other: the first time warms the JVMs up. Records are written between batches, and a batch
begins when all are there, so that nothing waits. Medians of a batch's milliseconds; the parts of
addBatch are by Spark's own records of its stages and tasks.

`ASSIGNOR_BENCH_SCALE=0.2` and `-k noop` try a part of it, and write nothing.
"""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from tests.lab.benchmarks.fixed_cost_parts import parts_of
from tests.lab.benchmarks.reader_runs import Load, Reader, started
from tests.lab.benchmarks.report import is_written, write_report
from tests.lab.benchmarks.tuned_spark import SHORT_WAIT
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import list_stages_since, start_spark, to_dict, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from streaming.kafka.embedded import EmbeddedBroker

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

SCALE = float(os.environ.get("ASSIGNOR_BENCH_SCALE", "1"))  # below 1: does it run? writes nothing
RECORDS, PARTITIONS = 77, 200
WARM_UP, FIRST, ROUNDS = int(12 * SCALE), 2, int(15 * SCALE)
FEW = max(1, int(5 * SCALE))  # of the way whose batches take seconds
OURS, LOCAL_FILES = "lag-aware-sticky", "lag-aware-sticky, LocalFiles"
BEST, FLOOR = "Spark: best setting", "rate source"
_ASSIGNED = {"assignor": "lag-aware-sticky", "assignor.onError": "fail"}
WAYS = {
    OURS: _ASSIGNED,
    LOCAL_FILES: _ASSIGNED,
    BEST: dict(SHORT_WAIT),
}
SETTING = ("fs.AbstractFileSystem.file.impl", "io.assignorbridge.LocalFiles")


@dataclass(frozen=True)
class Few(Load):
    """A record in each of the first 77 partitions."""

    @property
    def records(self) -> int:
        """Records of one batch."""
        return RECORDS

    def write(self, topic: Topic) -> None:
        """Write one batch's records."""
        topic.fill([1] * RECORDS)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two executors of one slot each."""
    session = start_spark(
        "local-cluster[2,1,1024]", tmp_path_factory.mktemp("spark"),
        spark_kafka_consumer_cache_capacity="4000",
        spark_databricks_delta_snapshotPartitions="1",
        spark_sql_codegen_cache_maxEntries="200",
    )  # fmt: skip
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def results() -> Iterator[dict[str, list[dict[str, Any]]]]:
    """Collects the figures by sink, and writes them when both sinks were measured."""
    found: dict[str, list[dict[str, Any]]] = {}
    yield found
    if SCALE == 1 and found and is_written(len(found) == 2):
        write_report(
            "fixed_cost",
            title="The fixed cost of a batch, part by part",
            command="make bench",
            rows=[row for rows in found.values() for row in rows],
            notes=__doc__ or "",
        )


@pytest.mark.parametrize("sink", ["noop", "delta"])
def test_the_parts_of_a_small_batch(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, sink: str,
    results: dict[str, list[dict[str, Any]]],
) -> None:  # fmt: skip
    def run(way: str, turn: str, rounds: int) -> list[dict[str, float]]:
        table = str(tmp_path / f"{turn}-{ways.index(way)}") if sink == "delta" else None
        if way == LOCAL_FILES:
            spark.conf.set(*SETTING)
        try:
            batches = (
                of_rate_source(spark, table, rounds)
                if way == FLOOR
                else of_topic(spark, broker, way, table, rounds)
            )
        finally:
            spark.conf.unset(SETTING[0])
        return split(spark, batches)

    ways = [*WAYS, FLOOR]
    for way in ways:
        run(way, "warm-up", WARM_UP if way != BEST else FEW)
    found = {way: run(way, "measured", ROUNDS if way != BEST else FEW) for way in ways}
    rows = [
        {
            "sink": sink,
            "part of a batch, ms": part,
            **{way: float(statistics.median(b[part] for b in of)) for way, of in found.items()},
        }
        for part in found[FLOOR][0]
    ]
    for row in rows:
        print(row)
    results[sink] = rows


def of_topic(
    spark: SparkSession, broker: EmbeddedBroker, way: str, table: str | None, rounds: int
) -> list[dict[str, Any]]:
    """Run the query over a topic."""
    topic = Topic(broker.bootstrap_servers, f"few-{uuid4().hex[:8]}").create(PARTITIONS)
    load = Few(PARTITIONS, records_per_partition=1, record_bytes=0)
    reader = Reader.start(spark, way, topic, load, WAYS[way], table)
    for _ in range(FIRST):
        reader.round(measured=False)
    batches = [reader.round() for _ in range(rounds)]
    reader.stop()
    return batches


def of_rate_source(spark: SparkSession, table: str | None, rounds: int) -> list[dict[str, Any]]:
    """Run the same query over Spark's rate source."""
    frame = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", RECORDS)
        .option("numPartitions", 2)
        .load()
    )
    query = started(frame, table)
    count = FIRST + rounds

    def ran() -> bool:
        assert query.exception() is None, str(query.exception())
        return len(query.recentProgress) >= count

    wait_until(ran, f"{count} batches", 300)
    query.stop()
    return [to_dict(p) for p in query.recentProgress][FIRST:count]


def split(spark: SparkSession, batches: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Split batches that ran alone."""
    stages = list_stages_since(spark, -1)
    return [parts_of(batch, stages) for batch in batches]
