"""`assignor init`: write a first job file for a topic."""

import math
from pathlib import Path
from string import Template
from typing import Annotated

import typer
import yaml

from assignor_bridge.errors import AssignorError, OptionError, escape_unprintable
from streaming.cli.arguments import BOOTSTRAP_SERVER
from streaming.kafka.servers import check_topic, parse_servers

_TEMPLATE = Path(__file__).with_name("job.yaml.template")


def init(
    file: Annotated[Path, typer.Argument(metavar="JOB.yaml", help="Job file to write.")] = Path(
        "job.yaml"
    ),
    topic: Annotated[str, typer.Option(help="Topic to copy.")] = "orders",
    bootstrap_server: Annotated[
        str, typer.Option(*BOOTSTRAP_SERVER, metavar="HOST:PORT", help="Brokers of the topic.")
    ] = "localhost:9092",
) -> None:
    """Write a first job file: YAML that copies a topic into a Delta table.

    The job runs unchanged with any topic; comments show the next steps. Existing files are kept.

    Example: `assignor init orders.yaml --topic orders --bootstrap-server kafka:9092`
    """
    try:
        check_topic(topic)
    except OptionError as error:
        raise OptionError(f"--topic {error}") from None
    parse_servers("--bootstrap-server", bootstrap_server)
    shown_path = escape_unprintable(" ".join(str(file).split()))
    text = Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        file=shown_path, topic=topic, subscribe=_to_yaml(topic), broker=_to_yaml(bootstrap_server)
    )
    try:
        with file.open("x", encoding="utf-8") as out:
            try:
                out.write(text)
                out.flush()
            except OSError:  # a partial job file is useless
                file.unlink()
                raise
    except FileExistsError:
        raise OptionError(f"{str(file)!r} already exists: choose another name") from None
    except OSError as error:
        raise AssignorError(f"{str(file)!r} cannot be written: {error.strerror}") from None
    typer.echo(f"{shown_path}: written; run it with: assignor run {shown_path}")


def _to_yaml(text: str) -> str:
    """Return a string as a YAML scalar, in quotes if needed, as for a topic named `123`."""
    return str(yaml.safe_dump(text, width=math.inf)).splitlines()[0]
