"""How long `assignor lag` takes over 10,000 partitions that all lag.

The whole command as a process of its own, from the start of Python (with its compiled files, as
after a first start) to its end, beside its broker on one machine. `with_seconds` counts the rows
whose SECONDS-BEHIND is known: one record of each partition is read for it. `cpu_seconds` are those
of the command alone, without the broker. The limit is 5 s.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.benchmarks.report import write_report
from tests.unit.lag.checkpoint_files import write_query

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.kafka_topics import Topic

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

PARTITIONS = 10_000
RECORDS = 10
ALLOWED_S = 5.0
RUNS = 5


def test_lag_over_ten_thousand_partitions(topic: Topic, tmp_path: Path) -> None:
    topic.create(PARTITIONS).fill([RECORDS] * PARTITIONS)
    read = dict.fromkeys(range(PARTITIONS), 1)
    topic.commit("bench", read)
    query = write_query(tmp_path / "query", {topic.name: read})
    cases = {
        "a group": ["--group", "bench"],
        "a group, as JSON": ["--group", "bench", "--json"],
        "a group, no record read": ["--group", "bench", "--seconds-limit", "0"],
        "a query's checkpoint": ["--checkpoint", query],
    }
    rows = [measured(name, words, topic) for name, words in cases.items()]
    write_report(
        "lag",
        title="assignor lag over 10,000 partitions",
        command="make bench (tests/lab/benchmarks/test_bench_lag.py)",
        rows=rows,
        notes=(__doc__ or "").split("\n", 2)[2],
    )
    print(json.dumps(rows, indent=2))


def measured(name: str, words: list[str], topic: Topic) -> dict[str, Any]:
    """Run one command after a first run that warms the broker."""
    command = [
        sys.executable, "-m", "streaming.cli.main", "lag", *words,
        "--bootstrap-server", topic.bootstrap_servers,
    ]  # fmt: skip
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    took_s, cpu_s, known = [], [], []
    for _ in range(RUNS + 1):
        begin, worked = time.monotonic(), children_cpu_s()
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=kept)
        took_s.append(time.monotonic() - begin)
        cpu_s.append(children_cpu_s() - worked)
        known.append(with_seconds(done.stdout))
    return {
        "of": name,
        "partitions": PARTITIONS,
        "seconds_median": statistics.median(took_s[1:]),
        "seconds_min": min(took_s[1:]),
        "seconds_max": max(took_s[1:]),
        "cpu_seconds_median": statistics.median(cpu_s[1:]),
        "allowed_s": ALLOWED_S,
        "with_seconds": min(known[1:]),
        "runs": RUNS,
    }


def children_cpu_s() -> float:
    """Give the time that processors worked for processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def with_seconds(out: str) -> int:
    """Count rows that tell how many seconds they are behind."""
    if out.startswith("{"):
        rows = json.loads(out)["partitions"]
        return sum(row["seconds_behind"] is not None for row in rows)
    table = out.partition("\n\n")[0].splitlines()[1:]
    return sum(line.split()[10] != "-" for line in table)
