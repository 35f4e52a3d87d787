"""`assignor.commitGroup`: the groups of a query hold the end offsets of its completed batches."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ResourceType
from pyspark.errors import StreamingQueryException

from tests.support import kafka_topics
from tests.support.kafka_topics import Topic as AnyTopic
from tests.support.secured_broker import BOB, STORE_PASSWORD, allow
from tests.support.spark_tools import assert_planned, read_topic, to_dict, wait_for_end, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from tests.support.kafka_topics import Topic
    from tests.support.secured_broker import Secured
    from tests.support.spark_tools import DriverLog

pytestmark = pytest.mark.integration

HIDDEN = "word-that-nobody-may-see"


def new_group() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


def committed(topic: Topic, group: str) -> dict[int, int]:
    """Committed offsets by partition of this topic; other topics must not be in the group."""
    found = kafka_topics.fetch_committed(topic.bootstrap_servers, group)
    assert {name for name, _ in found} <= {topic.name}
    return {partition: offset for (_, partition), offset in found.items()}


def opened(spark: SparkSession, topic: Topic, group: str, **options: str) -> DataFrame:
    named = {"assignor": "lag-aware-sticky", "assignor.commitGroup": group} | options
    return read_topic(spark, topic, named)


def run(frame: DataFrame, checkpoint: str, **trigger: Any) -> StreamingQuery:
    writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
    return writer.trigger(**trigger or {"availableNow": True}).start()


def test_two_sources_with_two_groups_each_end_at_their_own_end_offsets(
    spark: SparkSession, topic: Topic, checkpoint: str, driver_log: DriverLog
) -> None:
    topic.create(3).fill([30, 20, 0])
    other = AnyTopic(topic.bootstrap_servers, f"{topic.name}-other").create(2)
    other.fill([7, 9])
    mine, theirs = new_group(), new_group()
    batched = {"maxOffsetsPerTrigger": "20"}

    both = opened(spark, topic, mine, **batched).union(opened(spark, other, theirs, **batched))
    progresses = wait_for_end(run(both, checkpoint))

    assert committed(topic, mine) == {0: 30, 1: 20, 2: 0}
    assert committed(other, theirs) == {0: 7, 1: 9}
    assert not driver_log.lines("could not commit")
    metrics = [source["metrics"] for source in progresses[-1]["sources"]]
    assert {m["assignor.commitGroup"] for m in metrics} == {mine, theirs}
    assert {m["assignor.commitFailures"] for m in metrics} == {"0"}


def test_a_restart_without_new_data_catches_up_what_was_not_committed(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    planner: Callable[[str], None],
    record: Path,
    driver_log: DriverLog,
) -> None:
    topic.create(2).fill([5, 6])
    before, after = new_group(), new_group()
    wait_for_end(run(opened(spark, topic, before), checkpoint))

    planner("record")  # another group: as if the commit of the last batch had been lost
    secret = {"kafka.sasl.jaas.config": f'a.B required password="{HIDDEN}";'}
    wait_for_end(run(opened(spark, topic, after, **secret), checkpoint))

    assert committed(topic, after) == {0: 5, 1: 6}
    assert not driver_log.lines(HIDDEN)
    assert HIDDEN not in record.read_text()  # what the planner heard
    kept = [path for path in Path(checkpoint).rglob("*") if path.is_file()]
    assert kept
    assert not [path for path in kept if HIDDEN.encode() in path.read_bytes()]


@pytest.mark.long
def test_a_query_over_tls_with_stores_of_java_commits_over_tls(
    spark: SparkSession, secured: Secured, checkpoint: str, driver_log: DriverLog
) -> None:
    mine = AnyTopic(secured.broker.bootstrap_servers, "over-tls").create(2)
    mine.fill([5, 6])
    group = new_group()
    allow(secured.broker, ResourceType.TOPIC, mine.name, "READ", user=BOB)
    allow(secured.broker, ResourceType.GROUP, group, "READ", user=BOB)
    tls = {f"kafka.{name}": value for name, value in secured.tls.items()}

    progresses = wait_for_end(run(opened(spark, mine, group, **tls), checkpoint))

    assert_planned(progresses)
    assert sum(p["numInputRows"] for p in progresses) == 11
    assert committed(mine, group) == {0: 5, 1: 6}
    assert not driver_log.lines("could not commit")
    assert not driver_log.lines(STORE_PASSWORD)


def test_a_batch_that_failed_is_not_committed(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    topic.create(1).fill([50])
    group = new_group()

    def fail_on_the_third(frame: DataFrame, number: int) -> None:
        assert frame.count() == 10
        if number == 2:
            raise RuntimeError("the sink is broken")

    frame = opened(spark, topic, group, maxOffsetsPerTrigger="10")
    writer = frame.writeStream.foreachBatch(fail_on_the_third)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match="the sink is broken"):
        wait_for_end(query)

    assert committed(topic, group) == {0: 20}


def test_a_fault_after_a_batch_was_written_does_not_end_the_query(
    spark: SparkSession, topic: Topic, checkpoint: str, driver_log: DriverLog
) -> None:
    topic.create(1).fill([20])
    repairs: list[Callable[[], None]] = []

    def break_the_bridge(frame: DataFrame, number: int) -> None:
        assert frame.count() == 10
        if number == 0:
            [query] = spark.streams.active
            stream = query._jsq.streamingQuery().sources().head()
            repairs.append(without(field(stream, "planner"), "stateFiles"))

    frame = opened(spark, topic, new_group(), maxOffsetsPerTrigger="10")
    writer = frame.writeStream.foreachBatch(break_the_bridge)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    progresses = [p for p in wait_for_end(query) if p["numInputRows"]]

    metrics = [p["sources"][0]["metrics"] for p in progresses]
    assert [m["assignor.strategy"] for m in metrics] == ["lag-aware-sticky"] * 2
    assert {m["assignor.fallbacks"] for m in metrics} == {"0"}
    assert len(driver_log.lines("could not complete a batch")) == 1
    [repair] = repairs
    repair()


def field(of: Any, name: str) -> Any:
    """Give a private field of a Java object, to be read or written."""
    found = of.getClass().getDeclaredField(name)
    found.setAccessible(True)
    return found.get(of)


def without(of: Any, name: str) -> Callable[[], None]:
    """Take a private field of a planner away; gives what ends the planner with it."""
    taken = of.getClass().getDeclaredField(name)
    taken.setAccessible(True)
    value = taken.get(of)
    taken.set(of, None)

    def repair() -> None:
        taken.set(of, value)
        end = of.getClass().getMethod("close", None)
        end.setAccessible(True)
        end.invoke(of, None)

    return repair


def test_a_refusal_is_one_warning_and_the_stream_goes_on(
    spark: SparkSession, topic: Topic, checkpoint: str, driver_log: DriverLog
) -> None:
    topic.create(1).fill([40])
    group = new_group()
    member = Consumer(
        {"bootstrap.servers": topic.bootstrap_servers, "group.id": group,
         "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    )  # fmt: skip
    try:
        member.subscribe([topic.name])
        wait_until(lambda: member.poll(0.1) is not None, "a record for the member")
        member.commit(offsets=[TopicPartition(topic.name, 0, 2)], asynchronous=False)
        frame = opened(spark, topic, group, maxOffsetsPerTrigger="10")
        query = run(frame, checkpoint, processingTime="0 seconds")
        try:
            query.processAllAvailable()
            wait_until(lambda: driver_log.lines("could not commit"), "a warning")
            assert committed(topic, group) == {0: 2}
            topic.fill([50], first=40)  # several more are refused
            query.processAllAvailable()
            wait_until(lambda: failures(query) > 2, "a count of refusals")
            member.close()
            topic.fill([15], first=90)
            query.processAllAvailable()
            wait_until(lambda: committed(topic, group) == {0: 105}, "a commit of a running query")
        finally:
            query.stop()
    finally:
        member.close()
    [warning] = driver_log.lines("could not commit")
    assert f"group '{group}'" in warning
    assert "the group has live members" in warning
    assert query.exception() is None


def failures(query: StreamingQuery) -> int:
    metrics = to_dict(query.lastProgress)["sources"][0]["metrics"]
    return int(metrics["assignor.commitFailures"])


def test_an_idle_query_commits_again_at_a_steady_pace(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    topic.create(1).fill([10])
    group = new_group()
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "100ms")
    try:
        query = run(opened(spark, topic, group), checkpoint, processingTime="0 seconds")
        try:
            query.processAllAvailable()
            wait_until(lambda: committed(topic, group) == {0: 10}, "the first commit")
            admin = AdminClient({"bootstrap.servers": topic.bootstrap_servers})
            for done in admin.delete_consumer_groups([group]).values():
                done.result(30)
            wait_until(lambda: committed(topic, group) == {0: 10}, "a commit of the idle query")
        finally:
            query.stop()
    finally:
        spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")
    told = [to_dict(p) for p in query.recentProgress]
    commits = [int(p["sources"][0]["metrics"]["assignor.commits"]) for p in told]
    assert commits[-1] < len(told) / 3  # not one for each idle trigger
