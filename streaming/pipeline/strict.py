"""The bases of all config models, and how pydantic's complaints become one line.

pydantic's own text shows the input, which may be a secret; only its words are used here.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_SHOWN = 3


class Strict(BaseModel):
    """Keys that are not known are errors that name the nearest one; what was read stays."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def known_keys(cls) -> list[str]:
        """Keys as they are written in YAML."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, data: Any) -> Any:
        if isinstance(data, dict):
            known = cls.known_keys()
            for key in data:
                if key not in known:
                    raise ValueError(unknown_key(key, known))
        return data


class WithOptions(BaseModel):
    """A model that takes options of Kafka or Spark beside its own keys, all of them as text."""

    model_config = ConfigDict(extra="allow", frozen=True)

    #: Options by name, with their meaning for the docs.
    OPTIONS: ClassVar[dict[str, str]] = {}
    #: Options of which only the beginning is known.
    PREFIXES: ClassVar[tuple[str, ...]] = ("kafka.",)

    @classmethod
    def known_keys(cls) -> list[str]:
        """Keys as they are written in YAML, options that are known by name included."""
        fields = [field.alias or name for name, field in cls.model_fields.items()]
        return [*fields, *cls.OPTIONS]

    @property
    def options(self) -> dict[str, str]:
        """The options of Kafka and Spark, by the names that these give them."""
        return dict(self.model_extra or {})

    @model_validator(mode="before")
    @classmethod
    def _read_options(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        fields = {field.alias or name for name, field in cls.model_fields.items()}
        read = {}
        for key, value in data.items():
            if key in fields:
                read[key] = value
                continue
            if key not in cls.OPTIONS and not key.startswith(cls.PREFIXES):
                likely = [*cls.known_keys(), *(_COMMON if "kafka." in cls.PREFIXES else ())]
                raise ValueError(unknown_key(key, likely))
            if isinstance(value, bool):
                read[key] = str(value).lower()
            elif isinstance(value, (str, int, float)):
                read[key] = str(value)
            else:
                raise ValueError(  # noqa: TRY004  (pydantic wants a ValueError)
                    f"option {key!r}: one value is expected (text, number, true, false)"
                )
        return read


_COMMON = ("kafka.bootstrap.servers", "kafka.security.protocol", "kafka.sasl.mechanism")


def unknown_key(key: str, allowed: Iterable[str]) -> str:
    """Complain about a key, with the nearest known one.

    >>> unknown_key("checkpont", ["name", "checkpoint"])
    "unknown key 'checkpont'; did you mean 'checkpoint'?"
    """
    names = list(allowed)
    lowered = {name.lower(): name for name in names}
    near = difflib.get_close_matches(key.lower(), lowered, n=1, cutoff=0.6)
    if near:
        return f"unknown key {key!r}; did you mean {lowered[near[0]]!r}?"
    return f"unknown key {key!r}. Allowed are {', '.join(names)}"


def complaints(error: ValidationError, data: Any) -> str:
    """Put a validation error into words, on one line and without any input value."""
    found = []
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        missing = problem["type"] == "missing"
        path = _existing_path(problem["loc"], data, missing)
        if missing:
            words = f"{path.pop()!r} is missing"
        else:
            words = problem["msg"].removeprefix("Value error, ")
            if words.startswith(("Input ", "String ")):
                words = words[0].lower() + words[1:].replace("tuple", "list")
        found.append(": ".join(part for part in (".".join(path), words) if part))
    more = f"; and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
    return "; ".join(found[:_MOST_SHOWN]) + more


def _existing_path(loc: Iterable[str | int], data: Any, missing: bool) -> list[str]:
    """Leave out what pydantic adds to a location, the tags of unions; the last may be missing."""
    path: list[str] = []
    parts = list(loc)
    here = data
    for index, part in enumerate(parts):
        if (isinstance(here, dict) and part in here) or (
            isinstance(here, list) and isinstance(part, int) and part < len(here)
        ):
            here = here[part]  # type: ignore[index]
            path.append(str(part))
        elif missing and index == len(parts) - 1:
            path.append(str(part))
    return path
