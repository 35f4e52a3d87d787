"""Check whether a query can continue from its checkpoint: topics, offsets, state, and Delta.

The checks change nothing. The message of a failed check explains what to do.
"""

from __future__ import annotations

import datetime
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignor_bridge.errors import elide, pluralize
from assignor_bridge.model import Partition
from streaming.doctor.delta_table import match_batches
from streaming.kafka.brokers import flatten_offsets
from streaming.lag.first_unread import find_first_unread
from streaming.observe.check_result import Check

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from checkpoints.log_files import KafkaOffsets
    from checkpoints.offset_log import Checkpoint
    from streaming.kafka.brokers import Brokers, Failures

#: Tolerated difference between the producers' clocks and the driver's clock.
_MAX_CLOCK_SKEW_S = 60.0
_READ_LIMIT_S = 3.0
_NEW_CHECKPOINT = "give the query a new checkpoint, and set its startingOffsets"
_RECREATION = "it was deleted and re-created"
_DELETION_EFFECT = "partitions may change executors, but no data is affected"


def examine_checkpoint(
    checkpoint: Checkpoint, brokers: Brokers | None, delta_table: str | None
) -> list[Check]:
    """Check a checkpoint, and if given, its topics on `brokers` and its batches in `delta_table`.

    Raises OptionError if `delta_table` is not a readable Delta table, and what `brokers` raise.
    """
    description_by_topic = _find_recreated_topics(checkpoint)
    recreated_topics = {topic for _, topic in description_by_topic}
    checks = [_check_batches(checkpoint), *_check_states(checkpoint, recreated_topics)]
    checks += [
        Check(_format_topic(source, topic), False, f"{_RECREATION}: {text}; {_NEW_CHECKPOINT}")
        for (source, topic), text in description_by_topic.items()
    ]
    if brokers is not None:
        checks += _check_topics(checkpoint, brokers, description_by_topic)
    if delta_table is not None:
        checks.append(Check(f"Delta table {delta_table}", *match_batches(checkpoint, delta_table)))
    return checks


def _check_batches(checkpoint: Checkpoint) -> Check:
    planned_batch, completed_batch = checkpoint.last_planned, checkpoint.last_committed
    sources = ", ".join(f"sources/{source}" for source in checkpoint.sources)
    name = f"query {checkpoint.query_id or 'with unknown ID'} ({sources})"
    if planned_batch is None:
        return Check(name, True, "no batch has been planned yet")
    if fault := _describe_missing_offsets(checkpoint, planned_batch.batch_id):
        return Check(name, False, fault)
    if completed_batch is planned_batch:
        return Check(name, True, f"its last batch, {planned_batch.batch_id}, is completed")
    completed_text = "no batch has been completed"
    if completed_batch is not None:
        completed_text = f"the last completed batch is {completed_batch.batch_id}"
    planned_text = f"batch {planned_batch.batch_id} is running, or will run at the next start"
    return Check(name, True, f"{completed_text}; {planned_text}")


def _describe_missing_offsets(checkpoint: Checkpoint, last_id: int) -> str | None:
    """Return a message if the batch before the last one has a commit but no offsets, else None.

    Spark reads the offsets of both batches when it starts (SPARK-38033). With asynchronous progress
    tracking, it may have logged neither the offsets nor the commit of the earlier batch.
    """
    previous_id = last_id - 1
    is_logged = any(batch.batch_id == previous_id for batch in checkpoint.batches)
    if is_logged or previous_id not in checkpoint.commits:
        return None
    advice = "restore the file from a backup"
    if last_id in checkpoint.commits:
        # Spark needs the file only for the start offsets of a batch that it reruns.
        advice += (
            f", or copy offsets/{last_id} to offsets/{previous_id} (batch {last_id} is "
            "completed; `assignor audit` then reports ranges-mismatch for it)"
        )
    else:
        advice += f"; without a backup, {_NEW_CHECKPOINT}"
    reason = f'Spark would stop with "batch {previous_id} doesn\'t exist"'
    return f"offsets/{previous_id} is missing; {reason}: {advice}"


def _find_recreated_topics(checkpoint: Checkpoint) -> dict[tuple[str, str], str]:
    """Return a description of each topic that goes backwards in the planned batch.

    If a topic was re-created, Spark plans a batch that ends before the previous batch or has fewer
    partitions, and then fails. Completed batches (`failOnDataLoss=false`) are not checked.
    """
    planned_batch, completed_batch = checkpoint.last_planned, checkpoint.last_committed
    if planned_batch is None or completed_batch is None or planned_batch is completed_batch:
        return {}
    description_by_topic = {}
    for source, ends in planned_batch.ends.items():
        for topic, old_ends in checkpoint.ends_of(source, completed_batch).items():
            planned_ends = ends.get(topic, {})
            drops = [
                f"{topic}-{number} to {planned_ends[number]} (previous end offset: {end})"
                if number in planned_ends
                else f"{topic}-{number} is missing (previous end offset: {end})"
                for number, end in sorted(old_ends.items())
                if planned_ends and planned_ends.get(number, -1) < end
            ]
            if drops:
                description_by_topic[source, topic] = (
                    f"the planned batch {planned_batch.batch_id} goes backwards: {elide(drops)}"
                )
    return description_by_topic


def _check_states(checkpoint: Checkpoint, recreated_topics: set[str]) -> Iterator[Check]:
    """Check that the planner's states are readable and belong to this query.

    Re-created topics are ignored, because the state is ahead of their new offsets.
    """
    for warning in checkpoint.warnings:
        path, _, cause = warning.partition(": ")
        is_newer = "newer than" in cause
        advice = "install the assignor-bridge that wrote it, or " if is_newer else ""
        yield Check(f"state {path}", False, f"{cause}: {advice}delete the file; {_DELETION_EFFECT}")
    for source, state in checkpoint.states.items():
        ends = checkpoint.ends_of(source, checkpoint.last_planned)
        columns = (state.topic.tolist(), state.partition.tolist(), state.position.tolist())
        partitions_ahead = [
            Partition(topic, number)
            for index, number, position in zip(*columns, strict=True)
            if (topic := state.topics[index]) not in recreated_topics
            and position > ends.get(topic, {}).get(number, position)
        ]
        fault = ""
        if state.topics and not set(state.topics) & set(ends):
            source_topics = elide(list(ends)) or "no topic"
            fault = f"it has topics {elide(state.topics)}, but the source reads {source_topics}"
        elif partitions_ahead:
            fault = (
                f"it is ahead of the checkpoint in {_join(partitions_ahead)}, so one of the two "
                "was restored from a backup"
            )
        yield Check(
            f"state of sources/{source}",
            not fault,
            f"{fault}: delete sources/{source}/assignments; {_DELETION_EFFECT}"
            if fault
            else f"generation {state.generation}, {pluralize(len(state.readers), 'executor')}",
        )


@dataclass(frozen=True)
class _TopicLogs:
    """State of the checkpoint's topics on the brokers: partition numbers, and log offsets."""

    numbers_by_topic: dict[str, frozenset[int]]
    begins: dict[Partition, int]
    ends: dict[Partition, int]
    #: Unix time of the first record in each partition that was re-created after the last batch.
    recreation_times_s: dict[Partition, float]


def _check_topics(
    checkpoint: Checkpoint, brokers: Brokers, excluded_topics: Container[tuple[str, str]]
) -> Iterator[Check]:
    """Check each topic of each source, except `excluded_topics` (pairs of source and topic)."""
    sources = checkpoint.sources
    starts_by_source = {s: checkpoint.ends_of(s, checkpoint.last_committed) for s in sources}
    ends_by_source = {s: checkpoint.ends_of(s, checkpoint.last_planned) for s in sources}
    all_ends = ends_by_source.values()
    numbers_by_topic = brokers.list_partitions({topic for ends in all_ends for topic in ends})
    partitions = {tp for ends in all_ends for tp in flatten_offsets(ends)}
    log_begins, log_ends = brokers.fetch_log_ranges(
        {tp for tp in partitions if tp.number in numbers_by_topic.get(tp.topic, ())}
    )
    recreation_times_s = _find_recreation_times(checkpoint, brokers, all_ends, log_begins, log_ends)
    logs = _TopicLogs(numbers_by_topic, log_begins, log_ends, recreation_times_s)
    for source, source_ends in ends_by_source.items():
        for topic in sorted(t for t in source_ends if (source, t) not in excluded_topics):
            is_sound = False
            if topic in brokers.missing_topics:
                lines = [
                    "it is not on the brokers: check --bootstrap-server, or remove it from the "
                    "subscription and start once with failOnDataLoss=false"
                ]
            elif topic not in numbers_by_topic:
                lines = ["the brokers do not report its partitions: see the note on stderr"]
            else:
                starts = flatten_offsets({topic: starts_by_source[source].get(topic, {})})
                ends = flatten_offsets({topic: source_ends[topic]})
                lines = _find_faults(topic, starts, ends, logs)
                is_sound = not lines
            partition_count = len(numbers_by_topic.get(topic, ()))
            lines = lines or [f"the checkpoint's offsets exist; partitions: {partition_count}"]
            yield from (Check(_format_topic(source, topic), is_sound, line) for line in lines)


def _find_faults(
    topic: str, starts: dict[Partition, int], ends: dict[Partition, int], logs: _TopicLogs
) -> list[str]:
    """Describe the faults of one topic, which the planned batch reads from `starts` to `ends`."""
    faults = []
    existing_numbers = logs.numbers_by_topic[topic]
    missing_partitions = [tp for tp in ends if tp.number not in existing_numbers]
    if missing_partitions:
        faults.append(
            f"it has {pluralize(len(existing_numbers), 'partition')}, but the checkpoint also has "
            f"{_join(missing_partitions)}: {_RECREATION} with fewer; {_NEW_CHECKPOINT}"
        )
    partitions_ahead = [tp for tp, end in ends.items() if end > logs.ends.get(tp, end)]
    positions_text = _format_positions(partitions_ahead, ends, "ends at", logs.ends)
    recreated_partitions = [tp for tp in ends if tp in logs.recreation_times_s]
    if recreated_partitions:
        first_s = min(logs.recreation_times_s[tp] for tp in recreated_partitions)
        first_time = datetime.datetime.fromtimestamp(first_s, datetime.timezone.utc)
        faults.append(
            f"{_RECREATION}: the first records of {_join(recreated_partitions)} are from "
            f"{first_time:%Y-%m-%d %H:%M:%SZ} or later, written after the last batch had read past "
            f"these offsets; {_NEW_CHECKPOINT}"
        )
    elif partitions_ahead and len(partitions_ahead) == sum(
        end > 0 for tp, end in ends.items() if tp.number in existing_numbers
    ):
        faults.append(
            f"{_RECREATION}: the checkpoint is ahead of the log end in all partitions that it has "
            f"read ({positions_text}); {_NEW_CHECKPOINT}"
        )
    elif partitions_ahead:
        faults.append(
            f"the checkpoint is ahead of the log end: {positions_text}; the brokers lost records "
            f"or the topic was re-created; {_NEW_CHECKPOINT}"
        )
    unknown_partitions = {tp for tp in ends if tp.number in existing_numbers} - logs.ends.keys()
    if unknown_partitions:
        faults.append(
            f"the brokers do not report the offsets of {_join(unknown_partitions)}: check that "
            "each has a leader and that you may describe it; see the note on stderr"
        )
    partitions_behind = [tp for tp, start in starts.items() if start < logs.begins.get(tp, start)]
    if partitions_behind:
        faults.append(
            "records were deleted before they were read: "
            f"{_format_positions(partitions_behind, starts, 'begins at', logs.begins)}; raise the "
            "retention or read faster, and start once with failOnDataLoss=false to skip them"
        )
    return faults


def _find_recreation_times(
    checkpoint: Checkpoint,
    brokers: Brokers,
    all_ends: Iterable[KafkaOffsets],
    log_begins: dict[Partition, int],
    log_ends: dict[Partition, int],
) -> dict[Partition, float]:
    """Return times of first records that are newer than the last batch but below its end offsets.

    Such a record shows that the topic was re-created, even if it has grown past the old offsets.
    Times in the future are ignored, because they come from a wrong producer clock.
    """
    planned_batch = checkpoint.last_planned
    if planned_batch is None or planned_batch.timestamp_ms is None:
        return {}
    read_offsets: dict[Partition, int] = {}
    for offsets in all_ends:
        for tp, offset in flatten_offsets(offsets).items():
            if log_begins.get(tp, offset) < offset:
                read_offsets[tp] = max(offset, read_offsets.get(tp, 0))
    begins = {tp: log_begins[tp] for tp in read_offsets if log_begins[tp] < log_ends.get(tp, 0)}
    min_time_s = planned_batch.timestamp_ms / 1000 + _MAX_CLOCK_SKEW_S
    failures: Failures = {}
    first_records = find_first_unread(brokers, begins, _READ_LIMIT_S, failures)
    brokers.note_failures("time of the first record", failures, len(begins))
    max_time_s = time.time() + _MAX_CLOCK_SKEW_S
    return {
        tp: record.time_s
        for tp, record in first_records.items()
        # In a compacted topic, the first record may be beyond the offsets read.
        if record and record.offset < read_offsets[tp] and min_time_s < record.time_s <= max_time_s
    }


def _format_topic(source: str, topic: str) -> str:
    return f"topic {topic!r} (sources/{source})"


def _join(partitions: Iterable[Partition]) -> str:
    return elide([str(tp) for tp in sorted(partitions)])


def _format_positions(
    partitions: Iterable[Partition],
    read_offsets: Mapping[Partition, int],
    verb: str,
    log_offsets: Mapping[Partition, int],
) -> str:
    """Format each partition's read position and where its log begins or ends."""
    texts = [
        f"{tp} is read up to {read_offsets[tp]} and its log {verb} {log_offsets[tp]}"
        for tp in sorted(partitions)
    ]
    return elide(texts)
