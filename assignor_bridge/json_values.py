"""Values of JSON input, checked one by one; `where` is the path that an error names."""

from __future__ import annotations

import base64
import binascii
import json
import math
from typing import TYPE_CHECKING, Any

from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class InputError(OptionError):
    """Input that does not have the shape of the contract."""


def known(value: Any, keys: Iterable[str], where: str) -> None:
    """Refuse an object with keys beyond `keys`."""
    unknown = sorted(set(mapping(value, where)) - set(keys))
    if unknown:
        raise InputError(f"{where} has an unknown key {unknown[0]!r}: known are {', '.join(keys)}")


def need(value: Mapping[str, Any], key: str, where: str) -> Any:
    """Give the value of a key that must be there."""
    if key not in value:
        raise InputError(f"{where} has no {key!r}: it is needed")
    return value[key]


def mapping(value: Any, where: str) -> dict[str, Any]:
    """Give an object."""
    if not isinstance(value, dict):
        raise InputError(f"{where} is {_short(value)}: an object is needed")
    return value


def listing(value: Any, where: str) -> list[Any]:
    """Give a list."""
    if not isinstance(value, list):
        raise InputError(f"{where} is {_short(value)}: a list is needed")
    return value


def string(value: Any, where: str) -> str:
    """Give a string."""
    if not isinstance(value, str):
        raise InputError(f"{where} is {_short(value)}: a string is needed")
    return value


def maybe_string(value: Mapping[str, Any], key: str, where: str) -> str | None:
    """Give the string at a key, None if it is absent or null."""
    found = value.get(key)
    return None if found is None else string(found, f"{where}.{key}")


def number(value: Any, where: str) -> float:
    """Give a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        raise InputError(f"{where} is {_short(value)}: a number is needed")
    return value


def integer(value: Any, where: str, least: int = -(2**63), most: int = 2**63 - 1) -> int:
    """Give a whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        kind = "a whole number" if least < -1 else f"a whole number from {least} to {most}"
        raise InputError(f"{where} is {_short(value)}: {kind} is needed")
    return value


def partition_key(value: str, where: str) -> int:
    """Give the partition number that a key stands for."""
    if not value.isascii() or not value.isdigit() or len(value) > 18:
        raise InputError(f"{where} has the key {_short(value)}: a partition number is needed")
    return int(value)


def base64_bytes(value: Mapping[str, Any], key: str, where: str) -> bytes | None:
    """Give the bytes at a key, None if it is absent or null."""
    found = maybe_string(value, key, where)
    if found is None:
        return None
    try:
        return base64.b64decode(found, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"{where}.{key} is not base64: {error}") from error


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
