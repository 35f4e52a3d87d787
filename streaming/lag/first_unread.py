"""Determine when the first unread record of each lagging partition was written.

One consumer fetches all partitions at once, so that each response contains many partitions. It
pauses each partition after its first record. It commits nothing and joins no group.
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

#: Small enough for thousands of partitions in one response; most first record batches fit.
_MAX_PARTITION_BYTES = 16 * 1024
_MAX_MESSAGES = 5_000  # per call of `consume`
_TIMEOUT_S = 0.1  # per call of `consume`
#: Timestamps through the year 9999; some producers send nanoseconds, which are larger.
_VALID_TIMES_MS = range(253_402_300_800_000)


class FirstRecord(NamedTuple):
    """The first record at or after an offset; compaction may have removed the offset itself."""

    offset: int
    #: Timestamp in seconds since 1970.
    time_s: float


def find_first_unread(
    brokers: Brokers, offsets: Mapping[Partition, int], limit_s: float, failures: Failures
) -> dict[Partition, FirstRecord | None]:
    """Return the first record of each partition at or after its offset.

    The value is None if only transaction markers or gaps follow. A partition is omitted if its read
    fails (added to `failures`), if `limit_s` ends first, or if the record has no valid timestamp.
    """
    if not offsets or limit_s <= 0:
        return {}
    deadline = time.monotonic() + limit_s
    first_records: dict[Partition, FirstRecord | None] = {}
    open_partitions = set(offsets)
    consumer = brokers.make_consumer(
        "assignor-lag",  # librdkafka requires a group
        enable_partition_eof=True,
        auto_offset_reset="error",
        queued_min_messages=1,
        fetch_wait_max_ms=50,
        max_partition_fetch_bytes=_MAX_PARTITION_BYTES,
    )
    try:
        consumer.assign([TopicPartition(*partition, offsets[partition]) for partition in offsets])
        while open_partitions and time.monotonic() < deadline:
            partitions_to_pause = []
            for message in consumer.consume(min(len(open_partitions), _MAX_MESSAGES), _TIMEOUT_S):
                if is_group_refusal(message):
                    continue
                partition = Partition(message.topic() or "", message.partition() or 0)
                error = message.error()
                is_end = error is not None and error.code() == KafkaError._PARTITION_EOF
                if error is not None and not is_end:
                    brokers.add_failure(failures, error, "Read", partition)
                if partition in open_partitions:
                    open_partitions.remove(partition)
                    partitions_to_pause.append(TopicPartition(*partition))
                    time_type, time_ms = message.timestamp()
                    has_time = time_type != TIMESTAMP_NOT_AVAILABLE  # not in old record formats
                    if is_end:
                        first_records[partition] = None
                    elif error is None and has_time and time_ms in _VALID_TIMES_MS:
                        offset = message.offset() or 0
                        first_records[partition] = FirstRecord(offset, time_ms / 1000)
            if partitions_to_pause:
                consumer.pause(partitions_to_pause)
    finally:
        consumer.close()
    return first_records
