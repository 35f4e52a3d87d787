"""Read the racks of executors and of partition replicas, for a replay."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from assignor_bridge.errors import OptionError, elide
from assignor_bridge.model import Executor, Partition
from assignor_bridge.planner.racks import Replicas
from streaming.human_json.group_json import PartitionKey, Topic
from streaming.human_json.json_input import JsonObject, parse_json, validate_model
from streaming.kafka.java_properties import parse_properties
from streaming.kafka.utf8 import is_utf8

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: `\u` that is not followed by four hexadecimal digits.
_BROKEN_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})")


@dataclass(frozen=True)
class RackMap:
    """The racks of executors and of partition replicas; a missing or empty one is unknown."""

    #: Rack by executor ID or host.
    executor_racks: Mapping[str, str] = field(default_factory=dict)
    #: Racks of each partition's replicas, with the leader's rack first.
    replica_racks: Mapping[Partition, Sequence[str]] = field(default_factory=dict)
    #: Whether brokers let consumers read from followers (KIP-392); None if they do not report it.
    allows_follower_reads: bool | None = True
    #: Text that describes where the racks come from.
    origin: str = ""

    def has_leader_rack(self, tp: Partition) -> bool:
        """Return whether the rack of a partition's leader is known."""
        return any(self.replica_racks.get(tp, ())[:1])

    def add_racks_to(self, executors: Sequence[Executor]) -> tuple[Executor, ...]:
        """Return the executors with their racks; raise OptionError if none has a rack."""
        racks = self.executor_racks
        executors_with_racks = tuple(
            replace(e, rack=racks.get(e.id) or racks.get(e.host) or None) for e in executors
        )
        if not any(e.rack for e in executors_with_racks):
            names_text = elide([f"{e.id} on {e.host}" for e in executors_with_racks])
            raise OptionError(
                f"no executor has a rack: --racks has {elide(sorted(racks)) or 'none'}, but the "
                f"executors of the replay are {names_text}: add their IDs or hosts to the file"
            )
        return executors_with_racks

    def get_replicas(self, partitions: Sequence[Partition], *, leaders_only: bool) -> Replicas:
        """Return the racks from which consumers can read each partition.

        With `leaders_only` (for consumers without `client.rack`), or if the brokers may not allow
        reads from followers, these are only the leaders' racks.
        """
        max_replicas = None if self.allows_follower_reads and not leaders_only else 1
        racks = [self.replica_racks.get(tp, ())[:max_replicas] for tp in partitions]
        return Replicas.of(racks, np.arange(len(racks)))


_ReplicaRacks = dict[Topic, dict[PartitionKey, list[str]]]


class _RacksFile(JsonObject):
    executors: dict[str, str] = Field({})
    partitions: _ReplicaRacks = Field({})


def read_racks(path: Path) -> RackMap:
    """Read a rack file: JSON, or HOST=RACK lines as in `assignor.rackFile`.

    `{"executors": {"host-1": "a"}, "partitions": {"orders": {"0": ["a", "b"]}}}`

    Raises OptionError if the file cannot be read, has another format, or names no executor.
    """
    label = f"--racks {path}"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise OptionError(f"{label} cannot be read: {error.strerror}") from error
    if data.lstrip().startswith(b"{"):
        file = validate_model(_RacksFile, parse_json(data, label), label)
    else:
        file = _RacksFile(executors=_parse_host_lines(data, label), partitions={})
    if not file.executors:
        raise OptionError(f"{label} names no executor: add a line HOST=RACK (or JSON 'executors')")
    replica_racks = {
        Partition(topic, number): racks
        for topic, racks_by_number in file.partitions.items()
        for number, racks in racks_by_number.items()
    }
    return RackMap(file.executors, replica_racks, origin=f"from {path}")


def _parse_host_lines(data: bytes, label: str) -> dict[str, str]:
    """Return the racks by host, with the rules of ExecutorRacks.RackFile (Java)."""
    racks: dict[str, str] = {}
    example = 'or JSON such as {"executors": {"host-1": "a"}}'
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
        for host, rack in ((h.strip(), r.strip()) for h, r in parse_properties(line).items()):
            problem, remedy = "", f"write one line HOST=RACK per executor host, {example}"
            if _BROKEN_ESCAPE.search(line) or not is_utf8(host + rack):
                problem = "has a malformed Unicode escape"
            elif not host:
                problem = "has no host"
            elif not rack:
                problem = "has no rack"
            elif "#" in rack:
                problem, remedy = "has a '#' after the rack", "put the comment on its own line"
            elif host.startswith("[") and not host.endswith("]"):
                problem, remedy = "has a colon in the host", "write it as \\:"
            elif racks.setdefault(host, rack) != rack:
                problem = f"contradicts an earlier one, with rack {racks[host]}"
            if problem:
                line_text = f"line {number} ({line.strip()[:100]})"
                raise OptionError(f"{label}: {line_text} {problem}: {remedy}")
    return racks
