"""Catching up after an outage: how long until a query that stood still has read all, and what the
producer feels meanwhile.

A producer process writes 4,000 records a second into twelve partitions, lags by Zipf's law (1.1).
The query runs for ten seconds, stops for 40 (the producer does not), and starts again from its
checkpoint with a backlog of 160,000 records. A record costs 0.2 ms of its slot, modelled by a sleep
of 20 ms at every hundredth one; four executors of one slot could read 20,000 a second. It has
caught up at the end of the first batch after the start that brought no more than three seconds of
the rate. Results go nowhere (`noop`). The ways run one after the other, in one Spark session; four
runs of each, in turns, after one with a shorter outage that does not count.

`producer p99` is from produce to the broker's acknowledgement (all replicas, here one), of every
tenth record: in the ten seconds before the outage, in it, and while the query catches up; the most
of the runs. `times_ours` is a way's median over ours.

`ASSIGNOR_BENCH_SCALE=0.1` tries it with a shorter outage and one run, and writes nothing.
"""

from __future__ import annotations

import time
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pytest

from tests.lab.benchmarks.freshness_load import Load, LoadProcess
from tests.lab.benchmarks.freshness_runs import batches_of, wait_for
from tests.lab.benchmarks.report import write_report
from tests.lab.benchmarks.turns import NO_WAIT, OURS, SCALE, cluster, in_turn
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import assert_planned, read_topic, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from streaming.kafka.embedded import EmbeddedBroker

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

PARTITIONS, ZIPF, RATE, FIRST, SLOTS = 12, 1.1, 4_000, 20, 4
BEFORE_S, OUTAGE_S, RUNS = max(4.0, 10 * SCALE), 40 * SCALE, 4 if SCALE == 1 else 1
SLEEP = "CASE WHEN offset % 100 = 99 THEN java_method('java.lang.Thread', 'sleep', 20L) END"
WAYS = {
    "Spark: default": {},
    "Spark: no wait": NO_WAIT,
    f"Spark: minPartitions={8 * SLOTS}": {"minPartitions": str(8 * SLOTS)} | NO_WAIT,
    "lag-aware-sticky": OURS,
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = cluster(tmp_path_factory.mktemp("spark"), SLOTS)
    yield session
    session.stop()


def test_catch_up(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> None:
    runs: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for options in WAYS.values():
        run(spark, broker.bootstrap_servers, options, tmp_path, OUTAGE_S / 4)
    for number in range(RUNS):
        for way in in_turn(list(WAYS), number):
            runs[way].append(run(spark, broker.bootstrap_servers, WAYS[way], tmp_path, OUTAGE_S))
            print(way, runs[way][-1], flush=True)
    ours = median(run["caught_up_s"] for run in runs["lag-aware-sticky"])
    rows = [row_of(way, of_way, ours) for way, of_way in runs.items()]
    print(*rows, sep="\n")
    if SCALE == 1:
        write_report(
            "catch_up", title="Catching up after an outage", rows=rows, notes=__doc__ or "",
            command="make bench (tests/lab/benchmarks/test_bench_catch_up.py)",
        )  # fmt: skip


def run(
    spark: SparkSession, servers: str, options: Mapping[str, str], folder: Path, outage_s: float
) -> dict[str, Any]:
    """Run, stand still, and catch up."""
    topic = Topic(servers, f"outage-{uuid4().hex[:8]}").create(PARTITIONS)
    load = Load(servers, topic.name, PARTITIONS, ZIPF, FIRST, sampled=10)
    with LoadProcess(load) as producer:
        query = start(spark, topic, options, folder)
        try:
            wait_for(query, FIRST)
            producer.write_at(RATE)
            time.sleep(BEFORE_S)
        finally:
            query.stop()
        stopped_s = time.time()
        time.sleep(outage_s)
        query, begun_s = start(spark, topic, options, folder), time.time()
        try:
            wait_until(lambda: has_caught_up(query), "the end of the backlog", 600)
            written = producer.end()
            after = batches_of(query)
        finally:
            query.stop()
    if "assignor" in options:
        assert_planned(after)
    last = next(batch for batch in after[1:] if is_normal(batch))
    caught_up_s = ended(last)
    sampled = np.array(written["sampled"])
    edges = (stopped_s - BEFORE_S, stopped_s, begun_s, caught_up_s)
    found = {"caught_up_s": caught_up_s - begun_s, "batches": after.index(last) + 1}
    for name, begin, end in zip(("before", "outage", "after"), edges, edges[1:], strict=False):
        within = sampled[(sampled[:, 0] >= begin) & (sampled[:, 0] < end), 1]
        found[name] = float(np.percentile(within, 99))
    return found


def start(
    spark: SparkSession, topic: Topic, options: Mapping[str, str], folder: Path
) -> StreamingQuery:
    return (
        read_topic(spark, topic, options)
        .selectExpr(SLEEP)
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / topic.name))
        .start()
    )


def is_normal(batch: Mapping[str, Any]) -> bool:
    return bool(batch["numInputRows"] <= 3 * RATE)


def has_caught_up(query: StreamingQuery) -> bool:
    """Whether a batch after the first one was no larger than usual."""
    return any(map(is_normal, batches_of(query)[1:]))


def ended(batch: Mapping[str, Any]) -> float:
    """Give the end of a batch, in seconds since 1970."""
    begin = datetime.fromisoformat(batch["timestamp"].replace("Z", "+00:00"))
    return begin.timestamp() + float(batch["durationMs"]["triggerExecution"]) / 1000


def row_of(way: str, runs: list[dict[str, Any]], ours: float) -> dict[str, Any]:
    """Sum up the runs of a way."""
    caught_up = [run["caught_up_s"] for run in runs]
    return {
        "way": way,
        "caught_up_s_median": median(caught_up),
        "caught_up_s_min": min(caught_up),
        "caught_up_s_max": max(caught_up),
        "times_ours": median(caught_up) / ours,
        "batches": median(run["batches"] for run in runs),
        **{
            f"producer p99 ms, {name}": 1000 * max(run[name] for run in runs)
            for name in ("before", "outage", "after")
        },
        "runs": len(runs),
    }
