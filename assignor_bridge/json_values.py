"""JSON input: how it is read, and its values, checked one by one.

`where` is the path that an error names. By hand and not by a library of models: a line of input may
hold hundreds of thousands of numbers, and an error names the place, what is there and what is
expected, in one line.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from assignor_bridge.errors import OptionError
from assignor_bridge.model import LONGEST_TOPIC, MOST_PARTITION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


#: Offsets, lags and all other numbers of 64 bits.
MOST = 2**63 - 1

_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")


class InputError(OptionError):
    """Input that does not have the shape of the contract."""


def parse(text: bytes | str, what: str) -> Any:
    """Read JSON, which may not repeat a key of an object, nor hold halves of characters.

    Raises
    ------
    InputError
        For anything else; `what` names the whole in it.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode()
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
        if _HALF_CHARACTER.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{what} is not JSON: a string holds half of a character (a surrogate without its pair)"
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(f"{what} is not UTF-8: byte {error.start + 1} cannot be read") from None
    except _RepeatedKeyError as error:
        raise InputError(f"{what} has an object with the key {error.args[0]} twice") from None
    except RecursionError:
        raise InputError(f"{what} is not JSON: it is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{what} is not JSON: {error}") from None
    return value


class _RepeatedKeyError(Exception):
    pass


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = sorted(key for key, _ in pairs)
        raise _RepeatedKeyError(short(next(a for a, b in pairwise(keys) if a == b)))
    return made


def _constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def optional(value: Mapping[str, Any], key: str, default: Any) -> Any:
    """Give the value of a key that may be absent or null."""
    given = value.get(key)
    return default if given is None else given


def known(value: Any, keys: Iterable[str], where: str) -> None:
    """Refuse an object with keys beyond `keys`."""
    unknown = sorted(set(mapping(value, where)) - set(keys))
    if unknown:
        raise InputError(
            f"{where} has an unknown key {unknown[0][:40]!r}: known are {', '.join(keys)}"
        )


def need(value: Mapping[str, Any], key: str, where: str) -> Any:
    """Give the value of a key that must be there."""
    if key not in value:
        raise InputError(f"{where} has no {key!r}: it is needed")
    return value[key]


def mapping(value: Any, where: str) -> dict[str, Any]:
    """Give an object."""
    if not isinstance(value, dict):
        raise InputError(f"{where} is {short(value)}: an object is needed")
    return value


def listing(value: Any, where: str) -> list[Any]:
    """Give a list."""
    if not isinstance(value, list):
        raise InputError(f"{where} is {short(value)}: a list is needed")
    return value


def string(value: Any, where: str) -> str:
    """Give a string."""
    if not isinstance(value, str):
        raise InputError(f"{where} is {short(value)}: a string is needed")
    return value


def maybe_string(value: Mapping[str, Any], key: str, where: str) -> str | None:
    """Give the string at a key, None if it is absent or null."""
    given = value.get(key)
    return None if given is None else string(given, f"{where}.{key}")


def number(value: Any, where: str, least: float = -MOST, most: float = MOST) -> float:
    """Give a number within bounds, which are finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{where} is {short(value)}: a number is needed")
    if not least <= value <= most:
        raise InputError(f"{where} is {short(value)}: a number {_bounds(least, most)} is needed")
    return value


def integer(value: Any, where: str, least: int = -MOST - 1, most: int = MOST) -> int:
    """Give a whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        expected = f"a whole number {_bounds(least, most)}"
        raise InputError(f"{where} is {short(value)}: {expected} is needed")
    return value


def _bounds(least: float, most: float) -> str:
    if most != MOST:
        return f"from {least} to {most}"
    return "of 64 bits" if least < -1 else f"from {least}, of 64 bits"


def topic(value: Any, where: str) -> str:
    """Give the name of a topic, no longer than Kafka's may be."""
    name = string(value, where)
    if len(name) > LONGEST_TOPIC:
        raise InputError(
            f"{where} names a topic of {len(name)} characters ({short(name)}): "
            f"Kafka's have at most {LONGEST_TOPIC}"
        )
    return name


def partition_key(value: str, where: str) -> int:
    """Give the partition number that a key stands for."""
    if not value.isascii() or not value.isdigit() or len(value) > 10 or int(value) > MOST_PARTITION:
        raise InputError(
            f"{where} has the key {short(value)}: a partition number is needed, "
            f"from 0 to {MOST_PARTITION}"
        )
    return int(value)


def by_partition(value: Any, where: str) -> Iterator[tuple[int, str, Any]]:
    """Go through an object by partition: its number, its path, and the value."""
    seen: dict[int, str] = {}
    for key, item in mapping(value, where).items():
        partition = partition_key(key, where)
        if partition in seen:
            raise InputError(
                f"{where} has partition {partition} twice: {seen[partition]!r}, {key!r}"
            )
        seen[partition] = key
        yield partition, f"{where}.{key}", item


def base64_bytes(value: Mapping[str, Any], key: str, where: str) -> bytes | None:
    """Give the bytes at a key, None if it is absent or null."""
    given = maybe_string(value, key, where)
    if given is None:
        return None
    try:
        return base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"{where}.{key} is not base64: {error}") from error


def short(value: Any) -> str:
    """Return a value as JSON, cut off where it is long."""
    if isinstance(value, int) and abs(value) > 10**40:  # Python writes no more than 4,300 digits
        return f"a number of about {int(value.bit_length() * 0.30103) + 1} digits"
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):  # such a number, or depth, within
        return f"a {type(value).__name__}"
    return text if len(text) <= 40 else f"{text[:39]}…"
