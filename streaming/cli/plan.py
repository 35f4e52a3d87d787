"""`assignor lab plan`: show which executor slot would read which offsets, without Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
import typer
from msgspec import to_builtins

from assignor_bridge.errors import OptionError, elide, pluralize
from assignor_bridge.planner.batch import MicroBatch
from assignor_bridge.planner.plan import PlannedBatch, plan_batch
from assignor_bridge.protocol.columns import pack_tasks
from streaming.cli import assignors
from streaming.cli.arguments import AsJson
from streaming.cli.lines import answer_lines, note_on_line, write_json
from streaming.cli.output import print_lines
from streaming.human_json.json_input import parse_json
from streaming.human_json.snapshots import parse_plan_log_line, parse_snapshot, plan_to_json
from streaming.observe.words import describe_tail_reader

_MAX_PRINTED_TASKS = 40
_MAX_PRINTED_RANGES = 4


@dataclass(frozen=True)
class PlanRequest:
    """One input line: a snapshot, or a line of a plan log."""

    batch: MicroBatch
    state: str | None
    #: These three are set only for a line of a plan log.
    batch_number: int | None = None
    logged_plan: dict[str, Any] | None = None
    admission: Any = None


def plan(
    snapshots: Annotated[
        typer.FileBinaryRead,
        typer.Argument(
            metavar="FILE|-",
            help="Snapshots as JSON, one per line, or a plan log (assignor.planLog); - is stdin.",
        ),
    ],
    as_json: AsJson = False,
    chain: Annotated[
        bool,
        typer.Option("--chain", help="Plan a snapshot without state with the last plan's state."),
    ] = False,
    batch_number: Annotated[
        int | None,
        typer.Option("--batch", min=0, metavar="NUMBER", help="Only this batch of the plan log."),
    ] = None,
    assignor_names: assignors.CustomAssignors = None,
) -> None:
    """Show which executor slot would read which offsets, and why.

    The exit code is 2 if a snapshot is invalid, for example because an option is unknown, and 1 if
    planning it failed for another reason. The other snapshots are still planned.

    Example: `assignor lab plan plans.jsonl --batch 7`
    """
    find_assignor = assignors.make_finder(assignor_names or (), "--assignors")
    state: str | None = None
    logged_numbers: set[int] = set()

    def parse_line(line: bytes) -> PlanRequest | None:
        if batch_number is None:
            return _parse_request(line)
        try:
            number = orjson.loads(line).get("batchId")
        except (ValueError, AttributeError):  # a crash may have truncated the line
            return None  # reported below if the batch is not found
        if isinstance(number, int):
            logged_numbers.add(number)
        return _parse_request(line) if number == batch_number else None

    def show(line_number: int, request: PlanRequest) -> None:
        nonlocal state
        old_state = state if chain and not request.state else request.state
        outcome = plan_batch(request.batch, old_state, find_assignor)
        answer = plan_to_json(outcome)
        state = answer["state"]
        if as_json:
            id_fields = {} if request.batch_number is None else {"batchId": request.batch_number}
            write_json({**id_fields, **answer})
        else:
            title_lines = [] if request.batch_number is None else [f"batch {request.batch_number}"]
            title_lines += _describe_admission(request.admission)
            task_lines = _describe_tasks(answer["tasks"])
            print_lines([*title_lines, *answer["reasons"], *task_lines])
        difference = _describe_difference(request, outcome, answer["tasks"])
        if difference:
            note_on_line(line_number, difference)

    answer_lines(snapshots, parse_line, show, as_json)
    if batch_number is not None and batch_number not in logged_numbers:
        reason = "its lines have no batch number, so it is not a plan log"
        if logged_numbers:
            reason = f"its first batch is {min(logged_numbers)}, its last {max(logged_numbers)}"
        raise OptionError(f"--batch {batch_number} is not in {snapshots.name}: {reason}")


def _parse_request(text: bytes) -> PlanRequest:
    value = parse_json(text, "the request")
    if not isinstance(value, dict) or "snapshot" not in value:
        return PlanRequest(*parse_snapshot(value))
    line = parse_plan_log_line(value)
    logged_plan = line.plan if isinstance(line.plan, dict) else None
    return PlanRequest(*parse_snapshot(line.snapshot), line.batch_id, logged_plan, line.admission)


def _describe_admission(admission: Any) -> list[str]:
    """Describe how the batch was limited; return no lines if the log does not report it."""
    match admission:
        case {
            "answer": {
                "metrics": {"admittedRecords": admitted, "heldBackRecords": count, "heldBackBy": by}
            }
        }:
            limit = "" if by == "nothing" else f" (by: {by})"
            return [f"limited to {admitted} offsets; held back: {count}{limit}"]
    return []


def _describe_tasks(tasks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Describe the first tasks, with slot, ranges, and standbys, and count the other tasks."""
    rows = []
    for task in tasks[:_MAX_PRINTED_TASKS]:
        executor, ranges = task["executor"], task["ranges"]
        location = "anywhere" if executor is None else f"executor {executor}"
        location += f" slot {task['slot']}"
        if "tail" in task:
            location = describe_tail_reader(task["tail"]["executors"])
        offset_count = sum(r["end"] - r["start"] for r in ranges)
        range_texts = [f"{r['topic']}-{r['partition']}[{r['start']},{r['end']})" for r in ranges]
        text = f"{offset_count:>12,} offsets: {elide(range_texts, _MAX_PRINTED_RANGES, ' ')}"
        if "standbys" in task:
            text += f"; standby executors: {', '.join(task['standbys'])}"
        rows.append((location, text))
    width = max((len(location) for location, _ in rows), default=0)
    lines = [f"  {location:{width}}  {text}" for location, text in rows]
    if len(tasks) > _MAX_PRINTED_TASKS:
        lines.append(f"  and {pluralize(len(tasks) - _MAX_PRINTED_TASKS, 'more task')}")
    return lines


def _describe_difference(
    request: PlanRequest, outcome: PlannedBatch, tasks: Sequence[Mapping[str, Any]]
) -> str | None:
    """Return a note if the query's plan failed or differs (as after an upgrade), else None."""
    logged_plan = request.logged_plan
    if logged_plan is None:
        return None
    number = request.batch_number
    if "error" in logged_plan:
        return f"batch {number} could not be planned in the query: {logged_plan['error']}"
    logged_tasks = logged_plan.get("tasks")
    # Version 0.1 logged an object for each task.
    is_packed = isinstance(logged_tasks, dict)
    new_tasks = to_builtins(pack_tasks(outcome), str_keys=True) if is_packed else tasks
    if logged_tasks != new_tasks:
        reasons = "; ".join(map(str, logged_plan.get("reasons") or ("no reasons are recorded",)))
        return f"batch {number} was planned differently in the query: {reasons}"
    return None
