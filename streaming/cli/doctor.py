"""`assignor doctor`: is everything here that the bridge needs, and what to do if not."""

from typing import Annotated

import typer
from rich.console import Console

from streaming.doctor import examine


def doctor(
    bootstrap_servers: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Look for a broker there, too.")
    ] = None,
) -> None:
    """Check Python, JDK, pyspark, jar and connector; exit code 1 when something is wrong."""
    stdout = Console(soft_wrap=True, highlight=False)
    found = examine(bootstrap_servers)
    for check in found:
        mark = "[green]ok[/]   " if check.holds else "[bold red]WRONG[/]"
        stdout.print(mark, end=" ")
        stdout.print(f"{check.what}: {check.found}", markup=False)
    if not all(check.holds for check in found):
        raise typer.Exit(1)
