"""A row that shows its record is the row of Spark's own source, whatever a query does with it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from pyspark.sql.functions import udf

from tests.support.shared_reader_tools import AVAILABLE_NOW, OURS, SPARKS
from tests.support.spark_tools import assert_planned, read_topic, to_dict, wait_for_end

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.support.kafka_topics import Topic

pytestmark = pytest.mark.integration

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(params=["compiled", pytest.param("interpreted", marks=pytest.mark.long)])
def session(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    """The session, with whole-stage code generation and without any."""
    settings = INTERPRETED if request.param == "interpreted" else {}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield spark
    for key in settings:
        spark.conf.unset(key)


def describe(value: bytes | None, timestamp: Any) -> str:
    return f"{value!r} at {timestamp}"


def results(frame: DataFrame) -> dict[str, list[Any]]:
    """The rows of a batch after each of the operations that keep rows for later."""
    cached = frame.persist()
    try:
        later = cached.filter("partition >= 0").collect()
    finally:
        cached.unpersist(blocking=True)
    found = {
        "collected": frame.collect(),
        "cached": later,
        "shuffled": frame.repartition(3, "offset").collect(),
        "sorted": frame.orderBy("timestamp", "partition", "offset").collect(),
        "of a Python function": frame.select(
            "partition", "offset", udf(describe, "string")("value", "timestamp").alias("text")
        ).collect(),
        "joined": frame.alias("a")
        .join(frame.select("partition", "offset", "key").alias("b"), ["partition", "offset"])
        .collect(),
        "narrow": frame.select("offset", "partition", "topic").collect(),
        "distinct": frame.select("partition", "offset", "value").distinct().collect(),
    }
    place = lambda row: (row["partition"], row["offset"])  # noqa: E731
    return {
        name: rows if name == "sorted" else sorted(rows, key=place) for name, rows in found.items()
    }


def read(
    spark: SparkSession, topic: Topic, folder: Path, options: Mapping[str, str]
) -> dict[str, list[Any]]:
    found: list[dict[str, list[Any]]] = []
    query = (
        read_topic(spark, topic, options)
        .writeStream.foreachBatch(lambda frame, _: found.append(results(frame)))
        .option("checkpointLocation", str(folder))
        .trigger(**AVAILABLE_NOW)
        .start()
    )
    wait_for_end(query)
    if "assignor" in options:
        assert_planned([to_dict(progress) for progress in query.recentProgress])
    [one] = found
    return one


def test_rows_are_those_of_sparks_source(
    session: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.create(3)
    producer = Producer({"bootstrap.servers": topic.bootstrap_servers})
    now_ms = int(time.time() * 1000)
    for i in range(300):
        producer.produce(
            topic.name,
            None if i % 7 == 0 else b"v%d" % i * (i % 11),
            key=None if i % 5 == 0 else b"k%d" % i,
            partition=i % 3,
            timestamp=now_ms + i * 37 % 100,
            headers=[[], [("a", b"1"), ("a", None)], [("é", b"")]][i % 3 if i % 2 else 0],
        )
    producer.flush(30)
    whole = {"includeHeaders": "true"}
    ours = read(session, topic, tmp_path / "ours", {**OURS, **whole})
    sparks = read(session, topic, tmp_path / "sparks", {**SPARKS, **whole})
    assert ours == sparks
    assert all(len(rows) == 300 for rows in ours.values())
