"""How a sink writes its Delta table, as the table itself remembers it in its properties.

Two runs that write one table in two ways would overwrite or hide rows without a word: by other
keys, with deletes marked here and removed there. So a run compares before it writes. A table of an
older version has no such properties; what its columns tell is taken for it, and written down.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from streaming.pipeline.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql.types import DataType, StructType

    from streaming.pipeline.config.sinks import DeltaSink

#: Columns that an upsert adds to the table.
SEQUENCE = "_sequence"
DELETED = "_deleted"
#: The last fields of `_sequence`, if the rows have Kafka's struct. Structs compare field by field,
#: so the order of the fields is the rule, and a table keeps the one that it was created with.
BY_OFFSET = ("offset", "partition", "topic", "timestamp")
#: The rule of tables that earlier versions created.
BY_TIMESTAMP = ("timestamp", "partition", "offset")
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


def kafkas_fields(sequence: DataType | None) -> tuple[str, ...]:
    """Return which of Kafka's fields end a `_sequence`, in its order: the rule of its table.

    >>> from pyspark.sql.types import StructType
    >>> sequence = StructType()
    >>> for name in ("seq", "timestamp", "partition", "offset"):
    ...     sequence = sequence.add(name, "long")
    >>> kafkas_fields(sequence)
    ('timestamp', 'partition', 'offset')
    """
    names = tuple(getattr(sequence, "names", ()))
    return next((o for o in (BY_OFFSET, BY_TIMESTAMP) if names[-len(o) :] == o), ())


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


def of_columns(table: StructType, own: Iterable[str]) -> WriteMode:
    """Tell from a table's columns how an older version wrote it.

    `own` are the columns of the rows themselves: one of them that is named as ours is the user's.
    """
    users = {name.lower() for name in own}
    kinds: dict[str, Any] = {field.name.lower(): field.dataType for field in table.fields}
    order = getattr(kinds.get(SEQUENCE), "names", None)
    if order is None or SEQUENCE in users:
        return WriteMode("append")
    order = order[: len(order) - len(kafkas_fields(kinds[SEQUENCE]))]
    marks = DELETED in kinds and DELETED not in users
    return WriteMode("upsert", None, "mark" if marks else "remove", tuple(order))


def check_same(
    where: str, before: WriteMode, now: WriteMode, fold: Callable[[str], str], *, is_inferred: bool
) -> None:
    """Check that a sink writes a table as it was written; say what differs and what to do."""
    if is_inferred and (before.mode, now.mode) == ("append", "upsert"):
        raise TableError(
            f"the table {where!r} was not made by an upsert (it has no column {SEQUENCE}), so "
            f"rows cannot be merged into it: {_ELSE}"
        )
    if is_inferred and now.sequence_by:  # from the names of the parts
        parts = [tuple(part_names(now.sequence_by, o)) for o in (BY_OFFSET, BY_TIMESTAMP)]
        now = now._replace(sequence_by=parts[parts[1] == before.sequence_by])
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
