"""Dynamic allocation, with Spark's mapping and with ours, in turns.

A standalone cluster of two workers, 1 to 4 executors of one slot each, removed after 20 s idle,
all other settings Spark's own. First a backlog of 64,000 records of 1 ms each (modelled by
sleeping) over 24 partitions, 8,000 a batch, map only, from one executor: at best 8 s a batch on one
executor and 2 s on four. Then a trickle for a minute, 240 records a second: little work, but no
pause. `backlog_s` counts from the start of the query, `most_after_s` until the fourth executor is
there (as long as `backlog_s` where it never is). Medians of the runs, with the least and the most;
the picture shows the last run of each.

![Executors, and the seconds of the newest batch, over time](../images/dynamic_allocation.svg)
"""

from __future__ import annotations

import json
import os
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from tests.lab.benchmarks import allocation_run
from tests.lab.benchmarks.allocation_figures import each_second, picture
from tests.lab.benchmarks.report import FOLDER, write_report
from tests.support import drivers
from tests.support.standalone_cluster import standalone_cluster, workers

if TYPE_CHECKING:
    from streaming.kafka.embedded import EmbeddedBroker

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

REPEATS = int(os.environ.get("ASSIGNOR_BENCH_REPEATS", "2"))
PICTURE = FOLDER.parent / "images" / "dynamic_allocation.svg"
MODES: dict[str, dict[str, str]] = {
    "Spark: default": {},
    "lag-aware-sticky": {"assignor": "lag-aware-sticky"},
}


def test_one_to_four_executors(broker: EmbeddedBroker, tmp_path: Path) -> None:
    runs: dict[str, list[dict[str, Any]]] = {mode: [] for mode in MODES}
    series: dict[str, dict[str, list[float]]] = {}
    for number in range(REPEATS):
        for mode in list(MODES)[:: -1 if number % 2 else 1]:
            folder = tmp_path / f"{number}-{mode[:5]}"
            figures = measured(broker.bootstrap_servers, MODES[mode], folder)
            runs[mode].append(row_of(mode, figures))
            series[mode] = over_time(figures)
            print(mode, runs[mode][-1], flush=True)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(picture({mode: series[mode] for mode in MODES}), encoding="utf-8")
    write_report(
        "dynamic_allocation",
        title="Dynamic allocation, 1 to 4 executors",
        command="make bench",
        rows=[{"mapping": mode, "runs": REPEATS} | summary(of) for mode, of in runs.items()],
        notes=__doc__ or "",
        series=series,
    )


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the medians of all figures, and how far those of the backlog scatter."""
    row: dict[str, Any] = {name: statistics.median(r[name] for r in runs) for name in runs[0]}
    for name in ("most_after_s", "backlog_s"):
        each = [r[name] for r in runs]
        row[f"{name}_range"] = f"{min(each):.1f} to {max(each):.1f}"
    return row


def measured(servers: str, options: dict[str, str], folder: Path) -> dict[str, Any]:
    """Run one driver on a cluster of its own; the line that it prints at the end."""
    with standalone_cluster(folder / "cluster", workers(2, 2)) as cluster:
        name, given = f"allocation-{uuid4().hex[:6]}", json.dumps(options)
        done = drivers.run(allocation_run, cluster.url, servers, name, folder, given, limit_s=900)
    print(done.stdout)
    lines = drivers.parse_json_lines(done)
    [figures] = [line for line in lines if "reached_s" in line]
    return figures | {"executors": [(x["at"], x["executors"]) for x in lines if "at" in x]}


def over_time(figures: dict[str, Any]) -> dict[str, list[float]]:
    """Return what the picture shows, each second from the start of the query."""
    executors = [(at - figures["began"], number) for at, number in figures["executors"]]
    found = {"executors": executors, "batch_s": figures["newest"]}
    return {name: each_second(pairs, int(figures["end"])) for name, pairs in found.items()}


def row_of(mode: str, figures: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a run; with the option the plans must be ours."""
    if MODES[mode]:
        told = figures["metrics"]
        assert {m["assignor.strategy"] for m in told} == {"lag-aware-sticky"}
        assert {m["assignor.fallbacks"] for m in told} == {"0"}
    batches = figures["batches"]
    return {
        "most_after_s": figures["reached_s"],
        "backlog_s": figures["read_s"],
        "first_batch_s": batches[0],
        "last_batches_s_median": statistics.median(batches[-3:]),
        "executors_after_a_minute_of_trickle": figures["left"],
    }
