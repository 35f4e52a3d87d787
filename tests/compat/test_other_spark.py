"""The jar that was built against the pinned Spark, on another one: `make compat`.

What the bridge takes from Spark beyond its public interfaces is used by these queries: the
resolution rule and `makeCopy`, five private fields and the constructor of Spark's stream, `copy` of
its partitions and ranges, its row converter, its consumer settings, the state's file manager.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.compat.class_path import jars
from tests.spark_tools import finished, read_topic, run_in_batches, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.kafka_topics import Topic

pytestmark = pytest.mark.compat

COUNTS = [60, 20, 12, 8]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two executors of one slot each on the Spark of this environment, jars by path."""
    from pyspark.sql import SparkSession

    from streaming.demo.job import linked_spark_home

    folder = tmp_path_factory.mktemp("spark")
    os.environ["SPARK_HOME"] = str(linked_spark_home(folder))
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
        .getOrCreate()
    )
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
    first = run(spark, topic, checkpoint, {"assignor": "lag-aware-sticky"})
    topic.fill([5] * 4, first=100)

    second = run(spark, topic, checkpoint, {"assignor": "lag-aware-sticky"})

    assert sum(p["numInputRows"] for p in first) == sum(COUNTS)
    assert sum(p["numInputRows"] for p in second) == 20


def test_without_the_option_the_stream_is_sparks_own(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    topic.create(4).fill(COUNTS)

    progresses = run(spark, topic, checkpoint, {})

    names = {name for p in progresses for name in p["sources"][0]["metrics"]}
    assert not any(name.startswith("assignor.") for name in names)


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
    return finished(query)
