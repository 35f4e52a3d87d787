"""The shared reader gives the rows that Spark's own reader gives, whatever the log looks like."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from tests.support.shared_reader_tools import (
    COLUMNS,
    OURS,
    SPARKS,
    compact,
    create_transactional_producer,
    read_available_rows,
    read_counters,
    send,
)
from tests.support.spark_tools import read_topic, wait_for_end

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.support.kafka_topics import Topic

pytestmark = pytest.mark.integration

READ_COMMITTED = {"kafka.isolation.level": "read_committed"}
LARGE_BATCHES = {"batch.size": 2_000_000, "message.max.bytes": 4_000_000, "linger.ms": 1_000}


def assert_same_rows(
    spark: SparkSession, topic: Topic, columns: tuple[str, ...] = COLUMNS, **options: str
) -> list[tuple[Any, ...]]:
    named = {name.replace("_", "."): value for name, value in options.items()}
    ours = read_available_rows(spark, topic, {**OURS, **named}, columns=columns)
    sparks = read_available_rows(spark, topic, {**SPARKS, **named}, columns=columns)
    assert ours == sparks
    return ours


def test_keys_values_nulls_timestamps_and_headers(spark: SparkSession, topic: Topic) -> None:
    topic.create(3)
    producer = Producer({"bootstrap.servers": topic.bootstrap_servers})
    now_ms = int(time.time() * 1000)  # older records would be retention's
    for i in range(30):
        producer.produce(
            topic.name,
            None if i % 7 == 0 else f"v{i}".encode(),
            key=None if i % 5 == 0 else f"k{i}".encode(),
            partition=i % 3,
            timestamp=now_ms + i,
            headers=[("a", b"1"), ("a", None)] if i % 2 else None,
        )
    producer.flush(30)
    rows = assert_same_rows(spark, topic, (*COLUMNS, "headers"), includeHeaders="true")
    assert len(rows) == 30
    assert rows[0][0] == 0
    assert rows[1][-1] == (("a", bytearray(b"1")), ("a", None))


@pytest.fixture
def with_transactions(topic: Topic) -> Topic:
    """Committed, aborted and an open transaction, and plain records before and after."""
    topic.create(2)
    plain = Producer({"bootstrap.servers": topic.bootstrap_servers})
    for partition in (0, 1):
        send(plain, topic, partition, [f"plain{i}" for i in range(3)])
        committed = create_transactional_producer(topic)
        committed.begin_transaction()
        send(committed, topic, partition, [f"committed{i}" for i in range(4)])
        committed.commit_transaction(30)
        committed.begin_transaction()
        send(committed, topic, partition, [f"aborted{i}" for i in range(5)])
        committed.abort_transaction(30)
    send(plain, topic, 0, ["last"])  # partition 1 ends with aborted records and their marker
    return topic


@pytest.mark.parametrize("limit", ["100", "4"])
def test_transactions_read_committed(
    spark: SparkSession, with_transactions: Topic, limit: str
) -> None:
    ours = {**OURS, **READ_COMMITTED, "maxOffsetsPerTrigger": limit}
    rows = read_available_rows(spark, with_transactions, ours)
    assert [row[3] for row in rows if row[0] == 0] == [
        "plain0", "plain1", "plain2",
        "committed0", "committed1", "committed2", "committed3",
        "last",
    ]  # fmt: skip
    assert [row[3] for row in rows if row[0] == 1][-1] == "committed3"
    assert rows == read_available_rows(spark, with_transactions, {**SPARKS, **READ_COMMITTED})


def test_transactions_read_uncommitted(spark: SparkSession, with_transactions: Topic) -> None:
    rows = assert_same_rows(spark, with_transactions)
    assert sum(row[3].startswith("aborted") for row in rows) == 10


def test_an_open_transaction_ends_the_range(spark: SparkSession, topic: Topic) -> None:
    topic.create(1)
    producer = create_transactional_producer(topic)
    producer.begin_transaction()
    send(producer, topic, 0, ["done"])
    producer.commit_transaction(30)
    producer.begin_transaction()
    send(producer, topic, 0, ["open"])
    try:
        rows = assert_same_rows(spark, topic, **{"kafka.isolation.level": "read_committed"})
        assert [row[3] for row in rows] == ["done"]
    finally:
        producer.abort_transaction(30)


@pytest.mark.parametrize("limit", ["100000", pytest.param("61", marks=pytest.mark.long)])
def test_a_compacted_topic(spark: SparkSession, topic: Topic, limit: str) -> None:
    compact(topic, partitions=2, keys=20, rounds=40)
    rows = read_available_rows(spark, topic, {**OURS, "maxOffsetsPerTrigger": limit})
    assert rows == read_available_rows(spark, topic, SPARKS)
    offsets = [row[1] for row in rows if row[0] == 0]
    assert offsets[-1] + 1 > len(offsets), "a log without gaps tests nothing"


def test_one_task_reads_pieces_of_one_partition(spark: SparkSession, topic: Topic) -> None:
    topic.create(1).fill([5_000])
    rows = read_available_rows(spark, topic, {**OURS, "assignor.maxRecordsPerTask": "700"})
    assert [row[1] for row in rows] == list(range(5_000))


def test_small_batches_deliver_what_was_polled_ahead(spark: SparkSession, topic: Topic) -> None:
    topic.create(4).fill([400, 300, 200, 100])
    rows = read_available_rows(spark, topic, {**OURS, "maxOffsetsPerTrigger": "97"})
    assert [(row[0], row[1]) for row in rows] == [
        (partition, offset) for partition in range(4) for offset in range(400 - 100 * partition)
    ]


def test_a_limit_ends_the_reader_early(
    spark: SparkSession, topic: Topic, checkpoint: str, tmp_path: Path
) -> None:
    topic.create(2).fill([2_000, 2_000])
    rows = read_topic(spark, topic, {**OURS, "maxOffsetsPerTrigger": "400"})
    folder = str(tmp_path / "limited")

    def write_ten(batch: DataFrame, _: int) -> None:
        if not batch.isEmpty():
            batch.limit(10).write.mode("append").parquet(folder)

    before = read_counters(spark)
    writer = rows.writeStream.foreachBatch(write_ten).option("checkpointLocation", checkpoint)
    wait_for_end(writer.trigger(availableNow=True).start())
    after = read_counters(spark)
    assert spark.read.parquet(folder).count() == 100
    slots = spark.sparkContext.defaultParallelism
    assert after["created"] - before["created"] <= slots, "a limit costs a consumer"
    assert len(read_available_rows(spark, topic, OURS)) == 4_000


def test_each_offset_comes_once_when_the_client_is_replaced_within_a_task(
    spark: SparkSession, topic: Topic
) -> None:
    partitions, records = 20, 14
    topic.create(partitions, {"max.message.bytes": "4000000"})
    producer = create_transactional_producer(topic, LARGE_BATCHES)
    values = [random.Random(n).randbytes(100_000) for n in range(records)]
    for number in range(3):  # 1.4 MB each to a partition, more than the 1 MiB that is asked for
        producer.begin_transaction()
        for partition in range(partitions):
            for value in values:
                producer.produce(topic.name, value, partition=partition)
        if number == 1:
            assert producer.flush(60) == 0
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
    before = read_counters(spark)
    # Batches end within a producer's batch, so that records are kept for the next one.
    named = {**OURS, **READ_COMMITTED, "maxOffsetsPerTrigger": str(partitions * 20)}
    rows = read_available_rows(spark, topic, named, columns=("partition", "offset"))
    after = read_counters(spark)
    visible = [*range(records), *range(2 * records + 2, 3 * records + 2)]
    assert rows == [(p, offset) for p in range(partitions) for offset in visible]
    assert after["replaced"] > before["replaced"]
    assert after["handedOver"] == before["handedOver"]
