"""The planner's memory between micro-batches, and its bytes.

Where each partition's reading stopped and at which member, the generation of that assignment, and
what was learned about costs. It costs stickiness when it is lost, never data: whoever reads it gets
`StateError` with one line for anything that is not a good state of a known version.

Format (opaque to Java): base64 of magic, version, CRC-32 and a zlib stream; in it a JSON header
(generation, topics, members with hosts, speeds), the members' claims as Kafka's sticky user data
(KIP-341, version 1), and one column a field for all partitions. Columns, because 100,000 partitions
must be read and written within a fraction of a second.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAGIC = b"ABs"
VERSION = 1
_ENVELOPE = struct.Struct(">3sBI")
#: No state that we write comes near; a forged one must not fill the memory.
_MAX_BYTES = 512 * 1024 * 1024
#: Columns in the order of the file, with the type that is stored.
_COLUMNS: tuple[tuple[str, str], ...] = (
    ("topic", "<i4"), ("partition", "<i4"), ("position", "<i8"), ("seen", "<i4"),
    ("cost", "<f2"), ("last_cost", "<f2"), ("bytes", "<f2"), ("density", "<f2"),
)  # fmt: skip


class StateError(ValueError):
    """A state that cannot be used: corrupt, foreign or from a newer version."""


@dataclass(frozen=True, slots=True, order=True)
class Reader:
    """One executor; each of its slots is a member of the group."""

    executor: str
    host: str
    slots: int


@dataclass(frozen=True, slots=True)
class Speed:
    """How slow an executor was found to be."""

    #: Natural logarithm of its seconds over those of a usual executor; 0 is usual.
    log_factor: float
    #: Batches in which it was observed.
    batches: int


@dataclass(frozen=True, eq=False)
class StickyState:
    """What the planner knew when it had planned a batch; columns are sorted by topic, partition."""

    #: Rises with each change of members or partitions.
    generation: int
    #: Batches planned so far.
    batches: int
    #: Sorted by id. Members are numbered over all slots: the first executor's from 0, and so on.
    readers: tuple[Reader, ...]
    #: By executor id.
    speeds: dict[str, Speed]
    #: Sorted; `topic` holds indices into it.
    topics: tuple[str, ...]
    topic: NDArray[np.int64]
    partition: NDArray[np.int64]
    #: Number of the member that read the partition last; -1 for none.
    member: NDArray[np.int64]
    #: Offset at which it stopped; -1 when unknown.
    position: NDArray[np.int64]
    #: Batch (as `batches`) in which the partition last had data.
    seen: NDArray[np.int64]
    #: Logarithm of seconds a record on a usual executor, smoothed; not a number when unknown.
    cost: NDArray[np.float64]
    #: The same, as observed last: tells an outlier from a change.
    last_cost: NDArray[np.float64]
    #: Logarithm of bytes a record, smoothed; not a number when unknown.
    bytes: NDArray[np.float64]
    #: Records an offset, smoothed; not a number when unknown.
    density: NDArray[np.float64]

    @property
    def members(self) -> int:
        """Number of slots over all readers."""
        return sum(reader.slots for reader in self.readers)

    @classmethod
    def empty(cls) -> StickyState:
        """Nothing known: before the first batch."""
        ints, floats = np.empty(0, np.int64), np.empty(0)
        return cls(
            0, 0, (), {}, (), ints, ints, ints, ints, ints, floats, floats, floats, floats
        )  # fmt: skip


def encode(state: StickyState) -> str:
    """As text that `decode` reads."""
    claims = _encode_claims(state)
    header = json.dumps(
        {
            "generation": state.generation,
            "batches": state.batches,
            "topics": state.topics,
            "readers": [[r.executor, r.host, r.slots] for r in state.readers],
            "speeds": {e: [round(s.log_factor, 4), s.batches] for e, s in state.speeds.items()},
            "partitions": len(state.topic),
            "claims": [len(claim) for claim in claims],
        },
        sort_keys=True,
        separators=(",", ":"),
    ).encode()
    columns = [
        np.ascontiguousarray(getattr(state, name), dtype=kind).tobytes() for name, kind in _COLUMNS
    ]
    body = b"".join((len(header).to_bytes(4, "big"), header, *claims, *columns))
    packed = zlib.compress(body, 1)
    envelope = _ENVELOPE.pack(MAGIC, VERSION, zlib.crc32(packed))
    return base64.b64encode(envelope + packed).decode()


def decode(text: str) -> StickyState:
    """Read what `encode` wrote.

    Raises
    ------
    StateError
        For anything else; the message says what is wrong.
    """
    try:
        return _read(_unwrap(text))
    except StateError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, struct.error, RecursionError) as exc:
        raise StateError(f"the state is corrupt ({type(exc).__name__}: {exc})") from exc


def _unwrap(text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise StateError("the state is no base64 text") from exc
    if len(raw) < _ENVELOPE.size:
        raise StateError(f"the state is truncated: {len(raw)} bytes")
    magic, version, checksum = _ENVELOPE.unpack_from(raw)
    if magic != MAGIC:
        raise StateError("the state was not written by the planner")
    if version > VERSION:
        raise StateError(f"the state has version {version}, newer than the {VERSION} known here")
    packed = raw[_ENVELOPE.size :]
    if zlib.crc32(packed) != checksum:
        raise StateError("the state is corrupt: its checksum does not match")
    stream = zlib.decompressobj()
    try:
        body = stream.decompress(packed, _MAX_BYTES)
    except zlib.error as exc:
        raise StateError(f"the state is corrupt: {exc}") from exc
    if stream.unconsumed_tail or not stream.eof:
        raise StateError("the state is corrupt: it does not end where it should")
    return body


def _read(body: bytes) -> StickyState:
    length = int.from_bytes(body[:4], "big")
    header = json.loads(body[4 : 4 + length])
    offset = 4 + length
    claims = []
    for size in header["claims"]:
        claims.append(body[offset : offset + size])
        offset += size
    count = int(header["partitions"])
    columns: dict[str, Any] = {}
    for name, kind in _COLUMNS:
        dtype = np.dtype(kind)
        column = np.frombuffer(body, dtype, count, offset)
        columns[name] = column.astype(np.float64 if dtype.kind == "f" else np.int64)
        offset += dtype.itemsize * count
    if offset != len(body):
        raise StateError("the state is corrupt: it does not end where it should")
    topics = tuple(str(t) for t in header["topics"])
    if count and not 0 <= columns["topic"].min() <= columns["topic"].max() < len(topics):
        raise StateError("the state is corrupt: it names a topic that it does not list")
    readers = tuple(Reader(str(e), str(h), int(s)) for e, h, s in header["readers"])
    if len(claims) != sum(reader.slots for reader in readers):
        raise StateError("the state is corrupt: claims and members differ in number")
    return StickyState(
        generation=int(header["generation"]),
        batches=int(header["batches"]),
        readers=readers,
        speeds={e: Speed(float(f), int(n)) for e, (f, n) in sorted(header["speeds"].items())},
        topics=topics,
        member=_decode_claims(claims, topics, columns["topic"], columns["partition"]),
        **columns,
    )


# Claims: each member's partitions as KIP-341 user data, version 1.


def _encode_claims(state: StickyState) -> list[bytes]:
    """User data of each member, in order: topics by name, partitions by number."""
    owned = np.flatnonzero(state.member >= 0)
    order = owned[np.lexsort((state.partition[owned], state.topic[owned], state.member[owned]))]
    names = [_kafka_string(t) for t in state.topics]
    member, topic = state.member[order], state.topic[order]
    numbers = np.ascontiguousarray(state.partition[order], dtype=">i4").tobytes()
    breaks = np.flatnonzero((np.diff(member, prepend=-1) != 0) | (np.diff(topic, prepend=-1) != 0))
    ends = np.append(breaks, len(order))[1:].tolist()
    parts: list[list[bytes]] = [[] for _ in range(state.members)]
    for m, t, a, b in zip(
        member[breaks].tolist(), topic[breaks].tolist(), breaks.tolist(), ends, strict=True
    ):
        parts[m].append(names[t] + (b - a).to_bytes(4, "big") + numbers[4 * a : 4 * b])
    tail = state.generation.to_bytes(4, "big", signed=True)
    return [b"".join((len(part).to_bytes(4, "big"), *part, tail)) for part in parts]


def _decode_claims(
    claims: list[bytes],
    topics: tuple[str, ...],
    topic: NDArray[np.int64],
    partition: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Owner of each listed partition, from the members' user data."""
    code = {_kafka_string(name): i for i, name in enumerate(topics)}
    keys: list[NDArray[np.int64]] = []
    owners: list[int] = []
    counts: list[int] = []
    for m, claim in enumerate(claims):
        offset = 4
        for _ in range(int.from_bytes(claim[:4], "big")):
            end = offset + 2 + int.from_bytes(claim[offset : offset + 2], "big")
            name, count = claim[offset:end], int.from_bytes(claim[end : end + 4], "big")
            offset = end + 4 + 4 * count
            keys.append((code[name] << 32) + np.frombuffer(claim, ">i4", count, end + 4))
            owners.append(m)
            counts.append(count)
        if offset + 4 != len(claim):
            raise StateError("the state is corrupt: a claim does not end where it should")
    member = np.full(len(topic), -1, np.int64)
    if keys and len(topic):
        table = (topic << 32) + partition
        if (np.diff(table) <= 0).any():
            raise StateError("the state is corrupt: its partitions are not in order")
        claimed = np.concatenate(keys)
        place = np.minimum(np.searchsorted(table, claimed), len(table) - 1)
        known = table[place] == claimed
        member[place[known]] = np.repeat(owners, counts)[known]
    return member


def _kafka_string(text: str) -> bytes:
    encoded = text.encode("utf-8", "surrogatepass")
    return len(encoded).to_bytes(2, "big") + encoded
