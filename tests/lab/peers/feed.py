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

if TYPE_CHECKING:
    from types import TracebackType

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


class Feed:
    """A producer; as a context manager, it ends with the block."""

    def __init__(self, topic: Topic, partitions: int, zipf: float) -> None:
        arguments = [topic.bootstrap_servers, topic.name, str(partitions), str(zipf)]
        command = [ivy.find_tool("java"), "-Xms256m", "-Xmx256m", "-XX:+UseSerialGC"]
        command.append("-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
        self._process = subprocess.Popen(
            [*command, "-cp", _compile(), "Feed", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def set_rate(self, records_per_second: int) -> Produced:
        """Produce at this rate from now on; with 0, return once the broker has all records."""
        return self._command(f"rate {records_per_second}")

    def burst(self, records: int) -> Produced:
        """Produce a number of records as fast as possible; return once the broker has them."""
        return self._command(f"burst {records}")

    def end(self) -> Produced:
        """Stop; return once the broker has all records."""
        return self._command("end")

    def __enter__(self) -> Feed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._process.kill()
        self._process.communicate()

    def _command(self, line: str) -> Produced:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the producer ended with exit code {self._process.wait()}"
        fields: dict[str, Any] = json.loads(answer)
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
