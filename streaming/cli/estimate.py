"""`assignor estimate`: estimate from a checkpoint what an assignor would have gained."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from assignor_bridge.errors import OptionError
from streaming.cli import zone_options
from streaming.cli.arguments import OUTPUT, PlanLog, check_not_empty, check_writable, write_file
from streaming.cli.assignors import Tail, check_names, make_finder, parse_names, parse_tail
from streaming.cli.kafka_options import BootstrapServers, CommandConfig, check_source
from streaming.cli.output import note, print_lines, print_table
from streaming.replay import bill, player
from streaming.replay.answers import answer, assumptions, replay_json, verdict
from streaming.replay.cluster import choose_cluster
from streaming.replay.log import read_log
from streaming.replay.plan_log import read_tasks
from streaming.replay.replayed import EVERYTHING, ITSELF, Replay
from streaming.replay.traffic import PRICE_PER_GB, estimate_traffic
from streaming.report.replays import HEAD, build_rows, draw_replay, write_replays

_COST_HELP = "Processing time per record; default: estimated from batch durations."


def estimate(
    checkpoint: Annotated[
        str, typer.Argument(metavar="CHECKPOINT", help="Checkpoint of a query with a Kafka source.")
    ],
    *,
    executors: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Executors, each with --slots task slots.")
    ] = None,
    slots: Annotated[
        int | None, typer.Option(min=1, max=1_000, help="Task slots per executor.")
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(metavar="HOST[=SLOTS],…", help="Executors, one per host."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(metavar="NUMBER", help="Only this Kafka source of the query; default: all."),
    ] = None,
    batches: Annotated[
        int | None, typer.Option(min=1, help="Only the last N batches of the log.")
    ] = None,
    assignors: Annotated[
        str,
        typer.Option(
            help="Mappings to compare, separated by commas: assignor names, spark, "
            "minPartitions[=N], maxRecordsPerPartition[=N]."
        ),
    ] = ",".join(EVERYTHING),
    cost_us: Annotated[
        float | None,
        typer.Option(min=0.001, max=1_000_000_000, metavar="MICROSECONDS", help=_COST_HELP),
    ] = None,
    locality_wait: Annotated[
        float, typer.Option(min=0, max=1_000_000, metavar="SECONDS", help="spark.locality.wait.")
    ] = 3.0,
    tail: Tail = None,
    plan_log: PlanLog = None,
    racks_file: zone_options.RacksFile = None,
    price_per_gb: zone_options.PricePerGb = None,
    record_bytes: zone_options.RecordBytes = None,
    bootstrap_servers: BootstrapServers = None,
    command_config: CommandConfig = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, a line per source.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            *OUTPUT, dir_okay=False, metavar="FILE", help="Also write a chart (.svg or .html)."
        ),
    ] = None,
) -> None:
    """Estimate what an assignor or a Spark setting would gain for a query.

    Plans the query's past batches again, from the offset log in its checkpoint. Any query with
    a Kafka source works, even if it never used an assignor. The command changes nothing. The first
    line of the output states whether there is anything to gain.

    If the checkpoint contains costs learned by the planner, times are estimated from those costs.
    --plan-log adds the query's own plans for the batches in that log.

    With --racks, it also estimates the daily cost of reads across racks (availability zones). With
    --bootstrap-server, the brokers report where replicas are and whether consumers may read from
    followers.

    Example: `assignor estimate data/checkpoints/orders --executors 8 --slots 4`
    """
    check_not_empty("CHECKPOINT", checkpoint)
    names = parse_names(assignors)
    find = make_finder(names, "--assignors")
    check_names(names, find)
    planner_options = parse_tail(tail)
    if output is not None:
        if output.suffix not in (".svg", ".html"):
            raise OptionError(f"--output {output}: a name that ends in .svg or .html is expected")
        check_writable("--output", output)
    cost_options = {"--price-per-gb": price_per_gb, "--record-bytes": record_bytes}
    broker_options = {"--bootstrap-server": bootstrap_servers, "--command-config": command_config}
    racks = zone_options.read_racks_option(racks_file, {**cost_options, **broker_options})
    log = read_log(checkpoint)
    for warning in log.checkpoint.warnings:
        note(warning)
    check_source(source, log.sources)
    racks = zone_options.add_broker_racks(racks, log, bootstrap_servers, command_config)
    sources = [source] if source is not None else list(log.sources)
    if output is not None and output.suffix == ".svg" and len(sources) > 1:
        raise OptionError(
            f"--output {output}: the query has {len(sources)} Kafka sources; choose one with "
            "--source or write an .html file"
        )
    stderr, replays = Console(stderr=True), []
    batches_of_source = {name: log.sources[name][-(batches or 0) :] for name in sources}
    tasks_of_source = {} if plan_log is None else read_tasks(plan_log, batches_of_source, find)
    if tasks_of_source and any(option is not None for option in (executors, slots, hosts)):
        tasks_of_source = {}
        note(
            f"{ITSELF!r} is omitted, because its plans were made for the query's own executors: "
            "omit --executors, --slots and --hosts to compare it"
        )
    elif plan_log is not None:
        for name in (each for each in sources if each not in tasks_of_source):
            note(f"--plan-log {plan_log} has no plan for source {name}")
    options: dict[str, Any] = {"executors": executors, "slots": slots, "hosts": hosts}
    options |= {"cost_us": cost_us, "locality_wait_s": locality_wait, "racks": racks}
    price = PRICE_PER_GB if price_per_gb is None else price_per_gb
    for name, log_batches in batches_of_source.items():
        logged = tasks_of_source.get(name)
        logged_executors, tasks = (logged.executors, logged.tasks) if logged else (None, None)
        options["logged_executors"] = logged_executors
        cluster = choose_cluster(log, name, log_batches, **options)
        traffic = estimate_traffic(log, name, log_batches, price, record_bytes) if racks else None
        play = partial(player.replay, options=planner_options, find=find, racks=racks)
        play = partial(play, traffic=traffic, logged_tasks=tasks)
        with stderr.status(f"replaying {len(log_batches)} batches with {len(names)} mappings"):
            replays.append(play(log.title(name), log_batches, cluster, names))
    for each in replays:
        if as_json:
            typer.echo(json.dumps(replay_json(each)))
        else:
            print_lines([each.title] if len(replays) > 1 else [])
            _print_replay(each)
    if output is not None:
        page = draw_replay(replays[0]) if output.suffix == ".svg" else write_replays(replays)
        write_file("--output", output, page)


def _print_replay(replay: Replay) -> None:
    rows = build_rows(replay)
    print_lines([f"{verdict(replay)}.", ""])
    print_table(HEAD, [row for row in rows if len(row) == len(HEAD)])
    print_lines(": ".join(row) for row in rows if len(row) < len(HEAD))
    if bill_rows := bill.bill_rows(replay):
        print_table(bill.HEAD, bill_rows)
    print_lines(["", f"{answer(replay)}.", *(f"- {line}" for line in assumptions(replay))])
