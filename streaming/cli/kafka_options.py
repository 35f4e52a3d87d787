"""Options for a Kafka cluster, named as in Kafka's tools, and for a query or consumer group."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assignor_bridge.errors import OptionError
from streaming.cli.arguments import BOOTSTRAP_SERVER, check_kafka_name, check_not_empty
from streaming.cli.output import note
from streaming.kafka.brokers import Brokers
from streaming.kafka.java_properties import parse_properties
from streaming.kafka.servers import parse_servers
from streaming.kafka.settings import SettingsError
from streaming.lag.positions import fetch_group_positions, list_checkpoint_positions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from checkpoints.offset_log import Checkpoint as Query
    from streaming.lag.positions import Position

Checkpoint = Annotated[
    str | None,
    typer.Argument(metavar="CHECKPOINT", help="Checkpoint of a query with a Kafka source."),
]
Group = Annotated[
    str | None, typer.Option(metavar="GROUP", help="Consumer group, instead of a checkpoint.")
]
BootstrapServers = Annotated[
    str | None,
    typer.Option(
        *BOOTSTRAP_SERVER,
        metavar="HOST:PORT,…",
        help="Kafka brokers; default: bootstrap.servers in --command-config.",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Kafka client properties, such as authentication settings."),
]
Timeout = Annotated[
    float,
    typer.Option(
        min=0.1, max=600, metavar="SECONDS", help="Time limit of each request to the brokers."
    ),
]


def connect_to_brokers(
    bootstrap_servers: str | None, command_config: Path | None, request_limit_s: float
) -> Brokers | None:
    """Connect to the brokers that the options name; return None if no option is set.

    Raises OptionError if an address is invalid, or if the file cannot be read, has an unsupported
    setting, or names no brokers and none are given. Raises BrokerUnreachableError if none answers.
    """
    option = f"--command-config {command_config}"
    properties = _read_settings(command_config, option) if command_config is not None else {}
    if bootstrap_servers is not None:
        parse_servers("--bootstrap-server", bootstrap_servers)
        properties["bootstrap.servers"] = bootstrap_servers
    elif properties.get("bootstrap.servers"):
        parse_servers(f"{option}: bootstrap.servers", properties["bootstrap.servers"])
    elif command_config is not None:
        raise OptionError(f"{option} has no bootstrap.servers: give --bootstrap-server")
    else:
        return None
    try:
        return Brokers(properties, request_limit_s)
    except SettingsError as error:
        raise OptionError(f"{option}: {error}") from error


def check_query_or_group(
    checkpoint: str | None, group: str | None, topics: list[str] | None
) -> None:
    """Require either a checkpoint or a group, and reject empty and non-UTF-8 names."""
    if checkpoint is None and group is None:
        raise OptionError("give a checkpoint or --group GROUP")
    if checkpoint is not None and group is not None:
        raise OptionError("give either a checkpoint or --group, not both")
    check_not_empty("CHECKPOINT", checkpoint)
    check_kafka_name("--group", group)
    for topic in topics or []:
        check_kafka_name("--topic", topic)


def read_query(checkpoint: str | None, source: str | None = None) -> Query | None:
    """Read a query's checkpoint and print its warnings; return None if `checkpoint` is None.

    Raises OptionError if there is no checkpoint with a Kafka source, or no such `source`, and
    DamagedCheckpointError if a file cannot be read.
    """
    if checkpoint is None:
        return None
    # Imported late: it loads numpy, which --group does not need.
    from streaming.observe.checkpoint_files import read_checkpoint

    query = read_checkpoint(checkpoint)
    for warning in query.warnings:
        note(warning)
    check_source(source, query.sources)
    return query


def read_positions(
    query: Query | None, group: str | None, brokers: Brokers | None, source: str | None = None
) -> list[Position]:
    """Return the positions of the query, of one of its sources, or of the group.

    Raises OptionError if a group is given without brokers, and what `fetch_group_positions` raises.
    """
    if query is not None:
        return list_checkpoint_positions(query, source)
    if brokers is None:
        raise OptionError("--group needs the brokers: give --bootstrap-server or --command-config")
    return fetch_group_positions(brokers, str(group))


def check_source(source: str | None, sources: Iterable[str]) -> None:
    """Raise OptionError if the checkpoint does not have this source."""
    if source is not None and source not in (names := list(sources)):
        raise OptionError(
            f"--source is {source}: choose a Kafka source of the checkpoint ({', '.join(names)})"
        )


def _read_settings(path: Path, option: str) -> dict[str, str]:
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OptionError(f"{option} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError:
        raise OptionError(f"{option} is not UTF-8: convert it, or use \\u escapes") from None
