"""How a sink keeps its Delta table, as the table itself remembers it in its properties.

Two runs that keep one table in two ways would overwrite or hide rows without a word: by other keys,
with deletes marked here and removed there. So a run compares before it writes. A table of an older
version has no such properties; what its columns tell is taken for it, and written down.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streaming.pipeline.delta_table import TableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql.types import StructType

    from streaming.pipeline.sinks_config import DeltaSink

#: Columns that an upsert adds to the table.
SEQUENCE = "_sequence"
DELETED = "_deleted"
_KAFKAS_ORDER = ("timestamp", "partition", "offset")
_PREFIX = "assignor."
_ELSE = "give the sink a new table and the job a new checkpoint"


@dataclass(frozen=True, slots=True)
class Kept:
    """How a table is kept; None for what is not known, or does not apply."""

    mode: str
    keys: tuple[str, ...] | None = None
    deletes: str | None = None
    sequence_by: tuple[str, ...] | None = None

    def properties(self) -> dict[str, str]:
        """Give it as properties of the table."""
        found = {_PREFIX + "mode": self.mode}
        if self.mode == "upsert":
            found |= {
                _PREFIX + "keys": json.dumps(self.keys or ()),
                _PREFIX + "deletes": self.deletes or "",
                _PREFIX + "sequenceBy": json.dumps(self.sequence_by or ()),
            }
        return found


def kept_by(sink: DeltaSink) -> Kept:
    """Give how a sink keeps its table."""
    if sink.mode == "append":
        return Kept("append")
    return Kept("upsert", sink.keys, sink.deletes, sink.sequence_by)


def remembered(properties: Mapping[str, str]) -> Kept | None:
    """Read a table's properties; None when it has none of ours.

    Raises
    ------
    TableError
        When they cannot be read.
    """
    mode = properties.get(_PREFIX + "mode")
    if mode is None:
        return None
    try:
        return Kept(
            mode,
            _names(properties, "keys"),
            properties.get(_PREFIX + "deletes"),
            _names(properties, "sequenceBy"),
        )
    except (ValueError, TypeError):
        raise TableError(
            f"the table's properties {_PREFIX}keys and {_PREFIX}sequenceBy are no lists of names "
            "in JSON: set them back"
        ) from None


def _names(properties: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    text = properties.get(_PREFIX + name)
    if text is None:
        return None
    found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise TypeError(name)
    return tuple(found)


def inferred(there: StructType, own: Iterable[str]) -> Kept:
    """Tell from a table's columns how an older version kept it.

    Parameters
    ----------
    there
        The table's columns.
    own
        The columns of the rows themselves: one of them that is named as ours is the user's.
    """
    users = {name.lower() for name in own}
    kinds: dict[str, Any] = {field.name.lower(): field.dataType for field in there.fields}
    order = getattr(kinds.get(SEQUENCE), "names", None)
    if order is None or SEQUENCE in users:
        return Kept("append")
    has_kafkas = tuple(order[-len(_KAFKAS_ORDER) :]) == _KAFKAS_ORDER
    marks = DELETED in kinds and DELETED not in users
    return Kept(
        "upsert",
        None,
        "mark" if marks else "remove",
        tuple(order[: -len(_KAFKAS_ORDER)] if has_kafkas else order),
    )


def check_kept(
    where: str, before: Kept, now: Kept, fold: Callable[[str], str], *, is_inferred: bool
) -> None:
    """Check that a sink keeps a table as it was kept.

    Raises
    ------
    TableError
        When it does not: what differs, and what can be done.
    """
    if before.mode != now.mode:
        if is_inferred and now.mode == "upsert":
            raise TableError(
                f"the table {where!r} was not made by an upsert (it has no column {SEQUENCE}), so "
                f"rows cannot be merged into it: {_ELSE}"
            )
        raise _differs(where, "mode", before.mode, now.mode)
    if before.keys is not None and now.keys is not None:
        was, new = ({fold(key) for key in keys} for keys in (before.keys, now.keys))
        if was != new:
            raise _differs(where, "keys", _listed(before.keys), _listed(now.keys))
    if before.deletes not in (None, now.deletes):
        raise _differs(where, "deletes", before.deletes, now.deletes)
    if before.sequence_by is not None and now.sequence_by is not None:
        was_by, by = ([fold(n) for n in names] for names in (before.sequence_by, now.sequence_by))
        if was_by != by:
            raise _differs(
                where, "sequence_by", _listed(before.sequence_by), _listed(now.sequence_by)
            )


def _differs(where: str, what: str, before: str | None, now: str | None) -> TableError:
    return TableError(
        f"the table {where!r} is kept with {what} {before}, the job says {now}: set it back, or "
        f"{_ELSE}"
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
