"""One run of the freshness benchmark: a query, a producer at a steady rate, the age of each row.

A row's age is the time of the commit that brought it into the table, which is the modification time
of Delta's log file (what DESCRIBE HISTORY tells), minus Kafka's timestamp of its record. Which rows
a commit brought is known from its batch's number, which Delta notes, and from the batch's offsets.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from streaming.pipeline.run import start_job
from tests.benchmarks.freshness_load import KEYS, Load, LoadProcess
from tests.kafka_topics import Topic
from tests.spark_tools import as_dict, assert_planned, read_topic, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_SCHEMA = "key BIGINT, id BIGINT"
_LIMIT_S = 400.0
#: What `assignor run` sets where Spark runs on one machine, and a session for all ways cannot have.
_LOCAL_FILES = ("fs.AbstractFileSystem.file.impl", "io.assignorbridge.LocalFiles")


@dataclass(frozen=True)
class Cell:
    """What is written, and how it is kept."""

    sink: str
    partitions: int
    #: Exponent of Zipf's law over the partitions; 0 for equal ones.
    zipf: float
    #: Records a second.
    rate: int
    warm_up_s: float = 4.0
    measured_s: float = 10.0

    @property
    def name(self) -> str:
        """Name of the test."""
        return f"{self.sink}-{self.partitions}-{self.volumes.replace(' ', '')}-{self.rate}"

    @property
    def volumes(self) -> str:
        """Name of the law."""
        return f"zipf {self.zipf:g}" if self.zipf else "equal"

    @property
    def first(self) -> int:
        """Records that are there before the query starts: an upsert's keys, or a few."""
        return KEYS if self.sink == "upsert" else 20


def run(
    spark: SparkSession, servers: str, cell: Cell, options: Mapping[str, str], folder: Path
) -> dict[str, Any]:
    """Run a query over the load of a cell; give the percentiles of its rows' ages."""
    topic = Topic(servers, f"fresh-{uuid4().hex[:8]}")
    topic.create(cell.partitions, {"segment.index.bytes": "65536"})
    load = Load(servers, topic.name, cell.partitions, cell.zipf, cell.rate, cell.first)
    table = folder / topic.name / "table"
    with LoadProcess(load) as producer:
        query, stop = _start(spark, topic, cell, options, table)
        try:
            _wait_for(query, cell.first)
            producer.begin()
            from_s = time.time() + cell.warm_up_s
            time.sleep(cell.warm_up_s + cell.measured_s)
            written = producer.end()
            _wait_for(query, written["records"])
            batches = _batches(query)
        finally:
            stop()
    if "assignor" in options:
        assert_planned(batches)
    assert sum(batch["numInputRows"] for batch in batches) == written["records"]
    rows = spark.read.format("delta").load(str(table)).count()
    assert rows == (KEYS if cell.sink == "upsert" else written["records"])
    ages = _ages(batches, _commits(table), _stamps(topic, cell.partitions), from_s)
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([topic.name])[topic.name].result(30)
    p50, p95, p99 = (float(p) for p in np.percentile(ages, (50, 95, 99)))
    seconds = [batch["durationMs"]["triggerExecution"] / 1000 for batch in batches]
    return {
        "p50_s": p50,
        "p95_s": p95,
        "p99_s": p99,
        "max_s": float(ages.max()),
        "rows": len(ages),
        "batches": len(batches),
        "batch_s_median": float(np.median(seconds)),
        "producer_behind_s": float(written["most_behind_s"]),
    }


def _start(
    spark: SparkSession, topic: Topic, cell: Cell, options: Mapping[str, str], table: Path
) -> tuple[StreamingQuery, Callable[[], None]]:
    """Start the query: a job as of `assignor run`, or for Spark's append Delta's own sink."""
    checkpoint = str(table.parent / "checkpoint")
    if cell.sink == "append" and "assignor" not in options:
        query = (
            read_topic(spark, topic, options)
            .selectExpr(f"from_json(CAST(value AS STRING), '{_SCHEMA}') AS row")
            .select("row.*")
            .writeStream.format("delta")
            .option("checkpointLocation", checkpoint)
            .start(str(table))
        )
        return query, query.stop
    source = {
        "kafka.bootstrap.servers": topic.bootstrap_servers,
        "subscribe": topic.name,
        "records": {"format": "json", "schema": _SCHEMA},
        "assignor": "none",
    }
    keys = {"mode": "upsert", "keys": "key"} if cell.sink == "upsert" else {}
    job = {
        "name": topic.name,
        "source": source | dict(options),
        "sink": {"path": str(table), **keys},
        "checkpoint": checkpoint,
        "trigger": "processingTime 0 seconds",
    }
    if "assignor" in options:
        spark.conf.set(*_LOCAL_FILES)
    try:
        running = start_job(spark, job)
    finally:
        spark.conf.unset(_LOCAL_FILES[0])
    [query] = running.queries
    return query, running.stop


def _batches(query: StreamingQuery) -> list[dict[str, Any]]:
    assert query.exception() is None, str(query.exception())
    return [as_dict(p) for p in query.recentProgress if p.numInputRows]


def _wait_for(query: StreamingQuery, rows: int) -> None:
    def read() -> bool:
        return sum(batch["numInputRows"] for batch in _batches(query)) >= rows

    wait_until(read, f"{rows} rows", _LIMIT_S)


def _commits(table: Path) -> dict[int, float]:
    """Give the time of each batch's commit, in seconds since 1970."""
    found = {}
    for file in (table / "_delta_log").glob("*.json"):
        for line in file.read_text(encoding="utf-8").splitlines():
            if "txn" in (action := json.loads(line)):
                found[int(action["txn"]["version"])] = file.stat().st_mtime
    return found


def _stamps(topic: Topic, partitions: int) -> list[NDArray[np.float64]]:
    """Give Kafka's timestamps of all records by partition and offset, in seconds."""
    consumer = Consumer({"bootstrap.servers": topic.bootstrap_servers, "group.id": "stamps"})
    found: list[list[int]] = [[] for _ in range(partitions)]
    try:
        each = [TopicPartition(topic.name, p, OFFSET_BEGINNING) for p in range(partitions)]
        left = sum(consumer.get_watermark_offsets(tp, timeout=30)[1] for tp in each)
        consumer.assign(each)
        deadline = time.monotonic() + _LIMIT_S
        while left and time.monotonic() < deadline:
            for message in consumer.consume(10_000, timeout=1):
                assert message.error() is None, message.error()
                found[message.partition() or 0].append(message.timestamp()[1])
                left -= 1
        assert left == 0, f"{left} records could not be read"
    finally:
        consumer.close()
    return [np.array(stamps, dtype=np.float64) / 1000 for stamps in found]


def _ages(
    batches: Sequence[dict[str, Any]],
    commits: Mapping[int, float],
    stamps: Sequence[NDArray[np.float64]],
    from_s: float,
) -> NDArray[np.float64]:
    """Give the ages of all rows whose records were made after a time."""
    found = []
    for batch in batches:
        [source] = batch["sources"]
        [ends] = source["endOffset"].values()
        [starts] = (source["startOffset"] or {"": {}}).values()
        committed = commits[batch["batchId"]]
        made = np.concatenate([stamps[int(p)][starts.get(p, 0) : end] for p, end in ends.items()])
        found.append(committed - made[made >= from_s])
        told = source["metrics"].get("assignor.freshnessSecondsMax")
        if told is not None:  # a batch is complete after its commit, and that is what it tells
            assert committed - made.min() <= float(told) + 0.01
    ages = np.concatenate(found)
    assert ages.min() >= 0
    return ages
