"""`assignor plan`: which executor slot would read which offsets, with no Spark and no broker."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from msgspec import to_builtins

from assignor_bridge.assignors.loading import Finder
from assignor_bridge.errors import OptionError
from assignor_bridge.json_values import parse
from assignor_bridge.planner.batch import Batch
from assignor_bridge.planner.explain import describe
from assignor_bridge.planner.plan import Outcome, as_plan, plan_batch
from assignor_bridge.protocol.columns import pack_tasks
from assignor_bridge.protocol.snapshots import read_logged, read_snapshot, write_plan
from checkpoints.sticky_state import encode
from streaming.cli.lines import answer_lines, note, printable, write_json


@dataclass(frozen=True)
class Asked:
    """One line of input."""

    batch: Batch
    state: str | None
    #: Of a line that `assignor.planLog` wrote: the number of the batch, and what was answered.
    number: int | None = None
    answered: dict[str, Any] | None = None


def plan(
    snapshots: Annotated[
        typer.FileBinaryRead,
        typer.Argument(
            metavar="FILE|-",
            help="Snapshots as JSON, one a line, or what `assignor.planLog` wrote; - reads stdin.",
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON for each snapshot.")
    ] = False,
    chain: Annotated[
        bool,
        typer.Option("--chain", help="A snapshot whose state is null takes the previous plan's."),
    ] = False,
    only: Annotated[
        int | None,
        typer.Option(
            "--batch", min=0, metavar="NUMBER", help="Of an `assignor.planLog`, this batch only."
        ),
    ] = None,
) -> None:
    """Show which executor slot would read which offsets, and why.

    Exit code 1 when a snapshot could not be planned, 2 when one is malformed; the others are
    still answered.
    """
    sys.path.insert(0, str(Path.cwd()))  # for `package.module:Class` beside the user's work
    find = Finder()
    state: str | None = None
    seen: set[int] = set()

    def read(_line: int, text: bytes) -> Asked | None:
        if only is None:
            return _read(text)
        try:
            number = orjson.loads(text).get("batchId")
        except (ValueError, AttributeError):  # cut off by a crash, perhaps
            return None  # it matters if the batch is not found
        if isinstance(number, int):
            seen.add(number)
        return _read(text) if number == only else None

    def show(line: int, asked: Asked) -> None:
        nonlocal state
        outcome = plan_batch(asked.batch, asked.state if asked.state or not chain else state, find)
        state = encode(outcome.state)
        if as_json:
            label = {} if asked.number is None else {"batchId": asked.number}
            write_json({**label, **write_plan(outcome)})
        else:
            if asked.number is not None:
                typer.echo(f"batch {asked.number}")
            for each in describe(as_plan(outcome)).splitlines():
                typer.echo(printable(each))
        difference = _difference(asked, outcome)
        if difference:
            note(line, difference)

    answer_lines(snapshots, read, show, as_json)
    if only is not None and only not in seen:
        there = f"there are {min(seen)} to {max(seen)}" if seen else "no line names its batch"
        raise OptionError(f"--batch {only} is not in {snapshots.name}: {there}")


def _read(text: bytes) -> Asked:
    value = parse(text, "the request")
    if not isinstance(value, dict) or "snapshot" not in value:
        return Asked(*read_snapshot(value))
    line = read_logged(value)
    answered = line.plan if isinstance(line.plan, dict) else None
    return Asked(*read_snapshot(line.snapshot), line.batch_id, answered)


def _difference(asked: Asked, outcome: Outcome) -> str | None:
    """Say when the query itself had another answer: another version, or an assignor with moods."""
    then = asked.answered
    if then is None:
        return None
    if "error" in then:
        return f"batch {asked.number} was not planned then: {then['error']}"
    tasks = then.get("tasks")
    now: Any
    if isinstance(tasks, dict):
        now = to_builtins(pack_tasks(outcome), str_keys=True)
    else:  # a log of version 0.1 has an object for each task
        now = write_plan(outcome)["tasks"]
    if tasks != now:
        reasons = "; ".join(map(str, then.get("reasons") or ("no reasons are recorded",)))
        return f"batch {asked.number} was planned otherwise then: {reasons}"
    return None
