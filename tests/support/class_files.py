"""Change the access flags of class files, to simulate another version of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PUBLIC, FINAL = 0x0001, 0x0010
#: Bytes after the tag of a constant, by tag; texts (tag 1) have their own length.
_CONSTANTS = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 18: 4}
_TEXT, _TAKE_TWO = 1, (5, 6)


def change_flags(code: bytes, member: str | None, *, remove: int = 0, add: int = 0) -> bytes:
    """Change the flags of the class (None), or of its fields and methods with a name."""
    positions = [position for name, position in _find_flags(code) if name == member]
    assert positions, f"no {member}"
    changed = bytearray(code)
    for position in positions:
        flags = _read_number(code, position, 2) & ~remove | add
        changed[position : position + 2] = flags.to_bytes(2, "big")
    return bytes(changed)


def _find_flags(code: bytes) -> Iterator[tuple[str | None, int]]:
    """Yield the name and the position of the flags of the class (None) and its members."""
    names, at = _read_names(code)
    yield None, at
    at += 8 + 2 * _read_number(code, at + 6, 2)  # flags, class, superclass, count, interfaces
    for _ in ("fields", "methods"):
        count, at = _read_number(code, at, 2), at + 2
        for _ in range(count):
            yield names[_read_number(code, at + 2, 2)], at
            attributes, at = _read_number(code, at + 6, 2), at + 8
            for _ in range(attributes):
                at += 6 + _read_number(code, at + 2, 4)


def _read_names(code: bytes) -> tuple[dict[int, str], int]:
    """Return the texts in the constant pool, by number, and the end of the pool."""
    names, number, at = {}, 1, 10
    while number < _read_number(code, 8, 2):
        tag = code[at]
        if tag == _TEXT:
            length = _read_number(code, at + 1, 2)
            names[number] = code[at + 3 : at + 3 + length].decode(errors="replace")
            at += 3 + length
        else:
            at += 1 + _CONSTANTS[tag]
        number += 2 if tag in _TAKE_TWO else 1
    return names, at


def _read_number(code: bytes, at: int, size: int) -> int:
    return int.from_bytes(code[at : at + size], "big")
