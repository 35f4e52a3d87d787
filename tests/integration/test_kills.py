"""Kill -9 of a driver and of its executors at any moment of a batch: nothing lost, nothing twice.

One driver runs an append and an upsert; `tests/lab/kills` describes the checks after each kill.
"""

from __future__ import annotations

import os
import random
import time
import uuid
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lab.benchmarks.report import commit, write_report
from tests.lab.kills.checks import AFTER
from tests.lab.kills.places import ALIGNED, APPEND, LIMITED, LOCAL, TWO_EXECUTORS, UPSERT, Place
from tests.lab.kills.report import Report
from tests.lab.kills.run import ROUND, kill_often, rounds

if TYPE_CHECKING:
    from tests.support.kafka_topics import Topic

#: Each line is a finished run of `make chaos`.
_RUNS = Path(__file__).parents[2] / "build" / "kills"
#: What `make test` has time for: a driver alone, which starts in half the time.
_QUICK = {("commit log", UPSERT)}
#: A driver and an executor, and further ones, are killed on executors.
_EXECUTORS = {("commit log", UPSERT), ("executor", APPEND)}
_MORE_EXECUTORS = {("state and group", APPEND), ("executor", UPSERT)}
_ALONE = {(moment.name, query) for moment, query in ROUND} - _EXECUTORS - _MORE_EXECUTORS
#: These with limited batches.
_LIMITED = {("reading", UPSERT), ("executor", APPEND)}


def place(topic: Topic, folder: Path, master: str, limits: dict[str, str] | None = None) -> Place:
    group = f"kills-{uuid.uuid4().hex[:6]}"
    return Place(topic.bootstrap_servers, topic.name, group, str(folder), master, limits or {})


@pytest.mark.integration
@pytest.mark.kills
@pytest.mark.timeout(2400)
@pytest.mark.parametrize(
    ("master", "moments", "driver_kills"),
    [
        pytest.param(LOCAL, _QUICK, 1, id="driver"),
        pytest.param(TWO_EXECUTORS, _EXECUTORS, 1, id="executors", marks=pytest.mark.long),
        pytest.param(
            TWO_EXECUTORS, _MORE_EXECUTORS, 1, id="more executors", marks=pytest.mark.long
        ),
        pytest.param(LOCAL, _ALONE, 8, id="local", marks=pytest.mark.long),
    ],
)
def test_tables_are_right_after_a_kill_at_each_moment(
    topic: Topic, tmp_path: Path, master: str, moments: set[tuple[str, str]], driver_kills: int
) -> None:
    chosen = [(moment, query) for moment, query in ROUND if (moment.name, query) in moments]
    random.Random(7).shuffle(chosen)
    report = kill_often(place(topic, tmp_path, master), topic, chosen, seed=7)
    print(report)
    assert report.driver_kills == driver_kills
    within = report.driver_kills - report.hits(UPSERT)[AFTER]
    assert within >= report.driver_kills // 2, f"few kills hit the upsert in a batch: {report}"


@pytest.mark.integration
@pytest.mark.kills
@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "limits", [pytest.param(LIMITED, id="even"), pytest.param(ALIGNED, id="deadline-aligned")]
)
def test_tables_are_right_after_kills_of_limited_batches(
    topic: Topic, tmp_path: Path, limits: dict[str, str]
) -> None:
    """The planner says how far batches go, and holds records back; each is read once even so."""
    chosen = [(moment, query) for moment, query in ROUND if (moment.name, query) in _LIMITED]
    report = kill_often(place(topic, tmp_path, TWO_EXECUTORS, limits), topic, chosen, seed=7)
    print(report)
    assert [kill.limited for kill in report.kills] == [True, True]
    assert report.driver_kills == 1


@pytest.mark.chaos
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize(
    ("master", "limits"),
    [
        pytest.param(TWO_EXECUTORS, {}, id="executors"),
        pytest.param(LOCAL, {}, id="local"),
        pytest.param(TWO_EXECUTORS, LIMITED, id="limited"),
        pytest.param(TWO_EXECUTORS, ALIGNED, id="aligned"),
    ],
)
def test_many_kills(topic: Topic, tmp_path: Path, master: str, limits: dict[str, str]) -> None:
    """A long run can be made in pieces: what was run before at this commit is added up."""
    seed = int(os.environ.get("SEED") or time.time())
    kills = int(os.environ.get("KILLS") or 80)
    report = kill_often(
        place(topic, tmp_path, master, limits),
        topic,
        islice(rounds(master, seed), kills),
        seed,
        float(os.environ.get("LIMIT_S") or "inf"),
    )
    runs = _RUNS / f"{commit().removesuffix('+')}.jsonl"  # the report itself makes the tree dirty
    runs.parent.mkdir(parents=True, exist_ok=True)
    with runs.open("a") as file:
        file.write(report.to_json() + "\n")
    total = Report.of(map(Report.from_json, runs.read_text().splitlines()))
    print(total)
    write_report(
        "kills",
        title="Kill -9 at random moments of a batch",
        command=f"make chaos KILLS={kills} SEED={'|'.join(map(str, total.seeds))}",
        rows=total.rows(),
        notes=f"""{__doc__}
All passed: {total}

A kill is made once something of a batch of one query has appeared (its offsets or its plan:
planning, reading; a data file: writing; a Delta commit: commit log; Spark's commit: state and
group), and a random time later. The table tells where it found the batches of both queries, by
their files: before Delta's commit, after it and before Spark's commit log, or after that.""",
    )
