"""Compute the checksum that Spark reports after it reads each record of a range exactly once.

The checksum is the XOR of Spark's `xxhash64(topic, partition, offset)` over the records, so their
order does not matter. Spark chains XXH64: the seed is 42, then the previous column's hash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    Words = np.ndarray[Any, np.dtype[np.uint64]]

_MASK = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_SEED = 42
#: Number of offsets hashed at a time.
_BLOCK_OFFSETS = 1 << 20


def compute_range_checksum(topic: str, partition: int, begin: int, end: int) -> int:
    """Return the checksum of a range that has a record at each offset; 0 if it is empty."""
    seed = hash_int(partition, hash_bytes(topic.encode(), _SEED))
    result = 0
    for block in range(begin, end, _BLOCK_OFFSETS):
        offsets = np.arange(block, min(block + _BLOCK_OFFSETS, end), dtype=np.uint64)
        result ^= int(np.bitwise_xor.reduce(_hash_longs(offsets, seed)))
    return result


def _hash_longs(values: Words, seed: int) -> Words:
    """Return the XXH64 hash of each 64-bit number; overflows wrap around, as in Java."""
    p1, p2, p3, p4 = (np.uint64(prime) for prime in (_P1, _P2, _P3, _P4))
    result: Words = np.uint64((seed + _P5 + 8) & _MASK) ^ (_rotate_words(values * p2, 31) * p1)
    result = _rotate_words(result, 27) * p1 + p4
    result = (result ^ (result >> np.uint64(33))) * p2
    result = (result ^ (result >> np.uint64(29))) * p3
    result ^= result >> np.uint64(32)
    return result


def _rotate_words(values: Words, bits: int) -> Words:
    rotated: Words = (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))
    return rotated


def hash_int(value: int, seed: int) -> int:
    """Return the XXH64 hash of a 32-bit number."""
    result = (seed + _P5 + 4) & _MASK
    result ^= (value & 0xFFFFFFFF) * _P1 & _MASK
    return _avalanche(_rotate_left(result, 23) * _P2 + _P3)


def hash_bytes(data: bytes, seed: int) -> int:
    """Return the XXH64 hash of bytes, such as a string encoded as UTF-8."""
    position, size = 0, len(data)
    if size >= 32:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        while position <= size - 32:
            for lane in range(4):
                lanes[lane] = _round(lanes[lane], data[position : position + 8])
                position += 8
        result = sum(_rotate_left(v, n) for v, n in zip(lanes, (1, 7, 12, 18), strict=True))
        for value in lanes:
            mixed = _rotate_left(value * _P2, 31) * _P1
            result = (result ^ mixed & _MASK) * _P1 + _P4 & _MASK
    else:
        result = seed + _P5
    result = (result + size) & _MASK
    while position <= size - 8:
        result ^= _round(0, data[position : position + 8])
        result = _rotate_left(result, 27) * _P1 + _P4 & _MASK
        position += 8
    if position <= size - 4:
        result ^= int.from_bytes(data[position : position + 4], "little") * _P1 & _MASK
        result = _rotate_left(result, 23) * _P2 + _P3 & _MASK
        position += 4
    for byte in data[position:]:
        result ^= byte * _P5 & _MASK
        result = _rotate_left(result, 11) * _P1 & _MASK
    return _avalanche(result)


def _round(lane: int, data: bytes) -> int:
    return _rotate_left(lane + int.from_bytes(data, "little") * _P2, 31) * _P1 & _MASK


def _rotate_left(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> (64 - bits)) & _MASK


def _avalanche(value: int) -> int:
    value &= _MASK
    value = (value ^ value >> 33) * _P2 & _MASK
    value = (value ^ value >> 29) * _P3 & _MASK
    return value ^ value >> 32
