"""`assignor lab assign`: any assignor on a consumer group, with no Spark and no broker."""

import json
from collections.abc import Mapping
from typing import Annotated

import typer

from streaming.cli import assignors
from streaming.cli.arguments import AsJson
from streaming.cli.lines import answer_lines, note_on_line
from streaming.cli.output import print_lines, print_table
from streaming.human_json.group_json import (
    Answer,
    Request,
    answer,
    answer_steps,
    read_request,
)


def assign(
    groups: Annotated[
        typer.FileBinaryRead,
        typer.Argument(metavar="FILE|-", help="Groups as JSON, one per line; - reads stdin."),
    ],
    as_json: AsJson = False,
    chain: Annotated[
        bool,
        typer.Option(
            "--chain",
            help="Play each group's `steps`: print the first assignment, and one after each step.",
        ),
    ] = False,
    names: assignors.OwnAssignors = None,
) -> None:
    """Show who gets which partitions of a consumer group.

    Exit code 2 when a group has a mistake, such as an unknown assignor, 1 when it could not be
    assigned otherwise; the others are still answered.

    Example: `assignor lab assign groups.jsonl --json`
    """
    find = assignors.make_finder(names or (), "--assignors")

    def show(number: int, request: Request) -> None:
        answers = answer_steps(request, find) if chain else [answer(request, find)]
        if as_json:
            steps = [each.to_json() for each in answers]
            whole = {"assignor": request.assignor, "steps": steps} if chain else steps[0]
            typer.echo(json.dumps(whole))
        else:
            for step, each in enumerate(answers):
                _print_answer(each, step)
        if request.steps and not chain:
            note_on_line(number, "steps were not played: add --chain")

    answer_lines(groups, read_request, show, as_json)


def _print_answer(answered: Answer, step: int) -> None:
    lags, assignment = answered.group.lag_list(), answered.assignment
    columns = {
        "member": list(assignment),
        "partitions": [_format_partitions(part) for part in assignment.values()],
        "count": [f"{part.count:,}" for part in assignment.values()],
    }
    if any(lags):
        ids = [part.ids_in(answered.group.catalog).tolist() for part in assignment.values()]
        columns["lag"] = [f"{sum(lags[i] for i in mine):,.0f}" for mine in ids]
    if assignment.standbys:
        columns["standby"] = [
            _format_partitions(assignment.standbys.get(m, {})) for m in assignment
        ]
    title = answered.assignor.name
    if answered.step is not None:
        title += f", step {step}: {json.dumps(answered.step)}"
    rows = zip(*columns.values(), strict=True)
    print_table(list(columns), list(rows), title=title, words=("partitions", "standby"))
    lines = [f"{answered.moved:,} partitions moved"]
    if assignment.transferring.count:
        withheld = _format_partitions(assignment.transferring)
        lines.append(f"withheld until their owners give them up: {withheld}")
    print_lines([*lines, *answered.notes])


def _format_partitions(part: Mapping[str, tuple[int, ...]]) -> str:
    """Write partitions as `topic: 0-3, 7`, topics by name."""
    return "; ".join(f"{topic}: {_format_numbers(numbers)}" for topic, numbers in part.items())


def _format_numbers(numbers: tuple[int, ...]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
