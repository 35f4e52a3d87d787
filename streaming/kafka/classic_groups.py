"""Members of a classic consumer group, with their subscriptions and assignments.

`describe_consumer_groups` of librdkafka has no subscriptions and no user data. Its older request
`list_groups` returns the bytes of Kafka's ConsumerProtocol, which are decoded here: versions 0 to
3, and newer versions if they only append fields.
"""

from __future__ import annotations

import struct
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from streaming.kafka.groups import GroupError, describe_group

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streaming.kafka.brokers import Brokers


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """A member of a classic group in its last completed rebalance."""

    member_id: str
    client_id: str
    #: `group.instance.id` of a static member (KIP-345); None for a dynamic member.
    instance: str | None
    #: Topics to which it subscribes.
    topics: frozenset[str]
    #: User data that the member sent with its subscription.
    user_data: bytes | None
    #: Numbers of the assigned partitions by topic.
    partitions: Mapping[str, tuple[int, ...]]
    #: User data that the leader sent with the assignment.
    assignment_user_data: bytes | None


@dataclass(frozen=True, slots=True)
class ClassicGroup:
    """A stable classic group."""

    name: str
    #: Name of the assignor that the members agreed on.
    assignor: str
    members: tuple[ClassicMember, ...]


def fetch_classic_group(brokers: Brokers, name: str) -> ClassicGroup:
    """Return a group's assignor and members.

    Raises GroupError if the user may not describe the group, its coordinator does not answer, it
    has no members or is in a rebalance, or its members are malformed or not classic consumers.
    """
    description = describe_group(brokers, name)
    if description is None or not description.members:
        raise GroupError(f"group {name!r} has no members: start its consumers first")
    if description.type.name == "CONSUMER":
        raise GroupError(
            f"group {name!r} uses group.protocol=consumer (KIP-848), so the broker assigns its "
            "partitions: only with group.protocol=classic does an assignor of the client"
        )
    instance_by_id = {member.member_id: member.group_instance_id for member in description.members}
    try:
        with warnings.catch_warnings():
            # Deprecated in favor of describe_consumer_groups, which lacks these bytes.
            warnings.simplefilter("ignore", DeprecationWarning)
            groups = brokers.admin.list_groups(name, timeout=brokers.limit_s)
    except KafkaException as error:
        raise GroupError(f"group {name!r}: {brokers.describe_error(error.args[0])}") from error
    group = next((g for g in groups if g.id == name and g.error is None), None)
    if group is None:
        raise GroupError(f"the brokers did not report the state of group {name!r}: try again")
    if group.state in ("Empty", "Dead"):
        raise GroupError(f"group {name!r} has no members: start its consumers first")
    if group.state != "Stable":
        raise GroupError(f"group {name!r} is in a rebalance ({group.state}): try again")
    if group.protocol_type != "consumer":
        raise GroupError(
            f"group {name!r} has the protocol type {group.protocol_type!r}: its members are not "
            "consumers, so no assignor of consumers applies"
        )
    try:
        members = tuple(_decode_member(m, instance_by_id.get(m.id)) for m in group.members)
    except ValueError as error:
        raise GroupError(f"group {name!r}: a member's metadata is malformed ({error})") from error
    return ClassicGroup(name, str(group.protocol), members)


def _decode_member(member: Any, instance: str | None) -> ClassicMember:
    """Decode a member's subscription and assignment; raise ValueError if they are malformed."""
    subscription, assignment = _Decoder(member.metadata), _Decoder(member.assignment)
    subscription.read_int16()  # version
    topics = frozenset(subscription.read_string() for _ in range(subscription.read_int32()))
    user_data = subscription.read_bytes()
    assignment.read_int16()
    partitions = {}
    for _ in range(assignment.read_int32()):
        topic = assignment.read_string()
        partitions[topic] = tuple(assignment.read_int32() for _ in range(assignment.read_int32()))
    assignment_user_data = assignment.read_bytes()
    ids = member.id, member.client_id, instance
    return ClassicMember(*ids, topics, user_data, partitions, assignment_user_data)


class _Decoder:
    """Reads Kafka's big-endian types in order; raises ValueError if they are malformed."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def read_int16(self) -> int:
        return self._read_number(">h")

    def read_int32(self) -> int:
        return self._read_number(">i")

    def read_string(self) -> str:
        return self._take(self.read_int16()).decode()

    def read_bytes(self) -> bytes | None:
        size = self.read_int32()
        return None if size < 0 else self._take(size)

    def _read_number(self, code: str) -> int:
        number: int = struct.unpack(code, self._take(struct.calcsize(code)))[0]
        return number

    def _take(self, size: int) -> bytes:
        chunk = self._data[self._position : self._position + size]
        if size < 0 or len(chunk) < size:
            raise ValueError(f"length {size} at byte {self._position} of {len(self._data)}")
        self._position += size
        return chunk
