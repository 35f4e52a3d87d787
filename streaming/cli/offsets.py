"""`assignor offsets`: where a group or a query stands, as JSON for Spark's `startingOffsets`."""

import json
from enum import Enum
from typing import Annotated

import typer

from assignor_bridge.errors import AssignorError, OptionError
from streaming.cli import kafka_options, query_or_group
from streaming.lag.positions import EARLIEST, LATEST, starting_offsets
from streaming.observe.words import elided


class Missing(str, Enum):
    """Where partitions begin that have no offset."""

    EARLIEST = "earliest"
    LATEST = "latest"


def offsets(  # noqa: PLR0917
    group: Annotated[
        str | None, typer.Option(metavar="GROUP", help="Consumer group that has committed offsets.")
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Checkpoint of a query, in place of a group."),
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Only this source of the checkpoint.")
    ] = None,
    bootstrap_servers: kafka_options.BootstrapServers = None,
    command_config: kafka_options.CommandConfig = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC",
            help="Only this topic, with offsets or without; may be repeated. Default: all with.",
        ),
    ] = None,
    missing: Annotated[
        Missing, typer.Option(help="Where partitions without an offset begin.")
    ] = Missing.EARLIEST,
    timeout: kafka_options.Timeout = 10.0,
) -> None:  # fmt: skip
    """Print the offsets of a consumer group or a query as JSON for Spark's `startingOffsets`.

    Spark wants every partition of the topics in it, so those without an offset are added as
    earliest (-2) or latest (-1), and stderr says how many. A query's are those of its last
    completed batch; without the brokers only its own partitions are known.
    """
    query_or_group.check_one_of(checkpoint, group)
    if source is not None and checkpoint is None:
        raise OptionError("--source is for --checkpoint: a group has none")
    for name in topic or []:
        query_or_group.check_not_empty("--topic", name)
    brokers = kafka_options.brokers_of(bootstrap_servers, command_config, timeout)
    positions = query_or_group.positions_of(checkpoint, group, brokers, source)
    topics = set(topic or ()) or {position.topic for position in positions}
    positions = [position for position in positions if position.topic in topics]
    there = None if brokers is None else brokers.partitions(topics)
    if brokers is not None and brokers.notes:
        raise AssignorError(f"the partitions are not known: {brokers.notes[0]}")
    unknown = sorted(topics - (set(there) if there is not None else {p.topic for p in positions}))
    if topic and unknown:
        raise OptionError(f"--topic {unknown[0]}: there is no such topic")
    found = starting_offsets(positions, there, EARLIEST if missing is Missing.EARLIEST else LATEST)
    if not found.offsets:
        raise AssignorError(f"{group or checkpoint!r} has no offset of a topic that is there")
    count = sum(map(len, found.offsets.values()))
    _tell(found.filled, count, f"without an offset will begin at the {missing.value}")
    _tell(found.left_out, len(positions), "with an offset are not on the brokers and left out")
    if brokers is None:
        typer.echo("assignor: without --bootstrap-servers new partitions are not known", err=True)
    typer.echo(json.dumps(found.offsets, separators=(",", ":")))


def _tell(names: tuple[str, ...], of: int, what: str) -> None:
    if names:
        typer.echo(f"assignor: {len(names)} of {of} partitions {what}: {elided(names)}", err=True)
