"""What an expert sets for Spark's own Kafka source, by workload; each row of a benchmark names it.

| setting | few partitions, much to read | many partitions, little to read |
|---|---|---|
| `kafka.fetch.max.wait.ms` | 1: the end of a partition costs nothing | 1 |
| `kafka.max.poll.records` | 20,000: one poll per response | default |
| `kafka.max.partition.fetch.bytes`, `kafka.fetch.max.bytes` | 8, 64 MB: few round trips | default |
| `spark.kafka.consumer.cache.capacity` | default | all partitions: none is opened again |
| `coalesce(slots)` | no: it would put partitions in turn | yes: one task per slot |
| `minPartitions`, `maxRecordsPerPartition` | the skewed rows try several values | no |
| `spark.locality.wait` | 10 s, as for the option: a consumer is on its executor | 10 s |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Reading ends at the end of a partition, at once.
SHORT_WAIT: Mapping[str, str] = {"kafka.fetch.max.wait.ms": "1"}
#: For partitions with much to read.
LARGE_FETCHES: Mapping[str, str] = {
    **SHORT_WAIT,
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
}
#: A consumer for each partition is kept; a setting of the session.
ALL_CONSUMERS: Mapping[str, str] = {"spark.kafka.consumer.cache.capacity": "4000"}
