"""Encode the planner's state as the text that is stored in the checkpoint.

Format (opaque to Java): base64 of magic, version, CRC-32 and a zlib stream. The stream has a JSON
header (generation, topics, executors with hosts and slowness, common costs), members' claims as
Kafka's sticky user data (KIP-341, version 1), and one column for each field of the partitions.
Columns are fast: encoding 100,000 partitions takes only a fraction of a second.
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
    ASSUMED_COLD_READ_S,
    MAX_INT32,
    Common,
    Pace,
    StateError,
    StickyState,
    StoredExecutor,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAGIC = b"ABs"
VERSION = 3
_OLDEST_VERSION = 2  # that can be read
_ENVELOPE = struct.Struct(">3sBI")
#: Maximum size of a decompressed state, above any real one; so a forged one cannot fill memory.
_MAX_BYTES = 64 * 1024 * 1024
#: Exclusive bound on the absolute value of plausible logarithms, weights, counts, and waits.
_MAX_STATISTIC = 50.0
#: Type of each integer column.
_INTEGER_TYPES = {"topic": "<i4", "partition": "<i4", "position": "<i8", "seen": "<i4"}
#: Stored steps per 1.0 of each float column. Coarse steps compress better.
_FLOAT_STEPS = {"cost": 64, "last_cost": 16, "evidence": 256, "bytes": 64, "density": 1024}
#: Columns in stored order, with their type and unit.
_COLUMNS: tuple[tuple[str, str, float], ...] = (
    *((name, dtype, 1) for name, dtype in _INTEGER_TYPES.items()),
    *((name, "<i2", 1 / steps) for name, steps in _FLOAT_STEPS.items()),
)
#: Exclusive bound on plausible seconds, evidence, or products of seconds and records.
_MAX_PRODUCT = 1e100
#: Smallest plausible noise; the planner's own lower bound is above it.
_MIN_NOISE = 0.01
_UNKNOWN = -(2**15)  # represents NaN in a stored float column
_IMPOSSIBLE_COSTS = "the state is corrupt: it has impossible costs"

#: Errors that reading corrupt data may raise.
_VALUE_ERRORS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)
_CORRUPTION_ERRORS = (*_VALUE_ERRORS, MemoryError, RecursionError, struct.error)


def encode(state: StickyState) -> str:
    """Encode a state as text for `decode`, with rounded costs."""
    user_data_lengths, user_data = encode_claims(state)
    paces = np.round(np.array([*state.paces.values()], np.float64), 2)
    header = orjson.dumps(
        {
            "generation": state.generation,
            "batches": state.batches,
            "topics": state.topics,
            "readers": [*map(list, state.readers)],
            "paces": dict(zip(state.paces, paces.tolist(), strict=True)),
            "common": _round_common(state.common),
            "partitions": len(state.topic),
            "claims": user_data_lengths,
            "calm": state.calm,
            "hold": state.hold,
            **_pack_tail(state),
        },
        option=orjson.OPT_SORT_KEYS,
    )
    columns = [_pack_column(getattr(state, name), dtype, unit) for name, dtype, unit in _COLUMNS]
    body = b"".join((len(header).to_bytes(4, "big"), header, user_data, *columns))
    packed = zlib.compress(body, 1)
    envelope = _ENVELOPE.pack(MAGIC, VERSION, compute_checksum(packed, VERSION))
    return base64.b64encode(envelope + packed).decode()


def compute_checksum(packed: bytes, version: int) -> int:
    """Return the checksum of a compressed state; since version 3 it depends on the version."""
    return zlib.crc32(packed, 0 if version == _OLDEST_VERSION else version)


def _pack_tail(state: StickyState) -> dict[str, Any]:
    """Return the header's keys about tails; earlier versions ignore them."""
    header: dict[str, Any] = {}
    if state.spreads:
        header["spreads"] = [round(spread, 4) for spread in state.spreads]
    if state.cold_read_s != ASSUMED_COLD_READ_S:
        header["cold_read_s"] = round(state.cold_read_s, 4)
    if state.in_tail.any():
        header["in_tail"] = base64.b64encode(np.packbits(state.in_tail).tobytes()).decode()
    return header


def _parse_tail(header: dict[str, Any], row_count: int) -> dict[str, Any]:
    """Return the fields of `StickyState` about tails; raise StateError if one is impossible."""
    spreads = tuple(map(_check_statistic, header.get("spreads", ())))
    cold_read_s = _check_statistic(header.get("cold_read_s", ASSUMED_COLD_READ_S))
    if min(*spreads, cold_read_s, 0.0) < 0:
        raise StateError(_IMPOSSIBLE_COSTS)
    in_tail = np.zeros(row_count, np.bool_)
    if "in_tail" in header:
        packed = np.frombuffer(base64.b64decode(header["in_tail"]), np.uint8)
        if len(packed) != -(-row_count // 8):
            raise StateError("the state is corrupt: it has the wrong length")
        in_tail = np.unpackbits(packed, count=row_count).astype(np.bool_)
    return {"spreads": spreads, "cold_read_s": cold_read_s, "in_tail": in_tail}


def _pack_column(column: NDArray[Any], dtype: str, unit: float) -> bytes:
    """Return the first bytes of all cells, then all second bytes, and so on, to compress well."""
    codes = column
    if column.dtype.kind == "f":
        units = np.clip(np.rint(column / unit), 1 - 2**15, 2**15 - 1)
        codes = np.where(np.isnan(column), _UNKNOWN, units)
    cells = np.ascontiguousarray(codes, dtype=dtype)
    planes: NDArray[np.uint8] = cells.view(np.uint8).reshape(len(cells), cells.itemsize).T
    return planes.tobytes()


def _unpack_column(body: bytes, offset: int, count: int, dtype: str, unit: float) -> NDArray[Any]:
    cell_bytes = np.dtype(dtype).itemsize
    planes = np.frombuffer(body, np.uint8, count * cell_bytes, offset).reshape(cell_bytes, count)
    cells = np.ascontiguousarray(planes.T).view(dtype)[:, 0]
    if unit == 1:
        return cells.astype(np.int64)
    return np.where(cells == _UNKNOWN, np.nan, cells * unit)


def _round_common(common: Common) -> list[Any]:
    level = round(common.level, 4) if math.isfinite(common.level) else None
    rounded_fit = [float(f"{product:.6g}") for product in common.fit]
    fixed, noise = float(f"{common.fixed:.4g}"), round(common.noise, 4)
    return [level, fixed, noise, common.noise_batches, rounded_fit, common.fit_batches]


@lru_cache(maxsize=2)  # the next batch starts from the last decoded state
def decode(text: str) -> StickyState:
    """Return the state, with read-only arrays; raise StateError if the text is invalid."""
    try:
        return _parse_body(*_decompress(text))
    except StateError:
        raise
    except _CORRUPTION_ERRORS as exc:
        raise StateError(f"the state is corrupt ({type(exc).__name__}: {exc})") from exc


def decode_or_empty(text: str | None) -> tuple[StickyState, str | None]:
    """Return the state in the text, or else an empty one; also return an invalid text's problem."""
    try:
        return (decode(text) if text else StickyState.empty()), None
    except StateError as error:
        return StickyState.empty(), str(error)


def _decompress(text: str) -> tuple[int, bytes]:
    """Return the version and the body of a state."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise StateError("the state is not base64 text") from exc
    if len(raw) < _ENVELOPE.size:
        raise StateError(f"the state is truncated: {len(raw)} of at least {_ENVELOPE.size} bytes")
    magic, version, checksum = _ENVELOPE.unpack_from(raw)
    if magic != MAGIC:
        raise StateError("the state was not written by the planner")
    if version < _OLDEST_VERSION:
        raise StateError(f"the state has version {version}, older than version {_OLDEST_VERSION}")
    if version > VERSION:
        raise StateError(f"the state has version {version}, newer than version {VERSION}")
    packed = raw[_ENVELOPE.size :]
    if compute_checksum(packed, version) != checksum:
        raise StateError("the state is corrupt: its checksum does not match")
    stream = zlib.decompressobj()
    try:
        body = stream.decompress(packed, _MAX_BYTES)
    except zlib.error as exc:
        raise StateError(f"the state is corrupt: {exc}") from exc
    if stream.unconsumed_tail or not stream.eof:
        raise StateError("the state is corrupt: it has the wrong length")
    return version, body


def _parse_body(version: int, body: bytes) -> StickyState:
    header_end = 4 + int.from_bytes(body[:4], "big")
    header = orjson.loads(body[4:header_end])
    user_data_lengths = [int(length) for length in header["claims"]]
    if min(user_data_lengths, default=8) < 8:
        raise StateError("the state is corrupt: a claim is too short")
    offset = header_end + sum(user_data_lengths)
    user_data = body[header_end:offset]
    row_count = int(header["partitions"])
    row_bytes = sum(np.dtype(dtype).itemsize for _, dtype, _ in _COLUMNS)
    if row_count < 0 or offset + row_count * row_bytes != len(body):  # check before allocating
        raise StateError("the state is corrupt: it has the wrong length")
    columns: dict[str, Any] = {}
    for name, dtype, unit in _COLUMNS:
        columns[name] = _unpack_column(body, offset, row_count, dtype, unit)
        offset += np.dtype(dtype).itemsize * row_count
    topics = tuple(str(t) for t in header["topics"])
    if row_count and not 0 <= columns["topic"].min() <= columns["topic"].max() < len(topics):
        raise StateError("the state is corrupt: it has a topic index without a topic")
    readers = tuple(StoredExecutor(str(e), str(h), int(s)) for e, h, s in header["readers"])
    if len(user_data_lengths) != sum(reader.slots for reader in readers) or any(
        reader.slots < 1 for reader in readers
    ):
        raise StateError("the state is corrupt: claims do not match the executors' slots")
    if row_count and (columns["partition"].min() < 0 or len(set(topics)) < len(topics)):
        raise StateError("the state is corrupt: it has impossible partitions")
    for name in ("cost", "last_cost", "evidence", "bytes", "density"):
        is_valid = np.abs(columns[name]) < _MAX_STATISTIC
        if name in {"evidence", "density"}:
            is_valid &= columns[name] >= 0
        columns[name] = np.where(is_valid, columns[name], np.nan)
    if version == _OLDEST_VERSION:  # its costs belong to another model
        header |= {"paces": {}, "common": [None, 0, 0.2, 0, [], 0]}
        columns |= dict.fromkeys(("cost", "last_cost", "evidence"), np.full(row_count, np.nan))
    columns["member"] = decode_claims(
        user_data_lengths, user_data, topics, columns["topic"], columns["partition"]
    )
    tail = _parse_tail(header, row_count)
    columns["in_tail"] = tail.pop("in_tail")
    for column in columns.values():
        column.setflags(write=False)  # a cached state is shared
    return StickyState(
        readers=readers,
        paces=_parse_paces(header),
        common=_parse_common(header["common"]),
        topics=topics,
        **_parse_counters(header),
        **tail,
        **columns,
    )


def _parse_counters(header: dict[str, Any]) -> dict[str, Any]:
    """Return the header's counters; raise StateError if one is out of range."""
    counters = {name: int(header[name]) for name in ("generation", "batches", "calm", "hold")}
    for name, value in counters.items():
        if not (-MAX_INT32 if name == "calm" else 0) <= value <= MAX_INT32:
            raise StateError(f"the state is corrupt: {name} is {value}, which is impossible")
    return counters


def _parse_paces(header: dict[str, Any]) -> dict[str, Pace]:
    paces = {}
    for executor, (slowness, last, evidence) in sorted(header["paces"].items()):
        paces[executor] = Pace(_check_statistic(slowness), _check_statistic(last), float(evidence))
        if not 0 <= evidence < _MAX_PRODUCT:
            raise StateError(_IMPOSSIBLE_COSTS)
    return paces


def _parse_common(values: list[Any]) -> Common:
    level, fixed, noise, noise_batches, fit, fit_batches = values
    level = math.nan if level is None else _check_statistic(level)
    noise, noise_batches, fit_batches = map(_check_statistic, (noise, noise_batches, fit_batches))
    common = Common(level, float(fixed), noise, noise_batches, tuple(map(float, fit)), fit_batches)
    min_value = min(fixed, noise_batches, fit_batches, *fit)
    max_value = max(fixed, *fit, 0.0)
    is_possible = min_value >= 0 and noise >= _MIN_NOISE and max_value < _MAX_PRODUCT
    if not is_possible or len(fit) not in {0, 9}:
        raise StateError(_IMPOSSIBLE_COSTS)
    return common


def _check_statistic(value: float) -> float:
    if not abs(value) < _MAX_STATISTIC:
        raise StateError(_IMPOSSIBLE_COSTS)
    return float(value)
