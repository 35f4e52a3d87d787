"""How old is a row when it can be read? From produce to Delta commit, beside Spark's own.

A producer process writes at a steady rate; a row's age is the time of its commit in the Delta table
minus its record's CreateTime, for all records after a warm-up, those of the last batch too. Broker,
producer, driver and two executors of one slot share the machine. The trigger is Spark's default:
the next batch begins when the last one has ended. An upsert merges 100,000 keys, all of them there
from the start. The ways take turns in one Spark session, three runs each, in an order that changes,
each run with a topic, table and checkpoint of its own. A row has the medians of its runs, and the
least and the most of their 99th percentiles. A run of `assignor run` and of Spark's best setting
each warm the JVMs up before a sink's first cell.

| way | reads by | writes by |
|---|---|---|
| `assignor run` | the option | the product's job, with its defaults |
| own writeStream, `delta_sink` | the option | `streaming.delta_sink` in `foreachBatch` |
| own writeStream, Delta's sink | the option | Delta's own sink |
| Spark: default | Spark's mapping | Delta's own sink; for an upsert the merge of `assignor run` |
| Spark: best setting | the same, fetch.max.wait.ms=1, an append with coalesce(2) | the same |

The consumer cache (4,000) is large for all; `spark.locality.wait` is Spark's default. With 200
partitions Spark's default waits half a second for each of them in turn, so it is not measured.

`ASSIGNOR_BENCH_SCALE=0.1` and `-k append-24-zipf` try a part of it, and write nothing.
"""

from __future__ import annotations

import json
import os
import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.benchmarks.freshness_runs import Cell, Way, run
from tests.lab.benchmarks.report import is_written, write_report
from tests.lab.benchmarks.tuned_spark import SHORT_WAIT
from tests.lab.benchmarks.turns import in_turn
from tests.support.spark_tools import start_spark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from streaming.kafka.embedded import EmbeddedBroker

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

SCALE = float(os.environ.get("ASSIGNOR_BENCH_SCALE", "1"))  # below 1: does it run? writes nothing
ZIPF, RUNS = 1.1, 3
OPTION = {"assignor": "lag-aware-sticky", "assignor.onError": "fail"}
OURS, DEFAULT, BEST = "assignor run", "Spark: default", "Spark: best setting"
OWN, OWN_DELTA = "own writeStream, delta_sink", "own writeStream, Delta's sink"
APPEND: Mapping[str, Way] = {
    OURS: Way(OPTION, "job"),
    OWN: Way(OPTION, "delta_sink"),
    OWN_DELTA: Way(OPTION, "delta"),
    DEFAULT: Way({}, "delta"),
    BEST: Way(SHORT_WAIT, "delta", coalesce=2),
}
UPSERT: Mapping[str, Way] = {
    OURS: Way(OPTION, "job"),
    OWN: Way(OPTION, "delta_sink"),
    DEFAULT: Way({}, "job"),
    BEST: Way(SHORT_WAIT, "job"),
}
CELLS: list[tuple[Cell, Iterable[str]]] = [
    (Cell("append", 24, ZIPF, 5_000), APPEND),
    (Cell("append", 24, 0, 5_000), APPEND),
    (Cell("append", 200, ZIPF, 5_000), (OURS, OWN, BEST)),
    (Cell("upsert", 24, ZIPF, 5_000), UPSERT),
]


@pytest.fixture(scope="module")
def results() -> Iterator[dict[str, list[dict[str, Any]]]]:
    """Collects the figures by cell, and writes them when all cells were measured."""
    found: dict[str, list[dict[str, Any]]] = {}
    yield found
    print(json.dumps(found, indent=1))
    if SCALE == 1 and found and is_written(len(found) == len(CELLS)):
        write_report(
            "freshness",
            title="Freshness: from produce to Delta commit",
            command="make bench",
            rows=[row for rows in found.values() for row in rows],
            notes=__doc__ or "",
        )


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two executors of one slot each, with what `assignor run` sets on one machine."""
    session = start_spark(
        "local-cluster[2,1,1024]", tmp_path_factory.mktemp("spark"),
        spark_locality_wait="3s",
        spark_kafka_consumer_cache_capacity="4000",
        spark_databricks_delta_snapshotPartitions="1",
        spark_sql_codegen_cache_maxEntries="200",
        spark_sql_streaming_numRecentProgressUpdates="5000",
    )  # fmt: skip
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def warm() -> set[str]:
    """Sinks that the JVMs have compiled their code for."""
    return set()


@pytest.mark.parametrize(("cell", "names"), CELLS, ids=[cell.name for cell, _ in CELLS])
def test_freshness(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, warm: set[str],
    results: dict[str, list[dict[str, Any]]], cell: Cell, names: Iterable[str],
) -> None:  # fmt: skip
    ways = APPEND if cell.sink == "append" else UPSERT
    scaled = replace(cell, measured_s=cell.measured_s * SCALE)

    def measure(name: str) -> dict[str, Any]:
        return run(spark, broker.bootstrap_servers, scaled, ways[name], tmp_path)

    if cell.sink not in warm:
        for name in (OURS, BEST):
            measure(name)
        warm.add(cell.sink)
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for number in range(RUNS if SCALE == 1 else 1):
        for name in in_turn(list(runs), number):
            runs[name].append(measure(name))
            print(name, runs[name][-1])
    rows: dict[str, dict[str, Any]] = {}
    for name, found in runs.items():
        what = {
            "sink": cell.sink,
            "partitions": cell.partitions,
            "volumes": cell.volumes,
            "records_a_second": cell.rate,
            "way": name,
        }
        medians = {key: statistics.median(one[key] for one in found) for key in found[0]}
        p99s = [one["p99_s"] for one in found]
        rows[name] = what | medians | {"p99_s_min": min(p99s), "p99_s_max": max(p99s)}
    for row in rows.values():
        row["p99_times_ours"] = row["p99_s"] / rows[OURS]["p99_s"]
    results[cell.name] = list(rows.values())
