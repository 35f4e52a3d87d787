"""Spark's streaming checkpoint as plain data, read without Spark: what was planned, what is done.

Spark writes `offsets/N` before batch N runs and `commits/N` when it is done, both kept for the
last 100 batches; `sources/<n>/0` holds where a source began, `metadata` the query's id. All are
small text files that begin with their version. The files come through `Folder`, so that the same
reader serves local paths and, in `streaming`, Spark's file systems.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from checkpoints.folders import CheckpointError, Folder, NoCheckpointError
from checkpoints.nested import not_a_checkpoint, only_checkpoint_below
from checkpoints.sticky_state import StateError, StickyState, decode

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Newest versions that are known: of `offsets` (2 since Spark 4.2) and of `sources/<n>/0`.
OFFSETS_VERSION = 2
SOURCE_VERSION = 1
_VOID = "-"
#: Largest offset, and largest number of a partition, that Kafka has.
_LONGEST, _MOST_PARTITIONS = 2**63 - 1, 2**31 - 1
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
    #: Event-time watermark that the batch ran with, in milliseconds; None for none.
    watermark_ms: int | None


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint says about the Kafka sources of its query."""

    name: str
    query_id: str | None
    #: By batch id, ascending; gaps are possible.
    batches: tuple[LoggedBatch, ...]
    #: Where each Kafka source began, by source, as far as it is kept.
    begins: dict[str, KafkaOffsets]
    #: The planner's states that are kept and readable, by source, the oldest first.
    kept_states: dict[str, tuple[StickyState, ...]] = field(default_factory=dict)
    #: Why a state file was passed over, one line each.
    warnings: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """Kafka sources of the query."""
        found = {source for batch in self.batches for source in batch.ends} | set(self.begins)
        return tuple(sorted(found, key=_by_number))

    @property
    def states(self) -> dict[str, StickyState]:
        """The planner's newest readable state, by source."""
        return {source: kept[-1] for source, kept in self.kept_states.items()}

    @property
    def last_planned(self) -> LoggedBatch | None:
        """The newest batch, done or not."""
        return self.batches[-1] if self.batches else None

    @property
    def last_committed(self) -> LoggedBatch | None:
        """The newest batch that is done."""
        return next((batch for batch in reversed(self.batches) if batch.committed), None)

    def ends_of(self, source: str, up_to: LoggedBatch | None) -> KafkaOffsets:
        """Where a source stands after a batch: its end there, before it, or where it began."""
        if up_to is not None:
            for batch in reversed(self.batches):
                if batch.batch_id <= up_to.batch_id and source in batch.ends:
                    return batch.ends[source]
        return self.begins.get(source, {})


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a query has come, whatever its sources are."""

    #: None for a checkpoint that no query has begun.
    query_id: str | None
    #: The newest batch that was planned; None for none.
    planned: LoggedBatch | None
    #: Number of the newest batch that is done; None for none.
    completed: int | None


def read_standing(folder: Folder) -> Standing:
    """Read how far a query has come: three listings and files, however many batches are kept.

    Raises
    ------
    CheckpointError
        When a file cannot be read, or is of a newer version.
    """
    try:
        done = _numbers(folder, "commits")
        planned = _numbers(folder, "offsets")
        newest = planned[-1] if planned else None
        batch = None if newest is None else _batch(folder, newest, newest in done)
        return Standing(_query_id(folder), batch, done[-1] if done else None)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise CheckpointError(f"checkpoint {folder.name!r} cannot be read: {why}") from error


def read_checkpoint(folder: Folder) -> Checkpoint:
    """Read all that is kept.

    Of a folder that is none, but holds one checkpoint, as that of a job with one query, that one is
    read.

    Raises
    ------
    CheckpointError
        When it is not a checkpoint, cannot be read, is of a newer version or has no Kafka source.
    """
    try:
        return _read(folder)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise CheckpointError(f"checkpoint {folder.name!r} cannot be read: {why}") from error


def _read(folder: Folder) -> Checkpoint:
    query_id = _query_id(folder)
    planned = _numbers(folder, "offsets")
    if query_id is None and not planned:
        below = only_checkpoint_below(folder)
        if below is None:
            raise NoCheckpointError(not_a_checkpoint(folder))
        return _read(folder.below(below))
    done = set(_numbers(folder, "commits"))
    batches = [batch for n in planned if (batch := _batch(folder, n, n in done)) is not None]
    begins: dict[str, KafkaOffsets] = {}
    states: dict[str, tuple[StickyState, ...]] = {}
    warnings: list[str] = []
    for source in folder.names("sources"):
        begin = _begin(folder, source)
        if begin is not None:
            begins[source] = begin
            kept = _states(folder, source, warnings)
            if kept:
                states[source] = kept
    if not begins and not any(batch.ends for batch in batches):
        raise NoCheckpointError(
            f"checkpoint {folder.name!r} has no Kafka source with offsets: no batch was planned "
            "yet, or the query reads from elsewhere"
        )
    return Checkpoint(
        folder.name, query_id, tuple(batches), begins, states, tuple(warnings)
    )  # fmt: skip


def _query_id(folder: Folder) -> str | None:
    raw = folder.read("metadata")
    if raw is None:
        return None
    found = _json(raw.decode("utf-8", "replace"))
    if not isinstance(found, dict) or not isinstance(found.get("id"), str):
        raise CheckpointError(f"checkpoint {folder.name!r}: 'metadata' holds no query id")
    return str(found["id"])


def _numbers(folder: Folder, path: str) -> list[int]:
    """Batches of a log; temporary files, checksums and others have no plain number for a name."""
    names = folder.names(path)
    return sorted(int(n) for n in names if n.isascii() and n.isdigit() and len(n) <= _DIGITS)


def _batch(folder: Folder, number: int, committed: bool) -> LoggedBatch | None:
    """Read one batch; None when Spark has just purged it."""
    path = f"offsets/{number}"
    raw = folder.read(path)
    if raw is None:
        return None
    lines = raw.decode("utf-8", "replace").splitlines()
    where = f"checkpoint {folder.name!r}: {path!r}"
    version = _version(lines[0] if lines else "", OFFSETS_VERSION, where)
    if len(lines) < 2:
        raise CheckpointError(f"{where} is cut off: restore it from a copy of the checkpoint")
    metadata = _json(lines[1]) if lines[1].strip() else {}
    if not isinstance(metadata, dict):
        raise CheckpointError(f"{where} has no JSON in its second line")
    ends: dict[str, KafkaOffsets] = {}
    for index, line in enumerate(lines[2:]):
        source, colon, text = line.partition(":") if version > 1 else (str(index), ":", line)
        if not colon:
            raise CheckpointError(f"{where} has a source without an offset in line {index + 3}")
        value = _json(text) if text != _VOID else None
        if value is None and text.startswith("{"):
            raise CheckpointError(f"{where} is damaged in line {index + 3}: it is cut off")
        offsets = _offsets(value, f"{where} is damaged in line {index + 3}")
        if offsets is not None:
            ends[source] = offsets
    return LoggedBatch(
        number,
        ends,
        committed,
        timestamp_ms=_positive(metadata, "batchTimestampMs"),
        watermark_ms=_positive(metadata, "batchWatermarkMs"),
    )


def _begin(folder: Folder, source: str) -> KafkaOffsets | None:
    """Where a source began; None when it is no Kafka source."""
    raw = folder.read(f"sources/{source}/0")
    if raw is None:
        return None
    where = f"checkpoint {folder.name!r}: 'sources/{source}/0'"
    text = raw.removeprefix(b"\0").decode("utf-8", "replace")
    if text.startswith("v"):
        first, _, text = text.partition("\n")
        offsets = _offsets(_json(text), f"{where} is damaged")
        if offsets is not None:
            _version(first, SOURCE_VERSION, where)
        return offsets
    return _offsets(_json(text), f"{where} is damaged")  # Spark 2.1 wrote no version


def _states(folder: Folder, source: str, warnings: list[str]) -> tuple[StickyState, ...]:
    """Read the good states that the planner left beside a source, the oldest first."""
    path = f"sources/{source}/assignments"
    numbered = [
        (int(number), name)
        for name in folder.names(path)
        if (number := name.partition(".")[0]).isascii() and number.isdigit()
    ]
    found = []
    for _, name in sorted(numbered, reverse=True):
        try:
            raw = folder.read(f"{path}/{name}")
            if raw is not None:
                found.append(decode(raw.decode("utf-8", "replace").strip()))
        except StateError as error:
            warnings.append(f"{path}/{name}: {error}")
        except OSError as error:
            warnings.append(f"{path}/{name}: {error.strerror or type(error).__name__}")
    return tuple(reversed(found))


def kafka_offsets(value: Any) -> KafkaOffsets | None:
    """Recognise `{topic: {partition: offset}}`; None for the offset of another kind of source."""
    if not isinstance(value, dict) or not value:
        return None
    found: KafkaOffsets = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, dict):
            return None
        for number, offset in partitions.items():
            if not (number.isascii() and number.isdigit() and len(number) <= _DIGITS):
                return None
            if isinstance(offset, bool) or not isinstance(offset, int):
                return None
        found[topic] = {int(number): offset for number, offset in partitions.items()}
    return found


def _offsets(value: Any, damaged: str) -> KafkaOffsets | None:
    """Recognise a Kafka source's offsets, and refuse those that no broker ever gave."""
    found = kafka_offsets(value)
    for topic, partitions in (found or {}).items():
        for number, offset in partitions.items():
            if number > _MOST_PARTITIONS or not 0 <= offset <= _LONGEST:
                raise CheckpointError(
                    f"{damaged}: {topic}-{number} has offset {offset:.3g}"
                    if abs(offset) > _LONGEST
                    else f"{damaged}: {topic}-{number} has offset {offset}"
                )
    return found


def _version(line: str, newest: int, where: str) -> int:
    digits = line.strip()[1:]
    if not (line.startswith("v") and digits.isascii() and digits.isdigit()):
        raise CheckpointError(f"{where} does not begin with a version: it is damaged")
    if len(digits) > _DIGITS or not 1 <= int(digits) <= newest:
        raise CheckpointError(
            f"{where} has version {digits[:_DIGITS]}, {newest} is the newest known: "
            "a newer Spark wrote it, look for a newer assignor-bridge"
        )
    return int(digits)


def _positive(metadata: Mapping[str, Any], key: str) -> int | None:
    value = metadata.get(key)
    return value if isinstance(value, int) and 0 < value <= _LONGEST else None


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _by_number(source: str) -> tuple[int, str]:
    return (int(source), source) if source.isascii() and source.isdigit() else (1 << 62, source)
