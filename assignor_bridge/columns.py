"""The long parts of a request, `ranges` and `observed`, as columns: from rows or packed columns.

Rows are the contract's plain form, an object a range or report. Packed, each field is one text: the
base64 of its numbers, little endian, `int32` where they are places in a list or partitions, `int64`
where they are offsets, `float64` where they are measures (not a number: unknown). The same comes
out of both. Rows of 10,000 partitions take 80 ms to read and packed columns 10, so the Java side
packs what is long.
"""

from __future__ import annotations

import base64
import struct
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from assignor_bridge.errors import OptionError
from assignor_bridge.planner.batch import Observed, coded

if TYPE_CHECKING:
    from collections.abc import Callable

    from assignor_bridge.planner.batch import Floats, Ints, Names

#: What a report measures; each may be unknown.
_MEASURES = ("records", "bytes", "seconds", "offsets")
#: Keys of a row. Others are refused, as everywhere in a snapshot: one that was misspelt, or came
#: from a newer version, would be ignored silently.
_RANGE = ("topic", "partition", "start", "end")
_REPORT = ("topic", "partition", "executor", *_MEASURES)


def read_ranges(given: Any) -> tuple[Names, Ints, Ints, Ints]:
    """Topics, partitions, first offsets and end offsets of `ranges`."""
    if isinstance(given, dict):
        packed = _Packed("ranges", given, ("topics", *_RANGE))
        topics = packed.names("topics", "topic")
        return topics, packed.ints("partition", 4), packed.ints("start", 8), packed.ints("end", 8)
    if not isinstance(given, list):
        raise OptionError(f"ranges is a JSON {kind(given)}: a list is expected")
    topics = coded(_strings("ranges", given, "topic"))
    partition, start, end = (_ints("ranges", given, key) for key in ("partition", "start", "end"))
    if sum(map(len, given)) > len(_RANGE) * len(given):  # each has all of these
        _refuse_unknown("ranges", given, _RANGE)
    return topics, partition, start, end


def read_observed(given: Any) -> Observed:
    """Read the reports of `observed`; None are as good as an empty list."""
    if not given and (given is None or isinstance(given, list)):
        return Observed.none()
    if isinstance(given, dict):
        packed = _Packed("observed", given, ("topics", "executors", *_REPORT))
        return Observed.of(
            packed.names("topics", "topic"),
            packed.ints("partition", 4),
            packed.names("executors", "executor"),
            *(packed.floats(key) for key in _MEASURES),
        )
    if not isinstance(given, list):
        raise OptionError(f"observed is a JSON {kind(given)}: a list is expected")
    topics, partition = _strings("observed", given, "topic"), _ints("observed", given, "partition")
    try:
        executors = _strings("observed", given, "executor")
    except OptionError:
        executors = ["" if (e := row.get("executor")) is None else str(e) for row in given]
    measures = [_floats(given, key) for key in _MEASURES]
    _refuse_unknown("observed", given, _REPORT)
    return Observed.of(coded(topics), partition, coded(executors), *measures)


class _Packed:
    """Packed columns, which must be of one length."""

    def __init__(self, where: str, columns: dict[str, Any], keys: tuple[str, ...]) -> None:
        unknown = sorted(set(columns) - set(keys))
        if unknown and "topics" in columns:
            raise OptionError(
                f"{where} has an unknown key {unknown[0]!r}: known are {_listed(keys)}"
            )
        self.where = where
        self.columns = columns
        self.length: int | None = None

    def ints(self, key: str, size: int) -> Ints:
        return self._numbers(key, f"<i{size}").astype(np.int64)

    def floats(self, key: str) -> Floats:
        return self._numbers(key, "<f8").astype(np.float64, copy=False)

    def names(self, listed: str, key: str) -> Names:
        """Read names and each cell's place in them; keep those that any cell has, sorted."""
        names = self.columns.get(listed)
        if not isinstance(names, list) or not {*map(type, names)} <= {str}:
            raise OptionError(
                f"{self.where} is a JSON object without {listed!r}: a list is expected, or packed "
                f"columns with a list of strings in {listed!r}"
            )
        places = self.ints(key, 4)
        if len(places) and not 0 <= places.min() <= places.max() < len(names):
            worst = places.min() if places.min() < 0 else places.max()
            raise OptionError(
                f"{self.where}.{key} holds {worst}: a place in {listed!r}, "
                f"of {len(names)}, is expected"
            )
        used = np.flatnonzero(np.bincount(places)).tolist()
        distinct, code = coded([names[place] for place in used])
        codes = np.zeros(len(names), np.int64)
        codes[used] = code
        return distinct, codes[places]

    def _numbers(self, key: str, dtype: str) -> np.ndarray:
        text, where = self.columns.get(key), f"{self.where}.{key}"
        if not isinstance(text, str):
            raise OptionError(f"{where} is a JSON {kind(text)}: base64 text is expected")
        try:
            numbers = np.frombuffer(base64.b64decode(text, validate=True), dtype)
        except ValueError as error:
            what = f"base64 of {np.dtype(dtype).name} numbers"
            raise OptionError(f"{where} is no {what}: {error}") from None
        if self.length is None:
            self.length = len(numbers)
        if len(numbers) != self.length:
            raise OptionError(
                f"{where} holds {len(numbers)} numbers where other columns hold {self.length}"
            )
        return numbers


def _refuse_unknown(where: str, rows: list[dict[str, Any]], keys: tuple[str, ...]) -> None:
    """Refuse keys that no row has, all rows at once."""
    if set().union(*rows) <= set(keys):
        return
    i, unknown = next(
        (i, set(row) - set(keys)) for i, row in enumerate(rows) if set(row) - set(keys)
    )
    raise OptionError(
        f"{where}[{i}] has an unknown key {min(unknown)!r}: known are {_listed(keys)}"
    )


def _listed(keys: tuple[str, ...]) -> str:
    return ", ".join(keys)


def _strings(where: str, rows: list[Any], key: str) -> list[str]:
    try:
        values = list(map(itemgetter(key), rows))
        if list(map(type, values)).count(str) == len(values):
            return values
    except (KeyError, TypeError, IndexError):
        pass
    raise _blame(where, rows, key, lambda v: isinstance(v, str), "a string")


def _ints(where: str, rows: list[Any], key: str) -> Ints:
    try:
        values = list(map(itemgetter(key), rows))
        if list(map(type, values)).count(int) == len(values):
            return _array("q", values)
    except (KeyError, TypeError, IndexError, struct.error):
        pass
    raise _blame(where, rows, key, is_int, "a whole number of 64 bits")


def _floats(rows: list[Any], key: str) -> Floats:
    """Take numbers, not a number where they are missing."""
    try:
        values = list(map(itemgetter(key), rows))
    except KeyError:
        values = [row.get(key) for row in rows]
    kinds = list(map(type, values))
    if kinds.count(int) == len(kinds):
        try:
            return _array("q", values).astype(np.float64)
        except struct.error:  # more than 64 bits
            return np.array(values, np.float64)
    if kinds.count(float) == len(kinds):
        return _array("d", values)
    if set(kinds) <= {int, float, type(None)}:
        return np.array(values, np.float64)
    raise _blame(
        "observed", rows, key, lambda v: type(v) in (int, float, type(None)), "a number", False
    )


def _array(code: str, values: list[Any]) -> np.ndarray:
    """Make an array of numbers of one kind; a third of the time that `np.array` takes."""
    return np.frombuffer(struct.pack(f"{len(values)}{code}", *values), code)


def _blame(  # noqa: PLR0917
    where: str,
    rows: list[Any],
    key: str,
    good: Callable[[Any], bool],
    expected: str,
    required: bool = True,
) -> OptionError:
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            return OptionError(f"{where}[{i}] is a JSON {kind(row)}: an object is expected")
        if key not in row:
            if required:
                return OptionError(f"{where}[{i}] has no {key!r}: {expected} is expected")
        elif not good(row[key]):
            return OptionError(f"{where}[{i}].{key} is {row[key]!r}: {expected} is expected")
    return OptionError(f"{where}: {key!r} cannot be read: {expected} is expected")


def is_int(value: Any) -> bool:
    """Whether a JSON value is a whole number of 64 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def kind(value: Any) -> str:
    """Name the kind of a JSON value."""
    names = {dict: "object", list: "list", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
