"""Define the config models' base class and shared types.

A model's `repr` hides all values, and errors quote only values that cannot be secrets.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NoReturn

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from assignor_bridge.errors import describe_unknown_name
from streaming.kafka.servers import check_topic
from streaming.metrics.config import NOT_A_FLAG
from streaming.validation import to_option_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema

SERVERS = "kafka.bootstrap.servers"
_COMMON_OPTIONS = (SERVERS, "kafka.security.protocol", "kafka.sasl.mechanism")

_DURATION_PATTERN = r"\d+(?:\.\d+)?\s*(?:millisecond|second|minute|hour|day)s?"
_TRIGGER_PATTERN = rf"availableNow|(?:processingTime\s*)?({_DURATION_PATTERN})"
SIZE_PATTERN = r"off|(?=[\d.]*[1-9])(\d{1,9}(?:\.\d{1,9})?)\s*(KB|MB|GB)"
#: JSON Schema of the values that `to_option_text` accepts.
_SCALAR_SCHEMA: dict[str, Any] = {"type": ["string", "number", "boolean"]}


class Section(BaseModel):
    """A mapping in the config, with its own keys and, in some sections, Kafka or Spark options.

    An unknown key is an error; the message suggests the most similar key, or lists all of them.
    """

    # A key's description is the string below it.
    model_config = ConfigDict(
        extra="allow", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True
    )

    #: Option descriptions, by option name.
    OPTIONS: ClassVar[dict[str, str]] = {}
    #: Prefixes of other options, each with a pattern for their names in JSON Schema.
    PREFIXES: ClassVar[dict[str, str]] = {}

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        """Show the names of the keys that are set, but no values."""
        return [(None, key) for key in sorted(self.model_fields_set)]

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled."""
        raise TypeError("a job's config may hold secrets and cannot be pickled: load it again")

    @property
    def options(self) -> dict[str, str]:
        """The section's options of Kafka, Spark, and the assignor, by name."""
        return dict(self.model_extra or {})

    @model_validator(mode="before")
    @classmethod
    def _convert_options(cls, data: Any) -> Any:
        """Check the names of the keys, and convert the values of options to text."""
        if not isinstance(data, dict):
            return data
        own_keys = [field.alias or name for name, field in cls.model_fields.items()]
        values = {}
        for key, value in data.items():
            if key in own_keys:
                values[key] = value
            elif not isinstance(key, str):
                raise ValueError(f"key {key!r} is not text")
            elif key not in cls.OPTIONS and not key.startswith(tuple(cls.PREFIXES)):
                names = [*own_keys, *cls.OPTIONS, *(_COMMON_OPTIONS if cls.PREFIXES else ())]
                raise ValueError(describe_unknown_name("key", key, names))
            else:
                try:
                    values[key] = to_option_text(value)
                except ValueError as error:
                    raise ValueError(f"option {key!r}: {error}") from None
        return values

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Add the options that `_convert_options` accepts to the JSON Schema."""
        reference = handler(core_schema)
        schema = handler.resolve_ref_schema(reference)
        schema["additionalProperties"] = False
        if cls.PREFIXES:
            schema["patternProperties"] = dict.fromkeys(cls.PREFIXES.values(), _SCALAR_SCHEMA)
        for name, description in cls.OPTIONS.items():
            schema["properties"][name] = {**_SCALAR_SCHEMA, "description": description}
        for key_schema in schema["properties"].values():
            key_schema["description"] = " ".join(key_schema.get("description", "").split())
        return reference


#: `PREFIXES` of sections that accept Kafka client options.
KAFKA_PREFIXES = {"kafka.": r"^kafka\."}


def require_one(values: Mapping[str, object]) -> None:
    """Raise ValueError unless exactly one of these keys has a value other than None."""
    if sum(value is not None for value in values.values()) != 1:
        *names, last = map(repr, values)
        raise ValueError(f"exactly one of {', '.join(names)} and {last} is expected")


def require_pattern(pattern: str, expected: str) -> AfterValidator:
    """Return a validator that strips text and matches it with a pattern, ignoring case."""

    def check(text: str) -> str:
        if re.fullmatch(pattern, text.strip(), re.IGNORECASE | re.ASCII) is None:
            raise ValueError(f"{expected} is expected")
        return text.strip()

    return AfterValidator(check)


def _check_folder(path: str) -> str:
    if not path.strip() or path.startswith("~") or re.match(r"\$\w", path):
        raise ValueError("a folder or URL is expected; write ${HOME}, not ~ or $HOME")
    return path


OptionText = Annotated[str, BeforeValidator(to_option_text), WithJsonSchema(_SCALAR_SCHEMA)]
Size = Annotated[str, require_pattern(SIZE_PATTERN, "a size such as '128MB' (KB, MB, GB) or 'off'")]
#: A duration in Spark's syntax.
Duration = Annotated[str, require_pattern(_DURATION_PATTERN, "a duration such as '10 seconds'")]
Trigger = Annotated[
    str, require_pattern(_TRIGGER_PATTERN, "'availableNow' or 'processingTime 10 seconds'")
]
#: A positive number that fits into a Java int.
PositiveInt = Annotated[int, NOT_A_FLAG, Field(gt=0, le=2**31 - 1)]
#: Names of columns: one, or a list.
ColumnNames = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
#: Name of a source, a transform or a sink, which must be valid in SQL.
ViewName = Annotated[
    str, require_pattern(r"[a-z_][a-z0-9_]*", "a name of ASCII letters, digits and '_' for SQL")
]
#: Path or URL of a folder.
Location = Annotated[str, AfterValidator(_check_folder)]
TopicName = Annotated[str, AfterValidator(check_topic)]
