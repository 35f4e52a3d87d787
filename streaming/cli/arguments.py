"""Options that several commands share, and checks of their values before any work starts."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from assignor_bridge.errors import AssignorError, OptionError
from streaming.kafka.utf8 import is_utf8

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one line per result.")]
Query = Annotated[
    str | None, typer.Option(metavar="NAME", help="Name or ID of the query, if there are several.")
]

PlanLog = Annotated[
    Path | None,
    typer.Option(dir_okay=False, metavar="FILE", help="Plan log of the query (assignor.planLog)."),
]

#: The name in Kafka's own tools, and the plural name of the clients' setting.
BOOTSTRAP_SERVER = ("--bootstrap-server", "--bootstrap-servers")
#: Names of the option for a command's output file.
OUTPUT = ("--output", "-o")


def reject_options(when: str, options: Mapping[str, object]) -> None:
    """Raise OptionError if any of the options is given; `when` names what it conflicts with."""
    for option, value in options.items():
        if value is not None and value is not False:
            raise OptionError(f"{option} cannot be used {when}")


def check_not_empty(option: str, name: str | None) -> None:
    """Reject an empty name: librdkafka would abort the process, and a path would mean `.`."""
    if name is not None and not name.strip():
        raise OptionError(f"{option} is empty: check that your shell variable is set")


def check_kafka_name(option: str, name: str | None) -> None:
    """Reject a name that Kafka cannot have, because librdkafka may abort the process for it."""
    check_not_empty(option, name)
    if name is not None and not is_utf8(name):
        raise OptionError(
            f"{option} {name!r} is not UTF-8, but all names in Kafka are: check the encoding of "
            "your terminal"
        )


def check_writable(option: str, path: Path) -> None:
    """Reject an output file whose folder does not exist or is not writable."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise AssignorError(f"{option} {path} cannot be written: its folder does not exist")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise AssignorError(f"{option} {path} cannot be written (permission denied)")


def write_file(option: str, path: Path, text: str) -> None:
    """Write `text` to the file that `option` names."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise AssignorError(f"{option} {path} cannot be written ({error.strerror})") from error
