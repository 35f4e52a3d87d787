"""JSON text that people write: how it is read, and how a value stands in an error."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

from assignor_bridge.errors import OptionError

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
            f"{what} is not JSON: a string has half of a character (an unpaired surrogate)"
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
    raise ValueError(f"{name} is not a JSON number")


def short(value: Any) -> str:
    """Return a value as JSON, cut off where it is long."""
    if isinstance(value, int) and abs(value) > 10**40:  # Python writes no more than 4,300 digits
        return f"a number of about {int(value.bit_length() * 0.30103) + 1} digits"
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):  # such a number, or depth, within
        return f"a {type(value).__name__}"
    return text if len(text) <= 40 else f"{text[:39]}…"
