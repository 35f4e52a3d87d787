"""Kafka's own assignors, asked through a small Java program: one line of JSON in, one out."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assignor_bridge import ivy
from assignor_bridge.assignors import Group, Member, lookup

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

#: Which Kafka answers.
KAFKA = "4.1.0"
#: The last whose `uniform` looked at racks, and what that needs of it.
RACK_AWARE = [
    f"org.apache.kafka:{artifact}:3.7.2"
    for artifact in ("kafka-group-coordinator", "kafka-clients", "kafka-server-common")
]


class Oracle:
    """A JVM with Kafka's classes; ends with the `with` block."""

    def __init__(
        self,
        *,
        heap_mb: int = 512,
        program: str = "KafkaAssignors.java",
        first: Iterable[str] = (),
    ) -> None:
        """Start a program with Kafka's jars, before them those of other coordinates."""
        older = [jar for one in first for jar in ivy.fetch(one, transitive=False)]
        jars = [*older, *ivy.fetch(f"org.apache.kafka:kafka_2.13:{KAFKA}")]
        self._process = subprocess.Popen(
            [
                ivy.find_tool("java"), f"-Xmx{heap_mb}m", "-XX:+UseSerialGC",
                "-Dorg.apache.logging.log4j.level=OFF", "-Dlog4j2.statusLoggerLevel=OFF",
                "-cp", ":".join(map(str, jars)), str(Path(__file__).with_name(program)),
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, encoding="utf-8",
        )  # fmt: skip

    def __enter__(self) -> Oracle:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the oracle ended with {self._process.wait(timeout=10)}"
        answer: dict[str, Any] = json.loads(line)
        assert "error" not in answer, answer
        return answer

    def assign(self, assignor: str, group: Group) -> dict[str, dict[str, list[int]]]:
        """Ask Kafka's assignor; claims travel as our own bytes and as the newer fields."""
        racks = {
            t: {str(p): sorted(r) for p, r in of_topic.items()}
            for t, of_topic in group.partition_racks.items()
        }
        answer = self.ask(
            op="assign",
            assignor=assignor,
            topics=dict(group.topics),
            racks=racks,
            members={m.id: _described(m, lookup(assignor).user_data(m)) for m in group.members},
        )
        assignment: dict[str, dict[str, list[int]]] = answer["assignment"]
        return assignment


def _described(member: Member, data: bytes | None) -> dict[str, Any]:
    return {
        "topics": sorted(member.topics),
        "owned": {t: list(ps) for t, ps in member.owned.items()},
        "generation": -1 if member.generation is None else member.generation,
        "rack": member.rack,
        "instance": member.instance,
        "user_data": None if data is None else base64.b64encode(data).decode(),
    }
