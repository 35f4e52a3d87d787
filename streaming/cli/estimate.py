"""`assignor estimate`: estimate from a checkpoint what an assignor would have gained."""

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from assignor_bridge.errors import OptionError, pluralize
from streaming.cli import zone_options
from streaming.cli.arguments import OUTPUT, PlanLog, check_not_empty, check_writable, write_file
from streaming.cli.assignors import Tail, check_names, make_finder, parse_names, parse_tail
from streaming.cli.kafka_options import BootstrapServers, CommandConfig, check_source
from streaming.cli.output import note, print_lines, print_table
from streaming.replay import bill, player
from streaming.replay.answers import list_assumptions, replay_to_json, write_summary, write_verdict
from streaming.replay.cluster import choose_cluster
from streaming.replay.log import read_checkpoint_log
from streaming.replay.plan_log import read_tasks
from streaming.replay.replayed import DEFAULT_NAMES, ITSELF, Replay
from streaming.replay.traffic import PRICE_PER_GB, estimate_traffic
from streaming.report.replays import HEAD, build_rows, draw_replay, write_replays

_COST_HELP = "Processing time per record; default: from the planner, batch durations, or 100 µs."


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
        int | None, typer.Option(min=1, metavar="N", help="Only the last N batches of the log.")
    ] = None,
    assignors: Annotated[
        str,
        typer.Option(
            help="Mappings to compare, separated by commas: assignor names, spark, "
            "minPartitions[=N], maxRecordsPerPartition[=N]."
        ),
    ] = ",".join(DEFAULT_NAMES),
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

    Times use --cost-us or, by default, the planner's costs in the checkpoint, an upper bound from
    batch durations, or an assumed cost. --plan-log adds the query's own plans for logged batches.

    With --racks, it also estimates the daily cost of reads across racks (availability zones). With
    --bootstrap-server, the brokers report where replicas are and whether consumers may read from
    followers.

    Example: `assignor estimate data/checkpoints/orders --executors 8 --slots 4`
    """
    check_not_empty("CHECKPOINT", checkpoint)
    mapping_names = parse_names(assignors)
    find_assignor = make_finder(mapping_names, "--assignors")
    check_names(mapping_names, find_assignor)
    planner_options = parse_tail(tail)
    if output is not None:
        if output.suffix not in (".svg", ".html"):
            raise OptionError(f"--output {output}: a name that ends in .svg or .html is expected")
        check_writable("--output", output)
    cost_options = {"--price-per-gb": price_per_gb, "--record-bytes": record_bytes}
    broker_options = {"--bootstrap-server": bootstrap_servers, "--command-config": command_config}
    racks = zone_options.read_racks_option(racks_file, {**cost_options, **broker_options})
    log = read_checkpoint_log(checkpoint)
    for warning in log.checkpoint.warnings:
        note(warning)
    check_source(source, log.batches_by_source)
    racks = zone_options.add_broker_racks(racks, log, bootstrap_servers, command_config)
    sources = [source] if source is not None else list(log.batches_by_source)
    if output is not None and output.suffix == ".svg" and len(sources) > 1:
        raise OptionError(
            f"--output {output}: the query has {len(sources)} Kafka sources; choose one with "
            "--source or write an .html file"
        )
    stderr, replays = Console(stderr=True), []
    batches_by_source = {name: log.batches_by_source[name][-(batches or 0) :] for name in sources}
    tasks_by_source = (
        {} if plan_log is None else read_tasks(plan_log, batches_by_source, find_assignor)
    )
    if tasks_by_source and any(option is not None for option in (executors, slots, hosts)):
        tasks_by_source = {}
        note(
            f"{ITSELF!r} is omitted, because its plans were made for the query's own executors: "
            "omit --executors, --slots and --hosts to compare it"
        )
    elif plan_log is not None:
        for name in (name for name in sources if name not in tasks_by_source):
            note(f"--plan-log {plan_log} has no plan for these batches of source {name}")
    cluster_options: dict[str, Any] = {"executor_count": executors, "slots": slots, "hosts": hosts}
    cluster_options |= {"cost_us": cost_us, "locality_wait_s": locality_wait, "racks": racks}
    price = PRICE_PER_GB if price_per_gb is None else price_per_gb
    for name, log_batches in batches_by_source.items():
        logged_tasks = tasks_by_source.get(name)
        cluster_options["logged_executors"] = logged_tasks and logged_tasks.executors_by_batch
        tasks = logged_tasks.tasks_by_batch if logged_tasks else None
        cluster = choose_cluster(log, name, log_batches, **cluster_options)
        traffic = estimate_traffic(log, name, log_batches, price, record_bytes) if racks else None
        play = partial(player.replay, options=planner_options, find_assignor=find_assignor)
        play = partial(play, racks=racks, traffic=traffic, logged_tasks=tasks)
        with stderr.status(f"replaying {pluralize(len(log_batches), 'batch', 'batches')}"):
            replays.append(play(log.name_source(name), log_batches, cluster, mapping_names))
    for replay in replays:
        if as_json:
            typer.echo(json.dumps(replay_to_json(replay)))
        else:
            print_lines([replay.title] if len(replays) > 1 else [])
            _print_replay(replay)
    if output is not None:
        text = draw_replay(replays[0]) if output.suffix == ".svg" else write_replays(replays)
        write_file("--output", output, text)


def _print_replay(replay: Replay) -> None:
    rows = build_rows(replay)
    print_lines([f"{write_verdict(replay)}.", ""])
    print_table(HEAD, [row for row in rows if len(row) == len(HEAD)])
    print_lines(": ".join(row) for row in rows if len(row) < len(HEAD))
    if bill_rows := bill.build_bill_rows(replay):
        print_table(bill.HEAD, bill_rows)
    assumption_lines = [f"- {assumption}" for assumption in list_assumptions(replay)]
    print_lines(["", f"{write_summary(replay)}.", *assumption_lines])
