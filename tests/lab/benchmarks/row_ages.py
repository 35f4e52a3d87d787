"""The age of each row: the time of its commit in the Delta table minus its record's timestamp.

The time of a commit is the modification time of Delta's log file (what DESCRIBE HISTORY tells).
Which rows a commit brought is known from its batch's number, which Delta notes, and from the
batch's offsets.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from tests.support.kafka_topics import Topic

    Floats = NDArray[np.float64]

_LIMIT_S = 400.0


def commit_times(table: Path) -> dict[int, float]:
    """Give the time of each batch's commit, in seconds since 1970."""
    found = {}
    for file in (table / "_delta_log").glob("*.json"):
        for line in file.read_text(encoding="utf-8").splitlines():
            if "txn" in (action := json.loads(line)):
                found[int(action["txn"]["version"])] = file.stat().st_mtime
    return found


def timestamps(topic: Topic, partitions: int) -> list[Floats]:
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


def ages(
    batches: Sequence[dict[str, Any]],
    commits: Mapping[int, float],
    stamps: Mapping[str, Sequence[Floats]],
) -> tuple[Floats, Floats]:
    """Give when the records of these topics were made, and how old each was at its commit."""
    made: list[Floats] = [np.empty(0)]
    old: list[Floats] = [np.empty(0)]
    for batch in batches:
        [source] = batch["sources"]
        starts = source["startOffset"] or {}
        of_batch = [
            of_topic[int(p)][starts.get(topic, {}).get(p, 0) : end]
            for topic, of_topic in stamps.items()
            for p, end in source["endOffset"][topic].items()
        ]
        made.append(np.concatenate(of_batch))
        old.append(commits[batch["batchId"]] - made[-1])
        oldest = source["metrics"].get("assignor.freshnessSecondsMax")
        if oldest is not None and len(old[-1]):  # a batch is complete after its commit
            assert old[-1].max() <= float(oldest) + 0.01
    age = np.concatenate(old)
    assert age.min(initial=0.0) >= 0
    return np.concatenate(made), age
