"""What commands print: tables, checks, notes on stderr, a spinner while something slow runs."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from assignor_bridge.errors import visible
from streaming.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from streaming.observe.check import Check


#: Of a table that is written into a file or a pipe.
_LONGEST_LINE = 10_000


def note(text: str) -> None:
    """Say something on stderr that is no result."""
    typer.echo(f"assignor: {printable(text)}", err=True)


def printable(text: str) -> str:
    """Return a text without secrets that a terminal shows and does not obey."""
    return visible(redacted(text))


def print_lines(lines: Iterable[str]) -> None:
    """Print lines as they are, wrapped by the terminal alone."""
    for line in lines:
        typer.echo(printable(line))


def print_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "",
    words: Collection[str] = (),
) -> None:  # fmt: skip
    """Print a table; all columns hold numbers but the first one and those that `words` names.

    Nothing is cut off: cells are folded in a narrow terminal, and anywhere else lines are long.
    """
    table = Table(title=Text(printable(title)) if title else None, title_justify="left")
    for name in head:
        first = not table.columns
        left = first or name in words
        table.add_column(name, justify="left" if left else "right", no_wrap=first, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    stdout = Console(soft_wrap=True, highlight=False)
    unlimited = stdout.options.update(max_width=_LONGEST_LINE)
    needed = Measurement.get(stdout, unlimited, table).maximum
    if not stdout.is_terminal:
        stdout.width = max(stdout.width, needed)
    elif needed > stdout.width:
        table.columns[0].no_wrap = False
    stdout.print(table)


def print_checks(checks: Iterable[Check]) -> None:
    """Print a line a check, its outcome first."""
    stdout = Console(soft_wrap=True, highlight=False)
    for check in checks:
        style = "green" if check.holds else "bold red"
        stdout.print(f"[{style}]{check.outcome:6}[/]", end=" ")
        stdout.print(printable(f"{check.what}: {check.details}"), markup=False)


@contextlib.contextmanager
def fetching(what: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner in a terminal; the function takes the lines of Ivy and counts downloads."""
    count = 0
    with Console(stderr=True).status(f"{what}: starting") as status:

        def on_line(line: str) -> None:
            nonlocal count
            if "[SUCCESSFUL ]" in line:
                count += 1
                status.update(f"{what}: {count} jars fetched (once; they are kept)")
            elif count == 0:
                status.update(f"{what}: fetching jars")

        yield on_line
