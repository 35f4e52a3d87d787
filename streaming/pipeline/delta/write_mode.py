"""Record a sink's write mode in its table's properties, and check that later runs use the same.

Two runs with different keys or different delete handling would overwrite or hide each other's rows
without an error. So a run compares its mode with the table's before it writes. Tables of older
versions have no such properties; their mode is inferred from their columns.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from streaming.pipeline.job_errors import TableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql.types import DataType, StructType

    from streaming.pipeline.config.sinks import DeltaSink

#: Column that an upsert adds to the table to order the rows of each key.
SEQUENCE = "_sequence"
#: Boolean column of an upsert with `deletes: mark`; true marks a deleted row.
DELETED = "_deleted"
#: The last fields of `_sequence`, if the rows have Kafka's struct. Spark compares structs field by
#: field, so their order defines which row is newer; a table keeps the order it was created with.
BY_OFFSET = ("offset", "partition", "topic", "timestamp")
#: Kafka's fields in tables created by earlier versions, which compared timestamps first.
BY_TIMESTAMP = ("timestamp", "partition", "offset")
_COLUMN_NAMES_ADAPTER = TypeAdapter(tuple[str, ...])
#: Table properties with the columns of `keys` and `sequence_by`, as JSON lists.
_KEYS = "assignor.keys"
_SEQUENCE_BY = "assignor.sequenceBy"
_MODE = "assignor.mode"
_DELETES = "assignor.deletes"
_NEW_TABLE = "give the sink a new table and the job a new checkpoint"


class WriteMode(NamedTuple):
    """How a table is written; a field is None if it is unknown or does not apply."""

    mode: str
    keys: tuple[str, ...] | None = None
    deletes: str | None = None
    sequence_by: tuple[str, ...] | None = None

    def to_properties(self) -> dict[str, str]:
        """Return the mode as table properties."""
        if self.mode == "append":
            return {_MODE: self.mode}
        keys, order = (json.dumps(names or ()) for names in (self.keys, self.sequence_by))
        return {_MODE: self.mode, _KEYS: keys, _DELETES: self.deletes or "", _SEQUENCE_BY: order}


def get_sink_mode(sink: DeltaSink) -> WriteMode:
    """Return how a sink writes its table."""
    if sink.mode == "append":
        return WriteMode("append")
    return WriteMode("upsert", sink.keys, sink.deletes, sink.sequence_by)


def name_sequence_fields(columns: Iterable[str], reserved_names: Iterable[str]) -> list[str]:
    """Name the fields of `_sequence` after their columns, with a `_` before a duplicate name.

    Delta ignores the case of names, whatever Spark's setting.

    >>> name_sequence_fields(["seq", "Offset", "SEQ"], BY_OFFSET)
    ['seq', '_Offset', '_SEQ']
    """
    used_names, fields = set(reserved_names), []
    for column in columns:
        field = column
        while field.lower() in used_names:
            field = f"_{field}"
        used_names.add(field.lower())
        fields.append(field)
    return fields


def find_kafka_fields(sequence: DataType | None) -> tuple[str, ...]:
    """Return the Kafka fields at the end of `_sequence`, in the table's order; empty if none.

    >>> from pyspark.sql.types import StructType
    >>> sequence = StructType()
    >>> for name in ("seq", "timestamp", "partition", "offset"):
    ...     sequence = sequence.add(name, "long")
    >>> find_kafka_fields(sequence)
    ('timestamp', 'partition', 'offset')
    """
    names = tuple(getattr(sequence, "names", ()))
    return next((x for x in (BY_OFFSET, BY_TIMESTAMP) if names[-len(x) :] == x), ())


def parse_mode(properties: Mapping[str, str]) -> WriteMode | None:
    """Parse a table's mode; None if it is not recorded, TableError if its columns are invalid."""
    mode = properties.get(_MODE)
    if mode is None:
        return None
    try:
        keys, sequence_by = (
            _COLUMN_NAMES_ADAPTER.validate_json(properties[name]) if name in properties else None
            for name in (_KEYS, _SEQUENCE_BY)
        )
    except ValidationError:
        raise TableError(
            f"the table properties {_KEYS} and {_SEQUENCE_BY} must be JSON lists of column names: "
            "restore their previous values"
        ) from None
    return WriteMode(mode, keys, properties.get(_DELETES), sequence_by)


def infer_mode(table_schema: StructType, user_columns: Iterable[str]) -> WriteMode:
    """Infer from a table's columns how an older version wrote it.

    `user_columns` are the user's columns, whose names may equal those that an upsert adds.
    """
    user_names = {name.lower() for name in user_columns}
    types: dict[str, Any] = {field.name.lower(): field.dataType for field in table_schema.fields}
    fields = getattr(types.get(SEQUENCE), "names", None)
    if fields is None or SEQUENCE in user_names:
        return WriteMode("append")
    fields = fields[: len(fields) - len(find_kafka_fields(types[SEQUENCE]))]
    is_marked = DELETED in types and DELETED not in user_names
    return WriteMode("upsert", None, "mark" if is_marked else "remove", tuple(fields))


def check_same_mode(
    title: str,
    old: WriteMode,
    new: WriteMode,
    normalize: Callable[[str], str],
    *,
    is_inferred: bool,
) -> None:
    """Raise TableError if a sink would write a table in a different mode than before."""
    if is_inferred and (old.mode, new.mode) == ("append", "upsert"):
        raise TableError(
            f"the table {title!r} was not created by an upsert (it has no column {SEQUENCE}), "
            f"so rows cannot be merged into it: {_NEW_TABLE}"
        )
    if is_inferred and new.sequence_by:  # `old` has the names of `_sequence` fields
        by_timestamp = tuple(name_sequence_fields(new.sequence_by, BY_TIMESTAMP))
        by_offset = tuple(name_sequence_fields(new.sequence_by, BY_OFFSET))
        is_by_timestamp = by_timestamp == old.sequence_by
        new = new._replace(sequence_by=by_timestamp if is_by_timestamp else by_offset)
    for field, *values in zip(WriteMode._fields, old, new, strict=True):
        old_value, new_value = (_normalize_names(field, value, normalize) for value in values)
        if None in values or old_value == new_value:
            continue
        texts = [x if isinstance(x, str) else ", ".join(x or ()) or "none" for x in values]
        raise TableError(
            f"the table {title!r} was written with {field} {texts[0]}, but the job has {texts[1]}: "
            f"set {field} back in the job, or {_NEW_TABLE}"
        )


def _normalize_names(field: str, value: Any, normalize: Callable[[str], str]) -> Any:
    if value is None or isinstance(value, str):
        return value
    columns = [normalize(column) for column in value]
    return set(columns) if field == "keys" else columns
