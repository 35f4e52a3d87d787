"""The producer of `Feed.java` as a process: its rate is set while it runs."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assignor_bridge import ivy
from streaming.kafka import embedded_setup
from tests.lab.peers.environments import BUILD
from tests.support.line_process import LineProcess

if TYPE_CHECKING:
    from tests.support.kafka_topics import Topic

_SOURCE = Path(__file__).with_name("Feed.java")


@dataclass(frozen=True)
class Produced:
    """What a producer has produced when it answers a command."""

    #: Records since its start.
    records: int
    #: Largest delay behind its rate, in seconds.
    behind_s: float
    #: Its clock, in milliseconds since 1970.
    now_ms: int


class Feed(LineProcess):
    """A producer; as a context manager, it ends with the block."""

    def __init__(self, topic: Topic, partitions: int, zipf: float) -> None:
        arguments = [topic.bootstrap_servers, topic.name, str(partitions), str(zipf)]
        command = [ivy.find_tool("java"), "-Xms256m", "-Xmx256m", "-XX:+UseSerialGC"]
        command.append("-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
        super().__init__([*command, "-cp", _compile(), "Feed", *arguments])

    def set_rate(self, records_per_second: int) -> Produced:
        """Produce at this rate from now on; with 0, return once the broker has all records."""
        return self._request(f"rate {records_per_second}")

    def burst(self, records: int) -> Produced:
        """Produce a number of records as fast as possible; return once the broker has them."""
        return self._request(f"burst {records}")

    def end(self) -> Produced:
        """Stop; return once the broker has all records."""
        return self._request("end")

    def _request(self, line: str) -> Produced:
        fields: dict[str, Any] = json.loads(self.ask(line))
        return Produced(**fields)


def _compile() -> str:
    """Return the class path of the producer; compile it if its source has changed."""
    jars = os.pathsep.join(map(str, embedded_setup.fetch_jars()))
    folder = BUILD / "feed"
    compiled = folder / "Feed.class"
    if not compiled.exists() or compiled.stat().st_mtime < _SOURCE.stat().st_mtime:
        folder.mkdir(parents=True, exist_ok=True)
        command = [ivy.find_tool("javac"), "-cp", jars, "-d", str(folder), str(_SOURCE)]
        subprocess.run(command, check=True)
    return f"{folder}{os.pathsep}{jars}"
