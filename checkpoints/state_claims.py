"""What each member reads, in the planner's state: Kafka's sticky user data (KIP-341, version 1).

The bytes are those of `checkpoints.user_data` (a test compares); here they are made and read for
all members at once: 100,000 partitions within a fraction of a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from checkpoints.sorting import stable_order
from checkpoints.sticky_state import StateError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from checkpoints.sticky_state import StickyState


def encode_claims(state: StickyState) -> tuple[list[int], bytes]:
    """Write the members' user data: the length of each, and all of it in a row."""
    owned = np.flatnonzero(state.member >= 0)
    order = owned[stable_order(state.member[owned])]
    member, topic = state.member[order], state.topic[order]
    numbers = state.partition[order].astype(">i4").tobytes()
    changes = np.flatnonzero((member[1:] != member[:-1]) | (topic[1:] != topic[:-1])) + 1
    begins = [0, *changes.tolist()] if len(order) else []
    ends = [*begins[1:], len(order)]
    names = [_kafka_string(name) for name in state.topics]
    blocks: list[list[bytes]] = [[] for _ in range(state.members)]  # one a topic of a member
    owners, topics = member[begins].tolist(), topic[begins].tolist()
    for who, what, begin, end in zip(owners, topics, begins, ends, strict=False):
        count = (end - begin).to_bytes(4, "big")
        blocks[who].append(b"".join((names[what], count, numbers[4 * begin : 4 * end])))
    generation = state.generation.to_bytes(4, "big")
    claims = [b"".join((len(of).to_bytes(4, "big"), *of, generation)) for of in blocks]
    return [*map(len, claims)], b"".join(claims)


def decode_claims(
    lengths: list[int],
    data: bytes,
    topics: tuple[str, ...],
    topic: NDArray[np.int64],
    partition: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Owner of each listed partition, from the members' user data."""
    code = {_kafka_string(name): i << 32 for i, name in enumerate(topics)}
    integer = int.from_bytes
    blocks: list[bytes] = []  # the partitions of one topic of one member
    codes: list[int] = []
    owners: list[int] = []
    counts: list[int] = []
    offset = 0
    for member, length in enumerate(lengths):
        end = offset + length - 4
        count = integer(data[offset : offset + 4], "big")
        offset += 4
        for _ in range(count):
            name_end = offset + 2 + integer(data[offset : offset + 2], "big")
            many = integer(data[name_end : name_end + 4], "big")
            codes.append(code[data[offset:name_end]])
            owners.append(member)
            counts.append(many)
            offset = name_end + 4 + 4 * many
            blocks.append(data[name_end + 4 : offset])
            if offset > end:
                raise StateError("the state is corrupt: a claim is longer than it says")
        if offset != end:
            raise StateError("the state is corrupt: a claim does not end where it should")
        offset += 4
    owner = np.full(len(topic), -1, np.int64)
    if not len(topic) or not blocks:
        return owner
    table = (topic << 32) + partition
    if (np.diff(table) <= 0).any():
        raise StateError("the state is corrupt: its partitions are not in order")
    claimed = np.frombuffer(b"".join(blocks), ">i4") + np.repeat(codes, counts)
    place = np.minimum(np.searchsorted(table, claimed), len(table) - 1)
    known = table[place] == claimed
    owner[place[known]] = np.repeat(owners, counts)[known]
    return owner


def _kafka_string(text: str) -> bytes:
    encoded = text.encode("utf-8", "surrogatepass")
    return len(encoded).to_bytes(2, "big") + encoded
