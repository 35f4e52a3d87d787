"""`assignor lab plan`: which executor slot would read which offsets, without Spark or a broker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
import typer
from msgspec import to_builtins

from assignor_bridge.errors import OptionError, elided
from assignor_bridge.planner.batch import Batch
from assignor_bridge.planner.plan import Outcome, plan_batch
from assignor_bridge.protocol.columns import pack_tasks
from streaming.cli import assignors
from streaming.cli.arguments import AsJson
from streaming.cli.lines import answer_lines, note_on_line, write_json
from streaming.cli.output import print_lines
from streaming.human_json.json_input import parse
from streaming.human_json.snapshots import read_logged, read_snapshot, write_plan

#: Tasks of a plan, and ranges of a task, that are printed at most.
_MAX_TASKS, _MAX_RANGES = 40, 4


@dataclass(frozen=True)
class PlanRequest:
    """One line of input."""

    batch: Batch
    state: str | None
    #: Of a line that `assignor.planLog` wrote: the number of the batch, and what was answered.
    number: int | None = None
    logged: dict[str, Any] | None = None
    admission: Any = None


def plan(
    snapshots: Annotated[
        typer.FileBinaryRead,
        typer.Argument(
            metavar="FILE|-",
            help="Snapshots as JSON, one per line, or a file of `assignor.planLog`; - reads stdin.",
        ),
    ],
    as_json: AsJson = False,
    chain: Annotated[
        bool,
        typer.Option("--chain", help="A snapshot whose state is null takes the previous plan's."),
    ] = False,
    only: Annotated[
        int | None,
        typer.Option("--batch", min=0, metavar="NUMBER", help="Only this batch of a plan log."),
    ] = None,
    names: assignors.OwnAssignors = None,
) -> None:
    """Show which executor slot would read which offsets, and why.

    Exit code 2 when a snapshot has a mistake, such as an unknown option, 1 when it could not be
    planned otherwise; the others are still answered.

    Example: `assignor lab plan plans.jsonl --batch 7`
    """
    find = assignors.make_finder(names or (), "--assignors")
    state: str | None = None
    numbers: set[int] = set()

    def read(line: bytes) -> PlanRequest | None:
        if only is None:
            return _read_request(line)
        try:
            number = orjson.loads(line).get("batchId")
        except (ValueError, AttributeError):  # cut off by a crash, perhaps
            return None  # it matters if the batch is not found
        if isinstance(number, int):
            numbers.add(number)
        return _read_request(line) if number == only else None

    def show(line: int, request: PlanRequest) -> None:
        nonlocal state
        before = state if chain and not request.state else request.state
        outcome = plan_batch(request.batch, before, find)
        made = write_plan(outcome)
        state = made["state"]
        if as_json:
            label = {} if request.number is None else {"batchId": request.number}
            write_json({**label, **made})
        else:
            title = [] if request.number is None else [f"batch {request.number}"]
            limited = _describe_admission(request.admission)
            print_lines([*title, *limited, *made["reasons"], *_describe_tasks(made["tasks"])])
        difference = _describe_difference(request, outcome, made["tasks"])
        if difference:
            note_on_line(line, difference)

    answer_lines(snapshots, read, show, as_json)
    if only is not None and only not in numbers:
        span = f"there are {min(numbers, default=0)} to {max(numbers, default=0)}"
        has = span if numbers else "no line names its batch"
        raise OptionError(f"--batch {only} is not in {snapshots.name}: {has}")


def _read_request(text: bytes) -> PlanRequest:
    value = parse(text, "the request")
    if not isinstance(value, dict) or "snapshot" not in value:
        return PlanRequest(*read_snapshot(value))
    line = read_logged(value)
    logged = line.plan if isinstance(line.plan, dict) else None
    return PlanRequest(*read_snapshot(line.snapshot), line.batch_id, logged, line.admission)


def _describe_admission(logged: Any) -> list[str]:
    """Write how far the batch was limited, if it was."""
    match logged:
        case {
            "answer": {
                "metrics": {"admittedRecords": admitted, "heldBackRecords": held, "heldBackBy": by}
            }
        }:
            return [f"limited to {admitted} offsets, {held} are held back (by: {by})"]
        case _:
            return []


def _describe_tasks(tasks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Write where the first tasks run, and what each of them reads."""
    rows = []
    for task in tasks[:_MAX_TASKS]:
        executor, ranges = task["executor"], task["ranges"]
        place = "anywhere" if executor is None else f"executor {executor}"
        size = sum(r["end"] - r["start"] for r in ranges)
        listed = [f"{r['topic']}-{r['partition']}[{r['start']},{r['end']})" for r in ranges]
        reads = f"{size:>12,} offsets: {elided(listed, _MAX_RANGES, ' ')}"
        if "standbys" in task:
            reads += f", then executor {', '.join(task['standbys'])}"
        rows.append((f"{place} slot {task['slot']}", reads))
    width = max((len(where) for where, _ in rows), default=0)
    lines = [f"  {where:{width}}  {reads}" for where, reads in rows]
    if len(tasks) > _MAX_TASKS:
        lines.append(f"  and {len(tasks) - _MAX_TASKS} more tasks")
    return lines


def _describe_difference(
    request: PlanRequest, outcome: Outcome, made: Sequence[Mapping[str, Any]]
) -> str | None:
    """Say when the query itself had another answer: another version, or an assignor with moods."""
    then = request.logged
    if then is None:
        return None
    if "error" in then:
        return f"batch {request.number} was not planned then: {then['error']}"
    tasks = then.get("tasks")
    # A log of version 0.1 has an object for each task.
    now = to_builtins(pack_tasks(outcome), str_keys=True) if isinstance(tasks, dict) else made
    if tasks != now:
        reasons = "; ".join(map(str, then.get("reasons") or ("no reasons are recorded",)))
        return f"batch {request.number} was planned differently then: {reasons}"
    return None
