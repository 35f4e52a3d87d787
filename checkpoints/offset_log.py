"""Spark's streaming checkpoint as plain data, read without Spark: what was planned, what is done.

Spark writes `offsets/N` before batch N runs and `commits/N` when it is done, both kept for the
last 100 batches; `sources/<n>/0` holds where a source began, `metadata` the query's id. All are
small text files that begin with their version.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from checkpoints.folders import (
    CheckpointError,
    Folder,
    NoCheckpointError,
    checkpoints_below,
    not_a_checkpoint,
)
from checkpoints.sticky_state import StateError, StickyState, decode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Newest versions that are known: of `offsets` (2 since Spark 4.2) and of `sources/<n>/0`.
OFFSETS_VERSION = 2
SOURCE_VERSION = 1
#: What Kafka's largest offset and largest partition are.
_MOST_OFFSET, _MOST_PARTITION = 2**63 - 1, 2**31 - 1
#: Digits of the largest number that any of these files has.
_DIGITS = 19

#: `{topic: {partition: offset}}`, as Spark writes a Kafka source's offset.
KafkaOffsets = dict[str, dict[int, int]]
#: `[from, until)` by source, topic and partition.
KafkaRanges = dict[str, dict[str, dict[int, tuple[int, int]]]]


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
        """Kafka sources of the query; those with numbers first, in their order."""
        names = set(self.begins).union(*(batch.ends for batch in self.batches))
        return tuple(sorted(names, key=lambda n: (int(n) if _is_number(n) else 1 << 62, n)))

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
        for batch in reversed(self.batches if up_to else ()):
            if up_to and batch.batch_id <= up_to.batch_id and source in batch.ends:
                return batch.ends[source]
        return self.begins.get(source, {})

    @property
    def ranges(self) -> dict[int, KafkaRanges]:
        """What each batch reads, as far as the batch before it is kept, too."""
        kept = {batch.batch_id: batch.ends for batch in self.batches}
        ranges = {}
        for number, ends in kept.items():
            starts = {**self.begins, **kept.get(number - 1, {})}
            if (number == 0 or number - 1 in kept) and starts.keys() >= ends.keys():
                ranges[number] = ranges_between(starts, ends)
        return ranges


@dataclass(frozen=True, slots=True)
class LastBatches:
    """How far a query has come, whatever its sources are."""

    #: None for a checkpoint that no query has begun.
    query_id: str | None
    #: The newest batch that was planned; None for none.
    planned: LoggedBatch | None
    #: Number of the newest batch that is done; None for none.
    completed: int | None


def read_last_batches(folder: Folder) -> LastBatches:
    """Read how far a query has come: three listings and files, however many batches are kept.

    Raises CheckpointError when a file cannot be read, or is of a newer version.
    """
    with _errors_in_a_line(folder):
        commits = _numbers(folder, "commits")
        planned = _numbers(folder, "offsets")
        batch = _batch(folder, planned[-1], planned[-1] in commits) if planned else None
        return LastBatches(_query_id(folder), batch, commits[-1] if commits else None)


def read_checkpoint(folder: Folder) -> Checkpoint:
    """Read all that is kept; of the only checkpoint below, when the folder is none itself.

    Raises CheckpointError when it is not a checkpoint, cannot be read, is of a newer version or has
    no Kafka source.
    """
    with _errors_in_a_line(folder):
        query_id = _query_id(folder)
        warnings: list[str] = []
        # Before the offsets: the query may run, and a state is of a batch that was planned.
        states = {s: _states(folder, s, warnings) for s in folder.names("sources")}
        planned = _numbers(folder, "offsets")
        if query_id is None and not planned:
            below, are_all = checkpoints_below(folder)
            if len(below) == 1 and are_all:
                return read_checkpoint(folder.below(below[0]))
            raise NoCheckpointError(not_a_checkpoint(folder))
        commits = set(_numbers(folder, "commits"))
        batches = [batch for n in planned if (batch := _batch(folder, n, n in commits)) is not None]
        found = {source: _begin(folder, source) for source in folder.names("sources")}
        begins = {source: begin for source, begin in found.items() if begin is not None}
        kept = {source: each for source, each in states.items() if each and source in begins}
    if not begins and not any(batch.ends for batch in batches):
        raise NoCheckpointError(
            f"checkpoint {folder.name!r} has no Kafka source with offsets: no batch was planned "
            "yet, or the query reads from elsewhere"
        )
    return Checkpoint(folder.name, query_id, tuple(batches), begins, kept, tuple(warnings))


class RangesOfBatches:
    """What the batches of one run read; the ends of the last one are where the next one begins."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._last: LoggedBatch | None = None

    def read(self, number: int) -> KafkaRanges | None:
        """Read what a batch reads: up to its own ends, from those of the batch before it.

        None when the batch, the one before it or where a source began is not kept. Raises
        CheckpointError when a file cannot be read, or is of a newer version.
        """
        folder, before = self._folder, self._last
        with _errors_in_a_line(folder):
            if number and (before is None or before.batch_id != number - 1):
                before = _batch(folder, number - 1, True)
            self._last = batch = _batch(folder, number, False)
            if batch is None or (number and before is None):
                return None
            starts = before.ends if number and before else {}
            begins = {s: at for s in batch.ends.keys() - starts if (at := _begin(folder, s))}
            known = {**begins, **starts}
            whole = known.keys() >= batch.ends.keys()
            return ranges_between(known, batch.ends) if whole else None


def ranges_between(
    starts: Mapping[str, KafkaOffsets], ends: Mapping[str, KafkaOffsets]
) -> KafkaRanges:
    """Return what lies between, by source, without partitions where that is nothing.

    A partition that was not there before begins at 0; where its records of old are deleted already,
    Spark begins behind them, and says so.

    >>> ranges_between({"0": {"t": {0: 5}}}, {"0": {"t": {0: 7, 1: 3}}})
    {'0': {'t': {0: (5, 7), 1: (0, 3)}}}
    """
    ranges: KafkaRanges = {}
    for source, topics in ends.items():
        for topic, partitions in topics.items():
            before = starts.get(source, {}).get(topic, {})
            read = {
                number: (begin, end)
                for number, end in sorted(partitions.items())
                if (begin := before.get(number, 0)) != end
            }
            if read:
                ranges.setdefault(source, {})[topic] = read
    return ranges


@contextlib.contextmanager
def _errors_in_a_line(folder: Folder) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise CheckpointError(f"checkpoint {folder.name!r} cannot be read: {why}") from error


def _query_id(folder: Folder) -> str | None:
    raw = folder.read("metadata")
    if raw is None:
        return None
    metadata = _json(raw)
    if not isinstance(metadata, dict) or not isinstance(metadata.get("id"), str):
        raise CheckpointError(f"checkpoint {folder.name!r}: 'metadata' has no query id")
    return str(metadata["id"])


def _numbers(folder: Folder, path: str) -> list[int]:
    """Batches of a log; temporary files, checksums and others have no plain number for a name."""
    return sorted(int(name) for name in folder.names(path) if _is_number(name))


def _batch(folder: Folder, number: int, committed: bool) -> LoggedBatch | None:
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
    timestamp, watermark = (_positive(metadata, f"batch{n}Ms") for n in ("Timestamp", "Watermark"))
    return LoggedBatch(number, ends, committed, timestamp, watermark)


def _begin(folder: Folder, source: str) -> KafkaOffsets | None:
    """Where a source began; None when it is not a Kafka source."""
    raw = folder.read(f"sources/{source}/0")
    if raw is None:
        return None
    where = f"checkpoint {folder.name!r}: 'sources/{source}/0'"
    text = raw.removeprefix(b"\0").decode("utf-8", "replace")
    version, newline, rest = text.partition("\n") if text.startswith("v") else ("", "", text)
    offsets = _offsets(_json(rest), f"{where} is damaged")
    if offsets is not None and newline:  # Spark 2.1 wrote no version
        _version(version, SOURCE_VERSION, where)
    return offsets


def _states(folder: Folder, source: str, warnings: list[str]) -> tuple[StickyState, ...]:
    """Read the good states that the planner left for a source, the oldest first."""
    path = f"sources/{source}/assignments"
    names = [name for name in folder.names(path) if _is_number(name.partition(".")[0])]
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


def kafka_offsets(value: Any) -> KafkaOffsets | None:
    """Recognise `{topic: {partition: offset}}`; None for the offset of another kind of source."""
    if not isinstance(value, dict) or not value:
        return None
    for partitions in value.values():
        if not isinstance(partitions, dict) or not all(
            _is_number(partition) and isinstance(offset, int) and not isinstance(offset, bool)
            for partition, offset in partitions.items()
        ):
            return None
    return {t: {int(p): offset for p, offset in of.items()} for t, of in value.items()}


def _offsets(value: Any, damaged: str) -> KafkaOffsets | None:
    """Recognise a Kafka source's offsets, and refuse those that no broker ever gave."""
    offsets = kafka_offsets(value)
    for topic, partitions in (offsets or {}).items():
        for number, offset in partitions.items():
            if number > _MOST_PARTITION or not 0 <= offset <= _MOST_OFFSET:
                shown = f"{offset:.3g}" if abs(offset) > _MOST_OFFSET else offset
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


def _is_number(name: str) -> bool:
    is_short = name.isascii() and name.isdigit() and len(name) <= _DIGITS
    return is_short and int(name) <= _MOST_OFFSET
