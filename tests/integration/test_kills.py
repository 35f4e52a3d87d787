"""Kill -9 of a driver and of its executors at any moment of a batch: nothing lost, nothing twice.

What is checked after each kill, and how a query is added, is told in `tests/kills.py` and
`tests/kill_driver.py`.
"""

from __future__ import annotations

import os
import time
import uuid
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.report import write_report
from tests.kills import MOMENTS, Place, Report, kill_often

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka_topics import Topic


def killed(topic: Topic, folder: Path, query: str, kills: int, seed: int) -> Report:
    group = f"kills-{uuid.uuid4().hex[:6]}"
    place = Place(topic.bootstrap_servers, topic.name, group, str(folder), query)
    report = kill_often(place, topic, kills, seed)
    print(report)
    assert report.kills == kills
    return report


@pytest.mark.integration
@pytest.mark.kills
@pytest.mark.timeout(1200)
def test_each_row_is_there_once_after_a_kill_at_each_moment(topic: Topic, tmp_path: Path) -> None:
    report = killed(topic, tmp_path, "append", len(MOMENTS), seed=7)
    assert set(report.moments) == {moment.name for moment in MOMENTS}


@pytest.mark.chaos
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("query", ["append"])
def test_many_kills(topic: Topic, tmp_path: Path, query: str) -> None:
    seed = int(os.environ.get("SEED") or time.time())
    report = killed(topic, tmp_path, query, int(os.environ.get("KILLS") or 200), seed)
    assert sum(report.moved.values()) >= report.kills // 10  # first plans that were looked at
    write_report(
        f"kills_{query}",
        title=f"Kill -9 at random moments: the query '{query}'",
        command=f"make chaos KILLS={report.kills} SEED={seed}",
        rows=[{"moment": name, "kills": n} for name, n in sorted(report.moments.items())],
        notes=f"""{__doc__}
All {report.kills} kills passed in {report.seconds:.0f} s. `executor` kills one of two
executors, the others the driver with all its processes. As told by the files, these hit
{dict(report.hits)}. Partitions (of 40) that the first plan after a restart moved, by number of
restarts: {dict(report.moved)}.""",
    )
