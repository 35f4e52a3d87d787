"""The files of Spark's streaming checkpoint, one by one, read without Spark.

Spark writes `offsets/N` before batch N runs and `commits/N` when it is done, both kept for the
last 100 batches; `sources/<n>/0` holds where a source began, `metadata` the query's id. All are
small text files that begin with their version.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from checkpoints.folders import CheckpointError, Folder
from checkpoints.state_text import decode
from checkpoints.sticky_state import StateError, StickyState

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Newest versions that are known: of `offsets` (2 since Spark 4.2) and of `sources/<n>/0`.
OFFSETS_VERSION = 2
SOURCE_VERSION = 1
#: What Kafka's largest offset and largest partition are.
_MOST_OFFSET, _MOST_PARTITION = 2**63 - 1, 2**31 - 1
#: Digits of the largest number that any of these files has.
_DIGITS = 19

#: `{topic: {partition: offset}}`, as Spark writes a Kafka source's offset.
KafkaOffsets = dict[str, dict[int, int]]


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """One batch of the offset log."""

    batch_id: int
    #: Where the batch ends, by source; Kafka sources with an offset only.
    ends: dict[str, KafkaOffsets]
    #: Whether the batch is done: Spark wrote its commit.
    committed: bool
    #: When the batch was planned, in milliseconds since 1970; None when not written.
    timestamp_ms: int | None


def read_query_id(folder: Folder) -> str | None:
    """Read the id of the query; None where none has begun."""
    raw = folder.read("metadata")
    if raw is None:
        return None
    metadata = _json(raw)
    if not isinstance(metadata, dict) or not isinstance(metadata.get("id"), str):
        raise CheckpointError(f"checkpoint {folder.name!r}: 'metadata' has no query id")
    return str(metadata["id"])


def list_batches(folder: Folder, path: str) -> list[int]:
    """Batches of a log; temporary files, checksums and others have no plain number for a name."""
    return sorted(int(name) for name in folder.names(path) if is_number(name))


def read_batch(folder: Folder, number: int, committed: bool) -> LoggedBatch | None:
    """Read one batch; None when Spark has just purged it."""
    raw = folder.read(f"offsets/{number}")
    if raw is None:
        return None
    where = f"checkpoint {folder.name!r}: 'offsets/{number}'"
    lines = raw.decode("utf-8", "replace").splitlines()
    version = _version(lines[0] if lines else "", OFFSETS_VERSION, where)
    if len(lines) < 2:
        raise CheckpointError(f"{where} is truncated: restore it from a copy of the checkpoint")
    metadata = _json(lines[1]) if lines[1].strip() else {}
    if not isinstance(metadata, dict):
        raise CheckpointError(f"{where} has no JSON in its second line")
    ends: dict[str, KafkaOffsets] = {}
    for index, line in enumerate(lines[2:]):
        source, colon, text = line.partition(":") if version > 1 else (str(index), ":", line)
        if not colon:
            raise CheckpointError(f"{where} has a source without an offset in line {index + 3}")
        damaged = f"{where} is damaged in line {index + 3}"
        value = _json(text)  # "-" stands for a source without an offset
        if value is None and text.startswith("{"):
            raise CheckpointError(f"{damaged}: it is truncated")
        offsets = _offsets(value, damaged)
        if offsets is not None:
            ends[source] = offsets
    return LoggedBatch(number, ends, committed, _positive(metadata, "batchTimestampMs"))


def read_source_start(folder: Folder, source: str) -> KafkaOffsets | None:
    """Where a source began; None when it is not a Kafka source.

    Empty when no topic matched its pattern yet; other sources may have an empty object, too.
    """
    raw = folder.read(f"sources/{source}/0")
    if raw is None:
        return None
    where = f"checkpoint {folder.name!r}: 'sources/{source}/0'"
    text = raw.removeprefix(b"\0").decode("utf-8", "replace")
    version, newline, rest = text.partition("\n") if text.startswith("v") else ("", "", text)
    value = _json(rest)
    offsets = {} if value == {} else _offsets(value, f"{where} is damaged")
    if offsets is not None and newline:  # Spark 2.1 wrote no version
        _version(version, SOURCE_VERSION, where)
    return offsets


def read_states(folder: Folder, source: str, warnings: list[str]) -> tuple[StickyState, ...]:
    """Read the good states that the planner left for a source, the oldest first."""
    path = f"sources/{source}/assignments"
    names = [name for name in folder.names(path) if is_number(name.partition(".")[0])]
    states = []
    for name in sorted(names, key=lambda name: (int(name.partition(".")[0]), name), reverse=True):
        try:
            raw = folder.read(f"{path}/{name}")
            if raw is not None:
                states.append(decode(raw.decode("utf-8", "replace").strip()))
        except StateError as error:
            warnings.append(f"{path}/{name}: {error}")
        except OSError as error:
            warnings.append(f"{path}/{name}: {error.strerror or type(error).__name__}")
    return tuple(reversed(states))


def parse_kafka_offsets(value: Any) -> KafkaOffsets | None:
    """Recognise `{topic: {partition: offset}}`; None for the offset of another kind of source."""
    if not isinstance(value, dict) or not value:
        return None
    for partitions in value.values():
        if not isinstance(partitions, dict) or not all(
            is_number(partition) and isinstance(offset, int) and not isinstance(offset, bool)
            for partition, offset in partitions.items()
        ):
            return None
    return {t: {int(p): offset for p, offset in of.items()} for t, of in value.items()}


def _offsets(value: Any, damaged: str) -> KafkaOffsets | None:
    """Recognise a Kafka source's offsets, and refuse those that no broker ever gave."""
    offsets = parse_kafka_offsets(value)
    for topic, partitions in (offsets or {}).items():
        for number, offset in partitions.items():
            if number > _MOST_PARTITION or not 0 <= offset <= _MOST_OFFSET:
                shown = f"{Decimal(offset):.3g}" if abs(offset) > _MOST_OFFSET else offset
                raise CheckpointError(f"{damaged}: {topic}-{number} has offset {shown}")
    return offsets


def _version(line: str, newest: int, where: str) -> int:
    digits = line.strip()[1:]
    if not (line.startswith("v") and digits.isascii() and digits.isdigit()):
        raise CheckpointError(f"{where} does not begin with a version: it is damaged")
    if len(digits) > _DIGITS or not 1 <= int(digits) <= newest:
        raise CheckpointError(
            f"{where} has version {digits[:_DIGITS]}, {newest} is the newest known: "
            "a newer Spark wrote it; look for a newer assignor-bridge"
        )
    return int(digits)


def _positive(metadata: Mapping[str, Any], key: str) -> int | None:
    value = metadata.get(key)
    return value if isinstance(value, int) and 0 < value <= _MOST_OFFSET else None


def _json(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def is_number(name: str) -> bool:
    """Whether a name is a plain number that fits 64 bits, as those of batches and sources are."""
    is_short = name.isascii() and name.isdigit() and len(name) <= _DIGITS
    return is_short and int(name) <= _MOST_OFFSET
