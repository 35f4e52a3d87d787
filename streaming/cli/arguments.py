"""Options that several commands share, and checks that run before any work starts."""

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
    typer.Option(dir_okay=False, metavar="FILE", help="The query's plan log (assignor.planLog)."),
]

#: Singular as in Kafka's tools, and plural as in the client setting `bootstrap.servers`.
BOOTSTRAP_SERVER = ("--bootstrap-server", "--bootstrap-servers")
#: Names of the option for a command's output file.
OUTPUT = ("--output", "-o")


def reject_options(when: str, options: Mapping[str, object]) -> None:
    """Raise OptionError if an option is set; `when` ends the message, such as "with --live"."""
    for option, value in options.items():
        if value is not None and value is not False:
            raise OptionError(f"{option} cannot be used {when}")


def check_not_empty(option: str, value: str | None) -> None:
    """Reject an empty value: librdkafka aborts on an empty name, and an empty path means `.`."""
    if value is not None and not value.strip():
        raise OptionError(f"{option} is empty: check that your shell variable is set")


def check_kafka_name(option: str, name: str | None) -> None:
    """Reject an empty or non-UTF-8 name, because librdkafka may abort the process."""
    check_not_empty(option, name)
    if name is not None and not is_utf8(name):
        raise OptionError(
            f"{option} {name!r} is not UTF-8, which Kafka requires for names: check the encoding "
            "of your terminal"
        )


def check_writable(option: str, path: Path) -> None:
    """Raise AssignorError if the output file cannot be written or its folder does not exist."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise AssignorError(f"{option} {path} cannot be written: its folder does not exist")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise AssignorError(f"{option} {path} cannot be written (permission denied)")


def write_file(option: str, path: Path, text: str) -> None:
    """Write `text` to the file that `option` names; raise AssignorError if that fails."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise AssignorError(f"{option} {path} cannot be written ({error.strerror})") from error
