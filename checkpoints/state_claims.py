"""Convert the claims in the planner's state to and from Kafka's user data (KIP-341, version 1).

The bytes are the same as those of `checkpoints.user_data`; a test compares them. This code handles
all members at once, because 100,000 partitions must take only a fraction of a second.
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
    """Return the lengths of the members' user data, and the concatenated data."""
    owned_rows = np.flatnonzero(state.member >= 0)
    order = owned_rows[stable_order(state.member[owned_rows])]
    member, topic = state.member[order], state.topic[order]
    number_bytes = state.partition[order].astype(">i4").tobytes()
    changes = np.flatnonzero((member[1:] != member[:-1]) | (topic[1:] != topic[:-1])) + 1
    begins = [0, *changes.tolist()] if len(order) else []
    ends = [*begins[1:], len(order)]
    encoded_names = [_encode_kafka_string(name) for name in state.topics]
    blocks = [list[bytes]() for _ in range(state.member_count)]  # by member: one per topic
    owners, topic_indices = member[begins].tolist(), topic[begins].tolist()
    for owner, index, begin, end in zip(owners, topic_indices, begins, ends, strict=False):
        count = (end - begin).to_bytes(4, "big")
        numbers = number_bytes[4 * begin : 4 * end]
        blocks[owner].append(b"".join((encoded_names[index], count, numbers)))
    generation = state.generation.to_bytes(4, "big")
    claims = [b"".join((len(parts).to_bytes(4, "big"), *parts, generation)) for parts in blocks]
    return [*map(len, claims)], b"".join(claims)


def decode_claims(
    lengths: list[int],
    user_data: bytes,
    topics: tuple[str, ...],
    topic: NDArray[np.int64],
    partition: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return each partition's owner, -1 for none; raise ValueError or KeyError for corrupt data."""
    topic_code_by_name = {_encode_kafka_string(name): i << 32 for i, name in enumerate(topics)}
    parse_int = int.from_bytes
    blocks: list[bytes] = []  # partition numbers, a block for each topic of each member
    topic_codes: list[int] = []
    owners: list[int] = []
    counts: list[int] = []
    position = 0
    for member, length in enumerate(lengths):
        end = position + length - 4
        count = parse_int(user_data[position : position + 4], "big")
        position += 4
        for _ in range(count):
            name_end = position + 2 + parse_int(user_data[position : position + 2], "big")
            partition_count = parse_int(user_data[name_end : name_end + 4], "big")
            topic_codes.append(topic_code_by_name[user_data[position:name_end]])
            owners.append(member)
            counts.append(partition_count)
            position = name_end + 4 + 4 * partition_count
            blocks.append(user_data[name_end + 4 : position])
            if position > end:
                raise StateError("the state is corrupt: a claim is longer than its length field")
        if position != end:
            raise StateError("the state is corrupt: a claim has the wrong length")
        position += 4
    owner = np.full(len(topic), -1, np.int64)
    if not len(topic) or not blocks:
        return owner
    partition_codes = (topic << 32) + partition
    if (np.diff(partition_codes) <= 0).any():
        raise StateError("the state is corrupt: its partitions are not in order")
    claimed_codes = np.frombuffer(b"".join(blocks), ">i4") + np.repeat(topic_codes, counts)
    row = np.minimum(np.searchsorted(partition_codes, claimed_codes), len(partition_codes) - 1)
    is_listed = partition_codes[row] == claimed_codes
    owner[row[is_listed]] = np.repeat(owners, counts)[is_listed]
    return owner


def _encode_kafka_string(text: str) -> bytes:
    utf8_bytes = text.encode("utf-8", "surrogatepass")
    return len(utf8_bytes).to_bytes(2, "big") + utf8_bytes
