"""Determine how far each partition was read, and by which group member or Spark executor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignor_bridge.errors import OptionError, pluralize
from assignor_bridge.model import Partition
from streaming.kafka.brokers import flatten_offsets
from streaming.kafka.groups import GroupError, fetch_group_offsets, fetch_members

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from checkpoints.offset_log import Checkpoint
    from streaming.kafka.brokers import Brokers

#: Spark's values for the start and the end of a log.
EARLIEST = -2
LATEST = -1


@dataclass(frozen=True, slots=True)
class Position:
    """How far one partition was read; values that are unknown or do not apply are None."""

    #: The group's name, or `sources/<name>` of a checkpoint.
    owner: str
    topic: str
    partition: int
    #: The next offset to be read.
    offset: int | None = None
    consumer_id: str | None = None
    host: str | None = None
    client_id: str | None = None
    #: Spark executor that read the partition last, according to the planner's state.
    executor: str | None = None

    @property
    def tp(self) -> Partition:
        """Topic and number of the partition."""
        return Partition(self.topic, self.partition)


def fetch_group_positions(brokers: Brokers, group: str) -> list[Position]:
    """Return the positions of a group: its committed offsets, and its partitions' consumers.

    Raises GroupError if the group does not exist or has no offset or partition that the user may
    describe, if the user may not describe the group, or if its coordinator does not answer.
    """
    offsets = fetch_group_offsets(brokers, group)  # first, because it waits for the coordinator
    consumers = fetch_members(brokers, group)
    if consumers is None and not offsets:
        raise GroupError(
            f"group {group!r} does not exist: it has no members and no committed offset on topics "
            "that the user may describe"
        )
    owners = {tp: member for member in consumers or () for tp in member.partitions}
    if consumers is not None and not offsets and not owners:
        members_text = f" ({pluralize(len(consumers), 'consumer')} without partitions)"
        raise GroupError(
            f"group {group!r} has no committed offset on any topic that the user may describe"
            f"{members_text if consumers else ''}: its topics were deleted (and re-created), it "
            "has not committed yet, or the user lacks Describe permission on its topics"
        )
    return [
        Position(group, *tp, offsets.get(tp), owner.consumer_id, owner.host, owner.client_id)
        if (owner := owners.get(tp))
        else Position(group, *tp, offsets.get(tp))
        for tp in sorted({*offsets, *owners})
    ]


def list_checkpoint_positions(checkpoint: Checkpoint, source: str | None = None) -> list[Position]:
    """Return positions after the last committed batch; partitions planned later have no offset."""
    positions = []
    for name in checkpoint.sources if source is None else (source,):
        state = checkpoint.states.get(name)
        executors = state.map_last_executors() if state else {}
        ends = flatten_offsets(checkpoint.ends_of(name, checkpoint.last_committed))
        planned_ends = flatten_offsets(checkpoint.ends_of(name, checkpoint.last_planned))
        for tp in sorted({*ends, *planned_ends}):
            reader = executors.get(tp)
            host, executor = (reader.host, reader.executor) if reader else (None, None)
            position = Position(f"sources/{name}", *tp, ends.get(tp), host=host, executor=executor)
            positions.append(position)
    return positions


@dataclass(frozen=True, slots=True)
class StartingOffsets:
    """Start offsets of a new query, for every partition of each topic, as Spark requires."""

    offsets: dict[str, dict[int, int]]
    #: Partitions without a position, which start at `default_offset`.
    default_partitions: tuple[str, ...]
    #: Partitions that no longer exist on the brokers, which Spark would reject.
    missing_partitions: tuple[str, ...]


def build_starting_offsets(
    positions: Sequence[Position],
    numbers_by_topic: Mapping[str, Collection[int]] | None,
    default_offset: int,
) -> StartingOffsets:
    """Build Spark's `startingOffsets` from positions.

    `numbers_by_topic` has the brokers' partitions, or is None without brokers; `default_offset` is
    EARLIEST or LATEST. Raises OptionError if sources have different offsets for a partition.
    """
    position_offsets: dict[Partition, int | None] = {}
    for position in positions:
        if position_offsets.setdefault(position.tp, position.offset) != position.offset:
            raise OptionError(
                f"{position.tp} has different offsets in several sources: choose one with --source"
            )
    existing_tps = set(position_offsets)
    if numbers_by_topic is not None:
        existing_tps = {Partition(topic, n) for topic, ns in numbers_by_topic.items() for n in ns}
    offsets: dict[str, dict[int, int]] = {}
    default_partitions = []
    for tp in sorted(existing_tps):
        offset = position_offsets.get(tp)
        if offset is None:
            default_partitions.append(str(tp))
        offsets.setdefault(tp.topic, {})[tp.number] = default_offset if offset is None else offset
    missing_partitions = tuple(map(str, sorted(set(position_offsets) - existing_tps)))
    return StartingOffsets(offsets, tuple(default_partitions), missing_partitions)
