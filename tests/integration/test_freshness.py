"""How old the records of a batch are when it is complete, by timestamps that the test chose."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from tests.support.shared_reader_tools import CONTINUALLY, start
from tests.support.spark_tools import (
    assert_planned,
    read_topic,
    run_in_batches,
    to_dict,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from tests.support.kafka_topics import Topic

pytestmark = pytest.mark.integration

NEWEST, OLDEST = "assignor.freshnessSeconds", "assignor.freshnessSecondsMax"


def write(topic: Topic, stamps: Mapping[int, Sequence[float]]) -> None:
    """Write a record to each partition for each of its timestamps, in seconds since 1970."""
    producer = Producer({"bootstrap.servers": topic.bootstrap_servers, "linger.ms": 50})
    for partition, of_partition in stamps.items():
        for stamp in of_partition:
            millis = round(stamp * 1000)
            producer.produce(topic.name, b"x", partition=partition, timestamp=millis)
    assert producer.flush(30) == 0


def ages(batch: dict[str, Any]) -> tuple[float, float]:
    """Give the ages of the newest and of the oldest record."""
    [source] = batch["sources"]
    return float(source["metrics"][NEWEST]), float(source["metrics"][OLDEST])


@pytest.mark.parametrize("reader", ["shared", "spark"])
def test_each_batch_tells_how_old_its_newest_and_oldest_records_are(
    spark: SparkSession, topic: Topic, checkpoint: str, reader: str
) -> None:
    """In any order; neither those that were fetched ahead, nor those of the batch before."""
    topic.create(2)
    began = time.time()
    stamps = {p: [began - 90_000 * (p + 1) + n * 37 % 60 for n in range(60)] for p in (0, 1)}
    write(topic, stamps)

    batches, rows = run_in_batches(spark, topic, checkpoint, assignor_reader=reader)

    took = time.time() - began
    assert rows == 120
    assert len(batches) == 3
    assert_planned(batches)
    for batch in batches:
        [source] = batch["sources"]
        end = source["endOffset"][topic.name]
        first = (source["startOffset"] or {}).get(topic.name, {})
        read = [s for p in (0, 1) for s in stamps[p][first.get(str(p), 0) : end[str(p)]]]
        newest, oldest = ages(batch)
        assert began - max(read) - 0.002 <= newest <= began - max(read) + took + 0.002
        assert oldest - newest == pytest.approx(max(read) - min(read), abs=0.002)


def test_the_brokers_timestamps_count_where_the_topic_has_them(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    topic.create(1, {"message.timestamp.type": "LogAppendTime"})
    began = time.time()
    write(topic, {0: [began - 90_000] * 30})
    [batch], _ = run_in_batches(spark, topic, checkpoint)
    newest, oldest = ages(batch)
    assert 0 <= newest <= oldest <= time.time() - began


def test_a_timestamp_of_the_future_counts_as_no_age(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    topic.create(1)
    began = time.time()
    write(topic, {0: [began + 3000, began - 500]})
    [batch], _ = run_in_batches(spark, topic, checkpoint)
    newest, oldest = ages(batch)
    assert newest == 0
    assert 500 - 0.002 <= oldest <= 500 + time.time() - began


def test_an_idle_query_tells_no_age(spark: SparkSession, topic: Topic, checkpoint: str) -> None:
    topic.create(1)
    write(topic, {0: [time.time() - 5] * 10})
    interval = "spark.sql.streaming.noDataProgressEventInterval"
    before = spark.conf.get(interval)
    spark.conf.set(interval, "100ms")
    query = start(
        read_topic(spark, topic, {"assignor": "lag-aware-sticky"}), checkpoint, None, CONTINUALLY
    )
    try:
        query.processAllAvailable()

        def told_twice() -> list[dict[str, Any]]:
            found = [to_dict(progress) for progress in query.recentProgress]
            return found if sum(not p["numInputRows"] for p in found) >= 2 else []

        progresses = wait_until(told_twice, "two idle progresses")
        write(topic, {0: [time.time() - 5] * 10})
        query.processAllAvailable()
        progresses = [to_dict(progress) for progress in query.recentProgress]
    finally:
        query.stop()
        spark.conf.set(interval, before)
    assert_planned(progresses)
    assert sum(p["numInputRows"] for p in progresses) == 20
    for progress in progresses:
        has_age = {name in progress["sources"][0]["metrics"] for name in (NEWEST, OLDEST)}
        assert has_age == {progress["numInputRows"] > 0}
