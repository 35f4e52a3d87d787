"""`assignor estimate`: what an assignor would have done for a query, from its checkpoint alone."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from assignor_bridge.errors import OptionError
from streaming.cli import assignors as own
from streaming.cli import zones
from streaming.cli.arguments import OUTPUT, PlanLog, check_not_empty, check_writable, write
from streaming.cli.kafka_options import BootstrapServers, CommandConfig, check_source
from streaming.cli.output import note, print_lines, print_table
from streaming.replay import bill, player
from streaming.replay.answers import answer, assumptions, replay_json, verdict
from streaming.replay.cluster import choose_cluster
from streaming.replay.log import read_log
from streaming.replay.plan_log import read_tasks
from streaming.replay.replayed import EVERYTHING, ITSELF, Replay
from streaming.replay.traffic import PRICE_PER_GB, estimate_traffic
from streaming.report.replays import HEAD, replay_page, replay_svg, table_rows


def estimate(
    checkpoint: Annotated[
        str, typer.Argument(metavar="CHECKPOINT", help="Checkpoint of a query with a Kafka source.")
    ],
    *,
    executors: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Executors, with --slots slots each.")
    ] = None,
    slots: Annotated[
        int | None, typer.Option(min=1, max=1_000, help="Task slots of each executor.")
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(metavar="HOST[=SLOTS],…", help="Executors by host, instead of a number."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(metavar="NUMBER", help="Only this source of the query; by default all."),
    ] = None,
    batches: Annotated[
        int | None, typer.Option(min=1, help="Only the last N batches of the log.")
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
            "--cost-us", min=0.001, max=1_000_000_000, metavar="MICROSECONDS",
            help="What a record costs; by default estimated from the time that batches took.",
        ),
    ] = None,
    locality_wait: Annotated[
        float, typer.Option(min=0, max=1_000_000, metavar="SECONDS", help="spark.locality.wait.")
    ] = 3.0,
    plan_log: PlanLog = None,
    racks_file: zones.RacksFile = None,
    price_per_gb: zones.PricePerGb = None,
    record_bytes: zones.RecordBytes = None,
    bootstrap_servers: BootstrapServers = None,
    command_config: CommandConfig = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one per source.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            *OUTPUT, dir_okay=False, metavar="FILE", help="Draw it, as FILE.svg or FILE.html."
        ),
    ] = None,
) -> None:  # fmt: skip
    """Estimate what the option would gain for a query, or another assignor or Spark setting.

    Plans the query's past batches again, from the offset log in the checkpoint of any query with
    a Kafka source, with this package or without. It starts nothing and changes nothing. The first
    line is whether there is anything to gain.

    Times are judged in hindsight: where the planner has left what it learned of costs in the
    checkpoint, by those costs. --plan-log adds the query's own plans, for the batches that it has.

    With --racks it says what reads across racks (availability zones) cost a day. Where replicas
    are, the brokers of --bootstrap-server know, too; whether consumers may read from followers,
    only they do.

    Example: `assignor estimate data/checkpoints/orders --executors 8 --slots 4`
    """
    check_not_empty("CHECKPOINT", checkpoint)
    names = own.names_in(assignors)
    find = own.finder(names, "--assignors")
    own.check_known(names, find)
    if output is not None:
        if output.suffix not in (".svg", ".html"):
            raise OptionError(f"--output {output}: a name that ends in .svg or .html is expected")
        check_writable("--output", output)
    racks = zones.racks_of(
        racks_file,
        price_per_gb=price_per_gb,
        record_bytes=record_bytes,
        bootstrap_server=bootstrap_servers,
        command_config=command_config,
    )
    log = read_log(checkpoint)
    for warning in log.checkpoint.warnings:
        note(warning)
    check_source(source, log.sources)
    racks = zones.with_brokers(racks, log, bootstrap_servers, command_config)
    chosen = [source] if source is not None else list(log.sources)
    if output is not None and output.suffix == ".svg" and len(chosen) > 1:
        raise OptionError(
            f"--output {output}: the query has {len(chosen)} Kafka sources; choose one with "
            "--source or write an .html file"
        )
    stderr, replays = Console(stderr=True), []
    last = {index: log.sources[index][-(batches or 0) :] for index in chosen}
    plans = {} if plan_log is None else read_tasks(plan_log, last, find)
    if plans and any(given is not None for given in (executors, slots, hosts)):
        plans = {}
        note(
            f"{ITSELF!r} is left out: its plans were made for other executors than those of "
            "--executors, --slots and --hosts; leave these out to have it judged"
        )
    elif plan_log is not None:
        for index in (each for each in last if each not in plans):
            note(f"--plan-log {plan_log}: it has no plan of source {index}")
    for index, played in last.items():
        logged = plans.get(index)
        cluster = choose_cluster(
            log, index, played,
            executors=executors, slots=slots, hosts=hosts, cost_us=cost_us,
            locality_wait_s=locality_wait, racks=racks,
            logged=logged.executors if logged else None,
        )  # fmt: skip
        price = PRICE_PER_GB if price_per_gb is None else price_per_gb
        traffic = estimate_traffic(log, index, played, price, record_bytes) if racks else None
        with stderr.status(f"playing {len(played)} batches through {len(names)} mappings"):
            replays.append(
                player.replay(
                    log.title(index),
                    played,
                    cluster,
                    names,
                    find=find,
                    racks=racks,
                    traffic=traffic,
                    logged=logged.tasks if logged else None,
                )
            )
    for one in replays:
        if as_json:
            typer.echo(json.dumps(replay_json(one)))
        else:
            print_lines([one.title] if len(replays) > 1 else [])
            _print(one)
    if output is not None:
        page = replay_svg(replays[0]) if output.suffix == ".svg" else replay_page(replays)
        write("--output", output, page)


def _print(replay: Replay) -> None:
    rows = table_rows(replay)
    print_lines([f"{verdict(replay)}.", ""])
    print_table(HEAD, [row for row in rows if len(row) == len(HEAD)])
    print_lines(": ".join(row) for row in rows if len(row) < len(HEAD))
    if of_bill := bill.bill_rows(replay):
        print_table(bill.HEAD, of_bill)
    print_lines(["", f"{answer(replay)}.", *(f"- {line}" for line in assumptions(replay))])
