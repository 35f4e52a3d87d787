"""Read a query's plans from its plan log (`assignor.planLog`).

Each line has the planner's input and its plan. The input is planned again to verify the plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import orjson
from msgspec import to_builtins

from assignor_bridge.assignors.registry import lookup
from assignor_bridge.errors import AssignorError, OptionError
from assignor_bridge.planner.batch import ANONYMOUS
from assignor_bridge.planner.plan import PlannedBatch, plan_batch
from assignor_bridge.protocol.columns import pack_tasks
from streaming.human_json.snapshots import PlanLogLine, parse_plan_log_line, parse_snapshot
from streaming.replay.log import DRIVER
from streaming.simulator.play import list_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from assignor_bridge.assignors.protocol import Assignor
    from assignor_bridge.model import Executor, OffsetRange
    from assignor_bridge.planner.batch import MicroBatch
    from streaming.replay.log import ReplayBatch
    from streaming.simulator.mappings import PlacedTask


@dataclass(frozen=True, eq=False)
class LoggedPlan:
    """One batch of a plan log, planned again."""

    number: int
    #: The planner's input; its reports are about the previous batch.
    batch: MicroBatch
    #: The state before the batch; None without one.
    state_text: str | None
    outcome: PlannedBatch
    #: Whether the new plan has the logged tasks.
    is_reproduced: bool


def read_plan_log(
    path: Path, batches: Sequence[ReplayBatch], find_assignor: Callable[[str], Assignor] = lookup
) -> list[LoggedPlan]:
    """Return the logged plans of batches, in batch order.

    A file may have the plans of several streams, so a plan belongs to a batch if it has the same
    number and ranges. The last plan of a repeated batch is used; batches without one are omitted.

    Raises OptionError if the file cannot be read, or a batch cannot be planned again.
    """
    ranges_by_batch = {b.batch: _collect_ranges(b.ranges) for b in batches if b.offset_count}
    plan_by_batch: dict[int, LoggedPlan] = {}
    for line in _read_lines(path):
        number = line.batch_id
        if number not in ranges_by_batch:
            continue
        try:
            batch, state_text = parse_snapshot(line.snapshot)
            if _collect_batch_ranges(batch) == ranges_by_batch[number]:
                outcome = plan_batch(batch, state_text, find_assignor)
                plan = LoggedPlan(number, batch, state_text, outcome, _is_reproduced(outcome, line))
                plan_by_batch[number] = plan
        except AssignorError as error:
            raise OptionError(f"plan log {path}: batch {number}: {error}") from error
    return [plan_by_batch[number] for number in sorted(plan_by_batch)]


@dataclass(frozen=True)
class LoggedTasks:
    """The plans of one source in order, and the executors and tasks by batch number."""

    plans: Sequence[LoggedPlan]
    executors_by_batch: Mapping[int, tuple[Executor, ...]]
    tasks_by_batch: Mapping[int, Sequence[PlacedTask]]


def read_tasks(
    path: Path,
    batches_by_source: Mapping[str, Sequence[ReplayBatch]],
    find_assignor: Callable[[str], Assignor] = lookup,
) -> dict[str, LoggedTasks]:
    """Return the logged tasks by source; sources without a plan in the log are omitted.

    Raises OptionError as `read_plan_log` does, or if the log has no plan of any source.
    """
    logged_tasks = {}
    for source, batches in batches_by_source.items():
        if plans := read_plan_log(path, batches, find_assignor):
            executors = {p.number: tuple(map(name_executor, p.batch.executors)) for p in plans}
            tasks = {p.number: [*map(_name_driver, list_tasks(p.outcome))] for p in plans}
            logged_tasks[source] = LoggedTasks(plans, executors, tasks)
    if not logged_tasks:
        numbers = [b.batch for bs in batches_by_source.values() for b in bs if b.offset_count]
        if not numbers:
            raise OptionError(f"plan log {path}: the checkpoint has no batch with data to compare")
        span_text = " to ".join(map(str, sorted({min(numbers), max(numbers)})))
        raise OptionError(
            f"plan log {path} has no plan of the checkpoint's batches ({span_text}): give the plan "
            "log of the same query"
        )
    return logged_tasks


def name_executor(executor: Executor) -> Executor:
    """Return the executor; in local mode, with the ID and host `driver` as in Spark's UI."""
    return replace(executor, id=DRIVER, host=DRIVER) if executor.id == ANONYMOUS else executor


def _name_driver(task: PlacedTask) -> PlacedTask:
    """Return the task; in local mode, with the executor `driver`. A tail task has none."""
    return replace(task, executor=DRIVER) if task.executor == ANONYMOUS else task


def is_plan_log(path: Path) -> bool:
    """Return whether a file can be read and its first line is a plan log line."""
    try:
        with path.open("rb") as file:
            line = orjson.loads(file.readline())
    except (OSError, ValueError):
        return False
    return isinstance(line, dict) and "snapshot" in line


def _read_lines(path: Path) -> Iterator[PlanLogLine]:
    """Yield the valid lines; skip others, such as a line truncated by a crash."""
    try:
        with path.open("rb") as file:
            for text in file:
                try:
                    yield parse_plan_log_line(orjson.loads(text))
                except (ValueError, AssignorError):
                    continue
    except OSError as error:
        raise OptionError(f"plan log {path} cannot be read: {error.strerror}") from error


def _collect_ranges(ranges: Sequence[OffsetRange]) -> set[tuple[str, int, int, int]]:
    return {(r.topic, r.partition, r.start, r.end) for r in ranges}


def _collect_batch_ranges(batch: MicroBatch) -> set[tuple[str, int, int, int]]:
    topics = [batch.topics[topic] for topic in batch.topic.tolist()]
    columns = batch.partition.tolist(), batch.start.tolist(), batch.end.tolist()
    return set(zip(topics, *columns, strict=True))


def _is_reproduced(outcome: PlannedBatch, line: PlanLogLine) -> bool:
    logged_tasks = line.plan.get("tasks") if isinstance(line.plan, dict) else None
    return bool(logged_tasks == to_builtins(pack_tasks(outcome), str_keys=True))
