"""Snapshots and plans as people write and read them: `assignor plan`, and lines of a plan log.

The same facts as in `messages.PlanBatch`, with the options, and with an object for each range and
report where those have packed columns (a plan log has these: both are read).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np

from assignor_bridge.json_input import InputError, short
from assignor_bridge.options import parse_options
from assignor_bridge.planner.batch import Batch, Observed, coded, lay_out
from assignor_bridge.planner.racks import Replicas
from assignor_bridge.protocol.columns import unpack_racks, unpack_ranges, unpack_reports
from assignor_bridge.protocol.messages import (
    Allocation,
    Executor,
    Int64,
    Message,
    Natural,
    Racks,
    Ranges,
    Reports,
    allocation,
    executors,
)
from checkpoints.state_text import encode

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import Ints, Names
    from assignor_bridge.planner.plan import Outcome


class Range(Message, frozen=True):
    """One offset range."""

    topic: str
    partition: Int64
    start: Int64
    end: Int64
    #: Racks that hold a replica of the partition; null or left out where they are unknown.
    racks: list[str] | None = None


class Report(Message, frozen=True):
    """What reading one range cost; null or left out where it is unknown."""

    topic: str
    partition: Int64
    executor: str | Int64 | None = None
    records: float | None = None
    bytes: float | None = None
    seconds: float | None = None
    offsets: float | None = None


class Snapshot(Message, frozen=True, tag="plan"):
    """Everything that is known when a micro-batch is planned."""

    ranges: list[Range] | Ranges
    executors: list[Executor] | None = None
    options: dict[str, str | bool | int | float | None] | None = None
    observed: list[Report] | Reports | None = None
    state: str | None = None
    parallelism: Int64 | None = None
    allocation: Allocation | None = None
    racks: Racks | None = None
    stream: Natural = 0
    #: One more than the highest partition of each topic that the query reads; null or left out:
    #: unknown.
    partitions: dict[str, Natural] | None = None


class LoggedBatch(Message, frozen=True, forbid_unknown_fields=False):
    """A line of a plan log; a newer version may write further keys."""

    snapshot: dict[str, Any]
    batch_id: Int64 | None = None
    plan: Any = None
    #: How far the batch was asked to go, and goes, where our options limit it.
    admission: Any = None


_Kind = TypeVar("_Kind", bound=Message)
#: The parts of a snapshot that are objects, by the last name of their path.
_PARTS: dict[str, type[Message]] = {
    "": Snapshot, "executors": Executor, "ranges": Range, "observed": Report,
    "allocation": Allocation, "racks": Racks,
}  # fmt: skip
#: The same where columns stand in place of a list.
_COLUMNS: dict[str, type[Message]] = {"ranges": Ranges, "observed": Reports}
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_EXPECTED = re.compile(r"Expected `(.+?)`(?: (>=|<=) (-?\d+))?")
#: The types of msgspec and its bounds, in words.
_WORDS = {
    "int": "a whole number", "float": "a number", "str": "a string", "bool": "true or false",
    "object": "an object", "array": "a list", "bytes": "base64", ">=": "of at least",
    "<=": "of at most",
}  # fmt: skip


def read_logged(line: Any) -> LoggedBatch:
    """Return a line of a plan log from its JSON value; raises `InputError` as `read_snapshot`."""
    return _converted(line, LoggedBatch)


def read_snapshot(given: Any) -> tuple[Batch, str | None]:
    """Return the batch and the state of a snapshot, from its JSON value.

    Raises InputError, which names the place, when it does not follow the contract, and OptionError
    when it contradicts itself, or for its options.
    """
    snapshot = _converted(given, Snapshot)
    ranges, reports, racks = snapshot.ranges, snapshot.observed, snapshot.racks
    if racks is not None and not isinstance(ranges, Ranges):
        raise InputError("racks stands beside ranges as columns: give each range its 'racks'")
    batch = lay_out(
        *(unpack_ranges(ranges) if isinstance(ranges, Ranges) else _range_columns(ranges)),
        executors(snapshot.executors or []),
        parse_options(_texts(snapshot.options or {})),
        unpack_reports(reports) if isinstance(reports, Reports) else _report_columns(reports or []),
        1 if snapshot.parallelism is None else snapshot.parallelism,
        allocation(snapshot.allocation),
        unpack_racks(racks, ranges) if isinstance(ranges, Ranges) else _racks(ranges),
        snapshot.stream,
        snapshot.partitions,
    )
    return batch, snapshot.state


def write_plan(outcome: Outcome) -> dict[str, Any]:
    """Return a plan as JSON values."""
    batch, tasks = outcome.batch, outcome.tasks
    ids = [*(executor.id for executor in batch.executors), None]  # the last for -1: anywhere
    rows: list[dict[str, Any]] = [
        {"executor": ids[place], "slot": slot, "ranges": []}
        for place, slot in zip(outcome.place.tolist(), tasks.number.tolist(), strict=True)
    ]
    pieces, partitions = tasks.pieces, batch.partition.tolist()
    topics = [batch.topics[topic] for topic in batch.topic.tolist()]
    columns = (tasks.task, pieces.row, pieces.start, pieces.end)
    for task, row, start, end in zip(*(column.tolist() for column in columns), strict=True):
        rows[task]["ranges"].append(
            {"topic": topics[row], "partition": partitions[row], "start": start, "end": end}
        )
    for task, standbys in outcome.standbys.items():
        rows[task]["standbys"] = list(standbys)
    return {
        "assignor": outcome.assignor,
        "tasks": rows,
        "state": encode(outcome.state),
        "metrics": dict(outcome.metrics),
        "reasons": list(outcome.reasons),
    }


def _range_columns(rows: list[Range]) -> tuple[Names, Ints, Ints, Ints]:
    return (
        coded([row.topic for row in rows]),
        np.array([row.partition for row in rows], np.int64),
        np.array([row.start for row in rows], np.int64),
        np.array([row.end for row in rows], np.int64),
    )


def _racks(rows: list[Range]) -> Replicas:
    sets = [row.racks or [] for row in rows]
    return Replicas.of(sets, np.arange(len(sets)))


def _report_columns(rows: list[Report]) -> Observed:
    return Observed.of(
        coded([row.topic for row in rows]),
        np.array([row.partition for row in rows], np.int64),
        coded(["" if row.executor is None else str(row.executor) for row in rows]),
        *(
            np.array([getattr(row, name) for row in rows], np.float64)  # None: not a number
            for name in ("records", "bytes", "seconds", "offsets")
        ),
    )


def _converted(value: Any, kind: type[_Kind]) -> _Kind:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InputError(_explained(str(error), value)) from None


def _explained(text: str, value: Any) -> str:
    """Add to a message of msgspec what stands at its place, or which keys may stand there."""
    problem, _, path = text.partition(" - at `$")
    name = ""
    for key, index in _STEP.findall(path):
        value = value[key] if key else value[int(index)]
        name = key or name
    where, quoted = path.strip(".`") or "snapshot", problem.split("`")
    if problem.startswith("Object missing"):
        return f"{where} has no {quoted[1]!r}: it is expected"
    if problem.startswith("Object contains unknown"):
        in_list = path.endswith("]`")
        part = _PARTS[name] if in_list else _COLUMNS.get(name, _PARTS[name])
        known = ", ".join(part.__struct_encode_fields__)
        return f"{where} has an unknown key {quoted[1]!r}: known are {known}"
    if expected := _EXPECTED.match(problem):
        kinds = [kind for kind in expected[1].split(" | ") if kind != "null"]
        kinds = [kind for kind in kinds if kind != "int" or "float" not in kinds]
        words = " or ".join(_WORDS.get(kind, kind) for kind in kinds)
        bound = f" {_WORDS[expected[2]]} {expected[3]}" if expected[2] else ""
        problem = f"{words}{bound} is expected"
    return f"{where} is {short(value)}: {problem}"


def _texts(options: dict[str, str | bool | int | float | None]) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
        if value is not None
    }
