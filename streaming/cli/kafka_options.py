"""Options that name a Kafka cluster, as Kafka's own tools have them."""

from pathlib import Path
from typing import Annotated

import typer

from assignor_bridge.errors import OptionError
from streaming.cli.servers import check_servers
from streaming.kafka.brokers import Brokers
from streaming.kafka.java_properties import read_properties
from streaming.kafka.settings import SettingsError

BootstrapServers = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT,…", help="Brokers; else bootstrap.servers of --command-config."
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Properties file with the login, as for Kafka's own tools."),
]
Timeout = Annotated[
    float,
    typer.Option(
        min=0.1, max=600, metavar="SECONDS", help="How long each request to the brokers may take."
    ),
]


def brokers_of(
    bootstrap_servers: str | None, command_config: Path | None, limit_s: float
) -> Brokers | None:
    """Connect to the brokers that the options name; None when they name none.

    Raises
    ------
    OptionError
        When the file cannot be read or has a setting without a counterpart.
    BrokerUnreachableError
        When no broker answers.
    """
    java = _settings_in(command_config) if command_config is not None else {}
    if bootstrap_servers is not None:
        check_servers("--bootstrap-servers", bootstrap_servers)
        java["bootstrap.servers"] = bootstrap_servers
    elif java.get("bootstrap.servers"):
        check_servers(
            f"--command-config {command_config}: bootstrap.servers", java["bootstrap.servers"]
        )
    else:
        return None
    try:
        return Brokers(java, limit_s)
    except SettingsError as error:
        raise OptionError(f"--command-config {command_config}: {error}") from error


def no_brokers(what: str) -> OptionError:
    """Complain that something cannot be told without the brokers."""
    return OptionError(f"{what} needs the brokers: give --bootstrap-servers or --command-config")


def _settings_in(path: Path) -> dict[str, str]:
    try:
        return read_properties(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OptionError(
            f"--command-config {path}: it cannot be read ({error.strerror})"
        ) from error
    except UnicodeDecodeError:
        raise OptionError(
            f"--command-config {path}: it is no properties file (not UTF-8 text)"
        ) from None
