"""Kill -9 of a driver and of its executors at any moment of a batch: nothing lost, nothing twice.

One driver runs an append and an upsert; what is checked after each kill is told in `tests/kills`.
"""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.report import commit, write_report
from tests.kills.checks import AFTER
from tests.kills.places import UPSERT, Place
from tests.kills.report import Report
from tests.kills.run import ROUND, kill_often

if TYPE_CHECKING:
    from tests.kafka_topics import Topic

#: Each line is a finished run of `make chaos`.
_RUNS = Path(__file__).parents[2] / "build" / "kills"


def killed(topic: Topic, folder: Path, kills: int, seed: int, limit_s: float) -> Report:
    group = f"kills-{uuid.uuid4().hex[:6]}"
    place = Place(topic.bootstrap_servers, topic.name, group, str(folder))
    report = kill_often(place, topic, kills, seed, time.monotonic() + limit_s)
    print(report)
    return report


@pytest.mark.integration
@pytest.mark.kills
@pytest.mark.timeout(2400)
def test_tables_are_right_after_a_kill_at_each_moment(topic: Topic, tmp_path: Path) -> None:
    report = killed(topic, tmp_path, len(ROUND), seed=7, limit_s=float("inf"))
    assert {(kill.moment, kill.query) for kill in report.kills} == {(m.name, q) for m, q in ROUND}
    assert report.driver_kills == 10
    hits = report.hits(UPSERT)
    assert hits.total() - hits[AFTER] >= 5, f"few kills hit the upsert within a batch: {hits}"


@pytest.mark.chaos
@pytest.mark.timeout(6 * 3600)
def test_many_kills(topic: Topic, tmp_path: Path) -> None:
    """A long run can be made in pieces: what was run before at this commit is added up."""
    seed = int(os.environ.get("SEED") or time.time())
    kills = int(os.environ.get("KILLS") or 240)
    limit_s = float(os.environ.get("LIMIT_S") or "inf")
    report = killed(topic, tmp_path, kills, seed, limit_s)
    runs = _RUNS / f"{commit().removesuffix('+')}.jsonl"  # the report itself makes the tree dirty
    runs.parent.mkdir(parents=True, exist_ok=True)
    with runs.open("a") as file:
        file.write(report.to_json() + "\n")
    total = Report.of(map(Report.from_json, runs.read_text().splitlines()))
    write_report(
        "kills",
        title="Kill -9 at random moments of a batch",
        command=f"make chaos KILLS={kills} SEED={'|'.join(map(str, total.seeds))}",
        rows=total.rows(),
        notes=f"""{__doc__}
All passed: {total}

A kill is made once something of a batch of one query has appeared (its offsets: planning, reading;
a data file: writing; a Delta commit: commit log; Spark's commit: state and group), and a random
time later. The table tells where it found the batches of both queries, by their files: before
Delta's commit, after it and before Spark's commit log, or after that.""",
    )
