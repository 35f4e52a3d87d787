"""What is shown on stderr while something slow goes on; silent where stderr is no terminal."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def fetching(what: str, console: Console | None = None) -> Iterator[Callable[[str], None]]:
    """Show a spinner; the given function takes the lines of Ivy and counts downloads.

    Examples
    --------
    >>> with fetching("Kafka broker") as on_line:
    ...     on_line("[SUCCESSFUL ] org.apache.kafka#kafka-clients;4.1.0!kafka-clients.jar (90ms)")
    """
    stderr = console or Console(stderr=True)
    count = 0
    with stderr.status(f"{what}: starting") as status:

        def on_line(line: str) -> None:
            nonlocal count
            if "[SUCCESSFUL ]" in line:
                count += 1
                status.update(f"{what}: {count} jars fetched (once; they are kept)")
            elif count == 0:
                status.update(f"{what}: fetching jars")

        yield on_line
