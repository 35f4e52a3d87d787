"""One run of the freshness benchmark: a query, a producer at a steady rate, the age of each row."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import numpy as np
from confluent_kafka.admin import AdminClient
from pyspark.sql import functions as f

from streaming import delta_sink
from streaming.pipeline.job_run import start_job
from streaming.pipeline.spark.records import KAFKA_ORDER
from tests.lab.benchmarks.freshness_load import KEYS, Load, LoadProcess
from tests.lab.benchmarks.row_ages import ages, commit_times, timestamps
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import assert_planned, read_topic, to_dict, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from streaming.pipeline.job_run import RunningJob

_SCHEMA = "key BIGINT, id BIGINT"
_LIMIT_S = 400.0
#: What `assignor run` sets where Spark runs on one machine, and a session for all ways cannot have.
_LOCAL_FILES = ("fs.AbstractFileSystem.file.impl", "io.assignorbridge.LocalFiles")


@dataclass(frozen=True)
class Way:
    """How a query reads, and who writes its rows."""

    options: Mapping[str, str]
    #: `job`: as of `assignor run`; `delta`: Delta's own sink; `delta_sink`: ours by foreachBatch.
    sink: Literal["job", "delta", "delta_sink"]
    #: Tasks that partitions are gathered into; 0 for none.
    coalesce: int = 0


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
    measured_s: float = 60.0

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


def run(spark: SparkSession, servers: str, cell: Cell, way: Way, folder: Path) -> dict[str, Any]:
    """Run a query over the load of a cell; give the percentiles of its rows' ages."""
    topic = Topic(servers, f"fresh-{uuid4().hex[:8]}")
    topic.create(cell.partitions, {"segment.index.bytes": "65536"})
    load = Load(servers, topic.name, cell.partitions, cell.zipf, cell.first)
    table = folder / topic.name / "table"
    with LoadProcess(load) as producer:
        query, stop = _start(spark, topic, cell, way, table)
        try:
            wait_for(query, cell.first)
            producer.write_at(cell.rate)
            from_s = time.time() + cell.warm_up_s
            time.sleep(cell.warm_up_s + cell.measured_s)
            written = producer.end()
            wait_for(query, written["records"])
            batches = batches_of(query)
        finally:
            stop()
    if "assignor" in way.options:
        assert_planned(batches)
    assert sum(batch["numInputRows"] for batch in batches) == written["records"]
    rows = spark.read.format("delta").load(str(table)).count()
    assert rows == (KEYS if cell.sink == "upsert" else written["records"])
    stamps = {topic.name: timestamps(topic, cell.partitions)}
    made, old = ages(batches, commit_times(table), stamps)
    since = old[made >= from_s]
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([topic.name])[topic.name].result(30)
    p50, p95, p99 = (float(p) for p in np.percentile(since, (50, 95, 99)))
    seconds = [batch["durationMs"]["triggerExecution"] / 1000 for batch in batches]
    return {
        "p50_s": p50,
        "p95_s": p95,
        "p99_s": p99,
        "max_s": float(since.max()),
        "rows": len(since),
        "batches": len(batches),
        "batch_s_median": float(np.median(seconds)),
        "producer_behind_s": float(written["most_behind_s"]),
    }


def _start(
    spark: SparkSession, topic: Topic, cell: Cell, way: Way, table: Path
) -> tuple[StreamingQuery, Callable[[], None]]:
    keys = {"mode": "upsert", "keys": "key"} if cell.sink == "upsert" else {}
    if way.sink == "job":
        if "assignor" in way.options:
            spark.conf.set(*_LOCAL_FILES)
        try:
            running = job_started(
                spark, topic.bootstrap_servers, topic.name, way.options, table, **keys
            )
        finally:
            spark.conf.unset(_LOCAL_FILES[0])
        [query] = running.queries
        return query, running.stop
    rows = read_topic(spark, topic, way.options).withColumn(
        "row", f.from_json(f.col("value").cast("string"), _SCHEMA)
    )
    rows = rows.select("row.*", *(KAFKA_ORDER if keys else ()))
    if way.coalesce:
        rows = rows.coalesce(way.coalesce)
    if way.sink == "delta":
        writer = rows.writeStream.format("delta").option("path", str(table))
    else:
        writer = rows.writeStream.foreachBatch(delta_sink(rows, path=str(table), **keys))
    query = writer.option("checkpointLocation", str(table.parent / "checkpoint")).start()
    return query, query.stop


def job_started(
    spark: SparkSession, servers: str, topics: str, options: Mapping[str, str], table: Path,
    *, sql: str | None = None, **sink: str,
) -> RunningJob:  # fmt: skip
    """Start a job as of `assignor run`; over Spark's mapping if options name no assignor."""
    source = {
        "kafka.bootstrap.servers": servers,
        "subscribe": topics,
        "records": {"format": "json", "schema": _SCHEMA},
        "assignor": "none",
    }
    job = {
        "name": table.parent.name,
        "source": source | dict(options),
        "sink": {"path": str(table), **sink},
        "checkpoint": str(table.parent / "checkpoint"),
        "trigger": "processingTime 0 seconds",
    }
    return start_job(spark, job | ({"transform": {"sql": sql}} if sql else {}))


def batches_of(query: StreamingQuery) -> list[dict[str, Any]]:
    """Give the progresses of batches with records."""
    assert query.exception() is None, str(query.exception())
    return [to_dict(p) for p in query.recentProgress if p.numInputRows]


def wait_for(query: StreamingQuery, rows: int) -> None:
    """Wait until a query has read so many rows."""

    def read() -> bool:
        return sum(batch["numInputRows"] for batch in batches_of(query)) >= rows

    wait_until(read, f"{rows} rows", _LIMIT_S)
