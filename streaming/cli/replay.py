"""`assignor replay`: what an assignor would have done for a query, from its checkpoint alone."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from assignor_bridge.assignors.loading import Finder
from assignor_bridge.errors import OptionError
from streaming.cli import files
from streaming.cli.query_or_group import check_not_empty
from streaming.replay.cluster import cluster_for
from streaming.replay.log import CheckpointLog, read_log
from streaming.replay.player import EVERYTHING, Replay, answer, assumptions, replay
from streaming.report.replays import HEAD, replay_page, replay_svg, table_rows


def replay_command(  # noqa: PLR0917
    checkpoint: Annotated[
        str, typer.Option(metavar="DIR", help="Checkpoint of a query with a Kafka source.")
    ],
    executors: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Executors, of --slots slots each.")
    ] = None,
    slots: Annotated[
        int | None, typer.Option(min=1, max=1_000, help="Task slots of each executor.")
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(metavar="HOST[=SLOTS],…", help="Executors by host, in place of a number."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(metavar="NUMBER", help="Only this source of the query; by default all."),
    ] = None,
    batches: Annotated[
        int | None, typer.Option(min=1, help="Only the last so many batches of the log.")
    ] = None,
    assignors: Annotated[
        str,
        typer.Option(
            help="What to compare: assignors, spark, minPartitions, maxRecordsPerPartition (the "
            "last two also with =NUMBER)."
        ),
    ] = ",".join(EVERYTHING),
    cost_us: Annotated[
        float | None,
        typer.Option(
            "--cost-us", min=0.001, metavar="MICROSECONDS",
            help="What a record costs; by default from the time that the batches took.",
        ),
    ] = None,
    locality_wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="spark.locality.wait.")
    ] = 3.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one line a source.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(dir_okay=False, metavar="FILE", help="Draw it, as FILE.svg or FILE.html."),
    ] = None,
) -> None:  # fmt: skip
    """Play a query's batches again through every assignor and Spark's mappings.

    Reads the offset log of a checkpoint, of any query with a Kafka source, made with this package
    or without; changes nothing and starts nothing. Says first whether there is anything to gain.
    """
    sys.path.insert(0, str(Path.cwd()))  # for `package.module:Class` beside the user's work
    check_not_empty("--checkpoint", checkpoint)
    names = [name.strip() for name in assignors.split(",") if name.strip()]
    if not names:
        raise OptionError(f"--assignors is {assignors!r}: at least one name is expected")
    if output is not None:
        if output.suffix not in (".svg", ".html"):
            raise OptionError(f"--output {output}: a name that ends in .svg or .html is expected")
        files.check_writable("--output", output)
    log = read_log(checkpoint)
    chosen = _chosen(log, source)
    stderr = Console(stderr=True)
    done, find = [], Finder()
    for index in chosen:
        played = log.sources[index][-batches:] if batches else log.sources[index]
        cluster = cluster_for(
            log, index, played,
            executors=executors, slots=slots, hosts=hosts, cost_us=cost_us,
            locality_wait_s=locality_wait,
        )  # fmt: skip
        title = f"{log.name}, source {index}" if len(log.sources) > 1 else log.name
        with stderr.status(f"playing {len(played)} batches through {len(names)} mappings"):
            done.append(replay(title, played, cluster, names, find=find))
    if output is not None and output.suffix == ".svg" and len(done) > 1:
        raise OptionError(
            f"--output {output}: the query has {len(done)} Kafka sources; choose one with --source "
            "or write an .html file"
        )
    for one in done:
        if as_json:
            typer.echo(json.dumps(one.as_json()))
        else:
            _print(one, titled=len(done) > 1)
    if output is not None:
        drawn = replay_svg(done[0]) if output.suffix == ".svg" else replay_page(done)
        files.write("--output", output, drawn)


def _chosen(log: CheckpointLog, source: str | None) -> list[str]:
    if source is None:
        return list(log.sources)
    if source not in log.sources:
        known = ", ".join(log.sources)
        raise OptionError(f"--source is {source}: the checkpoint's Kafka sources are {known}")
    return [source]


def _print(done: Replay, *, titled: bool) -> None:
    console = Console(highlight=False)
    if titled:
        console.print(f"[bold]{done.title}[/]", soft_wrap=True)
    console.print(f"{answer(done)}.\n")
    table = Table()
    table.add_column(HEAD[0], no_wrap=True)
    for name in HEAD[1:]:
        table.add_column(name, justify="right")
    refused = []
    for row in table_rows(done):
        if len(row) < len(HEAD):
            refused.append(": ".join(row))
        else:
            table.add_row(*row)
    console.print(table, soft_wrap=True)
    for line in refused:
        console.print(line, markup=False)
    for line in assumptions(done):
        console.print(f"- {line}", markup=False)
