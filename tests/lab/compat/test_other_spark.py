"""The jar that was built against the pinned Spark, on another one: `make compat`.

What the bridge takes from Spark beyond its public interfaces is used by these queries: the
resolution rule and `makeCopy`, five private fields and the constructor of Spark's stream, `copy` of
its partitions and ranges, its row converter, its consumer settings, the state's file manager.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import IllegalArgumentException, StreamingQueryException

from tests.lab.compat.class_path import jars
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import (
    assert_planned,
    read_topic,
    run_in_batches,
    wait_for_end,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from tests.support.spark_tools import DriverLog

pytestmark = pytest.mark.compat

COUNTS = [60, 20, 12, 8]
OPTION = {"assignor": "lag-aware-sticky"}
VERSION = tuple(map(int, importlib.metadata.version("pyspark").split(".")[:2]))


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two executors of one slot each on the Spark of this environment, jars by path."""
    from pyspark.sql import SparkSession

    from streaming.demo.spark_process import link_spark_home

    folder = tmp_path_factory.mktemp("spark")
    logging = Path(__file__).parents[2] / "support" / "log4j2.properties"
    os.environ["SPARK_HOME"] = str(link_spark_home(folder))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.jars", ",".join(map(str, jars())))
        .config("spark.assignor.python", sys.executable)
        .config("spark.assignor.onError", "fail")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.locality.wait", "10s")
        .config(
            "spark.driver.extraJavaOptions",
            f"-Dassignor.test.log={folder}/driver.log"
            f" -Dlog4j2.configurationFile={logging.as_uri()}",
        )
        .getOrCreate()
    )
    session.conf.set("assignor.test.log", f"{folder}/driver.log")
    memory = session.sparkContext._jsc.sc()
    wait_until(lambda: memory.getExecutorMemoryStatus().size() == 3, "two executors", 120)
    yield session
    session.stop()


def test_it_is_the_version_that_was_asked_for(spark: SparkSession) -> None:
    assert spark.version == importlib.metadata.version("pyspark")


@pytest.mark.parametrize("reader", ["shared", "spark"])
def test_batches_are_planned_and_read_once(
    spark: SparkSession, topic: Topic, checkpoint: str, reader: str
) -> None:
    topic.create(4).fill(COUNTS)

    progresses, rows = run_in_batches(spark, topic, checkpoint, assignor_reader=reader)

    assert rows == sum(COUNTS)
    metrics: list[dict[str, Any]] = [p["sources"][0]["metrics"] for p in progresses]
    assert {m["assignor.strategy"] for m in metrics} == {"lag-aware-sticky"}
    assert {m["assignor.fallbacks"] for m in metrics} == {"0"}
    assert {m["assignor.localityHitRate"] for m in metrics} == {"1.0000"}


def test_a_restart_goes_on_where_the_checkpoint_ends(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    topic.create(4).fill(COUNTS)
    first = run(spark, topic, checkpoint, OPTION)
    topic.fill([5] * 4, first=100)

    second = run(spark, topic, checkpoint, OPTION)

    assert sum(p["numInputRows"] for p in first) == sum(COUNTS)
    assert sum(p["numInputRows"] for p in second) == 20


def test_without_the_option_the_stream_is_sparks_own(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    topic.create(4).fill(COUNTS)

    progresses = run(spark, topic, checkpoint, {})

    names = {name for p in progresses for name in p["sources"][0]["metrics"]}
    assert not any(name.startswith("assignor.") for name in names)


def test_rows_go_into_a_table(spark: SparkSession, topic: Topic, checkpoint: str) -> None:
    topic.create(4).fill(COUNTS)
    query = (
        read_topic(spark, topic, OPTION)
        .select("partition", "offset")
        .writeStream.format("parquet")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .toTable("rows_of_the_topic")
    )

    assert_planned(wait_for_end(query))

    assert spark.table("rows_of_the_topic").distinct().count() == sum(COUNTS)


@pytest.mark.skipif(VERSION < (4, 2), reason="sources have no names before 4.2")
def test_sources_with_names_are_planned_each(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    topic.create(4).fill(COUNTS)
    spark.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
    try:
        first, second = (
            spark.readStream.format("kafka")
            .options(**{"kafka.bootstrap.servers": topic.bootstrap_servers}, **OPTION)
            .options(subscribe=topic.name, startingOffsets="earliest")
            .name(name)
            .load()
            for name in ("first", "second")
        )
        query = (
            first.union(second)
            .writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        progresses = wait_for_end(query)
    finally:
        spark.conf.unset("spark.sql.streaming.queryEvolution.enableSourceEvolution")
    assert_planned(progresses)
    assert sum(p["numInputRows"] for p in progresses) == 2 * sum(COUNTS)
    names = {path.name for path in Path(checkpoint, "sources").iterdir()}
    assert names == {"first", "second"}


def test_spark_itself_cannot_read_a_table_of_the_catalog_as_a_stream(
    spark: SparkSession, topic: Topic
) -> None:
    """Where it can one day, the option must say something of it."""
    topic.create(1)
    spark.sql(
        "CREATE TABLE topic_in_the_catalog USING kafka OPTIONS"
        f" ('kafka.bootstrap.servers' '{topic.bootstrap_servers}', subscribe '{topic.name}')"
    )
    try:
        with pytest.raises(IllegalArgumentException, match="Kafka source has a fixed schema"):
            spark.readStream.table("topic_in_the_catalog")
    finally:
        spark.sql("DROP TABLE topic_in_the_catalog")


@pytest.mark.skipif(VERSION < (4, 1), reason="there is no real-time mode before 4.1")
def test_real_time_mode_has_warnings_of_no_effect_and_of_too_few_slots(
    spark: SparkSession, topic: Topic, checkpoint: str, driver_log: DriverLog
) -> None:
    topic.create(2).fill([3, 4])

    every: Any = spark.sparkContext._jvm.org.apache.spark.sql.streaming.Trigger  # type: ignore[union-attr]

    def start(on_error: str, topic: Topic = topic) -> StreamingQuery:
        writer: Any = (
            read_topic(spark, topic, OPTION | {"assignor.onError": on_error})
            .select("value")
            .writeStream.format("console")
            .outputMode("update")
            .option("checkpointLocation", f"{checkpoint}-{on_error}-{topic.name}")
        )
        writer._jwrite = writer._jwrite.trigger(every.RealTime("5 seconds"))  # not in Python's 4.1
        started: StreamingQuery = writer.start()
        return started

    query = start("fallback")
    try:
        wait_until(lambda: sum(p.numInputRows for p in query.recentProgress) == 7, "seven rows")
        metrics = query.recentProgress[0].sources[0].metrics
    finally:
        query.stop()
    assert "assignor.strategy" not in metrics
    [warning] = driver_log.lines("option 'assignor' has no effect")
    assert "real-time mode" in warning
    starved = "real-time mode needs a task slot for each partition"
    assert not driver_log.lines(starved)
    query = start("fallback", Topic(topic.bootstrap_servers, f"{topic.name}-wide").create(6))
    try:  # Spark says nothing of the four partitions that it never reads
        [warning] = wait_until(lambda: driver_log.lines(starved), "a warning")
        wait_until(lambda: len(query.recentProgress) > 1, "two batches")
    finally:
        query.stop()
    assert "give the application 6 slots instead of 2, or Spark does not read all" in warning
    assert driver_log.lines(starved) == [warning]
    query = start("fail")
    with pytest.raises(StreamingQueryException, match="real-time mode"):
        query.awaitTermination(60)


def run(
    spark: SparkSession, topic: Topic, checkpoint: str, options: dict[str, str]
) -> list[dict[str, Any]]:
    """Read what is there into nowhere; gives the progresses."""
    query = (
        read_topic(spark, topic, options)
        .writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    return wait_for_end(query)
