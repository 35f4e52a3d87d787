"""Print tables and checks on stdout, and notes and a spinner on stderr."""

from __future__ import annotations

import contextlib
import re
import textwrap
from typing import TYPE_CHECKING, Literal

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from assignor_bridge.errors import escape_unprintable, pluralize
from streaming.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from streaming.observe.check_result import Check

    Cells = Sequence[str]

#: Width limit of a table that is written to a file or a pipe.
_MAX_LINE_CHARACTERS = 10_000
#: Longer names in the first column are wrapped between words.
_MAX_NAME_CHARACTERS = 32


def note(text: str) -> None:
    """Print a note on stderr."""
    typer.echo(f"assignor: {make_printable(text)}", err=True)


def make_printable(text: str) -> str:
    """Mask secrets and escape control characters, so that a text is safe to print."""
    return escape_unprintable(redact(text))


def print_lines(lines: Iterable[str]) -> None:
    """Print lines; in a terminal, wrap them between words."""
    width = get_terminal_width()
    for line in map(make_printable, lines):
        typer.echo(line if width is None else _wrap(line, width))


def get_terminal_width() -> int | None:
    """Return the width of the terminal in columns; None if stdout is a file or a pipe."""
    stdout = Console()
    return stdout.width if stdout.is_terminal else None


def _wrap(line: str, width: int) -> str:
    """Wrap a line between words; indent the next lines to its first word, after a list marker.

    >>> print(_wrap("- one two-three four", 14))
    - one
      two-three
      four
    """
    marker_match = re.match(r"\s*(?:- )?", line)
    wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    wrapper.subsequent_indent = " " * (marker_match.end() if marker_match else 0)
    wrapper.replace_whitespace = False
    return wrapper.fill(line)


def print_table(
    head: Cells, rows: Iterable[Cells], *, title: str = "", text_columns: Collection[str] = ()
) -> None:
    """Print a table; columns are right-aligned, except the first one and the `text_columns`.

    Nothing is truncated. In a narrow terminal, column separators are omitted and cells wrap
    between words; in a file or a pipe, only lines of over 10,000 characters wrap.
    """
    table = Table(title=Text(make_printable(title)) if title else None, title_justify="left")
    for name in head:
        is_first = not table.columns
        side: Literal["left", "right"] = "left" if is_first or name in text_columns else "right"
        table.add_column(name, justify=side, no_wrap=is_first, overflow="fold")
    for row in rows:
        table.add_row(*(Text(make_printable(cell)) for cell in row))
    first_cells = [str(cell) for cell in table.columns[0].cells]
    max_word_width = max((len(word) for cell in first_cells for word in cell.split()), default=0)
    if max(map(len, first_cells), default=0) > _MAX_NAME_CHARACTERS:
        table.columns[0].no_wrap = False
        table.columns[0].max_width = max(max_word_width, _MAX_NAME_CHARACTERS)
    stdout = Console(soft_wrap=True, highlight=False)
    wide_options = stdout.options.update(max_width=_MAX_LINE_CHARACTERS)
    table_width = Measurement.get(stdout, wide_options, table).maximum
    if not stdout.is_terminal:
        stdout.width = max(stdout.width, table_width)
    elif table_width > stdout.width:
        table.box, table.pad_edge, table.collapse_padding = None, False, True
        table.columns[0].no_wrap = False
        table.columns[0].min_width = max_word_width
    stdout.print(table)


def print_checks(checks: Iterable[Check]) -> None:
    """Print one line per check, with the outcome first."""
    stdout = Console(soft_wrap=True, highlight=False)
    for check in checks:
        style = "green" if check.holds else "bold red"
        stdout.print(f"[{style}]{check.outcome:6}[/]", end=" ")
        stdout.print(make_printable(f"{check.name}: {check.details}"), markup=False)


@contextlib.contextmanager
def show_fetch_progress(label: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner in a terminal; yield a callback that counts jars in Ivy's output lines."""
    count = 0
    with Console(stderr=True).status(f"{label}: starting") as status:

        def on_line(line: str) -> None:
            nonlocal count
            if "[SUCCESSFUL ]" in line:
                count += 1
                status.update(f"{label}: {pluralize(count, 'jar')} downloaded (then cached)")
            elif count == 0:
                status.update(f"{label}: downloading jars")

        yield on_line
