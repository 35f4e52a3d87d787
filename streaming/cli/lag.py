"""`assignor lag`: show how far a query or a consumer group is behind, without changing it."""

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Literal

import typer

from assignor_bridge.errors import OptionError, elide
from streaming.cli import kafka_options
from streaming.cli.arguments import reject_options
from streaming.cli.lag_plan import print_plans
from streaming.cli.output import get_terminal_width, note
from streaming.cli.starting_offsets import Missing, SourceNumber, print_starting_offsets
from streaming.lag.lag_records import Row, fetch_rows, select_rows
from streaming.lag.lag_table import find_alarms, format_table
from streaming.lag.lag_table import to_json as rows_as_json
from streaming.lag.positions import Position

_DEFAULT_LIMIT_S = 2.0


def lag(
    checkpoint: kafka_options.Checkpoint = None,
    *,
    group: kafka_options.Group = None,
    bootstrap_servers: kafka_options.BootstrapServers = None,
    command_config: kafka_options.CommandConfig = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", help="Only this topic; may be repeated."),
    ] = None,
    only_with_lag: Annotated[
        bool, typer.Option("--only-with-lag", help="Omit partitions that are read to the end.")
    ] = False,
    sort: Annotated[
        Literal["partition", "lag", "seconds", "loss"] | None,
        typer.Option(
            help="Order of the rows, worst first and unknown last; the default is partition."
        ),
    ] = None,
    seconds_limit: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=600,
            metavar="SECONDS",
            help="Total time for reading a record of each lagging partition, for SECONDS-BEHIND; 0 "
            f"reads none; the default is {_DEFAULT_LIMIT_S:g}.",
        ),
    ] = None,
    timeout: kafka_options.Timeout = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
    form: Annotated[
        Literal["table", "starting-offsets"],
        typer.Option(
            "--as", help="Print the lag, or the offsets read, as JSON for Spark's startingOffsets."
        ),
    ] = "table",
    source: SourceNumber = None,
    missing: Missing = None,
    plan: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…",
            help="Show partitions and lag of each member of --group: today, and by these "
            "assignors.",
        ),
    ] = None,
) -> None:
    """Show how far a query or a consumer group is behind.

    The columns are those of kafka-consumer-groups.sh, then the executor that read the partition
    last, the seconds behind, and the time until retention deletes unread records. Unknown values
    are - in the table and null in JSON. The exit code is 1, with a line on stderr, if you should
    act: a topic or partition is gone, a position is beyond the end of its log, records were deleted
    unread, or a lag cannot be determined.

    With --as starting-offsets, it prints the offsets read, as JSON for Spark's `startingOffsets`.
    Spark requires every partition of the topics, so partitions without an offset are added as
    earliest (-2) or latest (-1), and stderr reports how many. A query's offsets are those after its
    last completed batch. Without the brokers, only the checkpoint's own partitions are known.

    With --plan, it shows the assignment of a live group today and by each assignor: partitions and
    lag of each member, and partitions that would move. It also shows whether the group can move
    online to group.protocol=consumer (KIP-848). Nothing is changed.

    Example: `assignor lag data/checkpoints/orders --bootstrap-server kafka:9092`
    """
    kafka_options.check_query_or_group(checkpoint, group, topics)
    table_options: dict[str, object] = {"--only-with-lag": only_with_lag, "--json": as_json}
    table_options |= {"--sort": sort, "--seconds-limit": seconds_limit}
    offset_options = {"--source": source, "--missing": missing}
    reject_options(f"with --as {form}", offset_options if form == "table" else table_options)
    if plan is not None:
        table_options.pop("--json")
        plan_conflicts = {**table_options, "--topic": topics or None, "--as": form != "table"}
        reject_options("with --plan", plan_conflicts)
        reject_options("without --group", {"--plan": group is None and plan})
    if source is not None and checkpoint is None:
        raise OptionError("--source needs a checkpoint: a group has no sources")
    brokers = kafka_options.connect_to_brokers(bootstrap_servers, command_config, timeout)
    if plan is not None and group is not None and brokers is not None:
        print_plans(group, plan, brokers, as_json=as_json)
        return
    if form == "starting-offsets":
        print_starting_offsets(
            checkpoint, group, brokers, topics=topics, source=source, missing=missing or "earliest"
        )
        return
    with _pause_garbage_collector():
        query = kafka_options.read_query(checkpoint)
        positions = kafka_options.read_positions(query, group, brokers)
        positions = _select_topics(topics or [], positions)
        if brokers is None:
            all_rows = [Row(position) for position in positions]
        else:
            read_limit_s = _DEFAULT_LIMIT_S if seconds_limit is None else seconds_limit
            all_rows = fetch_rows(
                positions, brokers, read_limit_s=read_limit_s, whole_topics=checkpoint is not None
            )
        rows = select_rows(all_rows, only_with_lag=only_with_lag, order=sort or "partition")
        width = get_terminal_width()
        typer.echo(json.dumps(rows_as_json(rows)) if as_json else format_table(rows, width))
    if brokers is None:
        note("without --bootstrap-server, only the checkpoint's offsets are known, not the lag")
        return
    alarms = find_alarms(all_rows, brokers.missing_topics)
    for line in [*brokers.notes, *alarms]:
        note(line)
    if alarms or any(row.state == "unknown" for row in all_rows):
        raise typer.Exit(1)


@contextmanager
def _pause_garbage_collector() -> Iterator[None]:
    """Pause Python's garbage collector, which would scan thousands of rows that are all in use."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _select_topics(topics: list[str], positions: list[Position]) -> list[Position]:
    topics_read = sorted({position.topic for position in positions})
    if unknown_topics := set(topics) - set(topics_read):
        names = elide(topics_read, 5) or "none"
        raise OptionError(f"--topic {min(unknown_topics)} is not among those read: {names}")
    return [position for position in positions if not topics or position.topic in topics]
