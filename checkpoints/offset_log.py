"""Spark's streaming checkpoint as plain data, read without Spark: what was planned, what is done.

`checkpoints.log_files` reads the files one by one; here is what they say together.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from checkpoints.folders import (
    DEAD_LETTER,
    CheckpointError,
    Folder,
    NoCheckpointError,
    describe_missing_checkpoint,
    find_checkpoints,
)
from checkpoints.log_files import (
    KafkaOffsets,
    LoggedBatch,
    is_number,
    list_batches,
    read_batch,
    read_query_id,
    read_source_start,
    read_states,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from checkpoints.sticky_state import StickyState

#: `[from, until)` by source, topic and partition.
KafkaRanges = dict[str, dict[str, dict[int, tuple[int, int]]]]


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
    #: Numbers in the commit log.
    commits: frozenset[int] = frozenset()

    @property
    def sources(self) -> tuple[str, ...]:
        """Kafka sources of the query; those with numbers first, in their order."""
        names = set(self.begins).union(*(batch.ends for batch in self.batches))
        return tuple(sorted(names, key=lambda n: (int(n) if is_number(n) else 1 << 62, n)))

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
    #: Where Kafka sources began that the planned batch has no offset of, by source.
    begins: Mapping[str, KafkaOffsets] = field(default_factory=dict)

    @property
    def ends(self) -> dict[str, KafkaOffsets]:
        """End of each Kafka source in the planned batch, or where the source began."""
        return {**self.begins, **(self.planned.ends if self.planned is not None else {})}


def read_last_batches(folder: Folder) -> LastBatches:
    """Read how far a query has come: a few listings and files, however many batches are kept.

    Raises CheckpointError when a file cannot be read, or is of a newer version.
    """
    with _errors_in_a_line(folder):
        commits = list_batches(folder, "commits")
        planned = list_batches(folder, "offsets")
        batch = read_batch(folder, planned[-1], planned[-1] in commits) if planned else None
        without_end = set(folder.names("sources")) - set(batch.ends if batch else ())
        begins = {
            s: begin for s in without_end if (begin := read_source_start(folder, s)) is not None
        }
        done = commits[-1] if commits else None
        return LastBatches(read_query_id(folder), batch, done, begins)


def read_position(folder: Folder) -> tuple[dict[str, KafkaOffsets], dict[str, KafkaOffsets]]:
    """Return where each Kafka source is after the completed batches, and after the planned one.

    Raises CheckpointError when a file cannot be read, or is of a newer version.
    """
    last = read_last_batches(folder)
    if last.planned is None or last.planned.committed:
        return last.ends, last.ends
    with _errors_in_a_line(folder):
        done = None if last.completed is None else read_batch(folder, last.completed, True)
        begins = {s: read_source_start(folder, s) or {} for s in folder.names("sources")}
    return {**begins, **(done.ends if done else {})}, last.ends


def read_checkpoint(folder: Folder) -> Checkpoint:
    """Read all that is kept; if the folder is of a job with one sink, from the sink's checkpoint.

    Raises CheckpointError when it is not a checkpoint, cannot be read, is of a newer version or has
    no Kafka source.
    """
    with _errors_in_a_line(folder):
        query_id = read_query_id(folder)
        warnings: list[str] = []
        # Before the offsets: the query may run, and a state is of a batch that was planned.
        states = {s: read_states(folder, s, warnings) for s in folder.names("sources")}
        planned = list_batches(folder, "offsets")
        if query_id is None and not planned:
            below, are_all = find_checkpoints(folder)
            sinks = [path for path in below if not path.split("/")[-1].startswith(DEAD_LETTER)]
            choices = sinks or below
            if len(choices) == 1 and are_all:
                return read_checkpoint(folder.below(choices[0]))
            raise NoCheckpointError(describe_missing_checkpoint(folder))
        commits = frozenset(list_batches(folder, "commits"))
        batches = [
            batch for n in planned if (batch := read_batch(folder, n, n in commits)) is not None
        ]
        found = {source: read_source_start(folder, source) for source in folder.names("sources")}
        begins = {
            source: begin
            for source, begin in found.items()
            if begin or (begin is not None and any(source in batch.ends for batch in batches))
        }
        kept = {source: each for source, each in states.items() if each and source in begins}
    if not begins and not any(batch.ends for batch in batches):
        raise NoCheckpointError(
            f"checkpoint {folder.name!r} has no Kafka source with offsets: no batch was planned "
            "yet, or the query reads from elsewhere"
        )
    return Checkpoint(folder.name, query_id, tuple(batches), begins, kept, tuple(warnings), commits)


class BatchRangeReader:
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
                before = read_batch(folder, number - 1, True)
            self._last = batch = read_batch(folder, number, False)
            if batch is None or (number and before is None):
                return None
            starts = before.ends if number and before else {}
            found = {s: read_source_start(folder, s) for s in batch.ends.keys() - starts}
            begins = {s: begin for s, begin in found.items() if begin is not None}
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
