"""The messages between Java and the planner process: one JSON object per line, by `type`.

The Java side of each is a record of the same name in `Messages.java`. Numbers of ranges, reports
and tasks travel as packed columns: each is the base64 of little-endian numbers, `int32` for
partitions, slots, counts and places in a list of names, `int64` for offsets, `float64` for what was
measured (not a number: unknown). 10,000 objects would take ten times as long to read.
"""

from __future__ import annotations

import traceback
from typing import Annotated, Any

import msgspec

from assignor_bridge import model
from assignor_bridge.errors import AssignorError, OptionError, describe_error, to_one_line
from assignor_bridge.version import read_jar_version

#: Base64 of numbers.
Column = bytes
#: Whole numbers of 64 bits.
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Natural = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Base of all messages and their parts."""


class ExecutorFacts(Message, frozen=True):
    """An executor of the application and what Spark's scheduler says about it."""

    id: str
    host: str
    slots: Int64 = 1
    rack: str | None = None
    priority: Int64 | None = None
    excluded: bool = False
    leaving: bool = False
    resource_profile: Int64 = 0


class AllocationLimits(Message, frozen=True):
    """Spark's limits where executors come and go (`model.Allocation`)."""

    min_executors: Natural
    max_executors: Positive
    slots_per_executor: Positive
    seconds_since_last_plan: float | None = None


class PackedRanges(Message, frozen=True):
    """Offset ranges as packed columns; `topic` holds places in `topics`."""

    topics: list[str]
    topic: Column
    partition: Column
    start: Column
    end: Column


class PackedRacks(Message, frozen=True):
    """The racks that hold replicas; `range` holds places in `sets`, a cell a range, -1: unknown."""

    sets: list[list[str]]
    range: Column


class PackedReports(Message, frozen=True):
    """What readers observed, as packed columns."""

    topics: list[str]
    executors: list[str]
    topic: Column
    partition: Column
    executor: Column
    records: Column
    bytes: Column
    seconds: Column
    offsets: Column


class PackedTasks(Message, frozen=True):
    """The tasks of a plan as packed columns, and the ranges of all tasks one after the other."""

    executors: list[str]
    topics: list[str]
    #: One cell a task: index in `executors` (-1: anywhere), slot, and how many ranges it reads.
    executor: Column
    slot: Column
    ranges: Column
    #: One cell a range.
    topic: Column
    partition: Column
    start: Column
    end: Column
    #: By task: ids of further executors, most wanted first.
    standbys: dict[int, tuple[str, ...]]


class Validate(Message, frozen=True, tag="validate"):
    """The first request of a stream: its options, as they were written."""

    options: dict[str, str]


class RestoreState(Message, frozen=True, tag="restore"):
    """Whether a stored state can be used for a stream of these topics."""

    state: str
    topics: list[str]


class End(Message, frozen=True, tag="end"):
    """The stream has ended: forget it."""


class BatchRequest(Message, frozen=True):
    """What is known of a micro-batch that is to be limited or planned, but for the options."""

    executors: list[ExecutorFacts]
    ranges: PackedRanges
    observed: PackedReports
    state: str | None = None
    parallelism: Int64 = 1
    racks: PackedRacks | None = None
    #: Number of the stream in its driver.
    stream: Natural = 0


class PlanBatch(BatchRequest, frozen=True, tag="plan"):
    """Ask who reads what."""

    allocation: AllocationLimits | None = None
    #: One more than the highest partition of each topic that the query reads, without data too.
    partitions: dict[str, Natural] | None = None


class CompletedBatch(Message, frozen=True):
    """What the last admitted batch took, from its admission to its completion."""

    records: float
    seconds: float


class PackedTimes(Message, frozen=True):
    """When the records of the ranges were written, by Kafka's timestamps in milliseconds."""

    #: The driver's clock.
    now_ms: Int64
    #: Of the first record of each range; -1: unknown.
    stamp: Column
    #: How often Kafka was asked for this batch.
    look_ups: Natural = 0
    #: The time it was asked for last, and the offset of the first record at or after it in each
    #: range's partition; -1: there is none.
    asked_ms: Int64 | None = None
    at: Column | None = None


class AdmitBatch(BatchRequest, frozen=True, tag="admit"):
    """Ask how far the next batch may go; `ranges` end where the records do that Spark may read."""

    #: Spark's limit; None for none.
    most_records: Positive | None = None
    #: Whether the query ends when it has reached the ends of the ranges.
    fixed_end: bool = False
    last: CompletedBatch | None = None
    #: Only where the planner needs them (`Validated.needs_times`).
    times: PackedTimes | None = None
    #: By topic, for how long Kafka keeps records, where it deletes them and that is known.
    retention_ms: dict[str, Natural] | None = None


class Validated(Message, frozen=True, tag="validated"):
    """The options as they are understood, and the version of states that can be used."""

    options: dict[str, Any]
    state_version: int
    #: Whether the planner is asked how far batches go.
    admits: bool = False
    #: Whether it has to be told when records were written.
    needs_times: bool = False
    #: Of the jar that was built for this package: both sides must have the same Java sources.
    package_version: str = read_jar_version()


class Restored(Message, frozen=True, tag="restored"):
    """Why a state cannot be used; None when it can."""

    why: str | None = None


class Ended(Message, frozen=True, tag="ended"):
    """It is forgotten."""


class Planned(Message, frozen=True, tag="planned"):
    """A plan."""

    assignor: str
    tasks: PackedTasks
    state: str
    metrics: dict[str, str | int | float]
    reasons: tuple[str, ...]


class AdmittedBatch(Message, frozen=True, tag="admitted"):
    """How far the batch goes: the ranges that were asked for, some of them cut."""

    ranges: PackedRanges
    metrics: dict[str, str | int | float]


class LookUp(Message, frozen=True, tag="lookUp"):
    """To be asked again, with the offset of each partition's first record at or after this time."""

    time_ms: int


class Failed(Message, frozen=True, tag="failed"):
    """Why there is no answer, in one line, and whether it is the user who must act."""

    error: str
    misuse: bool = False
    traceback: str = ""


Request = Validate | RestoreState | End | PlanBatch | AdmitBatch
Answer = Validated | Restored | Ended | Planned | AdmittedBatch | LookUp | Failed

_request: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_answer = msgspec.json.Encoder(enc_hook=lambda number: number.item())  # numpy's


def read_request(line: bytes) -> Request:
    """Parse one line.

    Raises OptionError when it does not follow the contract; the message names the place.
    """
    try:
        return _request.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise OptionError(
            f"the request is not one of this version: {to_one_line(str(error))} "
            "(are the jar and the Python package of the same version?)"
        ) from None


def write_answer(answer: Answer) -> bytes:
    """Return one line; of what cannot be written (a user's half of a character), the failure."""
    try:
        return _answer.encode(answer) + b"\n"
    except (UnicodeEncodeError, TypeError, AttributeError) as error:
        return _answer.encode(make_failed(error)) + b"\n"


def make_failed(error: BaseException) -> Failed:
    """Return the answer that an error is."""
    if isinstance(error, OptionError):
        return Failed(to_one_line(str(error)), misuse=True)
    trace = "".join(traceback.format_exception(error))
    return Failed(
        to_one_line(str(error)) if isinstance(error, AssignorError) else describe_error(error),
        traceback=trace.encode("utf-8", "replace").decode(),
    )


def to_model_executors(given: list[ExecutorFacts]) -> list[model.Executor]:
    """Return executors as the planner takes them."""
    return [model.Executor(*msgspec.structs.astuple(executor)) for executor in given]


def to_model_allocation(given: AllocationLimits | None) -> model.Allocation | None:
    """Return Spark's limits as the planner takes them."""
    return None if given is None else model.Allocation(*msgspec.structs.astuple(given))
