"""When the first unread record of each lagging partition was written.

One consumer asks for all partitions at once, so a broker answers many of them in one response, and
drops each partition at its first record. All of it has one time limit: what has not come by then
stays unknown. Nothing is committed and no group is joined.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, TopicPartition

from streaming.kafka.brokers import add_failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streaming.kafka.brokers import Failure, Partition
    from streaming.kafka.settings import ClientSettings

#: Bytes that a response may hold of a partition: most first batches fit, thousands of them, too.
_PARTITION_BYTES = 16 * 1024
_END = KafkaError._PARTITION_EOF
_MESSAGES_A_CALL = 5_000
_WAIT_S = 0.1


def first_unread(
    settings: ClientSettings,
    offsets: Mapping[Partition, int],
    limit_s: float,
    failed: dict[str, Failure] | None = None,
) -> dict[Partition, float | None]:
    """Read timestamps, in seconds since 1970.

    Parameters
    ----------
    settings
        Address and login.
    offsets
        Where to begin, by partition; each lies between the begin and the end of its log.
    limit_s
        How long it may take altogether.
    failed
        Gets the partitions that brokers refused to read from.

    Returns
    -------
    dict
        None for a partition with no record from there on, only markers of transactions. A
        partition that did not answer in time, or has records without a time, is left out.
    """
    if not offsets or limit_s <= 0:
        return {}
    deadline = time.monotonic() + limit_s
    found: dict[Partition, float | None] = {}
    missing = set(offsets)
    consumer = Consumer(_settings(settings))
    try:
        consumer.assign([TopicPartition(*partition, offsets[partition]) for partition in offsets])
        while missing and time.monotonic() < deadline:
            done = []
            for message in consumer.consume(min(len(missing), _MESSAGES_A_CALL), _WAIT_S):
                partition = message.topic(), message.partition()
                error = message.error()
                if error is not None and failed is not None and error.code() != _END:
                    add_failure(failed, error, f"{partition[0]}-{partition[1]}")
                if partition in missing and _answers(message, partition, found):
                    missing.remove(partition)
                    done.append(TopicPartition(*partition))
            if done:
                consumer.pause(done)
    finally:
        consumer.close()
    return found


def _settings(settings: ClientSettings) -> dict[str, Any]:
    return settings.for_client(
        **{
            "group.id": "assignor-lag",  # librdkafka wants a name
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "queued.min.messages": 1,
            "fetch.wait.max.ms": 50,
            "max.partition.fetch.bytes": _PARTITION_BYTES,
        }
    )


def _answers(message: Any, partition: Partition, found: dict[Partition, float | None]) -> bool:
    """Note what a message tells of its partition; False when it tells nothing yet."""
    error = message.error()
    if error is not None:
        if error.code() == _END:
            found[partition] = None
        return True
    kind, time_ms = message.timestamp()
    if kind != TIMESTAMP_NOT_AVAILABLE:
        found[partition] = time_ms / 1000
    return True
