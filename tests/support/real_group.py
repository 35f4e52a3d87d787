"""A consumer group of real processes on the embedded broker, as the broker describes it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assignor_bridge import ivy
from assignor_bridge.jars import find_built_jar
from streaming.kafka import embedded_setup
from streaming.kafka.brokers import Brokers
from streaming.kafka.groups import describe_group, fetch_group_offsets

if TYPE_CHECKING:
    from collections.abc import Mapping

JAVA = Path(__file__).parents[1] / "java"
#: Member by name, with the names of the partitions that it owns, such as `t-0`.
Owners = dict[str, frozenset[str]]


def compile_program(folder: Path, program: str, jar: Path | None = None) -> str:
    """Compile a program of tests/java against Kafka's client and one jar of ours, without Spark."""
    jars = os.pathsep.join(map(str, [jar or find_built_jar(), *embedded_setup.fetch_jars()]))
    javac = [ivy.find_tool("javac"), "-nowarn", "-cp", jars, "-d", str(folder)]
    subprocess.run([*javac, str(JAVA / f"{program}.java")], check=True)
    return f"{folder}{os.pathsep}{jars}"


class Process:
    """One member; its events are read as it prints them."""

    def __init__(self, command: list[str]) -> None:
        self.events: list[dict[str, Any]] = []
        self._words: list[str] = []
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed by `end`)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    def state(self) -> str:
        """Return what is known of it when something went wrong; a JVM prints its threads."""
        if "GroupMember" in self.process.args:
            self.process.send_signal(signal.SIGQUIT)
            time.sleep(1)
        words = "\n".join(self._words[-200:])
        return f"{self.process.poll()}, {self.events[-5:]}, {self.errors()[-1500:]}, {words}"

    def end(self, *, kill: bool = False) -> None:
        assert self.process.stdin
        assert self.process.stdout
        if kill:
            self.process.kill()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(30)
        finally:
            self.process.kill()
            self.process.wait()
            self._reader.join(10)
            self.process.stdout.close()
            self._errors.close()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith("{"):
                self.events.append(json.loads(line))
            else:
                self._words.append(line.rstrip())


class RealGroup:
    """A group whose members join, leave, stop and are killed; ends them with the `with` block."""

    def __init__(
        self, bootstrap: str, name: str, topics: Mapping[str, int], java: str = "", **settings: Any
    ) -> None:
        self.name = name
        self.topics = dict(topics)
        self.members: dict[str, Process] = {}
        self.gone: dict[str, Process] = {}
        self.brokers = Brokers({"bootstrap.servers": bootstrap}, limit_s=30)
        # Waits for the coordinator of a new broker, unlike `describe`.
        fetch_group_offsets(self.brokers, name)
        self._java = java
        self._settings = {
            "bootstrap": bootstrap, "group": name, "topics": sorted(topics), "session_ms": 5000,
            **settings,
        }  # fmt: skip

    def __enter__(self) -> RealGroup:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.members.values():
            process.process.send_signal(signal.SIGCONT)
            process.end(kill=True)

    def add(self, name: str, *strategies: str, **settings: Any) -> None:
        """Start a member: of the JVM if its strategies are names of Java classes.

        Without strategies, it is one of the JVM with `group.protocol=consumer` (KIP-848).
        """
        about = json.dumps({**self._settings, "name": name, "strategies": strategies, **settings})
        if not strategies or strategies[0].startswith(("org.", "io.")):
            quick = ["-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
            quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
            command = [ivy.find_tool("java"), *quick, quiet, "-cp", self._java, "GroupMember"]
        else:
            command = [sys.executable, "-m", "tests.support.group_member"]
        self.members[name] = Process([*command, about])

    def leave(self, name: str) -> None:
        self._end(name)

    def kill(self, name: str) -> None:
        self._end(name, kill=True)

    def signal(self, name: str, number: signal.Signals) -> None:
        self.members[name].process.send_signal(number)

    def ids(self) -> dict[str, str]:
        """Member id, as the broker gave it, by name."""
        described = describe_group(self.brokers, self.name)
        return {m.client_id: m.member_id for m in described.members} if described else {}

    def wait_until_stable(self, *, without: str = "", timeout_s: float = 90) -> Owners:
        """Wait until the broker's description has exactly the members, with all partitions.

        Each partition has to have one owner, and the description has to stay for half a second.
        """
        expected = self.members.keys() - {without}
        deadline, since, before = time.monotonic() + timeout_s, 0.0, None
        while True:
            described = describe_group(self.brokers, self.name)
            members = described.members if described else []
            owners = {
                m.client_id: [f"{p.topic}-{p.partition}" for p in m.assignment.topic_partitions]
                for m in members
            }
            state = described.state.name if described else "none"
            is_whole = (
                state == "STABLE"
                and owners.keys() == expected
                and len(members) == len(expected)
                and Counter(p for owned in owners.values() for p in owned) == self._partitions()
            )
            now = (is_whole, {name: frozenset(owned) for name, owned in owners.items()})
            if now != before:
                before, since = now, time.monotonic()
            elif is_whole and time.monotonic() - since > 0.5:
                return now[1]
            if time.monotonic() > deadline:
                states = {n: p.state() for n, p in self.members.items()}
                raise AssertionError(f"{self.name}: {state}, {owners}, {states}")
            time.sleep(0.05)

    def _partitions(self) -> Counter[str]:
        return Counter(f"{t}-{p}" for t, count in self.topics.items() for p in range(count))

    def _end(self, name: str, *, kill: bool = False) -> None:
        process = self.gone[name] = self.members.pop(name)
        process.end(kill=kill)


def count_moved(before: Owners, after: Owners) -> int:
    """Count the partitions that left a member which is still there."""
    return sum(len(owned - after[name]) for name, owned in before.items() if name in after)


def count_fewest_moves(before: Owners, after: Owners) -> int:
    """Count how many partitions must leave the members that stay, so that counts are even."""
    total = sum(map(len, after.values()))
    floor, extra = divmod(total, len(after))
    counts = sorted((len(owned) for name, owned in before.items() if name in after), reverse=True)
    return sum(max(count - floor - (i < extra), 0) for i, count in enumerate(counts))
