"""Describe pydantic's validation errors in one line, for the user who wrote the values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from assignor_bridge.errors import elide

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pydantic import ValidationError

_MAX_KEY_CHARS = 80
_MAX_VALUE_CHARS = 40
_EXPECTATION_BY_ERROR_TYPE = {
    error_type: expectation
    for expectation, error_types in (
        ("a whole number", "int_type int_parsing int_from_float"),
        ("a number with fewer digits", "int_parsing_size"),
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
    for error_type in error_types.split()
}


def describe_expectation(problem: Mapping[str, Any]) -> str:
    """Describe the expected value; for other errors, return our validator's or pydantic's message.

    >>> describe_expectation({"type": "greater_than_equal", "ctx": {"ge": 1}})
    'at least 1 is expected'
    """
    context = problem.get("ctx", {})
    if problem["type"] == "value_error":
        return str(context["error"])
    if (expectation := _EXPECTATION_BY_ERROR_TYPE.get(problem["type"])) is None:
        return str(problem["msg"])
    bounds = {k: f"{v:.15g}" if isinstance(v, float) else v for k, v in context.items()}
    verb = "are" if expectation.endswith("characters") else "is"
    return f"{expectation.format(**bounds)} {verb} expected"


def describe_problems(error: ValidationError, data: Any, *, show_values: bool = False) -> str:
    """Return the first problems of `data`, each with its location, and the number of the others.

    Values are omitted by default, because a job's config may hold secrets.
    """
    texts = []
    for problem in error.errors(include_url=False, include_input=show_values):
        error_type, location = problem["type"], problem["loc"]
        is_missing = error_type == "missing"
        path = _format_location(data, location[:-1] if is_missing else location)
        text = f"{location[-1]!r} is missing" if is_missing else describe_expectation(problem)
        if show_values and error_type not in ("missing", "value_error"):
            path = f"{path or 'it'} is {shorten(problem['input'])}"
        texts.append(f"{path}: {text}" if path else text)
    return elide(texts, separator="; ")


def _format_location(data: Any, location: Iterable[str | int]) -> str:
    """Return a location as a path, without the union tags that pydantic adds to it."""
    path = ""
    for part in location:
        if isinstance(data, list) and part in range(len(data)):
            data = data[int(part)]
            path += f"[{part}]"
        elif isinstance(data, dict) and part in data:
            data = data[part]
            path += f".{str(part)[:_MAX_KEY_CHARS]}"
    return path.removeprefix(".")


def shorten(value: Any) -> str:
    """Return a value as JSON, truncated if it is long; describe a huge number or deep nesting."""
    if isinstance(value, int) and abs(value) > 10**40:  # Python converts at most 4,300 digits
        return f"a number of about {int(value.bit_length() * 0.30103) + 1} digits"
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):  # it contains such a number, or is nested too deeply
        return f"a {type(value).__name__}"
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[: _MAX_VALUE_CHARS - 1]}…"


def to_option_text(value: Any) -> str:
    """Return a text, number, or bool as an option's text; raise ValueError for other values."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    raise ValueError("one text, number, true or false is expected; write a list as text: 'a,b'")
