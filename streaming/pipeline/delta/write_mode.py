"""How a sink writes its Delta table, as the table itself remembers it in its properties.

Two runs that write one table in two ways would overwrite or hide rows without a word: by other
keys, with deletes marked here and removed there. So a run compares before it writes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from streaming.pipeline.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql.types import DataType

    from streaming.pipeline.config.sinks import DeltaSink

#: Columns that an upsert adds to the table.
SEQUENCE = "_sequence"
DELETED = "_deleted"
#: The last fields of `_sequence`, if the rows have Kafka's struct. Structs compare field by field,
#: so the order of the fields is the rule.
BY_OFFSET = ("offset", "partition", "topic", "timestamp")
_NAMES = TypeAdapter(tuple[str, ...])
#: Properties of the table that hold a list of names in JSON.
_KEYS, _SEQUENCE_BY = "assignor.keys", "assignor.sequenceBy"
_MODE, _DELETES = "assignor.mode", "assignor.deletes"
_ELSE = "give the sink a new table and the job a new checkpoint"


class WriteMode(NamedTuple):
    """How a table is written; None for what is not known, or does not apply."""

    mode: str
    keys: tuple[str, ...] | None = None
    deletes: str | None = None
    sequence_by: tuple[str, ...] | None = None

    def properties(self) -> dict[str, str]:
        """Return it as properties of the table."""
        if self.mode == "append":
            return {_MODE: self.mode}
        keys, order = (json.dumps(names or ()) for names in (self.keys, self.sequence_by))
        return {_MODE: self.mode, _KEYS: keys, _DELETES: self.deletes or "", _SEQUENCE_BY: order}


def of_sink(sink: DeltaSink) -> WriteMode:
    """Return how a sink writes its table."""
    if sink.mode == "append":
        return WriteMode("append")
    return WriteMode("upsert", sink.keys, sink.deletes, sink.sequence_by)


def part_names(columns: Iterable[str], others: Iterable[str]) -> list[str]:
    """Name the parts of `_sequence` as their columns, with `_` before a name that is taken.

    Delta takes names for one that differ by case alone, whatever Spark does.

    >>> part_names(["seq", "Offset", "SEQ"], BY_OFFSET)
    ['seq', '_Offset', '_SEQ']
    """
    taken, parts = set(others), []
    for column in columns:
        part = column
        while part.lower() in taken:
            part = f"_{part}"
        taken.add(part.lower())
        parts.append(part)
    return parts


def orders_by_offset(sequence: DataType) -> bool:
    """Return whether a `_sequence` ends with the record's place in Kafka.

    >>> from pyspark.sql.types import StructType
    >>> orders_by_offset(StructType().add("seq", "long"))
    False
    """
    return tuple(getattr(sequence, "names", ()))[-len(BY_OFFSET) :] == BY_OFFSET


def of_properties(properties: Mapping[str, str]) -> WriteMode | None:
    """Read a table's properties; None when it has none of ours."""
    mode = properties.get(_MODE)
    if mode is None:
        return None
    try:
        keys, order = (
            _NAMES.validate_json(properties[name]) if name in properties else None
            for name in (_KEYS, _SEQUENCE_BY)
        )
    except ValidationError:
        raise TableError(
            f"the table's properties {_KEYS} and {_SEQUENCE_BY} are no lists of names in JSON: set "
            "them back"
        ) from None
    return WriteMode(mode, keys, properties.get(_DELETES), order)


def check_same(
    where: str,
    before: WriteMode | None,
    now: WriteMode,
    fold: Callable[[str], str],
    *,
    has_sequence: bool = False,
) -> None:
    """Check that a sink writes a table as it was written; say what differs and what to do.

    `before` is None for a table without our properties, as after `REPLACE TABLE`. `has_sequence` is
    whether it has the column of an upsert.
    """
    if before is None:
        if now.mode == "upsert" or has_sequence:
            pairs = ", ".join(f"'{name}' = '{value}'" for name, value in now.properties().items())
            raise TableError(
                f"the table {where!r} has no property {_MODE}, so it is unknown how its rows are "
                f"kept: if this job has written them, ALTER TABLE … SET TBLPROPERTIES ({pairs}); "
                f"else {_ELSE}"
            )
        return
    for what, was, new in zip(WriteMode._fields, before, now, strict=True):
        if was is None or new is None or _compared(what, was, fold) == _compared(what, new, fold):
            continue
        said, says = (n if isinstance(n, str) else ", ".join(n) or "none" for n in (was, new))
        raise TableError(
            f"the table {where!r} is kept with {what} {said}, the job says {says}: set it back, or "
            f"{_ELSE}"
        )


def _compared(what: str, value: Any, fold: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return value
    names = [fold(name) for name in value]
    return set(names) if what == "keys" else names
