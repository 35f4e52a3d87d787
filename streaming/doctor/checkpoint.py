"""Whether a query could continue from its checkpoint: topics, offsets, the planner's state, Delta.

Each check is one line that says what to do. Nothing is changed.
"""

from __future__ import annotations

import datetime
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignor_bridge.errors import elide
from assignor_bridge.model import Partition
from streaming.doctor.delta_table import same_batches
from streaming.kafka.brokers import flatten_offsets
from streaming.lag.first_unread import find_first_unread
from streaming.observe.check import Check

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from checkpoints.log_files import KafkaOffsets
    from checkpoints.offset_log import Checkpoint
    from streaming.kafka.brokers import Brokers, Failures

#: Clocks of producers and of the driver may differ by so much.
_CLOCKS_S = 60.0
_READ_LIMIT_S = 3.0
_NEW_CHECKPOINT = "give the query a new checkpoint, with startingOffsets that fit"
_RE_CREATED = "it was deleted and re-created"
_HARMLESS = "partitions may change executors, no data is affected"


def examine_checkpoint(
    checkpoint: Checkpoint, brokers: Brokers | None, delta_table: str | None
) -> list[Check]:
    """Check topics only with the brokers, and Delta only with its table.

    Raises OptionError when `delta_table` is not a Delta table, or cannot be read.
    """
    made_again = _topics_made_again(checkpoint)
    checks = [_batches(checkpoint), *_states(checkpoint, {topic for _, topic in made_again})]
    checks += [
        Check(_name(source, topic), False, f"{_RE_CREATED}: {how}; {_NEW_CHECKPOINT}")
        for (source, topic), how in made_again.items()
    ]
    if brokers is not None:
        checks += _topics(checkpoint, brokers, made_again)
    if delta_table is not None:
        checks.append(Check(f"Delta table {delta_table}", *same_batches(checkpoint, delta_table)))
    return checks


def _batches(checkpoint: Checkpoint) -> Check:
    planned, completed = checkpoint.last_planned, checkpoint.last_committed
    sources = ", ".join(checkpoint.sources)
    what = f"query {checkpoint.query_id or 'of unknown id'} (Kafka sources {sources})"
    if planned is None:
        return Check(what, True, "no batch was planned yet")
    if missing := _missing_offsets(checkpoint, planned.batch_id):
        return Check(what, False, missing)
    if completed is planned:
        return Check(what, True, f"batch {planned.batch_id} is its last and completed")
    last = "no batch was completed"
    if completed is not None:
        last = f"batch {completed.batch_id} is the last completed one"
    waits = f"batch {planned.batch_id} is planned and will run at the next start"
    return Check(what, True, f"{last}; {waits}")


def _missing_offsets(checkpoint: Checkpoint, last: int) -> str | None:
    """Return what to do if the offsets of the batch before the last one are missing.

    Spark reads both when it starts (SPARK-38033). With asynchronous progress tracking it logs no
    batch in between, neither its offsets nor its commit.
    """
    before = last - 1
    is_kept = any(batch.batch_id == before for batch in checkpoint.batches)
    if is_kept or before not in checkpoint.commits:
        return None
    do = "put the file back from a copy"
    if last in checkpoint.commits:
        # Spark needs the file only as the start of a batch that it runs again.
        do += (
            f", or copy offsets/{last} to offsets/{before} (batch {last} is completed; `assignor "
            "audit` then reports ranges-mismatch for it)"
        )
    else:
        do += f"; without one, {_NEW_CHECKPOINT}"
    why = f'Spark would stop with "batch {before} doesn\'t exist"'
    return f"offsets/{before} is missing, without which {why}: {do}"


def _topics_made_again(checkpoint: Checkpoint) -> dict[tuple[str, str], str]:
    """Return the topics, by source and name, of which the planned batch would read older offsets.

    Spark plans such a batch, and then fails it: a partition ends before the place that the batch
    before it had reached, or does not exist any more. A batch that completed all the same, with
    `failOnDataLoss=false`, is history.
    """
    planned, completed = checkpoint.last_planned, checkpoint.last_committed
    if planned is None or completed is None or planned is completed:
        return {}
    topics = {}
    for source, ends in planned.ends.items():
        for topic, before in checkpoint.ends_of(source, completed).items():
            now = ends.get(topic, {})
            back = [
                f"{topic}-{number} up to {now[number]} after {at}"
                if number in now
                else f"{topic}-{number} no more after {at}"
                for number, at in sorted(before.items())
                if now and now.get(number, -1) < at
            ]
            if back:
                topics[source, topic] = (
                    f"batch {planned.batch_id}, which is planned, would read {elide(back)}"
                )
    return topics


def _states(checkpoint: Checkpoint, made_again: set[str]) -> Iterator[Check]:
    """Check that the planner's states can be used, and are of this query.

    A topic that was re-created leaves the state ahead, too; this is no sign of a copy.
    """
    for warning in checkpoint.warnings:
        path, _, why = warning.partition(": ")
        newer = "newer than" in why
        do = (
            "install that version, or delete the file" if newer else f"delete the file; {_HARMLESS}"
        )
        yield Check(f"state {path}", False, f"{why}: {do}")
    for source, state in checkpoint.states.items():
        ends = checkpoint.ends_of(source, checkpoint.last_planned)
        columns = (state.topic.tolist(), state.partition.tolist(), state.position.tolist())
        ahead = [
            Partition(topic, number)
            for index, number, position in zip(*columns, strict=True)
            if (topic := state.topics[index]) not in made_again
            and position > ends.get(topic, {}).get(number, position)
        ]
        wrong = ""
        if state.topics and not set(state.topics) & set(ends):
            wrong = f"it is of {elide(state.topics)}, the source reads {elide(list(ends))}"
        elif ahead:
            wrong = (
                f"it is ahead of the checkpoint in {_listed(ahead)}, so one of them was restored "
                "from a copy"
            )
        yield Check(
            f"state of sources/{source}",
            not wrong,
            f"{wrong}: delete sources/{source}/assignments; {_HARMLESS}"
            if wrong
            else f"generation {state.generation}, {len(state.readers)} executors",
        )


@dataclass(frozen=True)
class _Logs:
    """The brokers' logs of the topics that the checkpoint names."""

    partitions: dict[str, frozenset[int]]
    begins: dict[Partition, int]
    ends: dict[Partition, int]
    #: When the first record was written, of partitions that began anew under the checkpoint.
    anew: dict[Partition, float]


def _topics(
    checkpoint: Checkpoint, brokers: Brokers, made_again: Container[tuple[str, str]]
) -> Iterator[Check]:
    """Check each topic of each source, except those that its own log says were re-created."""
    starts = {s: checkpoint.ends_of(s, checkpoint.last_committed) for s in checkpoint.sources}
    ends = {s: checkpoint.ends_of(s, checkpoint.last_planned) for s in checkpoint.sources}
    existing = brokers.list_partitions({topic for offsets in ends.values() for topic in offsets})
    read = {tp for offsets in ends.values() for tp in flatten_offsets(offsets)}
    begins, log_ends = brokers.fetch_log_ranges(
        {tp for tp in read if tp.number in existing.get(tp.topic, ())}
    )
    anew = _written_after(checkpoint, brokers, ends.values(), begins, log_ends)
    logs = _Logs(existing, begins, log_ends, anew)
    for source in checkpoint.sources:
        for topic in sorted(t for t in ends[source] if (source, t) not in made_again):
            holds = False
            if topic in brokers.gone:
                lines = [
                    "it is not on the brokers: create it, or remove it from the subscription; "
                    "with failOnDataLoss the query stops at what it cannot read"
                ]
            elif topic not in existing:
                lines = ["the brokers do not report its offsets: see the note on stderr"]
            else:
                start = flatten_offsets({topic: starts[source].get(topic, {})})
                lines = _faults(topic, start, flatten_offsets({topic: ends[source][topic]}), logs)
                holds = not lines
            lines = lines or [f"{len(existing[topic])} partitions hold the offsets"]
            yield from (Check(_name(source, topic), holds, line) for line in lines)


def _faults(
    topic: str, start: dict[Partition, int], end: dict[Partition, int], logs: _Logs
) -> list[str]:
    """Return what is wrong with one topic of one source."""
    faults = []
    existing = logs.partitions[topic]
    fewer = [tp for tp in end if tp.number not in existing]
    if fewer:
        faults.append(
            f"it has {len(existing)} partitions, the checkpoint also knows {_listed(fewer)}: the "
            f"topic was deleted and re-created with fewer; {_NEW_CHECKPOINT}"
        )
    ahead = [tp for tp, at in end.items() if at > logs.ends.get(tp, at)]
    ends_at = _places(ahead, end, "ends at", logs.ends)
    newer = [tp for tp in end if tp in logs.anew]
    if newer:
        first = datetime.datetime.fromtimestamp(logs.anew[newer[0]], datetime.timezone.utc)
        faults.append(
            f"{_RE_CREATED}: {_listed(newer)} begins with records of {first:%Y-%m-%d %H:%M:%SZ}, "
            f"written after the last batch had read past them; {_NEW_CHECKPOINT}"
        )
    elif ahead and len(ahead) == sum(at > 0 for tp, at in end.items() if tp.number in existing):
        faults.append(
            f"{_RE_CREATED}: the checkpoint is ahead of the log end in all its partitions that "
            f"were read, {ends_at}; {_NEW_CHECKPOINT}"
        )
    elif ahead:
        faults.append(
            f"the checkpoint is ahead of the log end: {ends_at}; the brokers lost records or the "
            f"topic was re-created; {_NEW_CHECKPOINT}"
        )
    unknown = [tp for tp in end if tp.number in existing and tp not in logs.ends]
    if unknown:
        faults.append(
            f"the brokers do not report the offsets of {_listed(unknown)}: has each a leader, and "
            "may you read it? See the note on stderr"
        )
    behind = [tp for tp, at in start.items() if at < logs.begins.get(tp, at)]
    if behind:
        faults.append(
            "records were deleted before they were read: "
            f"{_places(behind, start, 'begins at', logs.begins)}; raise retention.ms or read "
            "faster, and start once with failOnDataLoss=false to continue without them"
        )
    return faults


def _written_after(
    checkpoint: Checkpoint,
    brokers: Brokers,
    ends: Iterable[KafkaOffsets],
    begins: dict[Partition, int],
    log_ends: dict[Partition, int],
) -> dict[Partition, float]:
    """Return partitions whose first record, read by the checkpoint's account, is younger than that.

    A topic that was re-created and has grown beyond the old offsets looks sound by its offsets. A
    time of the future is a producer's mistake, and proves nothing.
    """
    planned = checkpoint.last_planned
    if planned is None or planned.timestamp_ms is None:
        return {}
    past: dict[Partition, int] = {}
    for offsets in ends:
        for tp, at in flatten_offsets(offsets).items():
            if begins.get(tp, at) < at:
                past[tp] = max(at, past.get(tp, 0))
    first = {tp: begins[tp] for tp in sorted(past) if begins[tp] < log_ends.get(tp, 0)}
    latest_s = planned.timestamp_ms / 1000 + _CLOCKS_S
    failures: Failures = {}
    found = find_first_unread(brokers, first, _READ_LIMIT_S, failures)
    brokers.note_failures("time of the first record", failures, len(first))
    now_s = time.time() + _CLOCKS_S
    return {
        tp: record.time_s
        for tp, record in found.items()
        # What compaction has left may begin beyond what was read.
        if record and record.offset < past[tp] and latest_s < record.time_s <= now_s
    }


def _name(source: str, topic: str) -> str:
    return f"topic {topic!r} (sources/{source})"


def _listed(partitions: Iterable[Partition]) -> str:
    return elide([str(tp) for tp in sorted(partitions)])


def _places(
    partitions: Iterable[Partition],
    read: Mapping[Partition, int],
    verb: str,
    log: Mapping[Partition, int],
) -> str:
    """List how far partitions are read and where their logs begin or end."""
    return elide(
        [f"{tp} is read up to {read[tp]} and its log {verb} {log[tp]}" for tp in sorted(partitions)]
    )
