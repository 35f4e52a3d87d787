"""Describe in one line what pydantic finds wrong with values that a user wrote."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from assignor_bridge.errors import elide

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pydantic import ValidationError

#: The most characters of a key and of a value that a message shows.
_MAX_KEY, _MAX_VALUE = 80, 40
#: What was expected, by the type of pydantic's error.
_EXPECTED = {
    kind: words
    for words, kinds in (
        ("a whole number", "int_type int_parsing int_from_float"),
        ("a shorter number", "int_parsing_size"),
        ("a number", "float_type float_parsing"),
        ("true or false", "bool_type bool_parsing"),
        ("text in quotes", "string_type"),
        ("text that matches {pattern}", "string_pattern_mismatch"),
        ("at most {max_length} characters", "string_too_long"),
        ("a path", "path_type"),
        ("a list", "list_type tuple_type frozen_set_type"),
        ("a mapping", "dict_type model_type"),
        ("{expected}", "literal_error"),
        ("more than {gt}", "greater_than"),
        ("at least {ge}", "greater_than_equal"),
        ("at most {le}", "less_than_equal"),
    )
    for kind in kinds.split()
}


def expectation(problem: Mapping[str, Any]) -> str:
    """Return what pydantic expected of a value, without the value: it may be secret.

    >>> expectation({"type": "greater_than_equal", "ctx": {"ge": 1}})
    'at least 1 is expected'
    """
    context = problem.get("ctx", {})
    if problem["type"] == "value_error":
        return str(context["error"])
    if (expected := _EXPECTED.get(problem["type"])) is None:
        return str(problem["msg"])
    bounds = {k: f"{v:.15g}" if isinstance(v, float) else v for k, v in context.items()}
    plural = "are" if expected.endswith("characters") else "is"
    return f"{expected.format(**bounds)} {plural} expected"


def describe_problems(error: ValidationError, data: Any, *, show_values: bool = False) -> str:
    """Return the first problems of `data` on one line, each with its place.

    A job's config may hold secrets, so values are shown only where the caller wants them.
    """
    lines = []
    for problem in error.errors(include_url=False, include_input=show_values):
        kind, location = problem["type"], problem["loc"]
        is_missing = kind == "missing"
        place = _place(data, location[:-1] if is_missing else location)
        words = f"{location[-1]!r} is missing" if is_missing else expectation(problem)
        if show_values and kind not in ("missing", "value_error"):
            place = f"{place or 'it'} is {shorten(problem['input'])}"
        lines.append(f"{place}: {words}" if place else words)
    return elide(lines, separator="; ")


def _place(data: Any, location: Iterable[str | int]) -> str:
    """Return the path of a location, without what pydantic adds to it: the tags of unions."""
    path = ""
    for part in location:
        if isinstance(data, list) and part in range(len(data)):
            data = data[int(part)]
            path += f"[{part}]"
        elif isinstance(data, dict) and part in data:
            data = data[part]
            path += f".{str(part)[:_MAX_KEY]}"
    return path.removeprefix(".")


def shorten(value: Any) -> str:
    """Return a value as JSON, cut off if it is long."""
    if isinstance(value, int) and abs(value) > 10**40:  # Python writes no more than 4,300 digits
        return f"a number of about {int(value.bit_length() * 0.30103) + 1} digits"
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):  # such a number, or depth, within
        return f"a {type(value).__name__}"
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 1]}…"


def option_text(value: Any) -> str:
    """Return a value as options of Kafka and Spark have it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    raise ValueError(
        "one value is expected (text, number, true, false); several stand in one text: 'a,b'"
    )
