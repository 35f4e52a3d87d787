"""Positions as Spark's `startingOffsets`: every partition of each topic, or Spark refuses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from streaming.lag.positions import Position

#: What Spark takes for a partition in place of an offset.
EARLIEST, LATEST = -2, -1


@dataclass(frozen=True, slots=True)
class Starting:
    """Where a new query would begin."""

    offsets: dict[str, dict[int, int]]
    #: Partitions without a position, for which `missing` stands.
    filled: tuple[str, ...]
    #: Partitions with a position that are not on the broker: Spark would refuse them.
    left_out: tuple[str, ...]


def starting_offsets(
    positions: Sequence[Position],
    there: Mapping[str, Collection[int]] | None,
    missing: int,
) -> Starting:
    """Complete the positions.

    Parameters
    ----------
    positions
        Up to where was read.
    there
        Partitions of the topics on the brokers; None when nobody was asked.
    missing
        For partitions without a position: `EARLIEST` or `LATEST`.

    Raises
    ------
    OptionError
        When two sources of a query stand at different offsets of one partition.
    """
    known: dict[tuple[str, int], int | None] = {}
    for position in positions:
        partition = position.topic, position.partition
        if known.get(partition, position.offset) != position.offset:
            raise OptionError(
                f"{position.topic}-{position.partition} is read by several sources, up to "
                f"different offsets: choose one with --source"
            )
        known[partition] = position.offset
    if there is None:
        wanted = set(known)
    else:
        wanted = {(topic, number) for topic, numbers in there.items() for number in numbers}
    offsets: dict[str, dict[int, int]] = {}
    filled = []
    for topic, number in sorted(wanted):
        offset = known.get((topic, number))
        if offset is None:
            filled.append(f"{topic}-{number}")
        offsets.setdefault(topic, {})[number] = missing if offset is None else offset
    left_out = tuple(f"{topic}-{number}" for topic, number in sorted(set(known) - wanted))
    return Starting(offsets, tuple(filled), left_out)
