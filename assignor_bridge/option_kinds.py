"""Option kinds: how to parse a value, and which values are allowed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class OptionKind:
    """The allowed values in words, and a parser that raises KeyError or ValueError for others."""

    parse: Callable[[str], object]
    allowed_values: str


def _parse_boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


def _limit(
    parse: Callable[[str], float], min_value: float, max_value: float = 2**63 - 1
) -> Callable[[str], float]:
    def parse_number(text: str) -> float:
        value = parse(text)
        if not min_value <= value <= max_value:
            raise ValueError
        return value

    return parse_number


def one_of(*allowed: str) -> OptionKind:
    """Return a kind that accepts only these values."""
    choices = {choice: choice for choice in allowed}
    allowed_values = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
    return OptionKind(lambda text: choices[text.strip().lower()], allowed_values)


def _parse_priorities(text: str) -> tuple[tuple[str, int], ...]:
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(pattern.strip() for pattern, _, _ in pairs):
        raise ValueError
    return tuple((pattern.strip(), int(number)) for pattern, _, number in pairs)


def _make_text_parser(is_valid: Callable[[str], object]) -> Callable[[str], str]:
    def parse_text(text: str) -> str:
        value = text.strip()
        if not value or not value.isprintable() or not is_valid(value):
            raise ValueError
        return value

    return parse_text


#: Seconds per duration unit.
_UNITS_S = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86_400.0}
_DURATION_PART = re.compile(rf"(\d{{1,12}})\s*({'|'.join(_UNITS_S)})s?\b")
_MAX_DURATION_S = 36_500 * _UNITS_S["day"]


def _parse_duration(text: str) -> float:
    text = text.lower()
    seconds = sum(int(number) * _UNITS_S[unit] for number, unit in _DURATION_PART.findall(text))
    if _DURATION_PART.sub("", text).strip() or not 0 < seconds <= _MAX_DURATION_S:
        raise ValueError
    return seconds


def _parse_tail(text: str) -> str | float:
    value = text.strip().lower()
    return value if value in {"auto", "off"} else _limit(int, 1, 64)(value)


def _parse_slots(text: str) -> float:
    value = text.strip()
    if "." not in value and not value.endswith("%"):
        return _limit(int, 1)(value)
    share = float(value.removesuffix("%")) / (100 if value.endswith("%") else 1)
    if not 0 < share <= 1:
        raise ValueError
    return share


BOOLEAN = OptionKind(_parse_boolean, "true or false")
IMBALANCE = OptionKind(_limit(float, 0, 10), "a number from 0 to 10")
COUNT = OptionKind(_limit(int, 1), "a whole number from 1")
TASKS = OptionKind(_limit(int, 1, 64), "a whole number from 1 to 64")
TAIL = OptionKind(_parse_tail, "auto, off, or a whole number from 1 to 64")
STANDBYS = OptionKind(_limit(int, 0, 16), "a whole number from 0 to 16")
SLOTS = OptionKind(_parse_slots, "a share such as 0.5 or 50%, or a whole number from 1")
MILLISECONDS = OptionKind(
    _limit(int, 1, 86_400_000), "a whole number of milliseconds from 1 to 86400000"
)
SECONDS = OptionKind(_limit(float, 0.001, 86_400), "a number of seconds from 0.001 to 86400")
SECONDS_OR_ZERO = OptionKind(_limit(float, 0, 86_400), "a number of seconds from 0 to 86400")
_ALLOWED_DURATIONS = (
    "a duration with its unit, such as 30 seconds, 10 minutes or 1 hour, up to 36500 days"
)
DURATION = OptionKind(_parse_duration, _ALLOWED_DURATIONS)
WEIGHT = OptionKind(_limit(float, 0.001, 1000), "a number from 0.001 to 1000")
PRICE = OptionKind(_limit(float, 0, 1000), "a number from 0 to 1000")
PRIORITIES = OptionKind(
    _parse_priorities, "host patterns with whole numbers, such as ondemand-*=10,spot-*=1"
)
GROUP = OptionKind(
    _make_text_parser(lambda name: len(name) <= 255),
    "the name of a consumer group of up to 255 characters",
)
LOCAL_FILE = OptionKind(
    _make_text_parser(lambda path: "://" not in path and not path.endswith("/")),
    "the path of a local file",
)
ENVIRONMENT = OptionKind(
    _make_text_parser(re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*").fullmatch),
    "env:NAME with the name of an environment variable",
)
