"""Where the replicas of partitions and the executors are, for a replay."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from assignor_bridge.errors import OptionError, elided
from assignor_bridge.group_json import ByPartition, Topic
from assignor_bridge.json_input import JsonObject, parse, read_model
from assignor_bridge.model import Executor, Partition
from assignor_bridge.planner.racks import Replicas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Racks:
    """What is known of racks; what is not named is unknown."""

    #: By id or host of an executor.
    executors: Mapping[str, str] = field(default_factory=dict)
    #: Of each replica, the leader's first.
    partitions: Mapping[Partition, Sequence[str]] = field(default_factory=dict)
    #: Whether the brokers let consumers read from followers (KIP-392); None: they do not say it.
    followers: bool | None = True
    #: In words, where the partitions' racks are from.
    origin: str = ""

    def of_executors(self, executors: Sequence[Executor]) -> tuple[Executor, ...]:
        """Return the executors with their racks; raises OptionError when none has one."""
        known = self.executors
        placed = tuple(
            replace(e, rack=known.get(e.id) or known.get(e.host) or None) for e in executors
        )
        if not any(e.rack for e in placed):
            names = elided([f"{e.id} on {e.host}" for e in placed])
            raise OptionError(
                f"no executor has a rack: --racks names {elided(sorted(known)) or 'none'}, the "
                f"executors of the replay are {names}. Name their ids or hosts under 'executors'"
            )
        return placed

    def replicas(self, partitions: Sequence[Partition], *, leaders: bool) -> Replicas:
        """Return the racks that a consumer reads each partition from: any replica's, or leaders'.

        Without a client.rack, and where brokers do not let it, a consumer reads from the leader.
        """
        most = 1 if leaders or not self.followers else None
        held = [self.partitions.get(tp, ())[:most] for tp in partitions]
        return Replicas.of(held, np.arange(len(held)))


class _RacksFile(JsonObject):
    executors: dict[str, str] = Field({})
    partitions: dict[Topic, Annotated[dict[int, list[str]], ByPartition]] = Field({})


def read_racks(path: Path) -> Racks:
    """Read a file of racks; raises OptionError for one that is none.

    `{"executors": {"host-1": "a"}, "partitions": {"orders": {"0": ["a", "b"]}}}`
    """
    what = f"--racks {path}"
    try:
        text = path.read_bytes()
    except OSError as error:
        raise OptionError(f"{what}: it cannot be read ({error.strerror})") from error
    given = read_model(_RacksFile, parse(text, what), what)
    if not given.executors:
        raise OptionError(f"{what} names no executor: 'executors' with a rack by id or host")
    by_partition = {
        Partition(topic, number): held
        for topic, of_topic in given.partitions.items()
        for number, held in of_topic.items()
    }
    return Racks(given.executors, by_partition, origin=f"by {path}")
