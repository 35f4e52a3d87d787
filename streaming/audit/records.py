"""The records that Spark counted while it read a batch, compared with the batch's offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignor_bridge.errors import elide
from streaming.audit.checksum import range_checksum
from streaming.audit.findings import Finding
from streaming.audit.intervals import flat
from streaming.audit.offsets import total

if TYPE_CHECKING:
    from collections.abc import Iterator

    from checkpoints.offset_log import KafkaRanges
    from streaming.audit.audit import Query

#: More offsets than a batch has: their checksum would take minutes.
_MOST_HASHED = 10**10


def check_records(query: Query) -> Iterator[Finding]:
    """Compare the records that were read with those that the ranges should have.

    A checksum differs for one of two reasons: other records were read, or Spark ran a task again
    and counted as many records twice as there are offsets without one. The second one needs a
    topic with such offsets, and is assumed only if another batch of the query has some.
    """
    differing = []
    for batch in query.batches:
        counted = batch.metadata.counted if batch.metadata else None
        if batch.ranges is None or counted is None or counted.records is None:
            continue
        missing = total([batch]) - counted.records
        if missing > 0:
            query.without_record += missing
        elif missing < 0:
            query.recounted += 1
        elif counted.checksum is None:
            query.counted += 1
        elif counted.records > _MOST_HASHED:
            continue
        elif counted.checksum != f"{checksum_of_ranges(batch.ranges):016x}":
            differing.append(f"{batch}, {counted.records:,} records")
        else:
            query.counted += 1
    if differing:
        kind = "records-unproved" if query.without_record else "records-mismatch"
        yield Finding(kind, f"query {query.id}: {elide(differing)}")


def checksum_of_ranges(ranges: KafkaRanges) -> int:
    """Return the checksum of all records that ranges should have."""
    result = 0
    for (_, partition), begin, end in flat(ranges):
        result ^= range_checksum(partition.topic, partition.number, begin, end)
    return result
