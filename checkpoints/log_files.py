"""Read individual files of a Spark streaming checkpoint without Spark.

Spark writes `offsets/N` before batch N runs and `commits/N` when it is done, and by default keeps
the last 100 batches. `sources/<n>/0` has a source's start offsets, and `metadata` the query's id.
All are small text files; all but `metadata` begin with a version.
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

#: Newest supported version of `offsets/N` (2 since Spark 4.2).
OFFSETS_VERSION = 2
SOURCE_VERSION = 1  # newest supported version of `sources/<n>/0`
_MAX_OFFSET, _MAX_PARTITION = 2**63 - 1, 2**31 - 1  # Kafka's largest numbers
_MAX_DIGITS = 19  # of a number in these files

#: `{topic: {partition: offset}}`, Spark's format for the offset of a Kafka source.
KafkaOffsets = dict[str, dict[int, int]]


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """One batch of the offset log."""

    batch_id: int
    #: End offsets of each Kafka source that has an offset.
    ends: dict[str, KafkaOffsets]
    #: Whether Spark has written the batch's commit.
    committed: bool
    #: Time of planning in milliseconds since 1970; None if the file has none.
    timestamp_ms: int | None


def read_query_id(folder: Folder) -> str | None:
    """Return the query's id; None without `metadata`; raise CheckpointError if it is damaged."""
    raw = folder.read("metadata")
    if raw is None:
        return None
    metadata = _parse_json(raw)
    if not isinstance(metadata, dict) or not isinstance(metadata.get("id"), str):
        raise CheckpointError(
            f"checkpoint {folder.name!r}: 'metadata' is damaged (no query id): restore a copy"
        )
    return str(metadata["id"])


def list_batches(folder: Folder, path: str) -> list[int]:
    """Return the sorted batch numbers of a log; skip other files, such as checksums."""
    return sorted(int(name) for name in folder.names(path) if is_number(name))


def read_batch(folder: Folder, number: int, committed: bool) -> LoggedBatch | None:
    """Return one batch; None without its file. Raise CheckpointError if damaged or too new."""
    raw = folder.read(f"offsets/{number}")
    if raw is None:
        return None
    file_name = f"checkpoint {folder.name!r}: 'offsets/{number}'"
    lines = raw.decode("utf-8", "replace").splitlines()
    version = _parse_version(lines[0] if lines else "", OFFSETS_VERSION, file_name)
    if len(lines) < 2:
        raise CheckpointError(f"{file_name} is truncated: restore it from a copy of the checkpoint")
    metadata = _parse_json(lines[1]) if lines[1].strip() else {}
    if not isinstance(metadata, dict):
        raise CheckpointError(f"{file_name} has no JSON object in its second line")
    ends: dict[str, KafkaOffsets] = {}
    for index, line in enumerate(lines[2:]):
        source, colon, text = line.partition(":") if version > 1 else (str(index), ":", line)
        if not colon:
            raise CheckpointError(f"{file_name} has a source without an offset in line {index + 3}")
        problem = f"{file_name} is damaged in line {index + 3}"
        value = _parse_json(text)  # None for "-", a source without an offset
        if value is None and text.startswith("{"):
            raise CheckpointError(f"{problem}: it is truncated")
        offsets = _parse_valid_offsets(value, problem)
        if offsets is not None:
            ends[source] = offsets
    return LoggedBatch(number, ends, committed, _get_positive_int(metadata, "batchTimestampMs"))


def read_source_start(folder: Folder, source: str) -> KafkaOffsets | None:
    """Return a Kafka source's start offsets; None without a file, or if it has no such offsets.

    They are empty if no topic matched the pattern yet, or if another source stored an empty object.
    Raises CheckpointError if an offset is impossible, or the version is missing or too new.
    """
    raw = folder.read(f"sources/{source}/0")
    if raw is None:
        return None
    file_name = f"checkpoint {folder.name!r}: 'sources/{source}/0'"
    text = raw.removeprefix(b"\0").decode("utf-8", "replace")
    version, newline, json_text = text.partition("\n") if text.startswith("v") else ("", "", text)
    value = _parse_json(json_text)
    offsets = {} if value == {} else _parse_valid_offsets(value, f"{file_name} is damaged")
    if offsets is not None and newline:  # Spark 2.1.0 wrote no version (SPARK-19517)
        _parse_version(version, SOURCE_VERSION, file_name)
    return offsets


def read_states(folder: Folder, source: str, warnings: list[str]) -> tuple[StickyState, ...]:
    """Return the planner's valid states of a source, oldest first; append errors to `warnings`."""
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
    """Return the value as `{topic: {partition: offset}}`; None if empty or not of that form."""
    if not isinstance(value, dict) or not value:
        return None
    for partitions in value.values():
        if not isinstance(partitions, dict) or not all(
            is_number(partition) and isinstance(offset, int) and not isinstance(offset, bool)
            for partition, offset in partitions.items()
        ):
            return None
    return {t: {int(p): offset for p, offset in ps.items()} for t, ps in value.items()}


def _parse_valid_offsets(value: Any, problem: str) -> KafkaOffsets | None:
    """Return a Kafka source's offsets, None for others; raise CheckpointError if out of range."""
    offsets = parse_kafka_offsets(value)
    for topic, partitions in (offsets or {}).items():
        for number, offset in partitions.items():
            if number > _MAX_PARTITION or not 0 <= offset <= _MAX_OFFSET:
                offset_text = f"{Decimal(offset):.3g}" if abs(offset) > _MAX_OFFSET else offset
                raise CheckpointError(f"{problem}: {topic}-{number} has no offset {offset_text}")
    return offsets


def _parse_version(line: str, newest_version: int, file_name: str) -> int:
    digits = line.strip()[1:]
    if not (line.startswith("v") and digits.isascii() and digits.isdigit() and digits.strip("0")):
        raise CheckpointError(f"{file_name} does not begin with a version: it is damaged")
    if len(digits) > _MAX_DIGITS or int(digits) > newest_version:
        raise CheckpointError(
            f"{file_name} has version {digits[:_MAX_DIGITS]}, but {newest_version} is the newest "
            "supported: a newer Spark wrote it; install a newer assignor-bridge"
        )
    return int(digits)


def _get_positive_int(metadata: Mapping[str, Any], key: str) -> int | None:
    value = metadata.get(key)
    return value if isinstance(value, int) and 0 < value <= _MAX_OFFSET else None


def _parse_json(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def is_number(name: str) -> bool:
    """Return whether a name is a non-negative 64-bit number, like those of batches and sources."""
    is_short = name.isascii() and name.isdigit() and len(name) <= _MAX_DIGITS
    return is_short and int(name) <= _MAX_OFFSET
