"""One topic with a backlog of a million beside nine live ones: how long does a live record wait?

The backlog is in eight partitions of one topic and is there before the query starts. Nine live
topics of two partitions get 50 records a second each from a producer process. A batch has 20,000
records at most (`maxOffsetsPerTrigger`), so the backlog takes some fifty batches. All ways run the
same job of `assignor run` (an append to Delta; the next batch begins at the end of the last one),
one after the other in one Spark session after a small run that warms up; only options of the source
differ. Spark's own mapping has its best setting, `kafka.fetch.max.wait.ms=1`.

Spark shares the limit in proportion to what waits. So does `proportional`; a weight of 1 lets the
planner do it, and wherever it is left to Spark it is Spark's. "Batches that a live record waits":
for each batch and live partition, the end of the log when the batch was planned (`latestOffset` in
Spark's progress) is looked for in the end offsets of this batch and the later ones; 1 says that the
batch read all that was there. The most and the median over all batches that began while the backlog
was being read. A row's age is the time of its commit minus its record's CreateTime, for live
records made in that time.

`ASSIGNOR_BENCH_SCALE=0.1` tries it with a smaller backlog, and writes nothing.
"""

from __future__ import annotations

import json
import os
import time
from statistics import median
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from tests.lab.benchmarks.freshness_load import Load, LoadProcess
from tests.lab.benchmarks.freshness_runs import batches_of, job_started, wait_for
from tests.lab.benchmarks.limited_runs import (
    BEST,
    OURS,
    assert_limited,
    began,
    delete,
    percentiles,
    seconds_of,
    two_executors,
)
from tests.lab.benchmarks.report import write_report
from tests.lab.benchmarks.row_ages import ages, commit_times, timestamps
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from streaming.kafka.embedded import EmbeddedBroker

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

SCALE = float(os.environ.get("ASSIGNOR_BENCH_SCALE", "1"))  # below 1: does it run? writes nothing
BACKLOG, BACKLOG_PARTITIONS, LIMIT = int(1_000_000 * SCALE), 8, 20_000
LIVE, LIVE_PARTITIONS, RATE = 9, 2, 50
SPARK = "Spark"
WAYS = (SPARK, "proportional", "even", "deadline")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = two_executors(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


def options_of(way: str, backlog: str) -> dict[str, str]:
    """Give the options of a source, by the name of a fairness or Spark's."""
    limit = {"maxOffsetsPerTrigger": str(LIMIT)}
    if way == SPARK:
        return BEST | limit
    weight = {f"assignor.weight.{backlog}": "1"} if way == "proportional" else {}
    return OURS | limit | {"assignor.fairness": way} | weight


def filled(servers: str, records: int) -> Topic:
    """Make a topic with a backlog."""
    backlog = Topic(servers, f"backlog-{uuid4().hex[:8]}").create(BACKLOG_PARTITIONS)
    with LoadProcess(Load(servers, backlog.name, BACKLOG_PARTITIONS, 0, records)):
        return backlog


def test_starvation(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    small, whole = filled(servers, 4 * LIMIT), filled(servers, BACKLOG)
    for way in (SPARK, WAYS[-1]):
        run(spark, small, 4 * LIMIT, way, tmp_path)
    rows = []
    for way in WAYS:
        print(f"starvation: {way} …", flush=True)
        rows.append({"limit shared by": way} | run(spark, whole, BACKLOG, way, tmp_path))
        print(json.dumps(rows[-1]), flush=True)
    if SCALE == 1:
        write_report(
            "starvation",
            title="A backlog of a million records beside nine live topics",
            command="make bench",
            rows=rows,
            notes=__doc__ or "",
        )


def run(spark: SparkSession, backlog: Topic, size: int, way: str, folder: Path) -> dict[str, Any]:
    """Read the backlog beside live topics; give how the live ones fared."""
    servers, mark = backlog.bootstrap_servers, uuid4().hex[:8]
    live = [Topic(servers, f"live-{n}-{mark}").create(LIVE_PARTITIONS) for n in range(LIVE)]
    names = [topic.name for topic in live]
    options = options_of(way, backlog.name)
    table = folder / f"starvation-{mark}" / "table"
    every = ",".join([backlog.name, *names])
    with LoadProcess(Load(servers, ",".join(names), LIVE_PARTITIONS, 0, LIVE)) as producer:
        producer.write_at(LIVE * RATE)
        from_s = time.time()
        running = job_started(spark, servers, every, options, table)
        try:
            [query] = running.queries
            wait_until(
                lambda: any(read_of(b, backlog) == size for b in batches_of(query)),
                "the end of the backlog", 400,
            )  # fmt: skip
            to_s = time.time()
            written = producer.end()
            wait_for(query, size + written["records"])
            batches = batches_of(query)
        finally:
            running.stop()
    assert_limited(batches, options)
    assert max(batch["numInputRows"] for batch in batches) <= LIMIT + (0 if way != SPARK else 100)
    assert spark.read.format("delta").load(str(table)).count() == size + written["records"]
    stamps = {topic.name: timestamps(topic, LIVE_PARTITIONS) for topic in live}
    made, age = ages(batches, commit_times(table), stamps)
    delete(*live)

    beside = sum(read_of(batch, backlog) < size for batch in batches) + 1
    waited = [most for name in names for most in batches_waited(batches, name)[:beside]]
    first_s = began(batches[0])
    p50, p99 = percentiles(age[(max(from_s, first_s) <= made) & (made < to_s)])
    return {
        "batches": beside,
        "batch s p50": median(seconds_of(batches[:beside])),
        "batches a live record waits, most": max(waited),
        "median": median(waited),
        "age s of live rows, p50": p50,
        "age s, p99": p99,
        "backlog read after s": began(batches[beside - 1]) - first_s,
    }


def read_of(batch: Mapping[str, Any], topic: Topic) -> int:
    """How many records of a topic are read with this batch."""
    [source] = batch["sources"]
    return sum(source["endOffset"].get(topic.name, {}).values())


def batches_waited(batches: Sequence[Mapping[str, Any]], topic: str) -> list[int]:
    """By batch: with which one, counted from it, the slowest partition's records were all read."""
    sources = [batch["sources"][0] for batch in batches]
    waits = []
    for i, source in enumerate(sources):
        latest = source["latestOffset"][topic]
        read = (
            all(later["endOffset"][topic][p] >= end for p, end in latest.items())
            for later in sources[i:]
        )
        waits.append(next(n for n, is_read in enumerate(read, 1) if is_read))
    return waits
