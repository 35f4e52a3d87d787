"""`assignor doctor`: is everything here that the bridge needs, or that a query needs to go on."""

from typing import Annotated

import typer
from rich.console import Console

from assignor_bridge.errors import OptionError
from streaming.checkpoint_doctor import examine_checkpoint
from streaming.checkpoint_folder import DamagedCheckpointError, read_checkpoint
from streaming.cli import kafka_options
from streaming.doctor import examine
from streaming.report.page import Check

_LIMIT_S = 10.0


def doctor(
    bootstrap_servers: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Look for a broker there, too.")
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Look at this checkpoint in place of the machine: could its query go on?",
        ),
    ] = None,
    command_config: kafka_options.CommandConfig = None,
    delta_table: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Delta table that the checkpoint's query writes to."),
    ] = None,
) -> None:
    """Check Python, JDK, pyspark, jar and connector; exit code 1 when something is wrong.

    With --checkpoint: check the planner's state, and with the brokers, whether topics were made
    again or are gone, have fewer partitions, or do not hold the checkpoint's offsets; with
    --delta-table, whether Delta is ahead of the checkpoint.
    """
    if checkpoint is None:
        for option, value in (("--command-config", command_config), ("--delta-table", delta_table)):
            if value is not None:
                raise OptionError(f"{option} is for --checkpoint: give both")
        _print(examine(bootstrap_servers))
        return
    try:
        found = read_checkpoint(checkpoint)
    except DamagedCheckpointError as error:
        _print([Check("checkpoint", False, str(error))])
        return
    brokers = kafka_options.brokers_of(bootstrap_servers, command_config, _LIMIT_S)
    checks = examine_checkpoint(found, brokers, delta_table)
    for note in brokers.notes if brokers else ["topics are checked with --bootstrap-servers"]:
        typer.echo(f"assignor: {note}", err=True)
    _print(checks)


def _print(checks: list[Check]) -> None:
    stdout = Console(soft_wrap=True, highlight=False)
    for check in checks:
        mark = "[green]ok[/]   " if check.holds else "[bold red]WRONG[/]"
        stdout.print(mark, end=" ")
        stdout.print(f"{check.what}: {check.found}", markup=False)
    if not all(check.holds for check in checks):
        raise typer.Exit(1)
