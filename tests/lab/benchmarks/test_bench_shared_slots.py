"""Two queries on the same four executors of one slot: `assignor.slots`, without, Spark alone.

Each record costs 1 ms (modelled by sleeping), 16 partitions a topic, map only, Spark's own settings
but for the memory; both queries have a backlog and take one batch after the other for 35 s. Once
both are alike (4,000 records a batch), once one is ten times the other (6,000 and 600). Alone, on
all four slots, batches of 4,000, 6,000 and 600 records take at best 1, 1.5 and 0.15 s; beside each
other the four slots do at most 4,000 records a second. The first three batches of each query are
left out.

`where planned` is the share of the reads that ran on the executor that they were planned for.

`ASSIGNOR_BENCH_SCALE=0.2` tries it for a shorter time, and writes nothing.
"""

from __future__ import annotations

import os
import time
from statistics import median
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from tests.lab.benchmarks.report import write_report
from tests.lab.long.allocation_driver import running, start_query
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import assert_planned, read_topic, start_spark, to_dict, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from streaming.kafka.embedded import EmbeddedBroker

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

SCALE = float(os.environ.get("ASSIGNOR_BENCH_SCALE", "1"))
PARTITIONS, SECONDS, SKIPPED = 16, int(35 * SCALE), 3
#: Records a batch of each of the two queries, and the share of the slots that each plans for.
PAIRS = {"alike": ((4_000, "50%"), (4_000, "50%")), "1 : 10": ((6_000, "75%"), (600, "25%"))}
WAYS = ("Spark: default", "lag-aware-sticky", "lag-aware-sticky, slots")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = start_spark(
        "local-cluster[4,1,512]", tmp_path_factory.mktemp("spark"),
        spark_locality_wait="3s", spark_executor_memory="512m",
        spark_sql_streaming_numRecentProgressUpdates="1000",
    )  # fmt: skip
    memory = session.sparkContext._jsc.sc()
    wait_until(lambda: memory.getExecutorMemoryStatus().size() == 5, "four executors", 120)
    yield session
    session.stop()


def test_shared_slots(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    enough = [4 * 1_000 * (SECONDS + 10) // PARTITIONS] * PARTITIONS
    topics = [Topic(servers, f"shared-{n}-{uuid4().hex[:6]}").create(PARTITIONS) for n in range(2)]
    for topic in topics:
        topic.fill(enough)
    rows: list[dict[str, Any]] = []
    run(spark, topics, "to warm up", PAIRS["alike"], WAYS[1], tmp_path)
    for name, pair in PAIRS.items():
        for way in WAYS:
            rows += run(spark, topics, name, pair, way, tmp_path)
            print(*rows[-2:], sep="\n", flush=True)
    if SCALE == 1:
        write_report(
            "shared_slots",
            title="Two queries that share four slots",
            command="make bench",
            rows=rows,
            notes=__doc__ or "",
        )


def options_of(way: str, limit: int, share: str) -> dict[str, str]:
    options = {"maxOffsetsPerTrigger": str(limit)}
    if way != WAYS[0]:
        options |= {"assignor": "lag-aware-sticky", "assignor.onError": "fail"}
    return options | ({"assignor.slots": share} if way == WAYS[2] else {})


def run(
    spark: SparkSession, topics: list[Topic], name: str, pair: Any, way: str, folder: Path
) -> list[dict[str, Any]]:
    """Run both queries for a while; a row for each."""
    queries = [
        start_query(
            read_topic(spark, topic, options_of(way, limit, share)),
            str(folder / uuid4().hex),
        )
        for topic, (limit, share) in zip(topics, pair, strict=True)
    ]
    begin = time.monotonic()
    try:
        wait_until(
            lambda: time.monotonic() - begin > SECONDS and all(map(has_enough, queries)),
            "the end of the time", SECONDS + 120,
        )  # fmt: skip
        batches = [[to_dict(p) for p in query.recentProgress] for query in queries]
    finally:
        for query in queries:
            query.stop()
    return [
        row_of(name, way, limit, share, [b for b in of_query if b["numInputRows"]])
        for (limit, share), of_query in zip(pair, batches, strict=True)
    ]


def has_enough(query: Any) -> bool:
    """Whether there are batches to measure; a failure of the query is raised."""
    assert running(query)
    return sum(p.numInputRows > 0 for p in query.recentProgress) >= SKIPPED + 3


def row_of(
    name: str, way: str, limit: int, share: str, batches: list[Mapping[str, Any]]
) -> dict[str, Any]:
    """Figures of the batches after the first ones; with the option they must be planned by us."""
    kept = batches[SKIPPED:]
    assert len(kept) >= 3, f"{way}: {len(batches)} batches"
    metrics = [batch["sources"][0]["metrics"] for batch in kept]
    slots = "" if way == WAYS[0] else metrics[-1]["assignor.slots"]
    if way != WAYS[0]:
        assert_planned([dict(batch) for batch in batches])
    seconds = [batch["durationMs"]["triggerExecution"] / 1000 for batch in kept]
    hits = [float(m["assignor.plannedHitRate"]) for m in metrics if "assignor.plannedHitRate" in m]
    return {
        "queries": name,
        "mapping": way,
        "records_a_batch": limit,
        "share": share if way == WAYS[2] else "",
        "slots": slots,
        "batches": len(kept),
        "batch_s_median": median(seconds),
        "batch_s_max": max(seconds),
        "records_a_second": sum(batch["numInputRows"] for batch in kept) / sum(seconds),
        "where planned": median(hits) if hits else "",
    }
