"""The planner's memory between micro-batches, and its bytes.

Where each partition's reading stopped and at which member, the generation of that assignment, and
what was learned about costs. It costs stickiness when it is lost, never data: whoever reads it gets
`StateError` with one line for anything that is not a good state of a known version.

Format (opaque to Java): base64 of magic, version, CRC-32 and a zlib stream; in it a JSON header
(generation, topics, members with hosts and slowness, what reports have in common), the members'
claims as Kafka's sticky user data (KIP-341, version 1), and one column a field for all partitions:
100,000 of them must be read and written within a fraction of a second.

Version 1 had other columns of costs. It is read as well: owners and positions stay, and costs are
learned again.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAGIC = b"ABs"
VERSION = 2
#: Generations and numbers of batches are 32 bits wide (KIP-341) and signed.
MOST_INT32 = 2**31 - 1
_ENVELOPE = struct.Struct(">3sBI")
#: A partition without data is remembered for so many batches at least.
LEAST_HOLD = 16
#: No state that we write comes near; a forged one must not fill the memory.
_MAX_BYTES = 64 * 1024 * 1024
#: Logarithms beyond this are no costs.
_MOST_BELIEVABLE = 50.0
#: Columns in the order of the file, with the type and the unit that is stored, by version. A unit
#: that is as coarse as what is known packs better; none stands for a column that is not used.
_Column = tuple[str, str, float]
_WHERE: tuple[_Column, ...] = (
    ("topic", "<i4", 1), ("partition", "<i4", 1), ("position", "<i8", 1), ("seen", "<i4", 1),
)  # fmt: skip
_COLUMNS: dict[int, tuple[_Column, ...]] = {
    1: (*_WHERE, ("", "<f2", 1), ("", "<f2", 1), ("bytes", "<f2", 1), ("density", "<f2", 1)),
    2: (
        *_WHERE, ("cost", "<i2", 1 / 64), ("last_cost", "<i2", 1 / 16), ("evidence", "<i2", 1 / 8),
        ("bytes", "<i2", 1 / 64), ("density", "<i2", 1 / 1024),
    ),
}  # fmt: skip
#: Stands for "not a number" in a column of whole units.
_UNKNOWN = -(2**15)
_IMPOSSIBLE = "the state is corrupt: it remembers impossible costs"

#: What reading nonsense may raise.
_SIGNS_OF_CORRUPTION = (
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MemoryError,
    RecursionError, struct.error,
)  # fmt: skip


class StateError(ValueError):
    """A state that cannot be used: corrupt, foreign or from a newer version."""


class KnownExecutor(NamedTuple):
    """One executor; each of its slots is a member of the group."""

    executor: str
    host: str
    slots: int


class Pace(NamedTuple):
    """How slow an executor is; the fields mean what a partition's columns of cost mean."""

    #: Logarithm of its seconds over those of a usual executor, smoothed; 0 is usual.
    slowness: float = 0.0
    #: The same, as observed last.
    last: float = 0.0
    #: How many good reports `slowness` rests on.
    evidence: float = 0.0


class Common(NamedTuple):
    """What the read reports of all partitions have in common."""

    #: Logarithm of the seconds a record; not a number while no seconds were reported.
    level: float = math.nan
    #: What a range costs in addition to its records, expressed in records.
    fixed: float = 0.0
    #: Whether costs of their own foresaw the partitions' reports better than one cost for all did.
    own: bool = False
    #: Standard deviation of a long report, in logarithms, from what its partition's before said.
    noise: float = 0.2
    #: How far off the reports were, by the rule that foresaw them (see `planner.learn`).
    errors: tuple[float, ...] = ()
    #: How many reports `errors` rests on.
    reports: float = 0.0
    #: Share of the reported time that all of this together expected elsewhere, and the same of
    #: records alike, faded; how many batches they rest on, and whether the first is relied on.
    missed: float = 0.0
    missed_alike: float = 0.0
    compared: float = 0.0
    relied_on: bool = False


@dataclass(frozen=True, eq=False)
class StickyState:
    """What the planner knew when it had planned a batch; columns are sorted by topic, partition."""

    #: Rises with each change of members or partitions.
    generation: int
    #: Batches planned so far.
    batches: int
    #: Sorted by id. Members are numbered over all slots: the first executor's from 0, and so on.
    readers: tuple[KnownExecutor, ...]
    #: By executor id.
    paces: dict[str, Pace]
    common: Common
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
    #: Logarithm of the partition's cost over the common one, smoothed; not a number when unknown.
    cost: NDArray[np.float64]
    #: The same, as observed last: distinguishes an outlier from a change.
    last_cost: NDArray[np.float64]
    #: How many good reports `cost` rests on.
    evidence: NDArray[np.float64]
    #: Logarithm of bytes a record, smoothed; not a number when unknown.
    bytes: NDArray[np.float64]
    #: Records an offset, smoothed; not a number when unknown.
    density: NDArray[np.float64]
    #: Batches in a row for which there were far too many executors; below 0, so many in a row that
    #: asked for more.
    calm: int = 0
    #: Batches without data after which a partition is forgotten.
    hold: int = LEAST_HOLD

    @property
    def members(self) -> int:
        """Number of slots over all readers."""
        return sum(reader.slots for reader in self.readers)

    def last_executors(self) -> dict[tuple[str, int], KnownExecutor]:
        """Return who read each partition last: of one that zones share, the last near reader.

        Local mode has no executor with a name.
        """
        of_member = [executor for executor in self.readers for _ in range(executor.slots)]
        columns = (self.topic.tolist(), self.partition.tolist(), self.member.tolist())
        return {
            (self.topics[topic], number): of_member[member]
            for topic, number, member in zip(*columns, strict=True)
            if member >= 0 and of_member[member].executor
        }

    @classmethod
    def empty(cls) -> StickyState:
        """Nothing known: before the first batch."""
        ints, floats = np.empty(0, np.int64), np.empty(0)
        return cls(
            0, 0, (), {}, Common(), (), ints, ints, ints, ints, ints,
            floats, floats, floats, floats, floats,
        )  # fmt: skip


def encode(state: StickyState) -> str:
    """Return the text that `decode` reads."""
    lengths, claims = _encode_claims(state)
    paces = np.round(np.array([*state.paces.values()], np.float64), 2)
    header = orjson.dumps(
        {
            "generation": state.generation,
            "batches": state.batches,
            "topics": state.topics,
            "readers": [*map(list, state.readers)],
            "paces": dict(zip(state.paces, paces.tolist(), strict=True)),
            "common": _rounded(state.common),
            "partitions": len(state.topic),
            "claims": lengths,
            "calm": state.calm,
            "hold": state.hold,
        },
        option=orjson.OPT_SORT_KEYS,
    )
    columns = [_packed(getattr(state, name), kind, unit) for name, kind, unit in _COLUMNS[VERSION]]
    body = b"".join((len(header).to_bytes(4, "big"), header, claims, *columns))
    packed = zlib.compress(body, 1)
    envelope = _ENVELOPE.pack(MAGIC, VERSION, zlib.crc32(packed))
    return base64.b64encode(envelope + packed).decode()


def _packed(column: NDArray[Any], kind: str, unit: float) -> bytes:
    """Write all first bytes of a column, then all second ones, and so on: they are alike."""
    if column.dtype.kind == "f":
        known = np.clip(np.rint(column / unit), 1 - 2**15, 2**15 - 1)
        column = np.where(np.isnan(column), _UNKNOWN, known)
    cells = np.ascontiguousarray(column, dtype=kind)
    planes: NDArray[np.uint8] = cells.view(np.uint8).reshape(len(cells), cells.itemsize).T
    return planes.tobytes()


def _unpacked(body: bytes, offset: int, count: int, kind: str, unit: float) -> NDArray[Any]:
    size = np.dtype(kind).itemsize
    planes = np.frombuffer(body, np.uint8, count * size, offset).reshape(size, count)
    cells = np.ascontiguousarray(planes.T).view(kind)[:, 0]
    if unit == 1:
        return cells.astype(np.int64)
    return np.where(cells == _UNKNOWN, np.nan, cells * unit)


def _rounded(common: Common) -> list[Any]:
    level = round(common.level, 4) if math.isfinite(common.level) else None
    return [
        level, common.fixed, common.own, round(common.noise, 4),
        [round(error, 3) for error in common.errors], round(common.reports, 2),
        round(common.missed, 4), round(common.missed_alike, 4), round(common.compared, 2),
        common.relied_on,
    ]  # fmt: skip


@lru_cache(maxsize=2)  # what was read just now is what the next batch begins with
def decode(text: str) -> StickyState:
    """Read what `encode` wrote; its arrays are read-only.

    Raises
    ------
    StateError
        For anything else; the message says what is wrong.
    """
    try:
        return _read(*_unwrap(text))
    except StateError:
        raise
    except _SIGNS_OF_CORRUPTION as exc:
        raise StateError(f"the state is corrupt ({type(exc).__name__}: {exc})") from exc


def decode_or_empty(text: str | None) -> tuple[StickyState, str | None]:
    """Return a state, an empty one where there is none that can be used, and why not."""
    try:
        return (decode(text) if text else StickyState.empty()), None
    except StateError as error:
        return StickyState.empty(), str(error)


def _unwrap(text: str) -> tuple[int, bytes]:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise StateError("the state is not base64 text") from exc
    if len(raw) < _ENVELOPE.size:
        raise StateError(f"the state is truncated: {len(raw)} bytes")
    magic, version, checksum = _ENVELOPE.unpack_from(raw)
    if magic != MAGIC:
        raise StateError("the state was not written by the planner")
    if version < 1:
        raise StateError(f"the state has version {version}, which no planner wrote")
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
    return version, body


def _read(version: int, body: bytes) -> StickyState:
    length = int.from_bytes(body[:4], "big")
    header = orjson.loads(body[4 : 4 + length])
    offset = 4 + length
    lengths = [int(size) for size in header["claims"]]
    if min(lengths, default=8) < 8:
        raise StateError("the state is corrupt: a claim is too short")
    claims = body[offset : offset + sum(lengths)]
    offset += sum(lengths)
    count = int(header["partitions"])
    row = sum(np.dtype(kind).itemsize for _, kind, _ in _COLUMNS[version])
    if count < 0 or offset + count * row != len(body):  # before anything of that size is made
        raise StateError("the state is corrupt: it does not end where it should")
    unknown = np.full(count, np.nan)
    columns: dict[str, Any] = dict.fromkeys(("cost", "last_cost", "evidence"), unknown)
    for name, kind, unit in _COLUMNS[version]:
        if not name:
            pass
        elif version > 1:
            columns[name] = _unpacked(body, offset, count, kind, unit)
        else:
            column = np.frombuffer(body, kind, count, offset)
            columns[name] = column.astype(np.float64 if column.dtype.kind == "f" else np.int64)
        offset += np.dtype(kind).itemsize * count
    topics = tuple(str(t) for t in header["topics"])
    if count and not 0 <= columns["topic"].min() <= columns["topic"].max() < len(topics):
        raise StateError("the state is corrupt: it names a topic that it does not list")
    readers = tuple(KnownExecutor(str(e), str(h), int(s)) for e, h, s in header["readers"])
    if len(lengths) != sum(reader.slots for reader in readers) or any(
        reader.slots < 1 for reader in readers
    ):
        raise StateError("the state is corrupt: claims and members differ in number")
    if count and (columns["partition"].min() < 0 or len(set(topics)) < len(topics)):
        raise StateError("the state is corrupt: it names impossible partitions")
    for name in ("cost", "last_cost", "evidence", "bytes", "density"):
        believable = np.abs(columns[name]) < _MOST_BELIEVABLE
        if name in {"evidence", "density"}:
            believable &= columns[name] >= 0
        columns[name] = np.where(believable, columns[name], np.nan)
    columns["member"] = _decode_claims(
        lengths, claims, topics, columns["topic"], columns["partition"]
    )
    for column in columns.values():
        column.setflags(write=False)  # one state may be given to many
    numbers = _numbers(header)
    return StickyState(
        generation=numbers["generation"],
        batches=numbers["batches"],
        calm=numbers["calm"],
        hold=numbers["hold"],
        readers=readers,
        paces=_paces(header, version),
        common=Common() if version == 1 else _common(header["common"]),
        topics=topics,
        **columns,
    )


def _numbers(header: dict[str, Any]) -> dict[str, int]:
    """Give what is counted over batches; states of before `calm` and `hold` came lack them."""
    numbers = {name: int(header[name]) for name in ("generation", "batches")}
    numbers["calm"] = int(header.get("calm", 0))
    numbers["hold"] = int(header.get("hold", LEAST_HOLD))
    for name, number in numbers.items():
        if not (-MOST_INT32 if name == "calm" else 0) <= number <= MOST_INT32:
            raise StateError(f"the state is corrupt: {name} is {number}, which is impossible")
    return numbers


def _paces(header: dict[str, Any], version: int) -> dict[str, Pace]:
    if version == 1:  # it said for how many batches an executor was observed
        known = {e: (factor, factor, n) for e, (factor, n) in header["speeds"].items()}
    else:
        known = header["paces"]
    paces = {e: Pace(*map(_believable, pace)) for e, pace in sorted(known.items())}
    if min((pace.evidence for pace in paces.values()), default=0) < 0:
        raise StateError(_IMPOSSIBLE)
    return paces


def _common(header: list[Any]) -> Common:
    level, fixed, own, noise, errors, reports, missed, missed_alike, compared, relied_on = header
    common = Common(
        math.nan if level is None else _believable(level), float(fixed), bool(own),
        _believable(noise), tuple(map(_believable, errors)), float(reports),
        _believable(missed), _believable(missed_alike), _believable(compared), bool(relied_on),
    )  # fmt: skip
    least = min(fixed, noise, reports, missed, missed_alike, compared, *errors)
    if not (least >= 0 and fixed < 2**63 and math.isfinite(reports)):
        raise StateError(_IMPOSSIBLE)
    return common


def _believable(logarithm: float) -> float:
    if not abs(logarithm) < _MOST_BELIEVABLE:
        raise StateError(_IMPOSSIBLE)
    return float(logarithm)


# Claims: each member's partitions as KIP-341 user data, version 1. The bytes are those of
# `checkpoints.user_data` (a test compares); here they are made and read for all members at once.


def _encode_claims(state: StickyState) -> tuple[list[int], bytes]:
    """Write the members' user data: the length of each, and all of it in a row."""
    owned = np.flatnonzero(state.member >= 0)
    small = np.uint16 if state.members < 1 << 16 else np.int64  # NumPy sorts it by counting
    order = owned[np.argsort(state.member[owned].astype(small), kind="stable")]
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


def _decode_claims(
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
