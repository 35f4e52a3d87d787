"""JSON that people write: how it is read, its models, and what is wrong with it in one line.

pydantic goes through the values (a line may hold hundreds of thousands of numbers); its own words,
which are several lines, are not used.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import core_schema

from assignor_bridge.errors import OptionError
from assignor_bridge.model import MOST_OFFSET

_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
_Model = TypeVar("_Model", bound=BaseModel)
_KINDS = {
    "string_type": "a string", "list_type": "a list", "frozen_set_type": "a list",
    "dict_type": "an object", "model_type": "an object",
}  # fmt: skip


class InputError(OptionError):
    """Input that does not have the shape of the contract."""


def parse(text: bytes | str, what: str) -> Any:
    """Read JSON, which may not repeat a key of an object, nor hold halves of characters.

    Raises InputError for anything else; `what` names the whole in it.
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


@dataclass(frozen=True)
class Number:
    """The bounds of a number, for `Annotated`; an error about it names them."""

    least: float
    most: float
    whole: bool = True

    def __get_pydantic_core_schema__(self, *_: Any) -> core_schema.CoreSchema:
        least, most = math.ceil(self.least), math.floor(self.most)
        schema: core_schema.CoreSchema = core_schema.int_schema(strict=True, ge=least, le=most)
        words = f"number from {self.least} to {self.most}"
        if self.most == MOST_OFFSET:
            words = f"number from {self.least}, of 64 bits" if least == 0 else "number of 64 bits"
        if not self.whole:
            real = core_schema.float_schema(strict=True, ge=self.least, le=self.most)
            schema = core_schema.union_schema([schema, real], mode="left_to_right")
        return core_schema.custom_error_schema(
            schema, "number", custom_error_message=f"a {'whole ' if self.whole else ''}{words}"
        )


class JsonObject(BaseModel):
    """An object without unknown keys; null stands for a key that is left out."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        fields = cls.model_fields
        unknown = sorted(data.keys() - fields.keys())
        if unknown:
            key = unknown[0][:40]
            raise ValueError(f"has an unknown key {key!r}: known are {', '.join(fields)}")
        return {k: v for k, v in data.items() if v is not None or fields[k].is_required()}


def read_model(model: type[_Model], data: Any, what: str) -> _Model:
    """Return JSON values as a model.

    Raises InputError when they do not have its shape; the message names the first place. `what`
    names the whole.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InputError(_first_problem(error, data, what)) from None


def _first_problem(error: ValidationError, data: Any, what: str) -> str:
    problem = error.errors(include_url=False)[0]
    kind, value, path = problem["type"], problem["input"], problem["loc"]
    if path and path[-1] == "[key]":
        path = path[:-2]
    where, here = "", data
    for part in path[:-1] if kind == "missing" else path:
        where += f"[{part}]" if isinstance(here, list) else f".{part}"
        # A partition number is a string there.
        here = (
            here[int(part)] if isinstance(here, list) else here.get(part, here.get(str(part), {}))
        )
    where = where[1:] or what
    if kind == "missing":
        return f"{where} has no {path[-1]!r}: it is expected"
    if kind == "value_error":
        return f"{where} {problem['ctx']['error']}"
    if kind == "string_too_long":
        most = problem["ctx"]["max_length"]  # only topics have one
        return (
            f"{where} names a topic of {len(value)} characters ({short(value)}): "
            f"Kafka's have at most {most}"
        )
    return f"{where} is {short(value)}: {_KINDS.get(kind, problem['msg'])} is expected"
