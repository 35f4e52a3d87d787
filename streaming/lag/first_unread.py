"""When the first unread record of each lagging partition was written.

One consumer asks for all partitions at once, so a broker answers many of them in one response, and
drops each partition at its first record. Nothing is committed and no group is joined.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError, TopicPartition

from assignor_bridge.model import Partition
from streaming.kafka.brokers import is_group_refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streaming.kafka.brokers import Brokers, Failures

#: Bytes that a response may hold of a partition: most first batches fit, thousands of them, too.
_MAX_PARTITION_BYTES = 16 * 1024
_MESSAGES_PER_CALL = 5_000
_WAIT_S = 0.1
#: Up to the end of the year 9999; a producer that sends nanoseconds stamps later times.
_TIMES_MS = range(253_402_300_800_000)


class FirstRecord(NamedTuple):
    """A record that is there from an offset on, as compaction may have left the next one."""

    offset: int
    #: In seconds since 1970.
    time_s: float


def find_first_unread(
    brokers: Brokers, offsets: Mapping[Partition, int], limit_s: float, failures: Failures
) -> dict[Partition, FirstRecord | None]:
    """Return the first records from `offsets` on.

    None stands for a partition that has no record from there on, only markers of transactions. A
    partition that did not answer within `limit_s`, which is for all of them, or has records without
    a time, is left out. `failures` gets those that brokers refused to read from.
    """
    if not offsets or limit_s <= 0:
        return {}
    deadline = time.monotonic() + limit_s
    found: dict[Partition, FirstRecord | None] = {}
    missing = set(offsets)
    consumer = brokers.make_consumer(
        "assignor-lag",  # librdkafka wants a name
        enable_partition_eof=True,
        auto_offset_reset="error",
        queued_min_messages=1,
        fetch_wait_max_ms=50,
        max_partition_fetch_bytes=_MAX_PARTITION_BYTES,
    )
    try:
        consumer.assign([TopicPartition(*partition, offsets[partition]) for partition in offsets])
        while missing and time.monotonic() < deadline:
            answered = []
            for message in consumer.consume(min(len(missing), _MESSAGES_PER_CALL), _WAIT_S):
                if is_group_refusal(message):
                    continue
                partition = Partition(message.topic() or "", message.partition() or 0)
                error = message.error()
                is_end = error is not None and error.code() == KafkaError._PARTITION_EOF
                if error is not None and not is_end:
                    brokers.add_failure(failures, error, "Read", partition)
                if partition in missing:
                    missing.remove(partition)
                    answered.append(TopicPartition(*partition))
                    kind, time_ms = message.timestamp()
                    if is_end:
                        found[partition] = None
                    # Records of long ago, and of some producers, have a time of -1.
                    elif error is None and kind != TIMESTAMP_NOT_AVAILABLE and time_ms in _TIMES_MS:
                        found[partition] = FirstRecord(message.offset() or 0, time_ms / 1000)
            if answered:
                consumer.pause(answered)
    finally:
        consumer.close()
    return found
