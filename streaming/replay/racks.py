"""Where the replicas of partitions and the executors are, for a replay."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from assignor_bridge.errors import OptionError, elided
from assignor_bridge.model import Executor, Partition
from assignor_bridge.planner.racks import Replicas
from streaming.human_json.group_json import PartitionKey, Topic
from streaming.human_json.json_input import JsonObject, parse, read_model
from streaming.kafka.java_properties import read_properties
from streaming.kafka.utf8 import is_utf8

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: `\u` without the four digits of its character.
_BROKEN_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})")


@dataclass(frozen=True)
class RackMap:
    """What is known of racks; what is not named is unknown."""

    #: By id or host of an executor.
    executors: Mapping[str, str] = field(default_factory=dict)
    #: Of each replica, the leader's first.
    partitions: Mapping[Partition, Sequence[str]] = field(default_factory=dict)
    #: Whether the brokers let consumers read from followers (KIP-392); None: they do not say it.
    followers: bool | None = True
    #: In words, where the partitions' racks are from.
    origin: str = ""

    def knows(self, tp: Partition) -> bool:
        """Return whether the rack of a partition's leader is known, and so what all read from."""
        return any(self.partitions.get(tp, ())[:1])

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


_RacksByPartition = dict[Topic, dict[PartitionKey, list[str]]]


class _RacksFile(JsonObject):
    executors: dict[str, str] = Field({})
    partitions: _RacksByPartition = Field({})


def read_racks(path: Path) -> RackMap:
    """Read a file of racks: JSON, or lines HOST=RACK as `assignor.rackFile` has them.

    `{"executors": {"host-1": "a"}, "partitions": {"orders": {"0": ["a", "b"]}}}`

    Raises
    ------
    OptionError
        For a file that is neither, or that names no executor.
    """
    what = f"--racks {path}"
    try:
        text = path.read_bytes()
    except OSError as error:
        raise OptionError(f"{what}: it cannot be read ({error.strerror})") from error
    if text.lstrip().startswith(b"{"):
        given = read_model(_RacksFile, parse(text, what), what)
    else:
        given = _RacksFile(executors=_racks_of_hosts(text, what), partitions={})
    if not given.executors:
        raise OptionError(f"{what} names no executor: 'executors' with a rack by id or host")
    by_partition = {
        Partition(topic, number): held
        for topic, of_topic in given.partitions.items()
        for number, held in of_topic.items()
    }
    return RackMap(given.executors, by_partition, origin=f"by {path}")


def _racks_of_hosts(text: bytes, what: str) -> dict[str, str]:
    """Read lines of Java properties with the rules of ExecutorRacks.RackFile (Java)."""
    racks: dict[str, str] = {}
    for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), start=1):
        for host, rack in ((h.strip(), r.strip()) for h, r in read_properties(line).items()):
            wrong = ""
            if _BROKEN_ESCAPE.search(line) or not is_utf8(host + rack):
                wrong = "is broken"
            elif not host:
                wrong = "has no host"
            elif not rack:
                wrong = "has no rack"
            elif "#" in rack:
                wrong = "has a # behind the rack: comments have their own lines"
            elif host.startswith("[") and not host.endswith("]"):
                wrong = "has a colon in the host: write it as \\:"
            elif racks.setdefault(host, rack) != rack:
                wrong = f"contradicts an earlier one, with rack {racks[host]}"
            if wrong:
                raise OptionError(
                    f"{what}: line {number} ({line.strip()[:100]}) {wrong}; a line HOST=RACK for "
                    "each host of executors is expected, or JSON such as "
                    '{"executors": {"host-1": "a"}}'
                )
    return racks
