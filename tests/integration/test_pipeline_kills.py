"""An upsert whose driver and executors are killed at random moments: the table stays right."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.pipeline_tools import job, send

if TYPE_CHECKING:
    from tests.kafka_topics import Topic

Record = tuple[str, str]
Row = list[Any]


class Driver:
    """The process group of a driver and its executors."""

    def __init__(self, config: Path, folder: Path) -> None:
        self._log = folder.with_suffix(".log")
        words = [sys.executable, "-m", "tests.upsert_driver", str(config), str(folder)]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                words,
                env=os.environ
                | {
                    "PYTHONPATH": str(Path(__file__).parents[2]),
                    # Starts are most of the time here.
                    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._answer("RUNNING")

    def rows(self) -> list[Row]:
        """Let it read all there is, and give the table."""
        self.tell("drain")
        rows: list[Row] = json.loads(self._answer("ROWS "))
        return rows

    def tell(self, command: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe
            pipe.close()

    def _answer(self, beginning: str) -> str:
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith(beginning):
                return line.removeprefix(beginning)
        raise AssertionError(self._log.read_text()[-3000:])


def records(draw: random.Random, count: int, sequence: int) -> list[Record]:
    """Changes of few keys: late ones, repeated ones, every eighth a delete."""
    made = []
    for number in range(count):
        seq = max(0, sequence + number - draw.choice([0, 0, 0, 5, 40, 200]))
        name = "gone" if draw.random() < 0.125 else f"n{draw.randrange(10**6)}"
        key = draw.randrange(40)
        made.append((str(key), json.dumps({"id": key, "seq": seq, "name": name})))
        if draw.random() < 0.2:
            made.append(draw.choice(made))
    return made


def reference(sent: list[Record]) -> list[Row]:
    """Of each key the record of the greatest seq, of equal ones the last that was sent."""
    newest: dict[int, tuple[int, int, str]] = {}
    for number, (_, text) in enumerate(sent):
        read = json.loads(text)
        version = (read["seq"], number, read["name"])
        newest[read["id"]] = max(version, newest.get(read["id"], version))
    return [[key, seq, name, name == "gone"] for key, (seq, _, name) in sorted(newest.items())]


def run_with_kills(topic: Topic, folder: Path, kills: list[str], seed: int) -> None:
    draw = random.Random(seed)
    topic.create(3)
    config = job(
        topic, folder, mode="upsert", keys="id", sequence_by="seq", delete_when="name = 'gone'",
        deletes="mark",
    ) | {"trigger": "100 milliseconds"}  # fmt: skip
    config["source"]["maxOffsetsPerTrigger"] = 60
    (folder / "job.yaml").write_bytes(orjson.dumps(config))
    sent: list[Record] = []
    starts = 1
    driver = Driver(folder / "job.yaml", folder / "driver1")
    try:
        for number, kill in enumerate(kills):
            more = records(draw, 120, 100 * number)
            sent += more
            send(topic, more)
            time.sleep(draw.uniform(0.0, 2.5))  # the random moment
            if kill == "driver":
                driver.kill()
                starts += 1
                driver = Driver(folder / "job.yaml", folder / f"driver{starts}")
            else:
                driver.tell("executor")
            assert driver.rows() == reference(sent), f"after kill {number}: {kill}"
    finally:
        driver.kill()


@pytest.mark.integration
@pytest.mark.kills
@pytest.mark.timeout(1200)
def test_the_table_equals_the_reference_after_each_kill(topic, tmp_path):
    kills = ["executor", "driver", "executor"]
    run_with_kills(topic, tmp_path, kills, seed=8)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_the_table_equals_the_reference_after_each_of_50_kills(topic, tmp_path):
    draw = random.Random(50)
    kills = [draw.choice(["driver", "executor", "executor"]) for _ in range(50)]
    run_with_kills(topic, tmp_path, kills, seed=50)
