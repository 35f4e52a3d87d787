"""What several commands are given: their common options, and values refused before the work."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from assignor_bridge.errors import AssignorError, OptionError
from streaming.kafka.utf8 import is_utf8

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one line for each answer.")]
Query = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Which query, by name or id, if there are several."),
]

PlanLog = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False, metavar="FILE", help="The file of the query's option assignor.planLog."
    ),
]

#: The name that Kafka's own tools have, and the one of the clients' setting.
BOOTSTRAP_SERVER = ("--bootstrap-server", "--bootstrap-servers")
#: Where a command writes its file.
OUTPUT = ("--output", "-o")


def reject_options(when: str, options: Mapping[str, object]) -> None:
    """Refuse options that are given and have no meaning."""
    for option, value in options.items():
        if value is not None and value is not False:
            raise OptionError(f"{option} has no meaning {when}")


def check_not_empty(option: str, name: str | None) -> None:
    """Refuse an empty name: for librdkafka it ends the process, for a path it is this folder."""
    if name is not None and not name.strip():
        raise OptionError(f"{option} is empty: is a variable not set?")


def check_kafka_name(option: str, name: str | None) -> None:
    """Refuse a name that nothing in Kafka has: for librdkafka it may end the process."""
    check_not_empty(option, name)
    if name is not None and not is_utf8(name):
        raise OptionError(
            f"{option} {name!r} is not UTF-8, as names in Kafka are: is the terminal's encoding "
            "another?"
        )


def check_writable(option: str, path: Path) -> None:
    """Refuse a file whose folder does not exist or cannot be written."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise AssignorError(f"{option} {path}: it cannot be written: its folder does not exist")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise AssignorError(f"{option} {path}: it cannot be written (permission denied)")


def write_file(option: str, path: Path, text: str) -> None:
    """Write a file that an option names."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise AssignorError(f"{option} {path}: it cannot be written ({error.strerror})") from error
