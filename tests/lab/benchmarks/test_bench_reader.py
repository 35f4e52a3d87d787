"""The shared reader beside Spark's own, in the same run: many small partitions, and a large one."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.benchmarks.reader_runs import Load, Reader, rows_of, session
from tests.lab.benchmarks.report import write_report
from tests.lab.benchmarks.tuned_spark import ALL_CONSUMERS, LARGE_FETCHES, SHORT_WAIT
from tests.lab.benchmarks.turns import in_turn
from tests.support.java_program import compile_programs, run_java
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import get_last_stage, list_stages_since

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from streaming.kafka.embedded import EmbeddedBroker

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

REPEATS = int(os.environ.get("ASSIGNOR_BENCH_REPEATS", "5"))
SCALE = float(os.environ.get("ASSIGNOR_BENCH_SCALE", "1"))  # below 1: does it run? writes nothing
DEFAULT_REPEATS = 1  # Spark's default takes about half a second a partition read: minutes a batch
NOTES = """
Records are written between batches, each batch reads exactly those, all queries are warm (but the
batches over 10,000 partitions, whose first is cold), and the readers take turns. Seconds a batch
are Spark's triggerExecution; records a second are by addBatch, scheduling included. Spark's best
setting is fetch.max.wait.ms=1; for many partitions also coalesce(2) and a consumer cache that holds
all of them, for one partition also max.poll.records=20000 and fetches of 8 MB
(tests/lab/benchmarks/tuned_spark.py). A bare consumer polls in a JVM of its own without Spark, with
these settings and with those of the shared reader. Processor time is that of the reading tasks.
"""

BEST = "Spark, best setting"
OURS = {"assignor": "lag-aware-sticky", "assignor.onError": "fail"}
#: What the shared reader's consumer has for one large partition in an executor of 1 GB.
OUR_FETCHES = {
    "kafka.fetch.max.wait.ms": "5",
    "kafka.max.poll.records": "2000",
    "kafka.max.partition.fetch.bytes": str(4 << 20),
    "kafka.fetch.max.bytes": str(32 << 20),
}
MANY = Load(partitions=int(1_000 * SCALE), records_per_partition=10, record_bytes=100)
FEWER = Load(int(200 * SCALE), records_per_partition=7, record_bytes=100)
SMALL_RECORDS = Load(1, records_per_partition=int(1_000_000 * SCALE), record_bytes=100)
MIDDLE_RECORDS = Load(1, records_per_partition=int(200_000 * SCALE), record_bytes=1_000)
LARGE_RECORDS = Load(1, records_per_partition=int(20_000 * SCALE), record_bytes=10_000)
TEN_THOUSAND = Load(int(10_000 * SCALE), records_per_partition=10, record_bytes=1_000)


@pytest.fixture(scope="module")
def results() -> Iterator[list[dict[str, Any]]]:
    """Collects the figures and writes them when all measurements are done."""
    found: list[dict[str, Any]] = []
    yield found
    print(json.dumps(found, indent=1))
    if SCALE == 1 and found:
        write_report(
            "reader",
            title="The shared reader beside Spark's own",
            command="pytest -m benchmark -p no:randomly -s"
            " tests/lab/benchmarks/test_bench_reader.py",
            rows=found,
            notes=NOTES,
        )


@pytest.mark.parametrize(
    ("title", "load"),
    [
        pytest.param("1,000 partitions x 10 new records of 100 bytes, two slots", MANY, id="1000"),
        pytest.param("200 partitions x 7 new records of 100 bytes, two slots", FEWER, id="200"),
    ],
)
def test_many_small_partitions(
    broker: EmbeddedBroker, results: list[dict[str, Any]], title: str, load: Load
) -> None:
    with session("local-cluster[2,1,1024]") as spark:
        ours = _reader(spark, broker, "shared reader", load, OURS)
        default = _reader(spark, broker, "Spark, default", load, {})
        _warm(ours, 3)
        for _ in range(DEFAULT_REPEATS):
            default.round()
            ours.round()
        first = ours.seconds
        default.stop()
        ours.stop()
    # A consumer for each partition is a static setting, so a new session.
    with session("local-cluster[2,1,1024]", **ALL_CONSUMERS) as spark:
        ours = _reader(spark, broker, "shared reader", load, OURS)
        best = _reader(spark, broker, BEST, load, SHORT_WAIT, lambda rows: rows.coalesce(2))
        _warm(ours, 3)
        _warm(best, 2)
        for number in range(REPEATS):
            for reader in in_turn((best, ours), number):
                reader.round()
        best.stop()
        ours.stop()
    ours.seconds += first
    results += rows_of(
        title,
        "seconds a batch",
        {r.name: r.seconds for r in (ours, best, default)},
    )


@pytest.mark.parametrize(
    ("title", "load"),
    [
        pytest.param(
            "one partition, a million records of 100 bytes a batch", SMALL_RECORDS, id="100B"
        ),
        pytest.param("one partition, 200,000 records of 1 KB a batch", MIDDLE_RECORDS, id="1KB"),
        pytest.param("one partition, 20,000 records of 10 KB a batch", LARGE_RECORDS, id="10KB"),
    ],
)
def test_one_partition(
    broker: EmbeddedBroker, tmp_path: Path, results: list[dict[str, Any]], title: str, load: Load
) -> None:
    with session("local-cluster[1,1,1024]") as spark:
        ours = _reader(spark, broker, "shared reader", load, {**OURS, "assignor.split": "false"})
        default = _reader(spark, broker, "Spark, default", load, {})
        best = _reader(spark, broker, BEST, load, LARGE_FETCHES)
        readers = (default, best, ours)
        for reader in readers:
            _warm(reader, 2)
        bare = {
            "a bare consumer, our settings": bare_rates(ours.topic, tmp_path, OUR_FETCHES),
            "a bare consumer, Spark's best setting": bare_rates(
                ours.topic, tmp_path, LARGE_FETCHES
            ),
        }
        nanos: dict[str, list[float]] = {reader.name: [] for reader in readers}
        for number in range(REPEATS):
            for reader in in_turn(readers, number):
                before = get_last_stage(spark)
                reader.round()
                cpu_s = sum(stage.cpu_s for stage in list_stages_since(spark, before))
                nanos[reader.name].append(cpu_s * 1e9 / load.records)
        for reader in readers:
            reader.stop()
    rates = {r.name: [round(load.records / t) for t in r.add_batch_seconds] for r in readers}
    results += rows_of(title, "records a second", rates | bare)
    results += rows_of(title, "processor nanoseconds a record", nanos)


def test_ten_thousand_partitions_in_one_gigabyte(
    broker: EmbeddedBroker, results: list[dict[str, Any]]
) -> None:
    load = TEN_THOUSAND
    with session("local-cluster[2,2,1024]") as spark:
        ours = _reader(spark, broker, "shared reader", load, OURS)
        for _ in range(3):
            ours.round()
        ours.stop()
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        executors = spark.sparkContext._jsc.sc().statusStore().executorList(False)
        every = [executors.apply(i) for i in range(executors.size())]
        peaks = [
            round(e.peakMemoryMetrics().get().getMetricValue("JVMHeapMemory") / 2**20)
            for e in every
            if e.id() != "driver" and e.peakMemoryMetrics().isDefined()
        ]
        lost = [e.id() for e in every if not e.isActive()]
    assert lost == []
    title = "10,000 partitions x 10 new records of 1 KB, 2 executors of 2 slots and 1 GB"
    results += rows_of(title, "seconds a batch", {ours.name: ours.seconds})
    results += rows_of(title, "peak heap of an executor, MB", {ours.name: peaks})


def bare_rates(topic: Topic, classes: Path, fetches: Mapping[str, str]) -> list[float]:
    """Read the first partition of a topic with a bare Java consumer; records a second, by run."""
    class_path = compile_programs(classes, "BareConsumer", connector=True)
    settings = [f"{key.removeprefix('kafka.')}={value}" for key, value in fetches.items()]
    call = [topic.bootstrap_servers, topic.name, str(REPEATS), *settings]
    return [float(line) for line in run_java(class_path, "BareConsumer", *call).stdout.split()]


def _reader(
    spark: SparkSession,
    broker: EmbeddedBroker,
    name: str,
    load: Load,
    options: Mapping[str, str],
    shape: Callable[[DataFrame], DataFrame] | None = None,
) -> Reader:
    topic = Topic(broker.bootstrap_servers, f"bench-{uuid.uuid4().hex[:8]}")
    topic.create(load.partitions, {"segment.index.bytes": "65536"})
    return Reader.start(spark, name, topic, load, options, shape=shape)


def _warm(reader: Reader, rounds: int) -> None:
    for _ in range(rounds):
        reader.round(measured=False)
