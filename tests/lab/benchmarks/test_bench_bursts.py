"""Ten times the rate for a minute: how long do batches take then, and when are rows fresh again?

A producer process writes 2,000 records a second to eight equal partitions, for a minute 20,000, and
then 2,000 again. Each record costs about 0.1 ms of its slot, modelled by a sleep of 10 ms at every
hundredth one, so that two executors of one slot can read a little less than the burst brings, and
broker, producer and driver find room on the same two cores. All ways run the same job of `assignor
run` (an append to Delta; its trigger is Spark's default, the next batch at the end of the last
one), one after the other in one Spark session after a short burst that warms up; only the options
of the source differ. Both ways with Spark's mapping have its best setting,
`kafka.fetch.max.wait.ms=1`.

`maxOffsetsPerTrigger` is as fair as it can be: it is the median size of our batches of two seconds
in the same burst, which nobody knows beforehand, and which holds for this cost of a record only.

Batches of the burst are those that began in it, or after it while its records were not all in the
table. A row's age is the time of its commit minus its record's CreateTime. In seconds after the end
of the burst: "burst read after" is when its last record was in the table, "backlog gone after" the
end of the last batch that began with more than three seconds of the steady rate (what was written
during the backlog is a backlog, too), and "fresh again after" the last commit with a row older than
twice the 99th percentile before the burst. More than the slots can read must wait, whatever the
batches are like: the speed of reading decides how old rows of the burst get, and short batches
pay the fixed cost of a batch more often.

`ASSIGNOR_BENCH_SCALE=0.1` tries it with a shorter burst, and writes nothing.
"""

from __future__ import annotations

import json
import os
import time
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple
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
    from tests.lab.benchmarks.row_ages import Floats

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

SCALE = float(os.environ.get("ASSIGNOR_BENCH_SCALE", "1"))  # below 1: does it run? writes nothing
PARTITIONS, STEADY, BURST, FIRST = 8, 2_000, 20_000, 20
TARGET_S = 2
#: A batch that brought less than this many seconds of the steady rate was not behind.
NORMAL_S = 3
#: What a record costs: 10 ms for every hundredth.
SQL = """
SELECT key, id, CASE WHEN id % 100 = 0 THEN java_method('java.lang.Thread', 'sleep', 10L) END slept
FROM records"""
TARGET = OURS | {"assignor.targetBatchSeconds": str(TARGET_S)}


class Times(NamedTuple):
    """How long each part of a run lasts, in seconds; the backlog is read between the last two."""

    warm_up: float = 4
    before: float = 8
    burst: float = 60 * SCALE
    after: float = 6


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = two_executors(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


def test_bursts(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    for options in (TARGET, BEST):
        run(spark, servers, options, tmp_path, Times(before=2, burst=3, after=0))
    rows = []
    limit = 0
    for way, options in (
        (f"targetBatchSeconds={TARGET_S}", TARGET),
        ("Spark, no limit", BEST),
        ("Spark, maxOffsetsPerTrigger={}", BEST | {"maxOffsetsPerTrigger": "{}"}),
    ):
        print(f"bursts: {way.format(limit)} …", flush=True)
        given = {key: value.format(limit) for key, value in options.items()}
        rows.append({"way": way.format(limit)} | run(spark, servers, given, tmp_path, Times()))
        print(json.dumps(rows[-1]), flush=True)
        limit = limit or int(rows[0]["records a batch, p50"])
    if SCALE == 1:
        write_report(
            "bursts",
            title="Ten times the rate for a minute",
            command="make bench",
            rows=rows,
            notes=__doc__ or "",
        )


def run(
    spark: SparkSession, servers: str, options: Mapping[str, str], folder: Path, times: Times
) -> dict[str, Any]:
    """Run the job through a burst; give what its batches and rows were like."""
    topic = Topic(servers, f"burst-{uuid4().hex[:8]}").create(PARTITIONS)
    table = folder / topic.name / "table"
    with LoadProcess(Load(servers, topic.name, PARTITIONS, 0, FIRST)) as producer:
        running = job_started(spark, servers, topic.name, options, table, sql=SQL)
        try:
            [query] = running.queries
            wait_for(query, FIRST)
            producer.write_at(STEADY)
            time.sleep(times.warm_up + times.before)
            from_s = time.time()
            producer.write_at(BURST)
            time.sleep(times.burst)
            to_s = time.time()
            producer.write_at(STEADY)

            def is_behind() -> bool:
                last = batches_of(query)[-1]
                return began(last) < to_s or last["numInputRows"] > NORMAL_S * STEADY

            wait_until(lambda: not is_behind(), "the end of the backlog", 300)
            time.sleep(times.after)
            written = producer.end()
            wait_for(query, written["records"])
            batches = batches_of(query)
        finally:
            running.stop()
    assert_limited(batches, options)
    assert sum(batch["numInputRows"] for batch in batches) == written["records"]
    assert spark.read.format("delta").load(str(table)).count() == written["records"]
    made, age = ages(batches, commit_times(table), {topic.name: timestamps(topic, PARTITIONS)})
    delete(topic)
    return {
        **figures(batches, made, age, from_s - times.before, from_s, to_s),
        "producer behind s": float(written["most_behind_s"]),
    }


def figures(
    batches: Sequence[dict[str, Any]], made: Floats, age: Floats, steady_s: float, from_s: float,
    to_s: float,
) -> dict[str, Any]:  # fmt: skip
    """Sum up the batches and rows of a burst between two times, and of the steady time before."""
    before = age[(steady_s <= made) & (made < from_s)]
    in_burst = (from_s <= made) & (made < to_s)
    is_late = (age > 2 * percentiles(before)[1]) & (made >= from_s)
    read_s = float((made + age)[in_burst].max())
    fresh_s = float((made + age)[is_late].max(initial=to_s))
    of_burst = [batch for batch in batches if from_s <= began(batch) < read_s]
    behind = [batch for batch in batches if batch["numInputRows"] > NORMAL_S * STEADY]
    gone_s = max(began(batch) + batch["durationMs"]["triggerExecution"] / 1000 for batch in behind)
    p50, p99 = percentiles(seconds_of(of_burst))
    found: dict[str, Any] = {
        "batches in the burst": len(of_burst),
        "records a batch, p50": median(batch["numInputRows"] for batch in of_burst),
        "batch s p50": p50,
        "batch s p99": p99,
        "p99 / p50": p99 / p50,
    }
    for when, rows in (("before", before), ("in the burst", age[in_burst])):
        for name, value in zip(("p50", "p99"), percentiles(rows), strict=True):
            found[f"age s {when}, {name}"] = value
    return found | {
        "burst read after s": read_s - to_s,
        "backlog gone after s": gone_s - to_s,
        "fresh again after s": max(fresh_s, read_s) - to_s,
    }
