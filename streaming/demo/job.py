"""The demo's Spark half, in a process of its own: `python -m streaming.demo.job`.

A process, because Spark and Ivy write to the terminal as they like, and because ending it surely
ends the JVM. Settings come as one JSON line on stdin, which then stays open: its end ends this
process. Events go out as JSON lines on stdout, everything that Spark says to stderr.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import orjson

from assignor_bridge.errors import AssignorError
from streaming.demo.flights import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

_EXECUTORS_LIMIT_S = 90.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What the demo tells its Spark half."""

    bootstrap_servers: str
    topic: str
    warm_up_topic: str
    workers: int
    batch_records: int
    work_us: int
    #: A cluster to use, None for one on this machine.
    master: str | None
    #: For checkpoints, tables and all that Spark leaves behind.
    folder: str
    #: Options of the source by the name of the mode.
    modes: Mapping[str, Mapping[str, str]]


class JobError(AssignorError):
    """The demo's Spark did not do what it must."""


def main() -> None:
    """Run the job in all modes; the exit code is 0 when every query ended well."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # the JVM inherits stdout; it must not speak between our events
    settings = Settings(**orjson.loads(sys.stdin.buffer.readline()))
    threading.Thread(target=_end_with_starter, daemon=True).start()
    try:
        spark = _start(settings)
        try:
            _run_all(spark, settings, events)
        finally:
            spark.stop()
    except AssignorError as error:
        _tell(events, "error", message=str(error))
        sys.exit(1)


def _end_with_starter() -> None:
    while os.read(0, 1024):  # not sys.stdin, whose lock would outlive us at a normal end
        pass
    os._exit(1)  # the JVM reads our pipe in turn, and ends


def _tell(events: TextIO, event: str, **details: Any) -> None:
    events.write(orjson.dumps({"event": event, **details}).decode() + "\n")


def _start(settings: Settings) -> SparkSession:
    from pyspark.sql import SparkSession

    from assignor_bridge import configure_spark
    from streaming.delta.session import configure_delta

    folder = Path(settings.folder)
    builder = (
        SparkSession.builder.master(settings.master or f"local-cluster[{settings.workers},1,1024]")
        .appName("assignor demo")
        .config("spark.cores.max", str(settings.workers))
        .config("spark.executor.cores", "1")
        .config("spark.executor.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={folder}")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.databricks.delta.snapshotPartitions", "1")
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
    )
    if settings.master is None:
        builder = builder.config("spark.driver.host", "127.0.0.1")
    return configure_spark(configure_delta(builder)).getOrCreate()


def _run_all(spark: SparkSession, settings: Settings, events: TextIO) -> None:
    from streaming.demo.measure import executors, measure_batch

    deadline = time.monotonic() + _EXECUTORS_LIMIT_S
    while len(found := executors(spark)) < settings.workers:
        if time.monotonic() > deadline:
            raise JobError(f"{len(found)} of {settings.workers} executors came within 90 s")
        time.sleep(0.1)
    _tell(events, "started", slots=[f"{name}/0" for name in found])
    for mode, options in settings.modes.items():
        _run(spark, settings, settings.warm_up_topic, f"warm-up-{mode}", options)
        _tell(events, "warm", mode=mode)
    for mode, options in settings.modes.items():
        for progress in _run(spark, settings, settings.topic, mode, options):
            figures = measure_batch(spark, progress)
            _tell(events, "batch", mode=mode, figures=asdict(figures))
        _tell(events, "table", mode=mode, **_table_figures(spark, _table(settings, mode)))


def _table(settings: Settings, name: str) -> str:
    return str(Path(settings.folder, "tables", name))


def _run(
    spark: SparkSession, settings: Settings, topic: str, name: str, options: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Run the job until the topic is read; give the progress of each batch with records."""
    from pyspark.errors import StreamingQueryException

    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings.bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(settings.batch_records))
        .options(**options)
        .load()
    )
    table = _table(settings, name)

    def append(batch: DataFrame, number: int) -> None:
        (
            _delays(batch, settings.work_us)
            .write.format("delta")
            .mode("append")
            .option("txnAppId", f"assignor-demo-{name}")
            .option("txnVersion", number)
            .save(table)
        )

    query = (
        source.writeStream.foreachBatch(append)
        .queryName(name)
        .option("checkpointLocation", str(Path(settings.folder, "checkpoints", name)))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        raise JobError(f"the query {name!r} failed: {str(error).splitlines()[0]}") from error
    found = [orjson.loads(progress.json) for progress in query.recentProgress]
    return [progress for progress in found if progress["numInputRows"] > 0]


def _delays(batch: DataFrame, work_us: int) -> DataFrame:
    """Parse, then sum up by carrier; the flights' ids stay, so that none can go unnoticed."""
    from pyspark.sql import functions as f

    if work_us:
        every = max(1, round(1000 / work_us))  # one sleep of a millisecond stands for so many
        nap = f"java_method('java.lang.Thread', 'sleep', {max(1, work_us // 1000)}L)"
        batch = batch.where(f"CASE WHEN offset % {every} = 0 THEN length({nap}) > 0 ELSE true END")
    return (
        batch.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("flight"))
        .select("flight.*")
        .groupBy("carrier")
        .agg(
            f.count("*").alias("flights"),
            f.sum("dep_delay").alias("delay_min"),
            f.collect_list("id").alias("ids"),
        )
    )


def _table_figures(spark: SparkSession, table: str) -> dict[str, Any]:
    """Ask the Delta table what it holds."""
    from pyspark.sql import functions as f

    rows = spark.read.format("delta").load(table)
    ids = rows.select(f.explode("ids").alias("id")).agg(
        f.count("id"), f.count_distinct("id"), f.min("id"), f.max("id")
    )
    by_carrier = rows.groupBy("carrier").agg(f.sum("flights"), f.sum("delay_min")).collect()
    return {
        "ids": list(ids.collect()[0]),
        "flights": {row[0]: row[1] for row in by_carrier},
        "delay_min": {row[0]: row[2] or 0 for row in by_carrier},
    }


if __name__ == "__main__":
    main()
