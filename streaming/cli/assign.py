"""`assignor assign`: any assignor on a consumer group, with no Spark and no broker."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from assignor_bridge.assignors.loading import Finder
from assignor_bridge.group_json import (
    Answer,
    Request,
    answer,
    answer_steps,
    read_request,
)
from streaming.cli.lines import answer_lines, note, plain

if TYPE_CHECKING:
    from rich.text import Text


def assign(
    groups: Annotated[
        typer.FileBinaryRead,
        typer.Argument(metavar="FILE|-", help="Groups as JSON, one a line; - reads stdin."),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON for each group.")
    ] = False,
    chain: Annotated[
        bool,
        typer.Option(
            "--chain",
            help="Play each group's `steps`: prints its first assignment and one after each step.",
        ),
    ] = False,
) -> None:
    """Show who gets which partitions of a consumer group.

    Exit code 1 when a group could not be assigned, 2 when one is malformed; the others are still
    answered.
    """
    sys.path.insert(0, str(Path.cwd()))  # for `package.module:Class` beside the user's work
    console = Console(soft_wrap=True, highlight=False)
    find = Finder()

    def show(number: int, request: Request) -> None:
        answers = answer_steps(request, find) if chain else [answer(request, find)]
        if as_json:
            typer.echo(json.dumps(_as_json(request, answers, chain)))
        else:
            for step, each in enumerate(answers):
                _print(console, each, step)
        if request.steps and not chain:
            note(number, "steps were not played: add --chain")

    answer_lines(groups, lambda _number, line: read_request(line), show, as_json)


def _as_json(request: Request, answers: list[Answer], chain: bool) -> dict[str, Any]:
    if not chain:
        return answers[0].to_json()
    return {"assignor": request.assignor, "steps": [each.to_json() for each in answers]}


def _print(console: Console, each: Answer, step: int) -> None:
    lags = each.group.lag_list()
    total = each.group.catalog
    title = each.assignor.name
    if each.step is not None:
        title = f"{each.assignor.name}, step {step}: {json.dumps(each.step)}"
    table = Table(title=plain(title), title_justify="left", caption_justify="left")
    table.add_column("member")
    table.add_column("partitions")
    table.add_column("count", justify="right")
    if any(lags):
        table.add_column("lag", justify="right")
    if each.assignment.standbys:
        table.add_column("standby")
    for member, part in each.assignment.items():
        row: list[Text | str] = [plain(member), plain(_ranges(part)), f"{part.count:,}"]
        if any(lags):
            row.append(f"{sum(lags[i] for i in part.ids_in(total).tolist()):,}")
        if each.assignment.standbys:
            row.append(plain(_ranges(each.assignment.standbys.get(member, {}))))
        table.add_row(*row)
    console.print(table)
    console.print(f"{each.moved:,} partitions moved", style="dim")
    if each.assignment.transferring.count:
        waiting = _ranges(each.assignment.transferring)
        console.print(plain(f"withheld until their owners gave them up: {waiting}"))
    for line in each.notes:
        console.print(plain(line))


def _ranges(part: Any) -> str:
    """Partitions as `topic: 0-3, 7`, topics by name."""
    return "; ".join(f"{topic}: {_runs(numbers)}" for topic, numbers in part.items())


def _runs(numbers: tuple[int, ...]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
