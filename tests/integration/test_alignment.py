"""Event-time alignment: no partition is read far beyond the slowest, by Kafka's timestamps."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException

from tests.integration.test_admission import ends, metrics_of
from tests.support import planner_proxy
from tests.support.spark_tools import (
    assert_each_row_once,
    assert_planned,
    read_topic,
    run_in_batches,
    run_to_table,
    to_dict,
    wait_for_end,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tests.support.kafka_topics import Topic
    from tests.support.spark_tools import DriverLog

pytestmark = pytest.mark.integration

MINUTE = 60
SPAN_S = 10 * MINUTE
ALIGNED = {"assignor": "lag-aware-sticky", "assignor.alignEventTime": "10 minutes"}
#: When the records end: an hour ago, at the end of a window.
END = time.time() // MINUTE * MINUTE - 60 * MINUTE


def write(topic: Topic, stamps: Sequence[Sequence[float]]) -> None:
    """Write a record to each partition for each of its timestamps, in seconds since 1970."""
    producer = Producer({"bootstrap.servers": topic.bootstrap_servers, "linger.ms": 50})
    for partition, of_partition in enumerate(stamps):
        for number, stamp in enumerate(of_partition):
            value, millis = f"{partition}/{number}".encode(), round(stamp * 1000)
            producer.produce(topic.name, value, partition=partition, timestamp=millis)
    assert producer.flush(30) == 0


def records(since: int, until: int = 0, every: int = 1) -> list[float]:
    """Give the times of records from so many minutes before the end to so many before it."""
    return [END - ago for ago in range(since * MINUTE, until * MINUTE, -every)]


def skewed() -> list[list[float]]:
    """As after consumers that were down for two hours, half an hour, ten minutes."""
    return [records(120, every=4), records(30, every=2), records(10)]


def assert_aligned(checkpoint: str, topic: Topic, stamps: Sequence[Sequence[float]]) -> None:
    """Nobody was read further than the span beyond the slowest one that had records."""
    start = [0] * len(stamps)
    for batch in ends(checkpoint, topic.name):
        unread = [of[at] for of, at in zip(stamps, start, strict=True) if at < len(of)]
        end = [batch.get(partition, 0) for partition in range(len(stamps))]
        read = [s for p, of in enumerate(stamps) for s in of[start[p] : end[p]]]
        assert len(unread) < 2 or max(read, default=0.0) < min(unread) + SPAN_S, batch
        start = end
    assert start == [len(of) for of in stamps]


class WindowedCount:
    """A count of records by minute with a watermark of ten minutes, and what it came to."""

    def __init__(self) -> None:
        self.batches: list[dict[str, Any]] = []
        self.by_window: dict[Any, int] = {}

    def run(
        self, spark: SparkSession, topic: Topic, checkpoint: str, fails_in: int = -1, **more: str
    ) -> None:
        """Run to the end of the topic, or until the sink fails in a batch."""
        from pyspark.sql import functions as f

        def keep(counts: DataFrame, batch: int) -> None:
            if batch == fails_in:
                raise RuntimeError("the sink fails")
            self.by_window |= {row["window"].start: row["count"] for row in counts.collect()}

        options = {"maxOffsetsPerTrigger": "900", **more}
        query = (
            read_topic(spark, topic, options)
            .withWatermark("timestamp", "10 minutes")
            .groupBy(f.window("timestamp", "1 minute"))
            .count()
            .writeStream.outputMode("update")
            .foreachBatch(keep)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        try:
            wait_for_end(query)
        finally:
            self.batches += map(to_dict, query.recentProgress)

    @property
    def records(self) -> int:
        """Records that were counted in any window."""
        return sum(self.by_window.values())

    @property
    def dropped(self) -> int:
        """Rows that came after their window was closed."""
        return sum(self._state("numRowsDroppedByWatermark"))

    @property
    def peak_rows(self) -> int:
        """Most rows that the state had."""
        return max(self._state("numRowsTotal"))

    def _state(self, name: str) -> list[int]:
        return [operator[name] for batch in self.batches for operator in batch["stateOperators"]]


@pytest.mark.long
def test_a_backfill_with_a_watermark_drops_nothing(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    stamps = skewed()
    total = sum(map(len, stamps))
    write(topic.create(4), stamps)
    sparks, ours = WindowedCount(), WindowedCount()

    sparks.run(spark, topic, str(tmp_path / "spark"), assignor="lag-aware-sticky")
    ours.run(spark, topic, str(tmp_path / "aligned"), **ALIGNED)

    assert_planned(sparks.batches)
    assert_planned(ours.batches)
    assert_aligned(str(tmp_path / "aligned"), topic, stamps)
    assert sparks.dropped > 0
    assert sparks.records < total
    assert ours.dropped == 0
    assert ours.records == total
    assert ours.peak_rows < sparks.peak_rows
    held = metrics_of(ours.batches)
    assert {m["assignor.heldBackBy"] for m in held[:9]} == {"time"}
    assert float(held[0]["assignor.eventTimeSpreadSeconds"]) == 110 * MINUTE
    assert held[-1]["assignor.heldBackBy"] == "nothing"


@pytest.mark.long
def test_a_restart_in_the_middle_goes_on_aligned(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    """The batch that failed runs again; the next one knows no times, and asks for them."""
    stamps = skewed()
    write(topic.create(3), stamps)
    count = WindowedCount()
    with pytest.raises(StreamingQueryException, match="the sink fails"):
        count.run(spark, topic, checkpoint, fails_in=5, **ALIGNED)
    count.run(spark, topic, checkpoint, **ALIGNED)

    assert_planned(count.batches)
    assert_aligned(checkpoint, topic, stamps)
    assert (count.dropped, count.records) == (0, sum(map(len, stamps)))


LIMITS = [
    pytest.param({}, id="alone"),
    pytest.param(
        {"assignor.fairness": "even", "maxOffsetsPerTrigger": "300"},
        id="even",
    ),
    pytest.param({"assignor.targetBatchSeconds": "5"}, id="target seconds"),
    pytest.param({"assignor.maxBytesPerTrigger": "4000"}, id="bytes"),
    pytest.param(
        {"minOffsetsPerTrigger": "500", "maxTriggerDelay": "1s", "assignor.reader": "spark"},
        id="a least number, and Spark's reader",
    ),
]


@pytest.mark.long
@pytest.mark.parametrize("limits", LIMITS)
def test_it_holds_with_other_limits_and_idle_partitions(
    spark: SparkSession, topic: Topic, checkpoint: str, tmp_path: Path, limits: dict[str, str]
) -> None:
    """One partition is empty, another has only old records: neither holds the others up."""
    stamps = [records(60, every=4), [], records(60, 55), records(20, every=2)]
    write(topic.create(4), stamps)
    table = str(tmp_path / "table")

    progresses = run_to_table(spark, topic, checkpoint, table, **ALIGNED, **limits)

    assert_planned(progresses)
    assert_aligned(checkpoint, topic, stamps)
    assert_each_row_once(spark, table, list(map(len, stamps)))


@pytest.mark.long
def test_a_stamp_of_the_future_neither_holds_up_nor_pulls_ahead(
    spark: SparkSession, topic: Topic, checkpoint: str, tmp_path: Path
) -> None:
    ahead = time.time() + 30 * MINUTE
    stamps = [records(60, every=4), [ahead, *records(15, every=2)], [*records(60, 50), ahead]]
    write(topic.create(3), stamps)
    table = str(tmp_path / "table")

    progresses = run_to_table(spark, topic, checkpoint, table, **ALIGNED)

    assert_planned(progresses)
    assert_each_row_once(spark, table, list(map(len, stamps)))
    logged = ends(checkpoint, topic.name)
    slow = [batch for batch in logged if stamps[0][min(batch[0], 899)] < END - 30 * MINUTE]
    assert len(slow) > 1
    assert max(batch[1] for batch in slow) < 5, "Kafka cannot see past the stray: a few records"


def test_gaps_of_transactions_neither_hold_up_nor_stall(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    """One partition begins with aborted records, another has nothing else."""
    first, then = records(60, every=20), records(20, every=20)
    write(topic.create(3), [first])
    producer = Producer(
        {"bootstrap.servers": topic.bootstrap_servers, "transactional.id": topic.name}
    )
    producer.init_transactions(60)
    for stamps, partitions, end in (
        (records(50, 40, every=20), (1, 2), producer.abort_transaction),
        (then, (1,), producer.commit_transaction),
    ):
        producer.begin_transaction()
        for stamp in stamps:
            for partition in partitions:
                millis = round(stamp * 1000)
                producer.produce(topic.name, b"x", partition=partition, timestamp=millis)
        producer.flush(30)
        end(30)

    progresses, rows = run_in_batches(
        spark, topic, checkpoint, **ALIGNED,
        **{"maxOffsetsPerTrigger": "1000", "kafka.isolation.level": "read_committed"},
    )  # fmt: skip

    assert rows == len(first) + len(then)
    assert_planned(progresses)
    aborted = len(records(50, 40, every=20)) + 1
    assert ends(checkpoint, topic.name)[-1] == {
        0: len(first), 1: aborted + len(then) + 1, 2: aborted,
    }  # fmt: skip


@pytest.mark.parametrize("stamped_by", ["CreateTime", "LogAppendTime"])
def test_nothing_is_asked_when_nothing_lags(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    planner: Callable[[str], None],
    record: Path,
    stamped_by: str,
) -> None:
    now = time.time()
    old = stamped_by == "LogAppendTime"  # the broker's clock counts then, not the producer's
    topic.create(3, {"message.timestamp.type": stamped_by})
    write(topic, [[now - 3600 * old - n for n in range(60, 0, -1)]] * 3)
    planner("record")

    progresses, rows = run_in_batches(spark, topic, checkpoint, **ALIGNED)

    assert rows == 180
    assert_planned(progresses)
    asked = planner_proxy.read_requests(record, "admit")
    assert len(asked) == len(progresses)
    assert {request["times"]["lookUps"] for request in asked} == {0}
    assert {m["assignor.heldBackBy"] for m in metrics_of(progresses)} == {"records", "nothing"}


def test_kafka_is_asked_once_a_batch(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    planner: Callable[[str], None],
    record: Path,
) -> None:
    stamps = [records(60, every=10), records(30, every=10)]
    write(topic.create(2), stamps)
    planner("record")

    progresses, rows = run_in_batches(
        spark, topic, checkpoint, **ALIGNED, maxOffsetsPerTrigger="1000"
    )

    assert rows == sum(map(len, stamps))
    assert_planned(progresses)
    look_ups = [r["times"]["lookUps"] for r in planner_proxy.read_requests(record, "admit")]
    assert look_ups == [0, 1] * len(progresses)


def test_after_pauses_of_many_lengths_a_burst_is_read_at_once(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    """What was read last says little about the next record: it was read one a batch."""
    write(topic.create(14), [[END - 20 * MINUTE * ago] for ago in range(14)])
    query = (
        read_topic(spark, topic, {**ALIGNED, "assignor.onError": "fail"})
        .writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .start()
    )
    try:
        wait_until(lambda: rows_of(query) == 14, "the old records", 120)
        before = batches_of(query)
        write(topic, [[time.time()]] * 14)
        wait_until(lambda: rows_of(query) == 28, "the burst", 120)
        assert len(batches_of(query)) - len(before) <= 3
        assert_planned(batches_of(query))
    finally:
        query.stop()


def batches_of(query: StreamingQuery) -> list[dict[str, Any]]:
    """Give the progresses with records; a failure of the query is raised."""
    assert query.exception() is None, str(query.exception())
    return [to_dict(p) for p in query.recentProgress if p.numInputRows]


def rows_of(query: StreamingQuery) -> int:
    """Give the number of records that were read."""
    return sum(progress["numInputRows"] for progress in batches_of(query))


@pytest.mark.falls_back
def test_where_kafka_does_not_tell_sparks_limits_hold(
    spark: SparkSession, topic: Topic, checkpoint: str, driver_log: DriverLog
) -> None:
    """No time at all for an answer."""
    write(topic.create(2), [records(60, every=60), records(10, every=10)])

    progresses, rows = run_in_batches(
        spark, topic, checkpoint, **ALIGNED, **{"assignor.planTimeoutMs": "1"}
    )

    assert rows == 120
    assert {m["assignor.heldBackBy"] for m in metrics_of(progresses)} == {"spark"}
    warnings = driver_log.lines("could not limit a micro-batch")
    reason = "Kafka did not return record timestamps"
    assert any(reason in line for line in warnings), warnings
    # Each reason is told once; Kafka's client has several for no time, the planner one of its own.
    reasons = [line.split("would stop the query")[1] for line in warnings]
    assert len(set(reasons)) == len(reasons), reasons


@pytest.mark.parametrize("value", ["600", "0 seconds"])
def test_a_bad_value_is_one_line_at_the_start(
    spark: SparkSession, topic: Topic, checkpoint: str, value: str
) -> None:
    topic.create(1)
    said = f"'assignor.alignEventTime' is '{value}': a duration with its unit"
    with pytest.raises(StreamingQueryException, match=said):
        run_to_table(
            spark, topic, checkpoint, checkpoint + "-table",
            **{**ALIGNED, "assignor.alignEventTime": value},
        )  # fmt: skip
