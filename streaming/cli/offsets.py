"""`assignor offsets`: where a group or a query stands, as JSON for Spark's `startingOffsets`."""

import json
from typing import Annotated, Literal

import typer

from assignor_bridge.errors import AssignorError, OptionError, elided
from streaming.cli import kafka_options
from streaming.cli.output import note
from streaming.lag.positions import EARLIEST, LATEST, starting_offsets


def offsets(  # noqa: PLR0917
    group: kafka_options.Group = None,
    checkpoint: kafka_options.Checkpoint = None,
    source: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Only this source of the checkpoint.")
    ] = None,
    bootstrap_servers: kafka_options.BootstrapServers = None,
    command_config: kafka_options.CommandConfig = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC",
            help="Only this topic; may be repeated. By default, all topics with offsets.",
        ),
    ] = None,
    missing: Annotated[
        Literal["earliest", "latest"],
        typer.Option(help="Where partitions without an offset begin."),
    ] = "earliest",
    timeout: kafka_options.Timeout = 10.0,
) -> None:
    """Print the offsets of a consumer group or a query as JSON for Spark's `startingOffsets`.

    Spark requires every partition of the topics, so those without an offset are added as
    earliest (-2) or latest (-1), and stderr says how many. A query's offsets are those of its last
    completed batch; without the brokers, only its own partitions are known.
    """
    kafka_options.check_query_or_group(checkpoint, group, topic)
    if source is not None and checkpoint is None:
        raise OptionError("--source is for --checkpoint: a group has no sources")
    brokers = kafka_options.brokers_of(bootstrap_servers, command_config, timeout)
    query = kafka_options.query_of(checkpoint, source)
    positions = kafka_options.positions_of(query, group, brokers, source)
    topics = set(topic or ()) or {position.topic for position in positions}
    positions = [position for position in positions if position.topic in topics]
    partitions = None if brokers is None else brokers.partitions(topics)
    if brokers is not None and brokers.notes:
        raise AssignorError(f"the partitions are unknown: {brokers.notes[0]}")
    known = {p.topic for p in positions} if partitions is None else set(partitions)
    if topic and topics - known:
        raise OptionError(f"--topic {min(topics - known)}: the topic does not exist")
    begin = starting_offsets(positions, partitions, EARLIEST if missing == "earliest" else LATEST)
    if not begin.offsets:
        raise AssignorError(f"{group or checkpoint!r} has no offset of a topic that exists")
    count = sum(map(len, begin.offsets.values()))
    _note(begin.filled, count, f"without an offset begin at {missing}")
    _note(begin.left_out, len(positions), "with an offset are not on the brokers, and are left out")
    if brokers is None:
        note("without --bootstrap-server, new partitions are unknown")
    planned = query.last_planned if query is not None else None
    if planned is not None and not planned.committed:
        note(
            f"batch {planned.batch_id} was planned and not completed: a table may hold its rows, "
            "and a new checkpoint would write them again; let the query complete it, or see "
            "`assignor doctor --delta-table`"
        )
    typer.echo(json.dumps(begin.offsets, separators=(",", ":")))


def _note(names: tuple[str, ...], of: int, what: str) -> None:
    if names:
        note(f"{len(names)} of {of} partitions {what}: {elided(names)}")
