"""Up to where a query or a group has read each partition, and who reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignor_bridge.errors import OptionError
from assignor_bridge.model import Partition
from streaming.kafka.brokers import flatten_offsets
from streaming.kafka.groups import GroupError, fetch_committed_offsets, fetch_members

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from checkpoints.offset_log import Checkpoint
    from streaming.kafka.brokers import Brokers

#: What Spark takes for a partition in place of an offset.
EARLIEST, LATEST = -2, -1


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

    @property
    def tp(self) -> Partition:
        """Topic and number of the partition."""
        return Partition(self.topic, self.partition)


def read_group_positions(brokers: Brokers, group: str) -> list[Position]:
    """Return what a group has committed and what its live consumers own, as Kafka's tool does.

    Raises GroupError when there is no such group, it may not be seen or its coordinator is silent.
    """
    offsets = fetch_committed_offsets(
        brokers, group
    )  # first: it waits for a new cluster's coordinator
    consumers = fetch_members(brokers, group)
    if consumers is None and not offsets:
        raise GroupError(
            f"group {group!r} does not exist: no consumer has it and nothing was committed to it, "
            "on topics that may be seen"
        )
    owners = {tp: member for member in consumers or () for tp in member.partitions}
    if consumers is not None and not offsets and not owners:
        raise GroupError(
            f"group {group!r} has no offset of any topic that may be seen"
            + (f", and its {len(consumers)} consumers have no partition" if consumers else "")
            + ": its topics were deleted (and re-created), or the user lacks Describe on each Topic"
        )
    return [
        Position(group, *tp, offsets.get(tp), owner.consumer_id, owner.host, owner.client_id)
        if (owner := owners.get(tp))
        else Position(group, *tp, offsets.get(tp))
        for tp in sorted({*offsets, *owners})
    ]


def read_checkpoint_positions(checkpoint: Checkpoint, source: str | None = None) -> list[Position]:
    """Return where a query, or one source of it, stands after its last completed batch."""
    positions = []
    for name in checkpoint.sources if source is None else (source,):
        state = checkpoint.states.get(name)
        readers = state.last_executors() if state else {}
        ends = flatten_offsets(checkpoint.ends_of(name, checkpoint.last_committed))
        planned = flatten_offsets(checkpoint.ends_of(name, checkpoint.last_planned))
        for tp in sorted({*ends, *planned}):
            reader = readers.get(tp)
            host, executor = (reader.host, reader.executor) if reader else (None, None)
            position = Position(f"sources/{name}", *tp, ends.get(tp), host=host, executor=executor)
            positions.append(position)
    return positions


@dataclass(frozen=True, slots=True)
class StartingOffsets:
    """Where a new query would begin: every partition of each topic, or Spark refuses it."""

    offsets: dict[str, dict[int, int]]
    #: Partitions without a position, for which `missing` stands.
    filled: tuple[str, ...]
    #: Partitions with a position that are not on the broker: Spark would refuse them.
    left_out: tuple[str, ...]


def build_starting_offsets(
    positions: Sequence[Position], partitions: Mapping[str, Collection[int]] | None, missing: int
) -> StartingOffsets:
    """Complete positions to Spark's `startingOffsets`.

    `partitions` are those of the topics on the brokers, None when nobody was asked; `missing` is
    EARLIEST or LATEST. Raises OptionError when two sources of a query stand at different offsets of
    one partition.
    """
    known: dict[Partition, int | None] = {}
    for position in positions:
        if known.setdefault(position.tp, position.offset) != position.offset:
            raise OptionError(
                f"{position.tp} is read by several sources, up to different offsets: choose one "
                "with --source"
            )
    existing = set(known)
    if partitions is not None:
        existing = {Partition(topic, n) for topic, numbers in partitions.items() for n in numbers}
    offsets: dict[str, dict[int, int]] = {}
    filled = []
    for tp in sorted(existing):
        offset = known.get(tp)
        if offset is None:
            filled.append(str(tp))
        offsets.setdefault(tp.topic, {})[tp.number] = missing if offset is None else offset
    return StartingOffsets(offsets, tuple(filled), tuple(map(str, sorted(set(known) - existing))))
