"""Which executors are planned for: those that Spark's scheduler would give a task to."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.spark_tools import run_in_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.support.kafka_topics import Topic

pytestmark = pytest.mark.integration


@contextlib.contextmanager
def status_store_hears_of(spark: SparkSession, executor: str, cores: int, profile: int) -> Any:
    """Post the event of an executor that registers; the scheduler itself knows nothing of it."""
    gateway: Any = spark.sparkContext._gateway
    bus = spark.sparkContext._jsc.sc().listenerBus()
    events = gateway.jvm.org.apache.spark.scheduler
    nothing = gateway.jvm.PythonUtils.toScalaMap(gateway.jvm.java.util.HashMap())
    info = events.cluster.ExecutorInfo("127.0.0.1", cores, nothing, nothing, nothing, profile)
    bus.post(events.SparkListenerExecutorAdded(int(time.time() * 1000), executor, info))
    bus.waitUntilEmpty()
    yield bus, events


def newest_executor(spark: SparkSession) -> str:
    """Id of one that is there; other tests may have killed the first ones."""
    executors: Any = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    ids = [executors.apply(i).id() for i in range(executors.size())]
    return str(max((one for one in ids if one != "driver"), key=int))


@pytest.fixture
def ghost(spark: SparkSession) -> Iterator[None]:
    """An executor whose end the status store has not heard of."""
    with status_store_hears_of(spark, "99", 4, 0) as (bus, events):
        yield
        bus.post(events.SparkListenerExecutorRemoved(int(time.time() * 1000), "99", "test"))
        bus.waitUntilEmpty()


@pytest.mark.usefixtures("ghost")
def test_a_share_of_each_batch_waited_for_an_executor_that_is_gone(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    topic.create(4).fill([10] * 4)
    [progress], rows = run_in_batches(spark, topic, checkpoint)
    assert rows == 40
    metrics = progress["sources"][0]["metrics"]
    assert metrics["assignor.strategy"] == "lag-aware-sticky"
    assert (metrics["assignor.fallbacks"], metrics["assignor.executors"]) == ("0", "2")


def test_executors_of_another_resource_profile_are_not_planned_for(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    topic.create(4).fill([10] * 4)
    executor = newest_executor(spark)
    with status_store_hears_of(spark, executor, 1, 7):
        [other], _ = run_in_batches(spark, topic, checkpoint)
    with status_store_hears_of(spark, executor, 1, 0):
        [again], _ = run_in_batches(spark, topic, f"{checkpoint}-again")
    told = [p["sources"][0]["metrics"] for p in (other, again)]
    assert [m["assignor.executors"] for m in told] == ["1", "2"]
    assert {m["assignor.strategy"] for m in told} == {"lag-aware-sticky"}
    assert {m["assignor.fallbacks"] for m in told} == {"0"}
