"""Read the planned and the completed batches of a streaming checkpoint without Spark."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from checkpoints.folders import (
    DEAD_LETTER_PREFIX,
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

#: `(begin, end)`, of which `end` is not read, by source, topic, and partition.
KafkaRanges = dict[str, dict[str, dict[int, tuple[int, int]]]]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's data about the Kafka sources of its query."""

    name: str
    query_id: str | None
    #: In ascending order; gaps are possible.
    batches: tuple[LoggedBatch, ...]
    #: Start offsets by Kafka source; a source whose `sources/<n>/0` is gone is omitted.
    begins: dict[str, KafkaOffsets]
    #: The planner's readable states, oldest first, of each source in `begins` that has any.
    kept_states: dict[str, tuple[StickyState, ...]] = field(default_factory=dict)
    #: One line for each skipped state file, with the reason.
    warnings: tuple[str, ...] = ()
    #: Batch numbers in the commit log.
    commits: frozenset[int] = frozenset()

    @property
    def sources(self) -> tuple[str, ...]:
        """Kafka sources of the query; numbered ones first, in ascending order."""
        names = set(self.begins).union(*(batch.ends for batch in self.batches))
        return tuple(sorted(names, key=lambda n: (int(n) if is_number(n) else 1 << 62, n)))

    @property
    def states(self) -> dict[str, StickyState]:
        """The planner's newest readable state, by source."""
        return {source: history[-1] for source, history in self.kept_states.items()}

    @property
    def last_planned(self) -> LoggedBatch | None:
        """The newest batch, committed or not."""
        return self.batches[-1] if self.batches else None

    @property
    def last_committed(self) -> LoggedBatch | None:
        """The newest committed batch."""
        return next((batch for batch in reversed(self.batches) if batch.committed), None)

    def ends_of(self, source: str, last_batch: LoggedBatch | None) -> KafkaOffsets:
        """Return a source's newest end offsets up to a batch, else its start offsets, else {}."""
        for batch in reversed(self.batches if last_batch else ()):
            if last_batch and batch.batch_id <= last_batch.batch_id and source in batch.ends:
                return batch.ends[source]
        return self.begins.get(source, {})

    @property
    def ranges(self) -> dict[int, KafkaRanges]:
        """Ranges by batch number; a batch is omitted if its start offsets are unknown."""
        ends_of_batch = {batch.batch_id: batch.ends for batch in self.batches}
        ranges = {}
        for number, ends in ends_of_batch.items():
            starts = {**self.begins, **ends_of_batch.get(number - 1, {})}
            if (number == 0 or number - 1 in ends_of_batch) and starts.keys() >= ends.keys():
                ranges[number] = ranges_between(starts, ends)
        return ranges


@dataclass(frozen=True, slots=True)
class LastBatches:
    """A query's progress; its sources may be of any kind."""

    #: None if no query has started.
    query_id: str | None
    #: The newest planned batch; None if there is none.
    planned_batch: LoggedBatch | None
    #: Number of the newest completed batch; None if there is none.
    completed_batch_id: int | None
    #: Start offsets, by source, of the Kafka sources that have no offset in the planned batch.
    begins: Mapping[str, KafkaOffsets] = field(default_factory=dict)

    @property
    def ends(self) -> dict[str, KafkaOffsets]:
        """End offsets by Kafka source in the planned batch, or else the source's start offsets."""
        return {**self.begins, **(self.planned_batch.ends if self.planned_batch else {})}


def read_last_batches(folder: Folder) -> LastBatches:
    """Return a query's progress; raise CheckpointError if a file is unreadable or damaged."""
    with _convert_os_errors(folder):
        commits = list_batches(folder, "commits")
        planned_ids = list_batches(folder, "offsets")
        last_id = planned_ids[-1] if planned_ids else None
        batch = None if last_id is None else read_batch(folder, last_id, last_id in commits)
        new_sources = set(folder.names("sources")) - set(batch.ends if batch else ())
        begins = {
            s: begin for s in new_sources if (begin := read_source_start(folder, s)) is not None
        }
        completed_batch_id = commits[-1] if commits else None
        return LastBatches(read_query_id(folder), batch, completed_batch_id, begins)


def read_position(folder: Folder) -> tuple[dict[str, KafkaOffsets], dict[str, KafkaOffsets]]:
    """Return the Kafka sources' offsets after the completed batches, and after the planned one."""
    progress = read_last_batches(folder)
    if progress.planned_batch is None or progress.planned_batch.committed:
        return progress.ends, progress.ends
    with _convert_os_errors(folder):
        batch_id = progress.completed_batch_id
        completed_batch = None if batch_id is None else read_batch(folder, batch_id, True)
        begins = {s: read_source_start(folder, s) or {} for s in folder.names("sources")}
    return {**begins, **(completed_batch.ends if completed_batch else {})}, progress.ends


def read_checkpoint_folder(folder: Folder) -> Checkpoint:
    """Return all data of a checkpoint; the folder of a job with one sink may be given instead.

    Raises CheckpointError if it is not a readable checkpoint of a query with a Kafka source.
    """
    with _convert_os_errors(folder):
        query_id = read_query_id(folder)
        warnings: list[str] = []
        # Read states before offsets: a running query logs a batch's offsets before its state.
        states = {s: read_states(folder, s, warnings) for s in folder.names("sources")}
        planned_ids = list_batches(folder, "offsets")
        if query_id is None and not planned_ids:
            paths, is_complete_list = find_checkpoints(folder)
            sink_paths = [p for p in paths if not p.split("/")[-1].startswith(DEAD_LETTER_PREFIX)]
            candidates = sink_paths or paths
            if len(candidates) == 1 and is_complete_list:
                return read_checkpoint_folder(folder.below(candidates[0]))
            raise NoCheckpointError(describe_missing_checkpoint(folder))
        commits = frozenset(list_batches(folder, "commits"))
        batches = tuple(
            batch for n in planned_ids if (batch := read_batch(folder, n, n in commits)) is not None
        )
        all_begins = {s: read_source_start(folder, s) for s in folder.names("sources")}
        begins = {
            source: begin
            for source, begin in all_begins.items()
            if begin or (begin is not None and any(source in batch.ends for batch in batches))
        }
        kept_states = {s: history for s, history in states.items() if history and s in begins}
    if not begins and not any(batch.ends for batch in batches):
        raise NoCheckpointError(
            f"checkpoint {folder.name!r} has no Kafka source with offsets: no batch was planned "
            "yet, or the query reads other sources"
        )
    return Checkpoint(folder.name, query_id, batches, begins, kept_states, tuple(warnings), commits)


class BatchRangeReader:
    """Reads the ranges of consecutive batches; keeps the last batch, where the next one starts."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._last: LoggedBatch | None = None

    def read(self, number: int) -> KafkaRanges | None:
        """Return the ranges of a batch, from the ends of the previous batch to its own ends.

        Return None if an end or start is missing; raise CheckpointError if a file is unusable.
        """
        folder, previous = self._folder, self._last
        with _convert_os_errors(folder):
            if number and (previous is None or previous.batch_id != number - 1):
                previous = read_batch(folder, number - 1, True)
            self._last = batch = read_batch(folder, number, False)
            if batch is None or (number and previous is None):
                return None
            starts = previous.ends if number and previous else {}
            source_begins = {s: read_source_start(folder, s) for s in batch.ends.keys() - starts}
            begins = {s: begin for s, begin in source_begins.items() if begin is not None}
            all_starts = {**begins, **starts}
            is_complete = all_starts.keys() >= batch.ends.keys()
            return ranges_between(all_starts, batch.ends) if is_complete else None


def ranges_between(
    starts: Mapping[str, KafkaOffsets], ends: Mapping[str, KafkaOffsets]
) -> KafkaRanges:
    """Return the ranges between two sets of offsets, by source, except empty ones.

    A new partition starts at 0, even if Spark starts later because its first records are deleted.

    >>> ranges_between({"0": {"t": {0: 5}}}, {"0": {"t": {0: 7, 1: 3}}})
    {'0': {'t': {0: (5, 7), 1: (0, 3)}}}
    """
    ranges: KafkaRanges = {}
    for source, topics in ends.items():
        for topic, partitions in topics.items():
            topic_starts = starts.get(source, {}).get(topic, {})
            topic_ranges = {
                number: (begin, end)
                for number, end in sorted(partitions.items())
                if (begin := topic_starts.get(number, 0)) != end
            }
            if topic_ranges:
                ranges.setdefault(source, {})[topic] = topic_ranges
    return ranges


@contextlib.contextmanager
def _convert_os_errors(folder: Folder) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        cause = error.strerror or type(error).__name__
        raise CheckpointError(f"checkpoint {folder.name!r} cannot be read: {cause}") from error
