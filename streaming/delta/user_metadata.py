"""Encode and decode the source offsets of a commit's rows in its `userMetadata`.

The text is JSON, `{"assignor": {…}}`, merged into the user's own metadata. `DESCRIBE HISTORY` shows
it. A range is `[from, until)`; partitions without offsets in the batch are omitted.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from assignor_bridge.model import MAX_PARTITION
from streaming.delta.delta_log import Long, Natural

if TYPE_CHECKING:
    from checkpoints.offset_log import KafkaRanges

_KEY = "assignor"
#: Version of the metadata's format.
FORMAT = 1

_Partition = Annotated[int, msgspec.Meta(ge=0, le=MAX_PARTITION)]


class RecordCount(msgspec.Struct, frozen=True):
    """Number and checksum of the records that the parser read; None if not counted."""

    records: Natural | None = None
    #: XOR of the records' xxhash64 over topic, partition and offset, as 16 hex digits.
    checksum: str | None = None


class BatchMetadata(msgspec.Struct, frozen=True):
    """The batch that a commit wrote."""

    query: str
    batch: Natural
    #: `[from, until)` by source, topic and partition; None if they could not be read.
    ranges: dict[str, dict[str, dict[_Partition, tuple[Long, Long]]]] | None = None
    counted: RecordCount = RecordCount()
    format: int = FORMAT


def encode_metadata(
    query_id: str, batch: int, ranges: KafkaRanges | None, user_text: str | None = None
) -> str | None:
    """Return a commit's `userMetadata`; None if `user_text` cannot be extended.

    The Delta sink passes no ranges, because DeltaWrites.java replaces `"ranges":null,"counted":{}`.
    `user_text` can be extended if it is None, empty, or a JSON object without `assignor`.
    """
    user_values: Any = {}
    if user_text:
        try:
            user_values = json.loads(user_text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(user_values, dict) or _KEY in user_values:
            return None
    entry = {"format": FORMAT, "query": query_id, "batch": batch, "ranges": ranges, "counted": {}}
    return _to_json({**user_values, _KEY: entry})


def encode_ranges(ranges: KafkaRanges) -> str:
    """Return the ranges as JSON, as they appear in a commit's metadata."""
    return _to_json(ranges)


def _to_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def decode_metadata(text: str | None) -> BatchMetadata | None:
    """Parse a commit's `userMetadata`; None if it has no entry that this version can read."""
    if not text or f'"{_KEY}"' not in text:
        return None
    try:
        values = json.loads(text)
        entry = values.get(_KEY) if isinstance(values, dict) else None
        metadata = msgspec.convert(entry, BatchMetadata, strict=False)
    except (ValueError, RecursionError, msgspec.ValidationError):
        return None
    return metadata if metadata.format <= FORMAT else None
