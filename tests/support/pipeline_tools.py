"""Write records to a topic, create a job's config, and read its table, for pipeline tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.support.kafka_topics import Topic

SCHEMA = "id BIGINT, seq BIGINT, name STRING"


def send(topic: Topic, records: Iterable[tuple[str | None, str | None]]) -> None:
    """Write records with these keys and values, and wait for their delivery."""
    producer = Producer({"bootstrap.servers": topic.bootstrap_servers})
    for key, value in records:
        producer.produce(
            topic.name,
            value.encode() if value is not None else None,
            key.encode() if key is not None else None,
        )
    assert producer.flush(60) == 0


def send_at(topic: Topic, records: Iterable[tuple[str, str | None, int, int]]) -> None:
    """Write keys and values to partitions, with timestamps in milliseconds."""
    producer = Producer({"bootstrap.servers": topic.bootstrap_servers})
    for key, value, partition, timestamp in records:
        content = value.encode() if value is not None else None
        producer.produce(
            topic.name, content, key.encode(), partition=partition, timestamp=timestamp
        )
        assert producer.flush(60) == 0


def job(topic: Topic, folder: Path, **sink: Any) -> dict[str, Any]:
    """Return the config of a job from a JSON topic to a Delta table in `folder`."""
    if "table" not in sink:
        sink = {"path": str(folder / "table"), **sink}
    return {
        "name": topic.name.replace(".", "-"),
        "source": {
            "kafka.bootstrap.servers": topic.bootstrap_servers,
            "subscribe": topic.name,
            "records": {"format": "json", "schema": SCHEMA},
        },
        "sink": sink,
        "checkpoint": str(folder / "checkpoint"),
    }


def rows(spark: SparkSession, folder: Path, *columns: str) -> list[tuple[Any, ...]]:
    table = spark.read.format("delta").load(str(folder))
    return sorted(tuple(row) for row in table.select(*columns).collect())


def forget_last_commit(checkpoint: Path) -> None:
    """Delete the last commit, as if the query had crashed before it committed the last batch."""
    last = max(int(f.name) for f in (checkpoint / "commits").iterdir() if f.name.isdigit())
    (checkpoint / "commits" / str(last)).unlink()
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)
