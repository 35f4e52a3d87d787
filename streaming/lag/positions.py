"""Up to where a query or a group has read each partition, and who reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streaming.kafka.groups import GroupError, committed, members

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from checkpoints.offset_log import Checkpoint
    from checkpoints.sticky_state import Reader, StickyState
    from streaming.kafka.brokers import Brokers, Partition


@dataclass(frozen=True, slots=True)
class Position:
    """Up to where one partition was read; None for what is unknown or does not apply."""

    #: The group, or `sources/<n>` of a checkpoint.
    owner: str
    topic: str
    partition: int
    #: The next offset to be read.
    offset: int | None = None
    consumer_id: str | None = None
    host: str | None = None
    client_id: str | None = None
    #: Spark's executor that read the partition last, by the planner's state.
    executor: str | None = None


def of_group(brokers: Brokers, group: str) -> list[Position]:
    """Give what a group has committed and what its live consumers own, as Kafka's tool does.

    Raises
    ------
    GroupError
        When there is no such group, it may not be seen, or its coordinator does not answer.
    """
    offsets = committed(brokers, group)  # first: it waits for a new cluster's coordinator
    there = members(brokers, group)
    if there is None and not offsets:
        raise GroupError(
            f"group {group!r} does not exist: no consumer has it and nothing was committed to it, "
            "on topics that may be seen"
        )
    found = {
        partition: Position(
            group, *partition, offsets.get(partition),
            member.consumer_id, member.host, member.client_id,
        )
        for member in there or ()
        for partition in member.partitions
    }  # fmt: skip
    if there is not None and not offsets and not found:
        raise GroupError(
            f"group {group!r} has no offset of any topic that may be seen"
            + (f", and its {len(there)} consumers have no partition" if there else "")
            + ": its topics were deleted (and made again), or the user lacks Describe on each Topic"
        )
    for partition, offset in offsets.items():
        found.setdefault(partition, Position(group, *partition, offset))
    return [found[partition] for partition in sorted(found)]


def of_checkpoint(checkpoint: Checkpoint, source: str | None = None) -> list[Position]:
    """Give where a query stands after its last completed batch, by source.

    Parameters
    ----------
    checkpoint
        What was read of it.
    source
        Only this source of the query; None for all.
    """
    done = checkpoint.last_committed
    positions = []
    for name in checkpoint.sources if source is None else (source,):
        readers = _readers(checkpoint.states.get(name))
        ends = checkpoint.ends_of(name, done)
        planned = checkpoint.ends_of(name, checkpoint.last_planned)
        for topic in sorted({*ends, *planned}):
            for partition in sorted({*ends.get(topic, ()), *planned.get(topic, ())}):
                offset = ends.get(topic, {}).get(partition)
                reader = readers.get((topic, partition))
                positions.append(
                    Position(
                        f"sources/{name}", topic, partition, offset,
                        host=reader.host if reader else None,
                        executor=reader.executor if reader else None,
                    )
                )  # fmt: skip
    return positions


def unread_beside(
    positions: Sequence[Position], there: Mapping[str, Collection[int]]
) -> list[Position]:
    """Give the partitions of the same topics that were not read yet."""
    known = {(position.topic, position.partition) for position in positions}
    owner_of = {position.topic: position.owner for position in positions}
    return [
        Position(owner_of[topic], topic, partition)
        for topic, partitions in sorted(there.items())
        for partition in sorted(partitions)
        if (topic, partition) not in known
    ]


def _readers(state: StickyState | None) -> dict[Partition, Reader]:
    """Give who read each partition last; local mode has no executor with a name."""
    if state is None:
        return {}
    of_member = [reader for reader in state.readers for _ in range(reader.slots)]
    return {
        (state.topics[topic], partition): of_member[member]
        for topic, partition, member in zip(
            state.topic.tolist(), state.partition.tolist(), state.member.tolist(), strict=True
        )
        if member >= 0 and of_member[member].executor
    }
