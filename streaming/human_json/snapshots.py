"""Read snapshots and write plans as JSON, for `assignor lab plan` and plan logs.

A snapshot written by a user has an object for each range and report. In a plan log, it is the
request that Java sent (`messages.PlanBatch` with packed columns) and the options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool
from pydantic.alias_generators import to_camel

from assignor_bridge import model
from assignor_bridge.model import MAX_OFFSET
from assignor_bridge.options import parse_options
from assignor_bridge.planner.batch import ReadReports, build_batch, encode_names
from assignor_bridge.planner.racks import Replicas
from assignor_bridge.protocol.columns import unpack_batch
from assignor_bridge.protocol.messages import PlanBatch
from checkpoints.state_text import encode
from streaming.human_json.json_input import InputError, JsonObject, validate_model
from streaming.validation import to_option_text

if TYPE_CHECKING:
    from assignor_bridge.planner.batch import MicroBatch
    from assignor_bridge.planner.plan import PlannedBatch

_Int64 = Annotated[int, Field(strict=True, ge=-MAX_OFFSET - 1, le=MAX_OFFSET)]
_Natural = Annotated[_Int64, Field(ge=0)]
_Positive = Annotated[_Int64, Field(ge=1)]
_Measure = Annotated[float, Field(strict=True)]
_Text = Annotated[str, BeforeValidator(to_option_text)]
_MEASURES = ("records", "bytes", "seconds", "offsets", "cold_seconds")


class _Executor(JsonObject):  # the fields of `model.Executor`
    model_config = ConfigDict(alias_generator=to_camel)

    id: str
    host: str
    slots: _Int64 = 1
    rack: str | None = None
    priority: _Int64 | None = None
    excluded: StrictBool = False
    leaving: StrictBool = False
    resource_profile: _Int64 = 0


class _Allocation(JsonObject):  # the fields of `model.Allocation`
    model_config = ConfigDict(alias_generator=to_camel)

    min_executors: _Natural
    max_executors: _Positive
    slots_per_executor: _Positive
    seconds_since_last_plan: _Measure | None = None


class _Range(JsonObject):
    topic: str
    partition: _Int64
    start: _Int64
    end: _Int64
    #: Racks with a replica of the partition; null or missing if unknown.
    racks: list[str] = Field([])


class _Report(JsonObject):
    """The measured cost of reading one range; unknown values are null or missing."""

    model_config = ConfigDict(alias_generator=to_camel)

    topic: str
    partition: _Int64
    executor: _Text = ""
    records: _Measure | None = None
    bytes: _Measure | None = None
    seconds: _Measure | None = None
    offsets: _Measure | None = None
    cold_seconds: _Measure | None = None


class _Snapshot(JsonObject):
    """The planner's complete input for a micro-batch."""

    type: Literal["plan"] = "plan"
    ranges: list[_Range]
    executors: list[_Executor] = Field([])
    options: dict[str, _Text | None] = Field({})
    observed: list[_Report] = Field([])
    state: str | None = None
    parallelism: _Int64 = 1
    allocation: _Allocation | None = None
    stream: _Natural = 0
    #: Highest partition number plus one, by topic; null or missing if unknown.
    partitions: dict[str, _Natural] | None = None


class _LoggedRequest(PlanBatch, frozen=True, tag="plan"):
    """A request of the driver, with the options that a plan log adds."""

    options: dict[str, str] = msgspec.field(default_factory=dict)


class PlanLogLine(BaseModel):
    """A line of a plan log; newer versions may add keys."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel)

    snapshot: dict[str, Any]
    batch_id: _Int64 | None = None
    plan: Any = None
    #: The request to limit the batch, and its answer; None if no `assignor.*` option limits it.
    admission: Any = None


def parse_plan_log_line(line: Any) -> PlanLogLine:
    """Parse a line of a plan log from its JSON value; raise InputError if it is invalid."""
    return validate_model(PlanLogLine, line, "the line")


def parse_snapshot(value: Any) -> tuple[MicroBatch, str | None]:
    """Return a snapshot's batch, and its state as text (None without one), from its JSON value.

    Raises InputError with the key path if it does not follow the contract, and OptionError if it
    contradicts itself or has invalid options.
    """
    if isinstance(value, dict) and isinstance(value.get("ranges"), dict):
        return _parse_request(value)
    snapshot = validate_model(_Snapshot, value, "the snapshot")
    ranges, reports = snapshot.ranges, snapshot.observed
    options = {name: text for name, text in snapshot.options.items() if text is not None}
    allocation = snapshot.allocation
    batch = build_batch(
        encode_names([row.topic for row in ranges]),
        np.array([row.partition for row in ranges], np.int64),
        np.array([row.start for row in ranges], np.int64),
        np.array([row.end for row in ranges], np.int64),
        [model.Executor(**dict(executor)) for executor in snapshot.executors],
        options=parse_options(options),
        reports=ReadReports.of(
            encode_names([row.topic for row in reports]),
            np.array([row.partition for row in reports], np.int64),
            encode_names([row.executor for row in reports]),
            *(np.array([getattr(row, name) for row in reports], np.float64) for name in _MEASURES),
        ),
        parallelism=snapshot.parallelism,
        allocation=None if allocation is None else model.Allocation(**dict(allocation)),
        replicas=Replicas.of([row.racks for row in ranges], np.arange(len(ranges))),
        stream=snapshot.stream,
        partitions=snapshot.partitions,
    )
    return batch, snapshot.state


def _parse_request(value: Any) -> tuple[MicroBatch, str | None]:
    try:
        request = msgspec.convert(value, _LoggedRequest)
    except msgspec.ValidationError as error:
        raise InputError(f"the snapshot does not match this version's format: {error}") from None
    return unpack_batch(request, parse_options(request.options)), request.state


def plan_to_json(planned_batch: PlannedBatch) -> dict[str, Any]:
    """Return a plan as JSON values."""
    batch, tasks = planned_batch.batch, planned_batch.tasks
    executor_ids = [*(executor.id for executor in batch.executors), None]  # index -1: no executor
    json_tasks: list[dict[str, Any]] = [
        {"executor": executor_ids[executor], "slot": slot, "ranges": []}
        for executor, slot in zip(tasks.executor.tolist(), tasks.consumer.tolist(), strict=True)
    ]
    pieces, partitions = tasks.pieces, batch.partition.tolist()
    topics = [batch.topics[topic] for topic in batch.topic.tolist()]
    columns = (tasks.task, pieces.row, pieces.start, pieces.end)
    for task, row, start, end in zip(*(column.tolist() for column in columns), strict=True):
        json_tasks[task]["ranges"].append(
            {"topic": topics[row], "partition": partitions[row], "start": start, "end": end}
        )
    for task, standbys in planned_batch.standbys.items():
        json_tasks[task]["standbys"] = list(standbys)
    tails = zip(tasks.tail_seconds, tasks.tail_executors, strict=True)
    for json_task, (seconds, executors) in zip(json_tasks[tasks.head_count :], tails, strict=True):
        json_task["tail"] = {"seconds": seconds, "executors": [executor_ids[e] for e in executors]}
    return {
        "assignor": planned_batch.assignor,
        "tasks": json_tasks,
        "state": encode(planned_batch.state),
        "metrics": dict(planned_batch.metrics),
        "reasons": list(planned_batch.reasons),
    }
