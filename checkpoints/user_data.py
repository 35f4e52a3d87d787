"""Encode and decode user data: sticky claims (KIP-341), capacities, generations, priorities.

All integers are big-endian. Version 0 is an array of topics (INT32 count; each an INT16 length,
UTF-8 bytes and an array of INT32 partitions); version 1 adds the generation, an INT32. The bytes
come from other processes and are not trusted: each count is checked against the remaining bytes
before an allocation, reading takes linear time (plus a sort), and invalid bytes give no claim.
"""

from __future__ import annotations

import itertools
import math
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Generation of a claim without one; it ranks below all others.
NO_GENERATION = -1

_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
_SMALLEST_TOPIC_BYTES = 6  # an empty name and no partitions
#: Follows the claim of a member whose capacity is not 1; Kafka's assignors ignore it.
_CAPACITY = struct.Struct(">d")


class UserDataError(ValueError):
    """A value does not fit the format; raised only by encoding."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The partitions that a member claims to own, and its generation."""

    owned: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    generation: int = NO_GENERATION


class _MalformedError(Exception):
    """The user data is invalid; never leaves this module."""


def encode_claim(owned: Mapping[str, Iterable[int]], generation: int | None) -> bytes:
    """Return user data of version 1, or of version 0 if `generation` is None.

    Topics and partitions are sorted, so that equal claims give equal bytes.

    Raises UserDataError for a topic name over 32,767 bytes or a number out of range.
    """
    topics = {topic: sorted(partitions) for topic, partitions in owned.items()}
    parts = [struct.pack(">i", len(topics))]
    for topic in sorted(topics):
        name, partitions = topic.encode(), topics[topic]
        if len(name) > 32_767:
            raise UserDataError(f"topic {topic[:20]!r}… has {len(name)} bytes: the limit is 32767")
        parts.append(struct.pack(f">h{len(name)}si", len(name), name, len(partitions)))
        if partitions and not 0 <= partitions[0] <= partitions[-1] <= _INT32_MAX:
            raise UserDataError(
                f"topic {topic!r} has partitions {partitions[0]} to {partitions[-1]}: "
                f"they must be from 0 to {_INT32_MAX}"
            )
        parts.append(struct.pack(f">{len(partitions)}i", *partitions))
    if generation is not None:
        parts.append(_pack_int32("generation", generation))
    return b"".join(parts)


def decode_claim(data: bytes | None) -> Claim:
    """Return the claim in user data, empty if missing or invalid; version 0 has generation -1."""
    if not data:
        return Claim()
    try:
        owned, position = _parse_topics(data)
    except _MalformedError:
        return Claim()
    if len(data) - position < 4:
        return Claim(owned)
    return Claim(owned, struct.unpack_from(">i", data, position)[0])


def holds_claim(data: bytes) -> bool:
    """Return whether the bytes begin with a claim of any version.

    >>> holds_claim(encode_claim({}, 5)), holds_claim(b"another format")
    (True, False)
    """
    try:
        _parse_topics(data)
    except _MalformedError:
        return False
    return True


def append_capacity(claim: bytes | None, capacity: float) -> bytes:
    """Return the claim, or an empty one if it is None, followed by the member's capacity.

    >>> decode_capacity(append_capacity(None, 2.5)), decode_capacity(encode_claim({}, 5))
    (2.5, 1.0)
    """
    return (claim or encode_claim({}, NO_GENERATION)) + _CAPACITY.pack(capacity)


def decode_capacity(data: bytes) -> float:
    """Return the capacity that follows a claim of version 1; 1 if there is no valid one."""
    try:
        _, position = _parse_topics(data)
    except _MalformedError:
        return 1.0
    if len(data) != position + 4 + _CAPACITY.size:
        return 1.0
    capacity: float = _CAPACITY.unpack_from(data, position + 4)[0]
    return capacity if 0 < capacity < math.inf else 1.0


def encode_generation(generation: int | None) -> bytes:
    """Return the user data of Kafka's cooperative sticky assignor: the generation, -1 if None."""
    return _pack_int32("generation", NO_GENERATION if generation is None else generation)


def decode_generation(data: bytes | None) -> int:
    """Return the generation in Kafka's cooperative sticky user data, or -1 without one."""
    number = decode_priority(data)
    return NO_GENERATION if number is None else number


def encode_priority(priority: int) -> bytes:
    """Return the user data of the failover assignor: the priority, an INT32."""
    return _pack_int32("priority", priority)


def decode_priority(data: bytes | None) -> int | None:
    """Return the priority in the failover assignor's user data, or None if missing or too short."""
    if data is None or len(data) < 4:
        return None
    priority: int = struct.unpack_from(">i", data)[0]
    return priority


def _pack_int32(name: str, value: int) -> bytes:
    if not _INT32_MIN <= value <= _INT32_MAX:
        raise UserDataError(f"{name} is {value}: it must be from {_INT32_MIN} to {_INT32_MAX}")
    return struct.pack(">i", value)


def _parse_topics(data: bytes) -> tuple[dict[str, tuple[int, ...]], int]:
    """Return the claimed partitions by topic, and the position after them."""
    topic_count, position = _parse_count(data, 0, _SMALLEST_TOPIC_BYTES)
    by_topic: dict[str, list[tuple[int, ...]]] = {}  # a topic may occur twice
    for _ in range(topic_count):
        if len(data) - position < 2:
            raise _MalformedError
        name_bytes = struct.unpack_from(">h", data, position)[0]
        position += 2
        if not 0 <= name_bytes <= len(data) - position:
            raise _MalformedError
        try:
            topic = data[position : position + name_bytes].decode()
        except UnicodeDecodeError as error:
            raise _MalformedError from error
        count, position = _parse_count(data, position + name_bytes, 4)
        partitions = struct.unpack_from(f">{count}i", data, position)
        position += 4 * count
        if min(partitions, default=0) < 0:
            raise _MalformedError
        by_topic.setdefault(topic, []).append(partitions)
    owned = {t: tuple(sorted(set(itertools.chain(*lists)))) for t, lists in by_topic.items()}
    return owned, position


def _parse_count(data: bytes, position: int, min_item_bytes: int) -> tuple[int, int]:
    if len(data) - position < 4:
        raise _MalformedError
    count = struct.unpack_from(">i", data, position)[0]
    position += 4
    if not 0 <= count <= (len(data) - position) // min_item_bytes:
        raise _MalformedError
    return count, position
