"""How old is a row when it can be read? From produce to Delta commit, beside Spark's own.

A producer process writes at a steady rate; a row's age is the time of its commit in the Delta table
minus its record's CreateTime, for all records after a warm-up, those of the last batch too. Broker,
producer, driver and two executors of one slot share the machine. The trigger is Spark's default:
the next batch begins when the last one has ended. An upsert merges 100,000 keys, all of them there
from the start. The ways run one after the other, by turns first, in one Spark session, each with a
topic, table and checkpoint of its own, and nothing else runs beside one; a run of 40 s of ours and
of Spark's best setting each warm the JVMs up before a sink's first cell.

`assignor run` is the product with its defaults. Spark's append is a plain stream into Delta's own
sink; Spark's upsert is the same merge over Spark's mapping. Spark's best setting is
fetch.max.wait.ms=10. The consumer cache (4,000) is large for all three; `spark.locality.wait` is
Spark's default. With 200 partitions Spark's default waits half a second for each of them in turn: a
batch takes most of a minute, so it is measured there once.

`ASSIGNOR_BENCH_SCALE=0.3` and `-k append-24-zipf` try a part of it, and write nothing.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.benchmarks.freshness_runs import Cell, run
from tests.benchmarks.report import is_written, write_report
from tests.benchmarks.turns import in_turn
from tests.spark_tools import start_spark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from streaming.kafka.embedded import EmbeddedBroker

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

SCALE = float(os.environ.get("ASSIGNOR_BENCH_SCALE", "1"))  # below 1: does it run? writes nothing
ZIPF = 1.1
OURS, DEFAULT, BEST = "assignor run", "Spark: default", "Spark: best setting"
WAYS = {
    OURS: {"assignor": "lag-aware-sticky", "assignor.onError": "fail"},
    DEFAULT: {},
    BEST: {"kafka.fetch.max.wait.ms": "10"},
}
CELLS: list[tuple[Cell, Iterable[str]]] = [
    (Cell("append", 24, ZIPF, 1_000), WAYS),
    (Cell("append", 200, ZIPF, 5_000), (OURS, BEST)),
    (Cell("append", 200, ZIPF, 1_000), WAYS),
    (Cell("append", 24, 0, 5_000), WAYS),
    (Cell("append", 24, ZIPF, 5_000, measured_s=30), WAYS),
    (Cell("upsert", 24, ZIPF, 5_000), WAYS),
    (Cell("upsert", 200, ZIPF, 5_000), (OURS, BEST)),
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


@pytest.mark.parametrize(("cell", "ways"), CELLS, ids=[cell.name for cell, _ in CELLS])
def test_freshness(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, warm: set[str],
    results: dict[str, list[dict[str, Any]]], cell: Cell, ways: Iterable[str],
) -> None:  # fmt: skip
    servers = broker.bootstrap_servers
    if cell.sink not in warm:
        long = replace(cell, measured_s=40 * SCALE)
        for way in (OURS, BEST):
            run(spark, servers, long, WAYS[way], tmp_path)
        warm.add(cell.sink)
    found: dict[str, dict[str, Any]] = {}
    for way in in_turn(list(ways), [each for each, _ in CELLS].index(cell)):
        scaled = replace(cell, measured_s=cell.measured_s * SCALE)
        what = {
            "sink": cell.sink,
            "partitions": cell.partitions,
            "volumes": cell.volumes,
            "records_a_second": cell.rate,
            "way": way,
        }
        found[way] = what | run(spark, servers, scaled, WAYS[way], tmp_path)
        print(found[way])
    for row in found.values():
        row["p99_times_ours"] = row["p99_s"] / found[OURS]["p99_s"]
    results[cell.name] = [found[way] for way in ways]
