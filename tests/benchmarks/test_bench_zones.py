"""Which bytes cross zones: Spark's own mapping and ours, in the same driver, one after the other.

Three brokers in three racks with Kafka's rack-aware replica selector (KIP-392), and a standalone
cluster of three workers in the same racks, one executor of one slot each. A topic of 24 partitions
with lags by Zipf's law (0.8) for each number of replicas; 40 batches of at most 1,500 records of
4 KB, of 1 ms each (modelled by sleeping), so a batch takes at least 0.5 s. All settings of the
source but the limit are Spark's own.

Bytes are what Kafka's consumers in the executors count by broker, read over JMX for both mappings
alike. "Least share" is what has to cross if no slot is more than 5% above its share of the records:
a flow bound. Times are of the batches after the fourth; `imbalance` is what the planner predicts.

`ASSIGNOR_BENCH_SCALE=0.1` tries it with fewer batches, and writes nothing.
"""

from __future__ import annotations

import json
import os
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.benchmarks.report import write_report
from tests.integration.test_zones import (
    OPTIONS,
    RACK_OF_HOST,
    RACKS,
    created,
    imbalance,
    least,
    records,
    run_driver,
    steady,
)
from tests.strategies_snapshots import lags
from tests.support.broker_cluster import NEAREST_REPLICA, BrokerCluster
from tests.support.standalone_cluster import standalone_cluster, workers
from tests.zones_driver import write

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

SCALE = float(os.environ.get("ASSIGNOR_BENCH_SCALE", "1"))  # below 1: does it run? writes nothing
BATCHES, A_BATCH, PARTITIONS = max(8, int(40 * SCALE)), 1_500, 24
WAYS: dict[str, dict[str, str]] = {"Spark": {}, "lag-aware-sticky": OPTIONS}


def test_zones(tmp_path: Path) -> None:
    sizes = lags("zipf-0.8", PARTITIONS, BATCHES * A_BATCH)
    rows = []
    with (
        BrokerCluster(RACKS, NEAREST_REPLICA) as brokers,
        standalone_cluster(tmp_path / "cluster", workers(1, 1, 1, racks=RACKS)) as cluster,
    ):
        for replication in (1, 2, 3):
            topic, replicas = created(brokers, replication, PARTITIONS)
            write(topic, sizes)
            limit = {"maxOffsetsPerTrigger": str(A_BATCH)}
            runs = [
                {"topic": topic.name, "rows": sum(sizes), "options": options | limit}
                for options in WAYS.values()
            ]
            folder = tmp_path / str(replication)
            for way, lines in zip(
                WAYS, run_driver(cluster.url, brokers.bootstrap_servers, folder, runs), strict=True
            ):
                figures = row_of(way, lines, replicas)
                rows.append({"replicas": replication, "mapping": way} | figures)
                print(json.dumps(rows[-1]), flush=True)
    if SCALE == 1:
        write_report(
            "zones", title="Bytes across zones", command="make bench", rows=rows,
            notes=__doc__ or "",
        )  # fmt: skip


def row_of(way: str, lines: list[dict[str, Any]], replicas: dict[int, frozenset[str]]) -> Any:
    """One line of the table; with the option the plans must be ours."""
    told = [line for line in lines if "metrics" in line]
    strategies = {line["metrics"].get("assignor.strategy") for line in told}
    assert strategies == {WAYS[way].get("assignor")}, strategies
    assert {line["metrics"].get("assignor.fallbacks", "0") for line in told} == {"0"}
    [batches] = steady(lines).values()
    [counts] = [line["received"] for line in lines if "received" in line]
    received = sum(count for _, _, count in counts)
    cross = sum(n for host, i, n in counts if i > 0 and RACKS[i - 1] != RACK_OF_HOST[host])
    seconds = [line["seconds"] for line in batches]
    least_share = sum(least(line, replicas) for line in batches) / sum(map(records, batches))
    return {
        "received MB": received / 1e6,
        "from other zones MB": cross / 1e6,
        "share": cross / received,
        "least share": least_share,
        "batch s p50": median(seconds),
        "p95": float(np.percentile(seconds, 95)),
        "imbalance, most": max(map(imbalance, batches)) if WAYS[way] else None,
    }
