"""Kinds of values that several config models share: names, sizes, intervals, lists of columns."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(KB|MB|GB)", re.IGNORECASE)
_UNITS = {"KB": 1024, "MB": 1024**2, "GB": 1024**3}
_INTERVAL = re.compile(r"\d+(?:\.\d+)?\s*(?:millisecond|second|minute|hour|day)s?", re.IGNORECASE)
_PROCESSING_TIME = "processingtime"


def size_bytes(text: str) -> int:
    """Read a size.

    >>> size_bytes("128MB")
    134217728
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise ValueError("a size such as '128MB' is expected (KB, MB or GB)")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def _size(text: str) -> str:
    if text.strip().lower() != "off":
        size_bytes(text)
    return text


def _off(value: Any) -> Any:
    return "off" if value is False else value  # YAML reads a plain `off` as false


def _interval(text: str) -> str:
    if _INTERVAL.fullmatch(text.strip()) is None:
        raise ValueError("a length of time such as '10 seconds' is expected")
    return text.strip()


def trigger_interval(text: str) -> str | None:
    """Give the interval of a trigger, None for availableNow.

    >>> trigger_interval("processingTime 10 seconds"), trigger_interval("availableNow")
    ('10 seconds', None)
    """
    lowered = text.strip().lower()
    if lowered == "availablenow":
        return None
    rest = text.strip()[len(_PROCESSING_TIME) :] if lowered.startswith(_PROCESSING_TIME) else text
    return rest.strip()


def _trigger(text: str) -> str:
    interval = trigger_interval(text)
    if interval is not None and _INTERVAL.fullmatch(interval) is None:
        raise ValueError("'availableNow' or 'processingTime 10 seconds' is expected")
    return text


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


#: A size such as "128MB", or "off".
Size = Annotated[str, BeforeValidator(_off), AfterValidator(_size)]
#: A length of time in Spark's words.
Interval = Annotated[str, AfterValidator(_interval)]
#: When batches start.
Trigger = Annotated[str, AfterValidator(_trigger)]
#: Columns: one name, or a list.
Columns = Annotated[
    tuple[str, ...],
    BeforeValidator(_as_list),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
#: The name of a source, a transform or a sink; SQL must be able to say it.
ViewName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
