"""Whether a query could go on from its checkpoint: topics, offsets, the planner's state, Delta.

Each finding is one line that says what to do. Nothing is changed.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streaming.delta.transactions import NEVER, read_log
from streaming.doctor.checkpoint_history import topics_made_again
from streaming.lag.first_unread import first_unread
from streaming.observe.check import Check

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from checkpoints.offset_log import Checkpoint, KafkaOffsets
    from checkpoints.sticky_state import StickyState
    from streaming.kafka.brokers import Brokers, Failure, Partition

_SHOWN = 3
#: Clocks of producers and of the driver may differ by so much.
_CLOCKS_S = 60.0
_READ_LIMIT_S = 3.0
_NEW_CHECKPOINT = "give the query a new checkpoint, with startingOffsets that fit"


@dataclass(frozen=True)
class _Logs:
    """What the brokers have of the topics that the checkpoint names."""

    partitions: dict[str, frozenset[int]]
    begins: dict[Partition, int]
    ends: dict[Partition, int]
    #: When the first record was written, of partitions that began anew under the checkpoint.
    anew: dict[Partition, float]


def examine_checkpoint(
    checkpoint: Checkpoint, brokers: Brokers | None, delta_table: str | None
) -> list[Check]:
    """Give one check a need; of topics only with the brokers, of Delta only with its table.

    Raises
    ------
    OptionError
        When `delta_table` is none, or cannot be read.
    """
    again = topics_made_again(checkpoint)
    found = [_batches(checkpoint), *_states(checkpoint, {topic for _, topic in again})]
    found += [
        Check(
            f"topic {topic!r} (sources/{source})", False,
            f"it was deleted and made again: {how}; {_NEW_CHECKPOINT}",
        )
        for (source, topic), how in again.items()
    ]  # fmt: skip
    if brokers is not None:
        found += _topics(checkpoint, brokers, again)
    if delta_table is not None:
        found.append(_delta(checkpoint, delta_table))
    return found


def _batches(checkpoint: Checkpoint) -> Check:
    planned, done = checkpoint.last_planned, checkpoint.last_committed
    sources = ", ".join(checkpoint.sources)
    what = f"query {checkpoint.query_id or 'of unknown id'} (Kafka sources {sources})"
    if planned is None:
        return Check(what, True, "no batch was planned yet")
    if done is planned:
        return Check(what, True, f"batch {planned.batch_id} is its last and completed")
    last = f"batch {done.batch_id} is the last completed one" if done else "no batch was completed"
    return Check(
        what, True, f"{last}; batch {planned.batch_id} is planned and will run at the next start"
    )


def _states(checkpoint: Checkpoint, again: set[str]) -> Iterator[Check]:
    """Tell state files that cannot be used, and states of something else than this query.

    Of a topic that was made again the state is ahead for that reason, not for a copy.
    """
    for warning in checkpoint.warnings:
        path, _, why = warning.partition(": ")
        do = (
            "install that version, or delete the file"
            if "newer than" in why
            else "delete the file; partitions may change executors, no data is affected"
        )
        yield Check(f"state {path}", False, f"{why}: {do}")
    for source, state in checkpoint.states.items():
        what = f"state of sources/{source}"
        ends = checkpoint.ends_of(source, checkpoint.last_planned)
        told = f"generation {state.generation}, {len(state.readers)} executors"
        delete = (
            f"delete sources/{source}/assignments; partitions may change executors, no data is "
            "affected"
        )
        if state.topics and not set(state.topics) & set(ends):
            yield Check(
                what, False, f"it is of {_some(state.topics)}, the source reads {_some(ends)}: "
                f"{delete}",
            )  # fmt: skip
            continue
        ahead = [
            p for p, at in _positions(state)
            if p[0] not in again and at > ends.get(p[0], {}).get(p[1], at)
        ]  # fmt: skip
        if ahead:
            yield Check(
                what, False, f"it is ahead of the checkpoint in {_named(ahead)}, so one of them "
                f"was restored from a copy: {delete}",
            )  # fmt: skip
        else:
            yield Check(what, True, told)


def _positions(state: StickyState) -> Iterator[tuple[Partition, int]]:
    columns = (state.topic.tolist(), state.partition.tolist(), state.position.tolist())
    for topic, partition, position in zip(*columns, strict=True):
        yield (state.topics[topic], partition), position


def _topics(
    checkpoint: Checkpoint, brokers: Brokers, again: Container[tuple[str, str]]
) -> Iterator[Check]:
    """Check each topic of each source, but those of which it is known."""
    starts = {s: checkpoint.ends_of(s, checkpoint.last_committed) for s in checkpoint.sources}
    ends = {s: checkpoint.ends_of(s, checkpoint.last_planned) for s in checkpoint.sources}
    there = brokers.partitions({topic for offsets in ends.values() for topic in offsets})
    known = {(topic, number) for topic, numbers in there.items() for number in numbers}
    read = {p for offsets in ends.values() for p in _flat(offsets)} & known
    begins, log_ends = brokers.log_ranges(read)
    anew = _written_after(checkpoint, brokers, ends.values(), begins, log_ends)
    logs = _Logs(there, begins, log_ends, anew)
    for source in checkpoint.sources:
        for topic in sorted(t for t in ends[source] if (source, t) not in again):
            what = f"topic {topic!r} (sources/{source})"
            start = _flat({topic: starts[source].get(topic, {})})
            end = _flat({topic: ends[source][topic]})
            if topic in brokers.gone:
                yield Check(
                    what, False, "it is not on the brokers: make it again or take it out of the "
                    "subscription; by failOnDataLoss the query stops at what it cannot read",
                )  # fmt: skip
            elif topic not in there:
                yield Check(what, False, "the brokers do not tell: see the note on stderr")
            else:
                wrong = _wrong_with(topic, start, end, logs)
                yield from (Check(what, False, found) for found in wrong)
                if not wrong:
                    yield Check(what, True, f"{len(there[topic])} partitions, offsets are there")


def _wrong_with(
    topic: str, start: dict[Partition, int], end: dict[Partition, int], logs: _Logs
) -> list[str]:
    """Tell what is wrong with one topic of one source."""
    found = []
    there = logs.partitions[topic]
    fewer = [p for p in end if p[1] not in there]
    if fewer:
        found.append(
            f"it has {len(there)} partitions, the checkpoint also knows {_named(fewer)}: the topic "
            f"was deleted and made again with fewer; {_NEW_CHECKPOINT}"
        )
    ahead = [p for p, at in end.items() if at > logs.ends.get(p, at)]
    newer = [p for p in end if p in logs.anew]
    if newer:
        found.append(
            f"it was deleted and made again: {_named(newer)} begins with records of "
            f"{_time(logs.anew[newer[0]])}, written after the last batch had read past "
            f"them; {_NEW_CHECKPOINT}"
        )
    elif ahead and len(ahead) == sum(at > 0 for p, at in end.items() if p[1] in there):
        found.append(
            f"it was deleted and made again: the checkpoint is ahead of the log end in all its "
            f"partitions that were read, {_ranges(ahead, end, logs.ends, 'ends at')}; "
            f"{_NEW_CHECKPOINT}"
        )
    elif ahead:
        found.append(
            f"the checkpoint is ahead of the log end: {_ranges(ahead, end, logs.ends, 'ends at')}; "
            f"the brokers lost records or the topic was made again; {_NEW_CHECKPOINT}"
        )
    behind = [p for p, at in start.items() if at < logs.begins.get(p, at)]
    if behind:
        found.append(
            f"records were deleted before they were read: "
            f"{_ranges(behind, start, logs.begins, 'begins at')}; raise retention.ms or read "
            "faster, and start once with failOnDataLoss=false to go on without them"
        )
    return found


def _written_after(
    checkpoint: Checkpoint,
    brokers: Brokers,
    ends: Iterable[KafkaOffsets],
    begins: dict[Partition, int],
    log_ends: dict[Partition, int],
) -> dict[Partition, float]:
    """Give partitions whose first record, read by the checkpoint's account, is younger than that.

    A topic that was made again and has grown beyond the old offsets looks sound by its offsets.
    """
    planned = checkpoint.last_planned
    if planned is None or planned.timestamp_ms is None:
        return {}
    past = {p for offsets in ends for p, at in _flat(offsets).items() if begins.get(p, at) < at}
    first = {p: begins[p] for p in sorted(past) if begins[p] < log_ends.get(p, 0)}
    latest_s = planned.timestamp_ms / 1000 + _CLOCKS_S
    failed: dict[str, Failure] = {}
    times = first_unread(brokers.settings, first, _READ_LIMIT_S, failed)
    brokers.note_all("time of the first record", failed, len(first), "Read")
    return {p: at for p, at in times.items() if at is not None and at > latest_s}


def _delta(checkpoint: Checkpoint, table: str) -> Check:
    what = f"Delta table {table}"
    if checkpoint.query_id is None:
        return Check(what, True, "unknown: the checkpoint has no query id")
    held = read_log(table, checkpoint.query_id).batch
    planned = checkpoint.last_planned.batch_id if checkpoint.last_planned else NEVER
    done = checkpoint.last_committed.batch_id if checkpoint.last_committed else NEVER
    if held is None:
        return Check(
            what, True, "unknown: its JSON commits name no batch of the query, and older ones are "
            "in Parquet, which is not read",
        )  # fmt: skip
    if held > planned:
        return Check(
            what, False, f"it holds batch {held}, the checkpoint's last is {planned}, so the "
            f"checkpoint was restored from a copy: Delta will skip batches up to {held} and their "
            "rows are lost; give the query a new checkpoint whose startingOffsets are the offsets "
            "that the table holds",
        )  # fmt: skip
    if held < done:
        holds = f"it holds batch {held} of this query" if held > NEVER else (
            "it holds no batch of this query"
        )  # fmt: skip
        return Check(
            what, False, f"{holds}, but the checkpoint has completed batch {done}: it is another "
            "table, was made again or was put back from a copy, and rows that were read are not "
            "in it; name the query's table, or give the query a new checkpoint",
        )  # fmt: skip
    if held == NEVER:
        return Check(what, True, "it has no batch of this query yet, and none was completed")
    return Check(what, True, f"it holds batch {held}, the checkpoint's last is {planned}")


def _flat(offsets: KafkaOffsets) -> dict[Partition, int]:
    return {(t, number): at for t, found in offsets.items() for number, at in found.items()}


def _named(partitions: Iterable[Partition]) -> str:
    return _some(f"{topic}-{number}" for topic, number in sorted(partitions))


def _ranges(
    partitions: list[Partition],
    ours: dict[Partition, int],
    logs: dict[Partition, int],
    verb: str,
) -> str:
    return _some(
        f"{p[0]}-{p[1]} is read up to {ours[p]} and its log {verb} {logs[p]}"
        for p in sorted(partitions)
    )


def _some(words: Iterable[str]) -> str:
    found = list(words)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more


def _time(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime(
        "%Y-%m-%d %H:%M:%SZ"
    )
