"""Seconds from the start of a process to the first commit of its rows in a Delta table.

Each process starts Spark on two local cores and reads the same small topic. The ways take turns;
packages are in Ivy's cache. Plain Spark has the Kafka connector and Delta as packages.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from tests.lab.benchmarks.report import ROOT, write_report
from tests.lab.benchmarks.turns import SCALE, in_turn
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from streaming.kafka.embedded import EmbeddedBroker

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

PLAIN, OPTION, JOB = "plain Spark", "a writeStream with the option", "assignor run"
ROUNDS = max(1, int(6 * SCALE))


def test_the_first_commit(broker: EmbeddedBroker, tmp_path: Path) -> None:
    topic = Topic(broker.bootstrap_servers, f"start-{uuid4().hex[:6]}").create(4)
    topic.fill([10] * 4)
    seconds: dict[str, list[float]] = {PLAIN: [], OPTION: [], JOB: []}
    for number in range(ROUNDS + 1):
        for way in in_turn(list(seconds), number):
            took = _seconds(way, topic, tmp_path / f"{number}-{list(seconds).index(way)}")
            if number:  # the first round fills the caches of files
                seconds[way].append(took)
    rows: list[dict[str, Any]] = [
        {
            "way": way,
            "first_commit_s_median": statistics.median(each),
            "first_commit_s_min": min(each),
            "first_commit_s_max": max(each),
            "more_than_plain_s": statistics.median(
                a - b for a, b in zip(each, seconds[PLAIN], strict=True)
            ),
            "rounds": len(each),
        }
        for way, each in seconds.items()
    ]
    print(*rows, sep="\n")
    if SCALE == 1:
        write_report(
            "start", title="From the start of a process to its first commit", command="make bench",
            rows=rows, notes=__doc__ or "",
        )  # fmt: skip


def _seconds(way: str, topic: Topic, folder: Path) -> float:
    folder.mkdir()
    started = time.monotonic()
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            _command(way, topic, folder), cwd=ROOT, stdout=log, stderr=log,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        )  # fmt: skip

    def has_rows() -> bool:
        assert process.poll() in (None, 0), (folder / "log").read_text()[-2000:]
        commits = (folder / "table" / "_delta_log").glob("*.json")
        return any('"add"' in file.read_text() for file in commits)

    wait_until(has_rows, f"rows by {way}", 180)
    took = time.monotonic() - started
    assert process.wait(120) == 0
    return took


def _command(way: str, topic: Topic, folder: Path) -> list[str]:
    if way == JOB:
        job = {
            "source": {
                "kafka.bootstrap.servers": topic.bootstrap_servers,
                "subscribe": topic.name,
                "records": {"format": "raw"},
            },
            "sink": {"path": str(folder / "table")},
            "checkpoint": str(folder / "checkpoint"),
            "spark": {"spark.master": "local[2]"},
        }
        (folder / "job.yaml").write_text(json.dumps(job))
        return [str(Path(sys.executable).with_name("assignor")), "run", str(folder / "job.yaml")]
    own = ["lag-aware-sticky"] if way == OPTION else []
    place = [topic.bootstrap_servers, topic.name, str(folder)]
    return [sys.executable, "-m", "tests.lab.benchmarks.start_program", *place, *own]
