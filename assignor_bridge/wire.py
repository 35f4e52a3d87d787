"""The JSON contract: a snapshot in, a plan out, one JSON a line each.

The same for the worker and for `assignor plan`. Columns are taken straight from the parsed JSON
and written straight from the plan's columns: with 100,000 partitions, an object for each would cost
more than the plan.
"""

from __future__ import annotations

import contextlib
import traceback
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from assignor_bridge.errors import AssignorError, OptionError
from assignor_bridge.model import Executor
from assignor_bridge.planner.batch import Observed, lay_out

if TYPE_CHECKING:
    from collections.abc import Callable

    from assignor_bridge.planner.batch import Batch
    from assignor_bridge.planner.plan import Outcome

_KEYS = ("executors", "ranges", "options", "observed", "state", "parallelism")


def parse_request(line: bytes | str) -> dict[str, Any]:
    """One JSON object, or `OptionError`."""
    try:
        request = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise OptionError(f"the request is no JSON: {error}") from None
    if not isinstance(request, dict):
        raise OptionError(f"the request is a JSON {_kind(request)}: an object is expected")
    return request


def read_batch(request: dict[str, Any]) -> tuple[Batch, str | None]:
    """Take the batch and the state from a snapshot.

    Raises
    ------
    OptionError
        When it does not follow the contract; the message names the place.
    """
    unknown = sorted(set(request) - set(_KEYS))
    if unknown:
        raise OptionError(
            f"snapshot has an unknown key {unknown[0]!r}: {', '.join(_KEYS)} are known"
        )
    ranges = _list(request, "ranges")
    options = request.get("options") or {}
    if not isinstance(options, dict):
        raise OptionError(f"options is a JSON {_kind(options)}: an object is expected")
    state = request.get("state")
    if state is not None and not isinstance(state, str):
        raise OptionError(f"state is a JSON {_kind(state)}: a string or null is expected")
    parallelism = request.get("parallelism", 1)
    if parallelism is None:
        parallelism = 1
    if not _is_int(parallelism):
        raise OptionError(f"parallelism is {parallelism!r}: a whole number is expected")
    executors = [_executor(i, e) for i, e in enumerate(_list(request, "executors"))]
    batch = lay_out(
        _strings("ranges", ranges, "topic"),
        _ints("ranges", ranges, "partition"),
        _ints("ranges", ranges, "start"),
        _ints("ranges", ranges, "end"),
        executors,
        {str(k): _option_text(v) for k, v in options.items() if v is not None},
        _observed(_list(request, "observed")),
        parallelism,
    )
    return batch, state


def answer(outcome: Outcome) -> dict[str, Any]:
    """Write the plan as JSON values."""
    from checkpoints.sticky_state import encode

    batch, tasks = outcome.batch, outcome.tasks
    pieces = tasks.pieces
    topics = map(batch.topics.__getitem__, batch.topic[pieces.row].tolist())
    ranges = [
        {"topic": topic, "partition": partition, "start": start, "end": end}
        for topic, partition, start, end in zip(
            topics,
            batch.partition[pieces.row].tolist(),
            pieces.start.tolist(),
            pieces.end.tolist(),
            strict=True,
        )
    ]
    firsts = np.searchsorted(tasks.task, np.arange(len(tasks) + 1)).tolist()
    ids = [None if batch.anonymous else e.id for e in batch.executors]
    listed = [
        {"executor": ids[executor], "slot": number, "ranges": ranges[a:b]}
        for executor, number, a, b in zip(
            batch.slot_executor[tasks.slot].tolist(),
            tasks.number.tolist(),
            firsts,
            firsts[1:],
            strict=False,
        )
    ]
    for task, standbys in outcome.standbys.items():
        listed[task]["standbys"] = list(standbys)
    return {
        "assignor": outcome.assignor,
        "tasks": listed,
        "state": encode(outcome.state),
        "metrics": dict(outcome.metrics),
        "reasons": list(outcome.reasons),
    }


def failure(error: BaseException) -> dict[str, Any]:
    """Write what is answered instead of a plan: the cause in one line, and who has to act."""
    if isinstance(error, OptionError):
        return {"error": str(error), "misuse": True}
    line = str(error) if isinstance(error, AssignorError) else f"{type(error).__name__}: {error}"
    return {
        "error": " ".join(line.split()),
        "traceback": "".join(traceback.format_exception(error)),
    }


def dump(value: dict[str, Any]) -> bytes:
    """One line of JSON."""
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY)


# Reading, with messages that name the place.


def _list(request: dict[str, Any], key: str) -> list[Any]:
    value = request.get(key)
    if value is None:
        if key == "ranges":
            raise OptionError("snapshot has no 'ranges': a list of offset ranges is expected")
        return []
    if not isinstance(value, list):
        raise OptionError(f"{key} is a JSON {_kind(value)}: a list is expected")
    return value


def _strings(where: str, rows: list[Any], key: str) -> list[str]:
    try:
        values = list(map(itemgetter(key), rows))
        if list(map(type, values)).count(str) == len(values):
            return values
    except (KeyError, TypeError, IndexError):
        pass
    raise _blame(where, rows, key, lambda v: isinstance(v, str), "a string")


def _ints(where: str, rows: list[Any], key: str) -> np.ndarray:
    try:
        values = list(map(itemgetter(key), rows))
        if list(map(type, values)).count(int) == len(values):
            return np.fromiter(values, np.int64, len(values))
    except (KeyError, TypeError, IndexError, OverflowError):
        pass
    raise _blame(where, rows, key, _is_int, "a whole number of 64 bits")


def _floats(rows: list[Any], key: str) -> np.ndarray:
    """Take numbers, not a number where they are missing."""
    try:
        values = list(map(itemgetter(key), rows))
    except KeyError:
        values = [row.get(key) for row in rows]
    kinds = list(map(type, values))
    with contextlib.suppress(OverflowError):
        if kinds.count(int) == len(kinds):
            return np.fromiter(values, np.int64, len(values)).astype(np.float64)
    if kinds.count(float) == len(kinds):
        return np.fromiter(values, np.float64, len(values))
    if set(kinds) <= {int, float, type(None)}:
        return np.array(values, np.float64)
    raise _blame(
        "observed", rows, key, lambda v: type(v) in (int, float, type(None)), "a number", False
    )


def _observed(rows: list[Any]) -> Observed:
    if not rows:
        return Observed.none()
    topics, partition = _strings("observed", rows, "topic"), _ints("observed", rows, "partition")
    try:
        executors = _strings("observed", rows, "executor")
    except OptionError:
        executors = ["" if (e := row.get("executor")) is None else str(e) for row in rows]
    columns = [_floats(rows, key) for key in ("records", "bytes", "seconds", "offsets")]
    return Observed.of(topics, partition, executors, *columns)


def _executor(i: int, given: Any) -> Executor:
    where = f"executors[{i}]"
    if not isinstance(given, dict):
        raise OptionError(f"{where} is a JSON {_kind(given)}: an object is expected")
    for key in ("id", "host"):
        if not isinstance(given.get(key), str):
            raise OptionError(f"{where}.{key} is {given.get(key)!r}: a string is expected")
    slots = given.get("slots", 1)
    if not _is_int(slots):
        raise OptionError(f"{where}.slots is {slots!r}: a whole number is expected")
    rack, priority = given.get("rack"), given.get("priority")
    if rack is not None and not isinstance(rack, str):
        raise OptionError(f"{where}.rack is {rack!r}: a string or null is expected")
    if priority is not None and not _is_int(priority):
        raise OptionError(f"{where}.priority is {priority!r}: a whole number or null is expected")
    return Executor(given["id"], given["host"], slots, rack, priority)


def _option_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


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
            return OptionError(f"{where}[{i}] is a JSON {_kind(row)}: an object is expected")
        if key not in row:
            if required:
                return OptionError(f"{where}[{i}] has no {key!r}: {expected} is expected")
        elif not good(row[key]):
            return OptionError(f"{where}[{i}].{key} is {row[key]!r}: {expected} is expected")
    return OptionError(f"{where}: {key!r} cannot be read: {expected} is expected")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _kind(value: Any) -> str:
    names = {dict: "object", list: "list", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
