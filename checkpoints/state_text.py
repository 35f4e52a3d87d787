"""The text of the planner's state: what is written into the checkpoint, and read from it.

Whoever reads it gets `StateError` with one line for anything that is not a good state of a known
version.

Format (opaque to Java): base64 of magic, version, CRC-32 and a zlib stream; in it a JSON header
(generation, topics, members with hosts and slowness, what reports have in common), the members'
claims as Kafka's sticky user data (KIP-341, version 1), and one column a field for all partitions:
100,000 of them must be read and written within a fraction of a second.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from checkpoints.state_claims import decode_claims, encode_claims
from checkpoints.sticky_state import (
    MAX_INT32,
    Common,
    KnownExecutor,
    Pace,
    StateError,
    StickyState,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAGIC = b"ABs"
VERSION = 2
#: The oldest version that is read.
_OLDEST = 2
_ENVELOPE = struct.Struct(">3sBI")
#: No state that we write comes near; a forged one must not fill the memory.
_MAX_BYTES = 64 * 1024 * 1024
#: Logarithms beyond this are no costs.
_MOST_BELIEVABLE = 50.0
#: Columns in the order of the file, with the type and the unit that is stored: a unit as coarse as
#: what is known packs better.
_COLUMNS: tuple[tuple[str, str, float], ...] = (
    ("topic", "<i4", 1), ("partition", "<i4", 1), ("position", "<i8", 1), ("seen", "<i4", 1),
    ("cost", "<i2", 1 / 64), ("last_cost", "<i2", 1 / 16), ("evidence", "<i2", 1 / 8),
    ("bytes", "<i2", 1 / 64), ("density", "<i2", 1 / 1024),
)  # fmt: skip
#: Stands for "not a number" in a column of whole units.
_UNKNOWN = -(2**15)
_IMPOSSIBLE = "the state is corrupt: it remembers impossible costs"

#: What reading nonsense may raise.
_SIGNS_OF_CORRUPTION = (
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MemoryError,
    RecursionError, struct.error,
)  # fmt: skip


def encode(state: StickyState) -> str:
    """Return the text that `decode` reads."""
    lengths, claims = encode_claims(state)
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
    columns = [_packed(getattr(state, name), kind, unit) for name, kind, unit in _COLUMNS]
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
        return _read(_unwrap(text))
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


def _unwrap(text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise StateError("the state is not base64 text") from exc
    if len(raw) < _ENVELOPE.size:
        raise StateError(f"the state is truncated: {len(raw)} bytes")
    magic, version, checksum = _ENVELOPE.unpack_from(raw)
    if magic != MAGIC:
        raise StateError("the state was not written by the planner")
    if version < _OLDEST:
        raise StateError(f"the state has version {version}, older than the {_OLDEST} that is read")
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
    header = orjson.loads(body[4 : 4 + length])
    offset = 4 + length
    lengths = [int(size) for size in header["claims"]]
    if min(lengths, default=8) < 8:
        raise StateError("the state is corrupt: a claim is too short")
    claims = body[offset : offset + sum(lengths)]
    offset += sum(lengths)
    count = int(header["partitions"])
    row = sum(np.dtype(kind).itemsize for _, kind, _ in _COLUMNS)
    if count < 0 or offset + count * row != len(body):  # before anything of that size is made
        raise StateError("the state is corrupt: it does not end where it should")
    columns: dict[str, Any] = {}
    for name, kind, unit in _COLUMNS:
        columns[name] = _unpacked(body, offset, count, kind, unit)
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
    columns["member"] = decode_claims(
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
        paces=_paces(header),
        common=_common(header["common"]),
        topics=topics,
        **columns,
    )


def _numbers(header: dict[str, Any]) -> dict[str, int]:
    """Return what is counted over batches."""
    numbers = {name: int(header[name]) for name in ("generation", "batches", "calm", "hold")}
    for name, number in numbers.items():
        if not (-MAX_INT32 if name == "calm" else 0) <= number <= MAX_INT32:
            raise StateError(f"the state is corrupt: {name} is {number}, which is impossible")
    return numbers


def _paces(header: dict[str, Any]) -> dict[str, Pace]:
    paces = {e: Pace(*map(_believable, pace)) for e, pace in sorted(header["paces"].items())}
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
