"""What our sink writes into a commit's `userMetadata`: which offsets the rows were made of.

It is JSON, `{"assignor": {…}}`, beside what the user has there; `DESCRIBE HISTORY` shows it.
A range is `[from, until)`; partitions of which a batch reads nothing are left out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from assignor_bridge.model import MAX_PARTITION
from streaming.delta.log import Long, Natural

if TYPE_CHECKING:
    from checkpoints.offset_log import KafkaRanges

_KEY = "assignor"
FORMAT = 1


_Number = Annotated[int, msgspec.Meta(ge=0, le=MAX_PARTITION)]


class Counted(msgspec.Struct, frozen=True):
    """The records that went through the parser."""

    records: Natural | None = None
    #: Exclusive or of the records' xxhash64 over topic, partition and offset, as 16 digits.
    checksum: str | None = None


class BatchMetadata(msgspec.Struct, frozen=True):
    """The batch that a commit holds."""

    query: str
    batch: Natural
    #: `[from, until)` by source, topic and partition; None where they could not be learned.
    ranges: dict[str, dict[str, dict[_Number, tuple[Long, Long]]]] | None = None
    counted: Counted = Counted()
    format: int = FORMAT


def encode(
    query: str, batch: int, ranges: KafkaRanges | None, beside: str | None = None
) -> str | None:
    """Return the text for a commit.

    Our sink leaves the ranges out, and DeltaWrites.java puts them in, where it finds
    `"ranges":null,"counted":{}`. `beside` is what the user has there: None when that is no JSON
    object, which it then must stay.
    """
    users: Any = {}
    if beside:
        try:
            users = json.loads(beside)
        except (ValueError, RecursionError):
            return None
        if not isinstance(users, dict) or _KEY in users:
            return None
    ours = {"format": FORMAT, "query": query, "batch": batch, "ranges": ranges, "counted": {}}
    return _json({**users, _KEY: ours})


def encode_ranges(ranges: KafkaRanges) -> str:
    """Return the ranges as they stand in the text for a commit."""
    return _json(ranges)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def decode(text: str | None) -> BatchMetadata | None:
    """Read a commit's text; None when there is nothing of ours that this version understands."""
    if not text or f'"{_KEY}"' not in text:
        return None
    try:
        found = json.loads(text)
        ours = found.get(_KEY) if isinstance(found, dict) else None
        read = msgspec.convert(ours, BatchMetadata, strict=False)
    except (ValueError, RecursionError, msgspec.ValidationError):
        return None
    return read if read.format <= FORMAT else None
