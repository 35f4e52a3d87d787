"""`assignor lag`: how far a query or a consumer group is behind, from outside, changing nothing."""

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Literal

import typer

from assignor_bridge.errors import OptionError
from streaming.cli import kafka_options
from streaming.cli.arguments import refuse
from streaming.cli.group_plan import print_plans
from streaming.cli.output import note, terminal_width
from streaming.cli.starting_offsets import Missing, SourceNumber, print_starting_offsets
from streaming.lag.positions import Position
from streaming.lag.rows import Row, look_up, select
from streaming.lag.table import alarms, as_text
from streaming.lag.table import as_json as rows_as_json

#: Seconds for reading records, unless --seconds-limit is given.
_SECONDS_LIMIT_S = 2.0


def lag(
    checkpoint: kafka_options.Checkpoint = None,
    *,
    group: kafka_options.Group = None,
    bootstrap_servers: kafka_options.BootstrapServers = None,
    command_config: kafka_options.CommandConfig = None,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="TOPIC", help="Only this topic; may be repeated.")
    ] = None,
    only_with_lag: Annotated[
        bool, typer.Option("--only-with-lag", help="Leave out partitions that are read to the end.")
    ] = False,
    sort: Annotated[
        Literal["partition", "lag", "seconds", "loss"] | None,
        typer.Option(
            help="Order of the rows: worst first, unknown last; by default by partition."
        ),
    ] = None,
    seconds_limit: Annotated[
        float | None,
        typer.Option(
            min=0, max=600, metavar="SECONDS",
            help="Limit for reading one record per lagging partition, for SECONDS-BEHIND; 0: none; "
            f"by default {_SECONDS_LIMIT_S:g}.",
        ),
    ] = None,
    timeout: kafka_options.Timeout = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
    form: Annotated[
        Literal["table", "starting-offsets"],
        typer.Option(
            "--as", help="What to print: the lag, or the offsets read, as Spark's startingOffsets."
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
) -> None:  # fmt: skip
    """Show how far a query or a consumer group is behind.

    The columns of kafka-consumer-groups.sh, then: the executor that read the partition
    last, seconds behind, and the time until retention deletes unread records. Unknown is -, in JSON
    null. Exit code 1, with a line on stderr, when somebody should look: a topic is gone, a position
    is beyond its log's end, records were deleted unread, or a lag cannot be determined.

    With --as starting-offsets: the offsets read, as JSON for Spark's option `startingOffsets`.
    Spark requires every partition of the topics, so those without an offset are added as earliest
    (-2) or latest (-1), and stderr says how many. A query's offsets are those of its last completed
    batch; without the brokers, only its own partitions are known.

    With --plan: the assignment of a live group today and by each assignor: partitions and lag of
    each member, partitions that would move, and whether the group can move online to
    group.protocol=consumer (KIP-848). Nothing is changed.

    Example: `assignor lag data/checkpoints/orders --bootstrap-server kafka:9092`
    """
    kafka_options.check_query_or_group(checkpoint, group, topic)
    of_table = {
        "--only-with-lag": only_with_lag, "--json": as_json, "--sort": sort,
        "--seconds-limit": seconds_limit,
    }  # fmt: skip
    of_offsets = {"--source": source, "--missing": missing}
    refuse(f"with --as {form}", of_offsets if form == "table" else of_table)
    if plan is not None:
        of_table.pop("--json")
        refuse("with --plan", {**of_table, "--topic": topic or None, "--as": form != "table"})
        refuse("without --group", {"--plan": group is None and plan})
    if source is not None and checkpoint is None:
        raise OptionError("--source is for a checkpoint: a group has no sources")
    brokers = kafka_options.brokers_of(bootstrap_servers, command_config, timeout)
    if plan is not None and group is not None and brokers is not None:
        print_plans(group, plan, brokers, as_json=as_json)
        return
    if form == "starting-offsets":
        print_starting_offsets(
            checkpoint, group, brokers, topic=topic, source=source, missing=missing or "earliest"
        )
        return
    with _no_collector():
        query = kafka_options.query_of(checkpoint)
        positions = kafka_options.positions_of(query, group, brokers)
        positions = _of_topics(topic or [], positions)
        if brokers is None:
            rows = [Row(position) for position in positions]
        else:
            whole = checkpoint is not None
            limit_s = _SECONDS_LIMIT_S if seconds_limit is None else seconds_limit
            rows = look_up(positions, brokers, seconds_limit_s=limit_s, whole_topics=whole)
        shown = select(rows, only_with_lag=only_with_lag, order=sort or "partition")
        text = json.dumps(rows_as_json(shown)) if as_json else as_text(shown, terminal_width())
        typer.echo(text)
    if brokers is None:
        note("without --bootstrap-server, only the checkpoint's own offsets are known")
        return
    wrong = alarms(rows, brokers.gone)
    for line in [*brokers.notes, *wrong]:
        note(line)
    if wrong or any(row.state == "unknown" for row in rows):
        raise typer.Exit(1)


@contextmanager
def _no_collector() -> Iterator[None]:
    """Keep Python's garbage collector from going through thousands of rows that are all needed."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _of_topics(topics: list[str], positions: list[Position]) -> list[Position]:
    known = sorted({position.topic for position in positions})
    unknown = sorted(set(topics) - set(known))
    if unknown:
        raise OptionError(f"--topic {unknown[0]}: it is not one of those read: {', '.join(known)}")
    return [position for position in positions if not topics or position.topic in topics]
