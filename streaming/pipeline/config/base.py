"""The base of the config models, and the kinds of values that they share.

A value may be a secret, so neither an error nor the `repr` of a model shows one.
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

from assignor_bridge.errors import unknown_name
from streaming.kafka.servers import check_topic
from streaming.metrics.config import NOT_A_FLAG
from streaming.validation import to_option_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema

SERVERS = "kafka.bootstrap.servers"
_COMMON = (SERVERS, "kafka.security.protocol", "kafka.sasl.mechanism")

_LENGTH = r"\d+(?:\.\d+)?\s*(?:millisecond|second|minute|hour|day)s?"
_TRIGGER = rf"availableNow|(?:processingTime\s*)?({_LENGTH})"
SIZE = r"off|(?=[\d.]*[1-9])(\d{1,9}(?:\.\d{1,9})?)\s*(KB|MB|GB)"
#: In JSON Schema, what `to_option_text` takes.
_SCALAR: dict[str, Any] = {"type": ["string", "number", "boolean"]}


class Section(BaseModel):
    """A mapping of the config, some with options of Kafka or Spark next to their own keys, as text.

    A key that is not known is an error that names the nearest one.
    """

    # Meanings of keys are the texts below them.
    model_config = ConfigDict(
        extra="allow", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True
    )

    #: Options by name, with their meaning for the docs.
    OPTIONS: ClassVar[dict[str, str]] = {}
    #: Beginnings of further options, each with the pattern of their names for JSON Schema.
    PREFIXES: ClassVar[dict[str, str]] = {}

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        """Show which keys are set, and no value."""
        return [(None, key) for key in sorted(self.model_fields_set)]

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled."""
        raise TypeError("a job's config may hold secrets: send what it was loaded from")

    @property
    def options(self) -> dict[str, str]:
        """The options of Kafka and Spark, by the names that these give them."""
        return dict(self.model_extra or {})

    @model_validator(mode="before")
    @classmethod
    def _read_options(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        fields = [field.alias or name for name, field in cls.model_fields.items()]
        read = {}
        for key, value in data.items():
            if key in fields:
                read[key] = value
            elif not isinstance(key, str):
                raise ValueError(f"key {key!r} is no text")
            elif key not in cls.OPTIONS and not key.startswith(tuple(cls.PREFIXES)):
                kafka = _COMMON if cls.PREFIXES else ()
                raise ValueError(unknown_name("key", key, [*fields, *cls.OPTIONS, *kafka]))
            else:
                try:
                    read[key] = to_option_text(value)
                except ValueError as error:
                    raise ValueError(f"option {key!r}: {error}") from None
        return read

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Say in JSON Schema what `_read_options` takes."""
        named = handler(core_schema)
        schema = handler.resolve_ref_schema(named)
        schema["additionalProperties"] = False
        if cls.PREFIXES:
            schema["patternProperties"] = dict.fromkeys(cls.PREFIXES.values(), _SCALAR)
        for name, meaning in cls.OPTIONS.items():
            schema["properties"][name] = {**_SCALAR, "description": meaning}
        for part in schema["properties"].values():
            part["description"] = " ".join(part.get("description", "").split())
        return named


#: `PREFIXES` of what takes options of Kafka's client.
OF_KAFKA = {"kafka.": r"^kafka\."}


def require_one(parts: Mapping[str, object]) -> None:
    """Raise ValueError unless exactly one of several keys has a value."""
    if sum(value is not None for value in parts.values()) != 1:
        *names, last = map(repr, parts)
        raise ValueError(f"exactly one of {', '.join(names)} and {last} is expected")


def require_pattern(pattern: str, what: str) -> AfterValidator:
    """Return a validator that takes text of a pattern, without case and the blanks around it."""

    def check(text: str) -> str:
        if re.fullmatch(pattern, text.strip(), re.IGNORECASE | re.ASCII) is None:
            raise ValueError(f"{what} is expected")
        return text.strip()

    return AfterValidator(check)


def _check_folder(path: str) -> str:
    if not path.strip() or path.startswith("~") or re.match(r"\$\w", path):
        raise ValueError("a folder or URL is expected; write ${HOME} for your home folder, not ~")
    return path


#: The value of an option of Spark's.
OptionText = Annotated[str, BeforeValidator(to_option_text), WithJsonSchema(_SCALAR)]
#: A size such as "128MB", or "off".
Size = Annotated[
    str,
    require_pattern(SIZE, "a size such as '128MB' (KB, MB or GB)"),
]
#: A length of time in Spark's words.
Interval = Annotated[str, require_pattern(_LENGTH, "a length of time such as '10 seconds'")]
#: When batches start.
Trigger = Annotated[str, require_pattern(_TRIGGER, "'availableNow' or 'processingTime 10 seconds'")]
#: A count that Kafka, Avro and the JVM can hold.
Count = Annotated[int, NOT_A_FLAG, Field(gt=0, le=2**31 - 1)]
#: Columns: one name, or a list.
Columns = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
#: The name of a source, a transform or a sink; SQL must be able to say it.
ViewName = Annotated[
    str, require_pattern(r"[a-z_][a-z0-9_]*", "a name of ASCII letters, digits and '_' for SQL")
]
#: A folder or its URL.
Location = Annotated[str, AfterValidator(_check_folder)]
#: The name of a topic, as Kafka takes it.
TopicName = Annotated[str, AfterValidator(check_topic)]
