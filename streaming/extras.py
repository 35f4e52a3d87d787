"""Map optional packages to the extras that install them, and report missing packages."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from assignor_bridge.errors import AssignorError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Extra that installs each package, by the package's import name.
EXTRA_BY_PACKAGE = {
    "confluent_kafka": "cli",
    "delta": "delta",
    "prometheus_client": "cli",
    "pydantic": "cli",
    "rich": "cli",
    "typer": "cli",
    "yaml": "cli",
}


class MissingExtraError(AssignorError, ImportError):
    """A package that an extra installs is missing."""


@contextlib.contextmanager
def explain_missing_extra() -> Iterator[None]:
    """If an optional package cannot be imported, raise MissingExtraError with its extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA_BY_PACKAGE:
            raise
        command = format_install_command(EXTRA_BY_PACKAGE[package])
        raise MissingExtraError(f"the package {package!r} is not installed: {command}") from error


def format_install_command(extra: str) -> str:
    """Return the command that installs an extra without replacing pyspark.

    >>> format_install_command("cli")
    "pip install 'assignor-bridge[cli]'"
    """
    command = f"pip install 'assignor-bridge[{extra}]'"
    if extra == "delta":  # pip would upgrade pyspark to the newest that delta-spark allows
        from assignor_bridge.installed_spark import spark_version
        from streaming.delta.spark_settings import DELTA_VERSION

        command += f" 'delta-spark=={DELTA_VERSION}' 'pyspark=={spark_version()}'"
    return command
