"""Read a topic with the shared reader or Spark's own source, and read the readers' counters."""

from __future__ import annotations

import json
import re
import tempfile
import uuid
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from pyspark.errors import StreamingQueryException

from tests.support.spark_tools import read_topic, wait_for_end, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from tests.support.kafka_topics import Topic

OURS = {"assignor": "lag-aware-sticky", "assignor.reader": "shared", "assignor.onError": "fail"}
SPARKS = {"kafka.fetch.max.wait.ms": "10"}  # the default adds 0.5 s per partition

AVAILABLE_NOW: Mapping[str, Any] = {"availableNow": True}
CONTINUALLY: Mapping[str, Any] = {"processingTime": "0 seconds"}

COLUMNS = (
    "partition", "offset", "CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value",
    "topic", "timestamp", "timestampType",
)  # fmt: skip


def read_available_rows(
    spark: SparkSession,
    topic: Topic,
    source: Mapping[str, str],
    checkpoint: str | None = None,
    columns: Sequence[str] = COLUMNS,
    *,
    trigger: Mapping[str, Any] = AVAILABLE_NOW,
) -> list[tuple[Any, ...]]:
    """Read all records with one query; return the rows, sorted by partition and offset."""
    with tempfile.TemporaryDirectory() as scratch:
        frame = read_topic(spark, topic, source).selectExpr(*columns)
        written = f"{scratch}/rows"
        query = start(frame, checkpoint or f"{scratch}/checkpoint", written, trigger)
        if trigger == AVAILABLE_NOW:
            wait_for_end(query)
        else:
            try:
                query.processAllAvailable()
            finally:
                query.stop()
        rows = spark.read.parquet(written).collect()
    return sorted(map(_to_plain, rows), key=lambda row: row[:2])


def start(
    frame: DataFrame, checkpoint: str, folder: str | None, trigger: Mapping[str, Any]
) -> StreamingQuery:
    """Start a query that writes Parquet files, or nothing if `folder` is None."""
    writer = frame.writeStream.option("checkpointLocation", checkpoint).trigger(**trigger)
    return writer.format("parquet").start(folder) if folder else writer.format("noop").start()


def read_until_failure(
    spark: SparkSession,
    topic: Topic,
    source: Mapping[str, str],
    checkpoint: str | None = None,
    *,
    trigger: Mapping[str, Any] = AVAILABLE_NOW,
) -> str:
    """Read all records, which must fail; return the error without the parts that differ per run."""
    try:
        rows = read_available_rows(spark, topic, source, checkpoint, trigger=trigger)
    except StreamingQueryException as error:
        return find_root_cause(error)
    raise AssertionError(f"no failure, but {len(rows)} rows")


def wait_for_failure(query: StreamingQuery) -> str:
    try:
        wait_for_end(query)
    except StreamingQueryException as error:
        return find_root_cause(error)
    raise AssertionError("the query did not fail")


def find_root_cause(error: Any) -> str:
    """Return class and text of the first Kafka error in the chain, or of the last error."""
    chain = []
    cause = error._origin
    while cause is not None and not (chain and "kafka010" in chain[-1]):
        chain.append(f"{cause.getClass().getName()}: {cause.getMessage()}")
        cause = cause.getCause()
    return re.sub(r"spark-kafka-source-\S+?-executor", "GROUP", chain[-1])


def plan_without_reading(
    spark: SparkSession, topic: Topic, source: Mapping[str, str], checkpoint: str
) -> None:
    """Create a checkpoint whose first batch was planned and logged, but failed."""
    frame = read_topic(spark, topic, source).selectExpr("raise_error('planned only') AS x")
    try:
        wait_for_end(start(frame, checkpoint, None, AVAILABLE_NOW))
    except StreamingQueryException as error:
        assert "planned only" in str(error)  # noqa: PT017
        return
    raise AssertionError("the query did not fail")


def read_counters(spark: SparkSession) -> dict[str, int]:
    """Return the sums of both executors' ReaderCounters."""
    counters: dict[str, dict[str, int]] = {}

    def read_both() -> bool:
        frame = spark.range(0, 4, 1, 4).selectExpr(
            "java_method('io.assignorbridge.reader.ReaderCounters', 'json') AS figures",
            "java_method('java.lang.ProcessHandle', 'current') AS process",
        )
        counters.update({row.process: json.loads(row.figures) for row in frame.collect()})
        return len(counters) >= 2

    wait_until(read_both, "counters of two executors")
    names = next(iter(counters.values())).keys()
    return {name: sum(c[name] for c in counters.values()) for name in names}


def delete_before(topic: Topic, offsets: Mapping[int, int]) -> None:
    """Delete the records of partitions below offsets, as retention does."""
    admin = AdminClient({"bootstrap.servers": topic.bootstrap_servers})
    begins = [TopicPartition(topic.name, p, offset) for p, offset in offsets.items()]
    for future in admin.delete_records(begins).values():
        future.result(30)


def recreate(topic: Topic, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": topic.bootstrap_servers})
    admin.delete_topics([topic.name])[topic.name].result(30)
    wait_until(
        lambda: topic.name not in admin.list_topics(timeout=10).topics, "the topic to be gone"
    )
    topic.create(partitions)


def compact(topic: Topic, partitions: int, keys: int, rounds: int) -> None:
    """Create a compacted topic, write each key in each round, and wait for compaction."""
    admin = AdminClient({"bootstrap.servers": topic.bootstrap_servers})
    sooner = ConfigEntry(
        "log.cleaner.backoff.ms", "200", incremental_operation=AlterConfigOpType.SET
    )
    the_broker = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[sooner])
    admin.incremental_alter_configs([the_broker])[the_broker].result(30)
    topic.create(
        partitions,
        {"cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.01"},
    )
    producer = Producer({"bootstrap.servers": topic.bootstrap_servers, "linger.ms": 5})

    def write(number: int, key: bytes) -> None:
        for partition in range(partitions):
            producer.produce(topic.name, b"%d" % number, key=key, partition=partition)

    for number in range(rounds):
        for key in range(keys):
            write(number, b"k%d" % (key if number % 3 else key // 2))
    assert producer.flush(30) == 0

    def is_compacted() -> bool:
        write(
            0, b"filler"
        )  # closes the segment after segment.ms; only closed segments are compacted
        assert producer.flush(30) == 0
        return all(
            _find_first_offset(topic, p, "k1") > 0.5 * keys * rounds for p in range(partitions)
        )

    wait_until(is_compacted, "compaction", 120)
    from_now = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic.name, incremental_configs=[from_now])
    admin.incremental_alter_configs([resource])[resource].result(
        30
    )  # so that all readers see the same log


def _find_first_offset(topic: Topic, partition: int, key: str) -> int:
    """Return the offset of the first remaining record with the key."""
    consumer = Consumer({"bootstrap.servers": topic.bootstrap_servers, "group.id": "tests"})
    try:
        consumer.assign([TopicPartition(topic.name, partition, OFFSET_BEGINNING)])
        while (message := consumer.poll(10)) is not None:
            if message.key() == key.encode():
                return int(message.offset())
    finally:
        consumer.close()
    raise AssertionError(f"no record of {key}")


def fill_in_batches(topic: Topic, counts: Sequence[int], batches: int, padding: int = 0) -> None:
    """Fill the topic like `Topic.fill`, but in small producer batches, to allow small fetches."""
    producer = Producer({"bootstrap.servers": topic.bootstrap_servers, "linger.ms": 500})
    pad = b" " * padding
    for batch in range(batches):
        for partition, count in enumerate(counts):
            for number in range(count * batch // batches, count * (batch + 1) // batches):
                value = b"%d/%d" % (partition, number)
                producer.produce(topic.name, value + pad, partition=partition)
        assert producer.flush(60) == 0


def create_transactional_producer(
    topic: Topic, settings: Mapping[str, Any] | None = None
) -> Producer:
    own = {"bootstrap.servers": topic.bootstrap_servers, "transactional.id": uuid.uuid4().hex}
    producer = Producer(own | dict(settings or {}))
    producer.init_transactions(30)
    return producer


def send(producer: Producer, topic: Topic, partition: int, values: Sequence[str]) -> None:
    """Write values in this order, and wait for their delivery."""
    for value in values:
        producer.produce(topic.name, value.encode(), key=b"k" + value.encode(), partition=partition)
    assert producer.flush(30) == 0


def _to_plain(row: Any) -> tuple[Any, ...]:
    return tuple(tuple(map(tuple, v)) if isinstance(v, list) else v for v in row)
