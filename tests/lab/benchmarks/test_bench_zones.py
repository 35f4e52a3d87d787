"""Which bytes cross zones: Spark's own mapping and ours, in the same driver, by turns first.

Three brokers in three racks with Kafka's rack-aware replica selector (KIP-392), and a standalone
cluster of three workers in the same racks, one executor of one slot each. Twelve partitions, on
one, two and three replicas; before each batch 1,200 records of 4 KB are written, of 1 ms each to
process (modelled by sleeping), so that no batch can take less than 0.4 s. With three replicas
partitions have lags by Zipf's law (0.8). With fewer, zones are uneven: with two, eight of ten
records are in partitions that have no replica in `c`; with one, six of ten are in partitions of
`a`. Spark has `kafka.fetch.max.wait.ms=1`; all other settings of the source are its own.

`phase`: all executors, without the one in `a`, and when it is back; ten batches each, of which the
first four are left out. `batch KB` is how much a producer's batch holds at most, `backlog` whether
all records were there before the first batch, which is of 1,200 records all the same.

`share` is what share of the bytes came from brokers in another rack than the reader, as Kafka's
consumers count it, read over JMX for both mappings alike (with a backlog by our own metrics: those
of Kafka's have no pause in which to be read). `least` is what share of the records has to be read
in another rack if no slot is more than 5% above its share of them: a flow bound. `planned` is the
share of the records that our plans read in another rack, `imbalance` the most that a plan predicts.
Times are of whole batches, in seconds.

`ASSIGNOR_BENCH_SCALE=0.1` tries it with two batches each, and writes nothing.
"""

from __future__ import annotations

import json
import os
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.benchmarks.report import write_report
from tests.lab.benchmarks.tuned_spark import SHORT_WAIT
from tests.lab.benchmarks.turns import in_turn
from tests.lab.long.test_zones import (
    OPTIONS,
    RACK_OF_HOST,
    RACKS,
    Lines,
    Replicas,
    a_run,
    assert_ours,
    by_phase,
    created,
    crossed,
    imbalance,
    least_share,
    planned_share,
    run_driver,
    share_by_kafka,
    uneven,
)
from tests.lab.long.zones_driver import USUAL_BATCH, WARM_UP
from tests.support.broker_cluster import NEAREST_REPLICA, BrokerCluster
from tests.support.standalone_cluster import standalone_cluster, workers
from tests.support.strategies_snapshots import generate_lags

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

SCALE = float(os.environ.get("ASSIGNOR_BENCH_SCALE", "1"))  # below 1: does it run? writes nothing
BATCHES, A_BATCH, PARTITIONS = max(2, int(6 * SCALE)), 1_200, 12
LARGE_BATCH = 500_000
WAYS: dict[str, dict[str, str]] = {"Spark": dict(SHORT_WAIT), "ours": OPTIONS}


def test_zones(tmp_path: Path) -> None:
    rows = []
    with (
        BrokerCluster(RACKS, NEAREST_REPLICA) as brokers,
        standalone_cluster(tmp_path / "cluster", workers(1, 1, 1, racks=RACKS)) as cluster,
    ):
        runs: list[dict[str, Any]] = []
        where: list[Replicas] = []

        def add(way: str, replication: int, **more: object) -> None:
            topic, replicas = created(brokers, replication, PARTITIONS)
            everywhere = replication == len(RACKS)
            each = (
                generate_lags("zipf-0.8", PARTITIONS, A_BATCH)
                if everywhere
                else uneven(replicas, A_BATCH)
            )
            options = dict(WAYS[way])
            if "behind" in more:
                options["maxOffsetsPerTrigger"] = str(sum(each))
            runs.append(a_run(topic, each, options, batches=BATCHES, way=way, **more))
            where.append(replicas)

        for replication in (1, 2, 3):
            for way in in_turn(list(WAYS), replication):
                add(way, replication, loses=True)
        add("ours", 1, producer=LARGE_BATCH)
        add("ours", 1, behind=WARM_UP + 3 * BATCHES)
        told = run_driver(cluster.url, brokers.bootstrap_servers, tmp_path / "driver", runs)
        for run, lines, replicas in zip(runs, told, where, strict=True):
            for row in rows_of(run, lines, replicas):
                print(json.dumps(row), flush=True)
                rows.append(row)
    if SCALE == 1:
        write_report(
            "zones", title="Bytes across zones", rows=rows, notes=__doc__ or "",
            command="make bench (tests/lab/benchmarks/test_bench_zones.py)",
        )  # fmt: skip


def rows_of(run: dict[str, Any], lines: Lines, replicas: Replicas) -> list[dict[str, Any]]:
    """One line of the table for each phase; with the option the plans must be ours."""
    ours = run["way"] == "ours"
    if ours:
        assert_ours(lines)
    rows = []
    for phase, told in by_phase(lines).items():
        batches = told[WARM_UP:]
        lost = RACK_OF_HOST[phase.split()[-1]] if phase.startswith("without") else ""
        seconds = [line["seconds"] for line in batches]
        share = crossed(told) if run.get("behind") else share_by_kafka(lines, phase)
        rows.append(
            {
                "replicas": len(replicas[0]),
                "mapping": run["way"],
                "phase": f"without {lost}" if lost else phase,
                "batch KB": run.get("producer", USUAL_BATCH) // 1000,
                "backlog": "yes" if run.get("behind") else "no",
                "share": share,
                "least": least_share(told, replicas, lost),
                "planned": planned_share(told) if ours else "",
                "imbalance": max(map(imbalance, batches)) if ours else "",
                "batches": len(batches),
                "p50 s": median(seconds),
                "most s": max(seconds),
            }
        )
    return rows
