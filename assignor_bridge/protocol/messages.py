"""The messages between Java and the planner process: one JSON object per line, with a `type`.

`Messages.java` has a record for each. Ranges, reports and tasks are sent as packed columns, because
10,000 JSON objects take ten times as long to read. A column is base64 of little-endian numbers:
`int64` for offsets and times, `float64` for all measurements of reports, even counts (NaN:
unknown), and for `tail_seconds`, and `int32` for all others.
"""

from __future__ import annotations

import traceback
from typing import Annotated, Any

import msgspec

from assignor_bridge import model
from assignor_bridge.errors import AssignorError, OptionError, describe_error, to_one_line
from assignor_bridge.version import read_jar_version

#: Packed numbers, as base64 in JSON.
Column = bytes
#: A Java long: any value, at least 0, or at least 1.
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Natural = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Base class of all messages and their parts."""


class ExecutorFacts(Message, frozen=True):
    """An executor and its state in Spark's scheduler (`model.Executor`)."""

    id: str
    host: str
    slots: Int64 = 1
    rack: str | None = None
    priority: Int64 | None = None
    excluded: bool = False
    leaving: bool = False
    resource_profile: Int64 = 0


class AllocationLimits(Message, frozen=True):
    """The limits of Spark's dynamic allocation (`model.Allocation`)."""

    min_executors: Natural
    max_executors: Positive
    slots_per_executor: Positive
    seconds_since_last_plan: float | None = None


class PackedRanges(Message, frozen=True):
    """Offset ranges as packed columns; `topic` has indices in `topics`."""

    topics: list[str]
    topic: Column
    partition: Column
    start: Column
    end: Column


class PackedRacks(Message, frozen=True):
    """Replica racks; `range` has each range's index in `sets` (-1: unknown)."""

    sets: list[list[str]]
    range: Column


class PackedReports(Message, frozen=True):
    """The readers' reports as packed columns (see `planner.batch.ReadReports`)."""

    topics: list[str]
    executors: list[str]
    topic: Column
    partition: Column
    executor: Column
    records: Column
    bytes: Column
    seconds: Column
    offsets: Column
    cold_seconds: Column = b""  # plan logs of earlier versions have none


class PackedTasks(Message, frozen=True):
    """The tasks of a plan and their ranges as packed columns; ranges are ordered by task."""

    executors: list[str]
    topics: list[str]
    #: Index in `executors` of each task's executor; -1: any executor.
    executor: Column
    #: Consumer of each task (`TaskList.consumer`); -1: a tail task.
    slot: Column
    #: Number of ranges in each task.
    ranges: Column
    #: The next columns have one cell per range.
    topic: Column
    partition: Column
    start: Column
    end: Column
    #: By task index: ids of alternative executors, the preferred one first.
    standbys: dict[int, tuple[str, ...]]
    #: Predicted seconds of each tail task, longest first. Tail tasks are the last tasks.
    tail_seconds: Column = b""
    #: Number of executors that each tail task prefers.
    tail_executors: Column = b""
    #: Indices in `executors` of these executors, by tail task.
    tail_executor: Column = b""


class Validate(Message, frozen=True, tag="validate"):
    """Request: validate a stream's options, as the user wrote them. A stream sends it first."""

    options: dict[str, str]


class RestoreState(Message, frozen=True, tag="restore"):
    """Request: check whether a stored state is usable for a stream of these topics."""

    state: str
    topics: list[str]


class EndStream(Message, frozen=True, tag="end"):
    """Request: drop the state of a stream that has ended."""


class BatchRequest(Message, frozen=True):
    """The data of a micro-batch to limit or plan, except the options."""

    executors: list[ExecutorFacts]
    ranges: PackedRanges
    observed: PackedReports
    state: str | None = None
    parallelism: Int64 = 1
    racks: PackedRacks | None = None
    #: Sequence number of the stream in its driver, in the order in which streams start.
    stream: Natural = 0


class PlanBatch(BatchRequest, frozen=True, tag="plan"):
    """Request: plan which slot reads which ranges."""

    allocation: AllocationLimits | None = None
    #: Highest partition number plus one of each topic that the query reads, even without data.
    partitions: dict[str, Natural] | None = None


class CompletedBatch(Message, frozen=True):
    """Size of the last admitted batch in offsets, and seconds from admission to completion."""

    records: float
    seconds: float


class PackedTimes(Message, frozen=True):
    """Kafka's timestamps of the ranges' records, in milliseconds."""

    #: Current time by the driver's clock.
    now_ms: Int64
    #: Timestamp of the first record of each range (see `RecordTimes.stamp_ms`); -1: unknown.
    stamp: Column
    #: Number of look-ups in Kafka for this batch.
    look_ups: Natural = 0
    #: The timestamp of the last look-up (`LookUp.time_ms`).
    asked_ms: Int64 | None = None
    #: For each range's partition, offset of the first record at or after `asked_ms`; -1: none.
    at: Column | None = None


class AdmitBatch(BatchRequest, frozen=True, tag="admit"):
    """Request: limit the next batch; `ranges` go up to the last record that Spark may read."""

    #: Spark's limit of offsets (see `Limits.offsets`); None: no limit.
    most_records: Positive | None = None
    #: Whether the query stops at the end of these ranges.
    fixed_end: bool = False
    last: CompletedBatch | None = None
    #: Only sent if the planner needs them (`Validated.needs_times`).
    times: PackedTimes | None = None
    #: Retention time by topic, if Kafka deletes old records and the time is known.
    retention_ms: dict[str, Natural] | None = None


class Validated(Message, frozen=True, tag="validated"):
    """Answer: the effective options, and the state version that the planner writes."""

    options: dict[str, Any]
    state_version: int
    #: Whether the planner limits batches.
    admits: bool = False
    #: Whether limiting a batch requires record times.
    needs_times: bool = False
    #: Version of the jar built for this package; the driver's jar must have the same version.
    package_version: str = read_jar_version()


class Restored(Message, frozen=True, tag="restored"):
    """Answer: why a state is unusable, or None if it is usable."""

    why: str | None = None


class StreamEnded(Message, frozen=True, tag="ended"):
    """Answer: the stream's state was dropped."""


class Planned(Message, frozen=True, tag="planned"):
    """Answer: a plan."""

    assignor: str
    tasks: PackedTasks
    state: str
    metrics: dict[str, str | int | float]
    reasons: tuple[str, ...]


class AdmittedBatch(Message, frozen=True, tag="admitted"):
    """Answer: the limited batch, with the requested ranges; some end at an earlier offset."""

    ranges: PackedRanges
    metrics: dict[str, str | int | float]


class LookUp(Message, frozen=True, tag="lookUp"):
    """Answer: send the request again, with each partition's first offset at or after this time."""

    time_ms: int


class Failed(Message, frozen=True, tag="failed"):
    """Answer: the error on one line, whether the user must correct something, and a traceback."""

    error: str
    misuse: bool = False
    traceback: str = ""


Request = Validate | RestoreState | EndStream | PlanBatch | AdmitBatch
Answer = Validated | Restored | StreamEnded | Planned | AdmittedBatch | LookUp | Failed

_REQUEST_DECODER: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_ANSWER_ENCODER = msgspec.json.Encoder(enc_hook=lambda number: number.item())  # NumPy numbers


def decode_request(line: bytes) -> Request:
    """Decode one line to a request; raise OptionError, with an invalid field's path if known."""
    try:
        return _REQUEST_DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise OptionError(
            f"the request is invalid: {to_one_line(str(error))} "
            "(the jar and the Python package must have the same version)"
        ) from None


def encode_answer(answer: Answer) -> bytes:
    """Encode an answer as one line, or a `Failed` if that fails, as for a lone surrogate."""
    try:
        return _ANSWER_ENCODER.encode(answer) + b"\n"
    except (UnicodeEncodeError, TypeError, AttributeError) as error:
        return _ANSWER_ENCODER.encode(make_failed(error)) + b"\n"


def make_failed(error: BaseException) -> Failed:
    """Return the answer that reports an error."""
    if isinstance(error, OptionError):
        return Failed(to_one_line(str(error)), misuse=True)
    trace = "".join(traceback.format_exception(error))
    return Failed(
        to_one_line(str(error)) if isinstance(error, AssignorError) else describe_error(error),
        traceback=trace.encode("utf-8", "replace").decode(),
    )


def to_model_executors(executors: list[ExecutorFacts]) -> list[model.Executor]:
    """Convert a message's executors to `model.Executor`."""
    return [model.Executor(*msgspec.structs.astuple(executor)) for executor in executors]


def to_model_allocation(limits: AllocationLimits | None) -> model.Allocation | None:
    """Convert a message's allocation limits to `model.Allocation`."""
    return None if limits is None else model.Allocation(*msgspec.structs.astuple(limits))
