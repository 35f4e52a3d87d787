"""Start Spark for tests, run queries, and read stages, tasks, logs, and Delta tables."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from tests.support.kafka_topics import Topic


@dataclass(frozen=True)
class TaskRun:
    """A completed task, from Spark's status store."""

    stage: int
    index: int
    executor: str
    locality: str
    records: int


class DriverLog:
    """The lines that the driver logs after this object is created."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._from = path.stat().st_size

    def lines(self, containing: str) -> list[str]:
        with self._path.open("rb") as log:
            log.seek(self._from)
            text = log.read().decode("utf-8", "replace")
        return [line for line in text.splitlines() if containing in line]


def start_spark(master: str, folder: Path, **settings: str) -> SparkSession:
    """Start Spark with Delta, Avro, and the bridge; the driver logs to a file in this folder.

    Further settings have `_` for `.` in their names.
    """
    from delta.pip_utils import configure_spark_with_delta_pip

    from assignor_bridge import configure_spark

    builder = create_spark_builder(master, folder, **settings)
    with_delta = configure_spark_with_delta_pip(builder, find_avro_packages())
    session = configure_spark(with_delta).getOrCreate()
    session.conf.set("assignor.test.log", f"{folder}/driver.log")
    return session


def find_avro_packages() -> list[str]:
    """Return the coordinate of Spark's Avro package, if there is one for this Spark."""
    from assignor_bridge import ivy
    from streaming.pipeline.spark.job_session import avro_coordinate

    with contextlib.suppress(ivy.JarError):
        ivy.fetch(avro_coordinate(), transitive=False)
        return [avro_coordinate()]
    return []


def create_spark_builder(master: str, folder: Path, **settings: str) -> SparkSession.Builder:
    """Return the builder of `start_spark` without the jars."""
    from pyspark.sql import SparkSession

    from streaming.demo.spark_process import link_spark_home

    os.environ["SPARK_HOME"] = str(link_spark_home(folder))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    logging = Path(__file__).parent / "log4j2.properties"
    builder = (
        SparkSession.builder.master(master)
        .appName("assignor-bridge tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config(
            "spark.driver.extraJavaOptions",
            f"-Dderby.system.home={folder} -Dassignor.test.log={folder}/driver.log"
            f" -Dlog4j2.configurationFile={logging.as_uri()}",
        )
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config(
            "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config("spark.locality.wait", "10s")
    )
    for name, value in settings.items():
        builder = builder.config(name.replace("_", "."), value)
    return builder


def write_interpreter(script: Path, program: str, *arguments: object) -> None:
    """Write a script for `spark.assignor.python` that runs a program; ignore Java's arguments."""
    command = shlex.join([sys.executable, program, *map(str, arguments)])
    root = Path(__file__).parents[2]
    script.write_text(f"#!/bin/sh\nexport PYTHONPATH={root}\nexec {command}\n")
    script.chmod(0o755)


def read_topic(spark: SparkSession, topic: Topic, options: Mapping[str, str]) -> DataFrame:
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", topic.bootstrap_servers)
        .option("subscribe", topic.name)
        .option("startingOffsets", "earliest")
    )
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def run_to_table(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    table: str,
    *,
    sink: str = "parquet",  # a batch takes a third of the time that it takes with Delta
    **options: str,
) -> list[dict[str, Any]]:
    """Run AvailableNow into a table; return the progresses. Options have `_` for `.`."""
    named = {name.replace("_", "."): value for name, value in options.items()}
    query = (
        read_topic(spark, topic, named)
        .selectExpr("topic", "partition", "offset", "CAST(value AS STRING) AS value")
        .writeStream.format(sink)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(table)
    )
    return wait_for_end(query)


def run_in_batches(
    spark: SparkSession, topic: Topic, checkpoint: str, **options: str
) -> tuple[list[dict[str, Any]], int]:
    """Run in batches of 40 records; return the progresses that have records, and the row count.

    Option names have `_` for `.`; the default assignor is lag-aware-sticky.
    """
    name = f"t{uuid.uuid4().hex}"
    named = {"assignor": "lag-aware-sticky", "maxOffsetsPerTrigger": "40"}
    named |= {key.replace("_", "."): value for key, value in options.items()}
    query = (
        read_topic(spark, topic, named)
        .selectExpr("topic", "partition", "offset")
        .writeStream.format("memory")
        .queryName(name)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    progresses = [p for p in wait_for_end(query) if p["numInputRows"]]
    rows = spark.table(name)
    assert rows.distinct().count() == rows.count()
    return progresses, rows.count()


def wait_for_end(query: StreamingQuery, timeout_s: float = 280) -> list[dict[str, Any]]:
    """Wait for the end of a query, and return its progresses; raise its failure."""
    try:
        assert query.awaitTermination(timeout_s), f"still running: {query.status}"
    finally:
        query.stop()
    return [to_dict(p) for p in query.recentProgress]


def assert_planned(
    progresses: Iterable[dict[str, Any]], strategy: str = "lag-aware-sticky"
) -> None:
    """Check that this strategy planned each batch with records, without fallbacks."""
    batches = [p for p in progresses if p["numInputRows"]]
    assert batches, "no batch with records"
    for batch in batches:
        for source in batch["sources"]:
            metrics = source["metrics"]
            planned = metrics.get("assignor.strategy"), metrics.get("assignor.fallbacks")
            assert planned == (strategy, "0"), (batch["batchId"], metrics)


def to_dict(progress: Any) -> dict[str, Any]:
    import json

    loaded: dict[str, Any] = json.loads(progress.json)
    return loaded


def assert_each_row_once(spark: SparkSession, table: str, counts: list[int]) -> None:
    """Check that each offset is in the table exactly once, with the value written for it."""
    sink = "delta" if (Path(table) / "_delta_log").exists() else "parquet"
    rows = spark.read.format(sink).load(table)
    actual = {
        r["partition"]: (r["n"], r["d"], r["lo"], r["hi"], r["wrong"])
        for r in rows.groupBy("partition")
        .agg(
            *_aggregates(),
        )
        .collect()
    }
    expected = {p: (n, n, 0, n - 1, 0) for p, n in enumerate(counts) if n}
    assert actual == expected, actual  # rows, offsets, first, last, wrong values


def _aggregates() -> list[Any]:
    from pyspark.sql import functions as f

    return [
        f.count("*").alias("n"),
        f.countDistinct("offset").alias("d"),
        f.min("offset").alias("lo"),
        f.max("offset").alias("hi"),
        f.sum(f.expr("int(value != concat(partition, '/', offset))")).alias("wrong"),
    ]


def list_tasks_since(spark: SparkSession, stage: int) -> list[TaskRun]:
    """Return the tasks of all stages after this one that are in the status store."""
    store = spark.sparkContext._jsc.sc().statusStore()
    runs = []
    for data in list_stages(spark):
        if data.stageId() > stage and str(data.status()) == "COMPLETE":
            for task in to_list(store.taskList(data.stageId(), data.attemptId(), 100_000)):
                if task.status() != "SUCCESS":
                    continue
                metrics = task.taskMetrics()
                records = metrics.get().inputMetrics().recordsRead() if metrics.isDefined() else 0
                runs.append(
                    TaskRun(
                        data.stageId(),
                        task.index(),
                        task.executorId(),
                        task.taskLocality(),
                        records,
                    )
                )
    return sorted(runs, key=lambda run: (run.stage, run.index))


@dataclass(frozen=True)
class StageRun:
    """The times of a stage, in milliseconds since 1970, and the durations of its tasks."""

    stage: int
    submitted_ms: int
    launched_ms: int
    completed_ms: int
    records: int
    #: Milliseconds of each task's phases.
    tasks: list[dict[str, float]]
    #: CPU seconds of its tasks.
    cpu_s: float


def list_stages_since(spark: SparkSession, stage: int) -> list[StageRun]:
    store = spark.sparkContext._jsc.sc().statusStore()
    runs = []
    for data in list_stages(spark):
        if data.stageId() <= stage or str(data.status()) != "COMPLETE":
            continue
        tasks = [
            {
                "duration": float(task.duration().get()),
                "deserialize": float(task.taskMetrics().get().executorDeserializeTime()),
                "run": float(task.taskMetrics().get().executorRunTime()),
            }
            for task in to_list(store.taskList(data.stageId(), data.attemptId(), 100_000))
            if task.status() == "SUCCESS"
        ]
        times = (data.submissionTime(), data.firstTaskLaunchedTime(), data.completionTime())
        submitted, launched, completed = (int(time.get().getTime()) for time in times)
        records = int(data.inputRecords())
        cpu_s = data.executorCpuTime() / 1e9
        runs.append(
            StageRun(int(data.stageId()), submitted, launched, completed, records, tasks, cpu_s)
        )
    return runs


def get_last_stage(spark: SparkSession) -> int:
    """Return the number of the newest stage, including failed and skipped ones; -1 if none."""
    return max((int(data.stageId()) for data in list_stages(spark)), default=-1)


def list_stages(spark: SparkSession) -> list[Any]:
    gateway: Any = spark.sparkContext._gateway
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    no_quantiles = gateway.new_array(gateway.jvm.double, 0)
    any_status = gateway.jvm.java.util.ArrayList()
    stages = context.statusStore().stageList(None, False, False, no_quantiles, any_status)
    return to_list(stages)


def to_list(scala_seq: Any) -> list[Any]:
    return [scala_seq.apply(i) for i in range(scala_seq.size())]


def wait_until(condition: Callable[[], Any], what: str, timeout_s: float = 60) -> Any:
    """Poll a condition until it holds; a timeout reports `what` and the last state."""
    deadline = time.monotonic() + timeout_s
    while not (state := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {timeout_s} s, last {state!r}"
        time.sleep(0.05)
    return state


def wait_until_none(find: Callable[[], Sequence[Any]], what: str, timeout_s: float = 60) -> None:
    """Poll until `find` returns nothing; a timeout reports `what` and the last result."""
    deadline = time.monotonic() + timeout_s
    while matches := find():
        assert time.monotonic() < deadline, f"{what}: not within {timeout_s} s, still {matches}"
        time.sleep(0.05)
