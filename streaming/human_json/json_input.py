"""Read JSON that people write, and report errors in one line.

pydantic validates the values fast; a line may have hundreds of thousands of numbers.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from assignor_bridge.errors import OptionError, describe_unknown_name
from streaming.validation import describe_problems, shorten

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_Model = TypeVar("_Model", bound=BaseModel)


class InputError(OptionError):
    """Input that does not follow the JSON contract."""


def parse_json(text: bytes | str, label: str) -> Any:
    """Parse JSON; reject repeated keys, unpaired surrogates, and the constants NaN and Infinity.

    Raises InputError if it is invalid; `label` names the input in the message.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode()
        value = json.loads(text, object_pairs_hook=_parse_object, parse_constant=_refuse_constant)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{label} is not JSON: a string has an unpaired surrogate (half of a character)"
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(f"{label} is not UTF-8: byte {error.start + 1} cannot be read") from None
    except _RepeatedKeyError as error:
        raise InputError(f"{label} has an object with the key {error.args[0]} twice") from None
    except RecursionError:
        raise InputError(f"{label} is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{label} is not JSON: {error}") from None
    return value


class _RepeatedKeyError(Exception):
    pass


def _parse_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = sorted(key for key, _ in pairs)
        raise _RepeatedKeyError(shorten(next(a for a, b in pairwise(keys) if a == b)))
    return result


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


class JsonObject(BaseModel):
    """An object that rejects unknown keys; a null value of an optional key is ignored."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        field_by_key = {field.alias or name: field for name, field in cls.model_fields.items()}
        for key in sorted(data.keys() - field_by_key.keys()):
            raise ValueError(describe_unknown_name("key", key[:40], list(field_by_key)))
        return {k: v for k, v in data.items() if v is not None or field_by_key[k].is_required()}


def validate_model(model: type[_Model], data: Any, label: str) -> _Model:
    """Validate JSON values and return them as an instance of `model`.

    Raises InputError if they are invalid; `label` names the input in the message.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = describe_problems(error, data, show_values=True)
        raise InputError(f"{label}: {problems}") from None
