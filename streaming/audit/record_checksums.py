"""Compare the number and checksum of the records that Spark read with each batch's offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignor_bridge.errors import elide
from streaming.audit.checksum import compute_range_checksum
from streaming.audit.findings import AuditFinding
from streaming.audit.intervals import count_offsets, iter_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator

    from checkpoints.offset_log import KafkaRanges
    from streaming.audit.all_checks import AuditedQuery

#: The checksum of a larger batch is not checked, because computing it would take minutes.
_MAX_HASHED_RECORDS = 10**10


def check_records(query: AuditedQuery) -> Iterator[AuditFinding]:
    """Compare each batch's counted records with its ranges, and update the counters of `query`.

    A batch without ranges or a count is skipped. A checksum differs if Spark read wrong records, or
    if a rerun task counted one record twice for each offset without a record. The second cause is
    considered (`records-unproved`) only if another batch has offsets without a record.
    """
    differing_batches = []
    for batch in query.batches:
        record_count = batch.metadata.counted if batch.metadata else None
        if batch.ranges is None or record_count is None or record_count.records is None:
            continue
        surplus_offsets = count_offsets([batch]) - record_count.records
        if surplus_offsets > 0:
            query.offsets_without_record += surplus_offsets
        elif surplus_offsets < 0:
            query.batches_recounted += 1
        elif record_count.checksum is None:
            query.batches_counted += 1
        elif record_count.records > _MAX_HASHED_RECORDS:
            continue
        elif record_count.checksum != f"{compute_checksum(batch.ranges):016x}":
            differing_batches.append(f"{batch}, {record_count.records:,} records")
        else:
            query.batches_counted += 1
    if differing_batches:
        kind = "records-unproved" if query.offsets_without_record else "records-mismatch"
        yield AuditFinding(kind, f"query {query.id}: {elide(differing_batches)}")


def compute_checksum(ranges: KafkaRanges) -> int:
    """Return the checksum of ranges that have a record at each offset."""
    result = 0
    for (_, partition), begin, end in iter_ranges(ranges):
        result ^= compute_range_checksum(partition.topic, partition.number, begin, end)
    return result
