"""The order of an upsert, conflicts with other writers, and the time zone of a job."""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Any

import pytest
from delta.tables import DeltaTable

from streaming import run_job, start_job
from streaming.pipeline.config.loading import load_job
from streaming.pipeline.config.sinks import DeltaSink
from streaming.pipeline.delta import upsert
from streaming.pipeline.delta.writer import DeltaWriter
from streaming.pipeline.job_errors import summarize
from streaming.pipeline.spark.time_zone import (
    TIME_ZONE,
    record_time_zone,
    use_default_time_zone,
)
from tests.support.pipeline_tools import job, rows, send_at
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.support.kafka_topics import Topic

pytestmark = pytest.mark.integration
NOW = int(time.time() * 1000)


def record(key: int, name: str | None, seconds: int) -> tuple[str, str | None, int, int]:
    value = None if name is None else json.dumps({"id": key, "seq": 1, "name": name})
    return str(key), value, 0, NOW + 1000 * seconds


def test_the_highest_offset_wins_if_a_producers_clock_is_set_back(
    spark: SparkSession, topic: Topic, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Checked within a batch (3 and 4) and across two (1 and 2), for values and deletes."""
    topic.create(1)
    config = job(topic, tmp_path, mode="upsert", keys="id")
    with caplog.at_level(logging.WARNING, "streaming.pipeline"):
        send_at(topic, [record(1, "first", 0), record(2, "row", 0)])
        run_job(spark, config)
        late = [record(3, "first", 0), record(4, "row", 0), record(3, "second", -5)]
        send_at(topic, [*late, record(4, None, -5), record(1, "second", -5), record(2, None, -5)])
        run_job(spark, config)
    assert rows(spark, tmp_path / "table", "id", "name") == [(1, "second"), (3, "second")]
    assert [r.getMessage() for r in caplog.records if "batch" in r.getMessage()] == []


def kafka(partition: int, offset: int, second: int, topic: str = "t") -> str:
    return (
        f"named_struct('topic', '{topic}', 'partition', {partition}, 'offset', {offset}L, "
        f"'timestamp', timestamp_seconds({second}), 'key', binary('k'), 'tombstone', false)"
    )


class Upsert:
    """A run of one query that merges rows with a key, a name and a position in Kafka."""

    def __init__(self, spark: SparkSession, table: Path, **more: Any) -> None:
        self.session = spark.newSession()
        self.session.conf.set("spark.sql.shuffle.partitions", "2")
        options = {"path": str(table), "mode": "upsert", "keys": "id"}
        self.sink = DeltaSink.model_validate(options | more)
        self.writer = DeltaWriter(self.sink, "job.yaml: sink")
        self.writer.set_query("query")
        self._number = -1

    def frame(self, *records: tuple[str, str, str]) -> DataFrame:
        selects = (
            f"SELECT {key} AS id, '{name}' AS name, {k} AS _kafka" for key, name, k in records
        )
        return upsert.add_sequence(self.session.sql(" UNION ALL ".join(selects)), self.sink)

    def write(self, *records: tuple[str, str, str]) -> None:
        frame = self.frame(*records)
        if self._number < 0:
            self.writer.check(self.session, frame)
            self.writer.prepare(self.session, frame)
        self._number += 1
        self.writer(frame, self._number)


@pytest.mark.long
@pytest.mark.parametrize(
    "second_batch",
    [
        pytest.param(False, id="in one batch"),
        pytest.param(True, id="in two batches"),
    ],
)
def test_a_key_of_two_partitions_or_topics_is_reported_once(spark, tmp_path, caplog, second_batch):
    """The higher offset stays; nothing is reported if `sequence_by` defines the order."""
    records = [
        ("1", "a", kafka(0, 9, 1)), ("2", "a", kafka(0, 10, 1)), ("3", "a", kafka(0, 11, 1)),
        ("1", "b", kafka(1, 3, 2)), ("2", "b", kafka(0, 12, 2, "u")),
        ("3", "b", kafka(0, 12, 0)),
    ]  # fmt: skip
    batches = [records[:3], records[3:]] if second_batch else [records]
    with caplog.at_level(logging.WARNING):
        run = Upsert(spark, tmp_path / "table")
        for batch in batches:
            run.write(*batch)
        run.write(("1", "c", kafka(1, 4, 3)))
        ordered = Upsert(spark, tmp_path / "ordered", sequence_by="name")
        for batch in batches:
            ordered.write(*batch)
    assert rows(spark, tmp_path / "table", "id", "name") == [(1, "a"), (2, "b"), (3, "b")]
    assert rows(spark, tmp_path / "ordered", "id", "name") == [(1, "b"), (2, "b"), (3, "b")]
    [said] = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert said.startswith(f"job.yaml: sink: batch {len(batches) - 1} for the table ")
    assert "for 2 records, first at partition " in said
    assert ", a key came from more than one partition; " in said
    assert "set 'sequence_by' to columns that define the order" in said


@pytest.mark.long
def test_restarted_offsets_are_reported(spark, tmp_path, caplog):
    """The records of a recreated topic are older by their offsets."""
    run = Upsert(spark, tmp_path / "table")
    with caplog.at_level(logging.WARNING):
        run.write(("1", "a", kafka(0, 9, 1)), ("2", "a", kafka(0, 10, 1)))
        run.write(("2", "older", kafka(0, 8, 0)))
        assert caplog.records == []
        run.write(("1", "again", kafka(0, 0, 5)))
    assert rows(spark, tmp_path / "table", "id", "name") == [(1, "a"), (2, "a")]
    said = "for 1 record, first at partition 0, offset 0, "
    assert said in caplog.text
    assert ", the row in the table has a higher offset but an earlier timestamp" in caplog.text


@pytest.mark.long
def test_an_older_table_keeps_its_order_and_reports_clocks_set_back(spark, tmp_path, caplog):
    """With or without properties, the fields of `_sequence` define the order, and are kept."""
    kept = "struct<timestamp:timestamp,partition:int,offset:bigint>"
    for number, has_properties in enumerate((True, False)):
        table = tmp_path / str(number)
        run = Upsert(spark, table)
        made = upsert.match_table_sequence(
            run.frame(("1", "a", kafka(0, 1, 9)), ("2", "a", kafka(0, 2, 9))), run.sink,
            upsert.BY_TIMESTAMP,
        )  # fmt: skip
        properties = {"assignor.mode": "upsert", "assignor.keys": '["id"]',
                      "assignor.deletes": "remove", "assignor.sequenceBy": "[]"}  # fmt: skip
        columns = upsert.select_table_columns(made, run.sink).schema
        run.writer.table.create(spark, run.sink, columns, properties if has_properties else {})
        upsert.select_table_columns(made, run.sink).write.format("delta").mode("append").save(
            str(table)
        )
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            run.write(("1", "b", kafka(0, 3, 4)), ("2", "b", kafka(0, 4, 10)))
            run.write(("3", "a", kafka(1, 9, 9)), ("3", "b", kafka(1, 10, 8)))
        assert rows(spark, table, "id", "name") == [(1, "a"), (2, "b"), (3, "a")]
        found = spark.read.format("delta").load(str(table)).schema["_sequence"].dataType
        assert found.simpleString() == kept
        [said] = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        assert (
            "for 1 record, first at partition 0, offset 3, timestamps contradict offsets;" in said
        )


@pytest.mark.long
def test_a_key_that_a_partition_column_cannot_hold_is_refused(spark, tmp_path):
    """Delta reads it back as null or another value, so a merge would not find its row."""
    for number, (zone, kind, kept, lost) in enumerate((
        ("UTC", "STRING", "' '", ("''", "'__HIVE_DEFAULT_PARTITION__'")),
        ("UTC", "BINARY", "X'61'", ("X''", "X'FF'")),
        ("Europe/Berlin", "TIMESTAMP", "timestamp'2025-10-26T03:30:00Z'",
         ("timestamp'2025-10-26T01:30:00Z'", "timestamp'-0100-01-01T00:00:00Z'")),
    )):  # fmt: skip
        run = Upsert(spark, tmp_path / str(number), partition_by="Id")
        run.session.conf.set("spark.sql.session.timeZone", zone)
        place = kafka(0, 7, 1)
        for name in ("first", "second"):
            run.write((f"CAST({kept} AS {kind})", name, place.replace("7L", f"{len(name)}L")))
        assert rows(spark, tmp_path / str(number), "name") == [("second",)]
        later = Upsert(spark, tmp_path / str(number))  # the table is still partitioned
        later.session.conf.set("spark.sql.session.timeZone", zone)
        later.writer.set_query("later")
        for value in lost:
            with pytest.raises(Exception, match="cannot hold") as raised:
                later.write((f"CAST({value} AS {kind})", "lost", place))
            assert summarize(raised.value).startswith(
                "key column 'id' has a value that a partition of the table cannot hold in the row "
                "of t-0 offset 7; filter"
            )
        assert rows(spark, tmp_path / str(number), "name") == [("second",)]


@pytest.mark.long
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_conflict_with_another_writer_is_retried(spark, topic, tmp_path, caplog, mode):
    """Another writer commits while a task of the batch waits; records are counted once."""
    topic.create(1)
    gate, reached, table = tmp_path / "gate", tmp_path / "reached", tmp_path / "table"

    def wait(key: int) -> int:
        if key == 2:  # in one task, because the other writer needs a slot
            reached.touch()
            deadline = time.monotonic() + 120
            while not gate.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
        return key

    spark.udf.register("wait_at_gate", wait, "bigint")
    sink = {"mode": "upsert", "keys": "id"} if mode == "upsert" else {}
    config = job(topic, tmp_path, **sink)
    config["transform"] = {"sql": "SELECT wait_at_gate(id) AS id, name, _kafka FROM records"}
    gate.touch()
    send_at(topic, [record(1, "a", 0), record(2, "a", 0)])
    run_job(spark, config)
    for file in (gate, reached):
        file.unlink()
    send_at(topic, [record(2, "b", 0), record(3, "b", 0), record(4, "b", 0)])
    with caplog.at_level(logging.WARNING):
        running = start_job(spark, config)
        wait_until(reached.exists, "the batch's task", 120)
        if mode == "upsert":
            DeltaTable.forPath(spark, str(table)).delete("id = 1")
        else:
            spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('a' = 'b')")
        gate.touch()
        running.await_end()
    expected = [(2, "b"), (3, "b"), (4, "b")]
    before = [] if mode == "upsert" else [(1, "a"), (2, "a")]
    assert rows(spark, table, "id", "name") == sorted(before + expected)
    said = [r.getMessage() for r in caplog.records if "retrying batch" in r.getMessage()]
    assert len(said) == 1
    assert f"the table {str(table)!r} during attempt 1 of 10: " in said[0]
    [newest] = spark.sql(f"DESCRIBE HISTORY delta.`{table}` LIMIT 1").collect()
    assert json.loads(newest.userMetadata)["assignor"]["counted"]["records"] == 3


def test_a_job_keeps_the_time_zone_of_its_first_run(spark, topic, tmp_path, caplog):
    """Without a configured zone, it is UTC for a new job and the machine's for an older one."""
    loaded = load_job(job(topic, tmp_path)).job
    checkpoint = tmp_path / "checkpoint"
    session = spark.newSession()
    session.conf.set(TIME_ZONE, "Asia/Tokyo")  # the machine's zone
    assert use_default_time_zone(session, loaded) == "UTC"
    assert session.conf.get(TIME_ZONE) == "UTC"
    checkpoint.mkdir()
    with caplog.at_level(logging.WARNING):
        record_time_zone(session, loaded)
        session.conf.set(TIME_ZONE, "Etc/UTC")
        record_time_zone(session, loaded)  # another name of the same zone
        assert caplog.messages == []
        session.conf.set(TIME_ZONE, "Asia/Tokyo")
        record_time_zone(session, loaded)
    [said] = caplog.messages
    assert "were read as UTC in earlier runs and are read as Asia/Tokyo now" in said
    assert use_default_time_zone(session, loaded) == "UTC"

    (checkpoint / ".assignor.zone").unlink()
    (checkpoint / "sink" / "offsets").mkdir(parents=True)
    (checkpoint / "sink" / "offsets" / "0").touch()
    session.conf.set(TIME_ZONE, "Asia/Tokyo")
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert use_default_time_zone(session, loaded) == "Asia/Tokyo"
        record_time_zone(session, loaded)
        assert use_default_time_zone(session, loaded) == "Asia/Tokyo"
    [said] = caplog.messages
    assert "used the machine's time zone before and keeps it (Asia/Tokyo)" in said
