"""The last batch of a query is read from the table's log once a run, then from checksums.

Two writers with one query id simulate two drivers, one of which was thought dead.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError

from streaming import run_job
from streaming.delta.transactions import make_writer_name, read_table_log
from streaming.pipeline.config.sinks import DeltaSink
from streaming.pipeline.delta import upsert
from streaming.pipeline.delta.once import OnceWriter
from streaming.pipeline.delta.writer import DeltaWriter
from streaming.pipeline.job_errors import TableError
from tests.support.pipeline_tools import forget_last_commit, job, rows, send
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.integration

QUERY = "00000000-0000-0000-0000-00000000000a"
#: Sink of an upsert.
MERGED = {"mode": "upsert", "keys": "id", "sequence_by": "seq"}
#: Number of commits after which Delta writes a checkpoint of its log.
CHECKPOINT = 10


class Driver:
    """A run of one query that writes one row per batch, or merges into two keys."""

    def __init__(
        self, spark: SparkSession, path: Path | None, name: str | None = None, **more: Any
    ) -> None:
        self.session = spark.newSession()
        self.session.conf.set("spark.sql.shuffle.partitions", "2")
        sink = DeltaSink(path=str(path) if path else None, table=name, **more)
        self.writer = DeltaWriter(sink, "sink")
        self.writer.set_query(QUERY)
        frame = self.frame(0)
        self.writer.check(self.session, frame)
        self.writer.prepare(self.session, frame)

    def frame(self, number: int) -> DataFrame:
        rows, sink = self.session.range(number, number + 1), self.writer.sink
        if sink.mode == "append":
            return rows
        return upsert.add_sequence(rows.selectExpr("id % 2 AS id", "id AS seq"), sink)

    def write(self, number: int, frame: DataFrame | None = None) -> int:
        """Write a batch, and return its number of Spark jobs."""
        before = count_jobs(self.session)
        self.writer(self.frame(number) if frame is None else frame, number)
        return count_jobs(self.session) - before

    @property
    def uses_checksums(self) -> bool:
        return self.writer.once_writer.unsupported_reason is None


def count_jobs(spark: SparkSession) -> int:
    count: int = spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()
    return count


@pytest.mark.long
@pytest.mark.parametrize("by_name", [False, pytest.param(True, marks=pytest.mark.long)])
def test_only_a_runs_first_batch_reads_the_tables_log(spark, tmp_path, by_name):
    where = (None, f"t_{tmp_path.name}") if by_name else (tmp_path / "table", None)
    driver = Driver(spark, *where)
    first, *later = [driver.write(number) for number in range(CHECKPOINT - 2)]
    assert driver.uses_checksums
    assert set(later) == {min(later)}
    assert first > later[0]
    folder = driver.writer.table.find_location(spark)
    assert read_table_log(folder, QUERY).batch == CHECKPOINT - 3
    again = Driver(spark, *where)
    assert again.write(CHECKPOINT - 3) > 0
    assert again.write(CHECKPOINT - 2) == later[0]
    table = spark.read.format("delta").load(folder)
    assert sorted(row.id for row in table.collect()) == list(range(CHECKPOINT - 1))


@pytest.mark.long
@pytest.mark.parametrize(
    "sink",
    [
        pytest.param({}, id="append"),
        pytest.param(
            {"mode": "upsert", "keys": "id", "sequence_by": "seq"},
            id="upsert",
        ),
    ],
)  # fmt: skip
def test_checkpoints_of_the_log_are_written_in_the_background(spark, tmp_path, sink):
    """A thread of the jar writes them, and the end of the run waits for it."""
    table = tmp_path / "table"
    driver = Driver(spark, table, **sink)
    first = count_jobs(spark)
    for number in range(CHECKPOINT + 3):
        driver.write(number)
    driver.writer.finish()
    checkpoint = json.loads((table / "_delta_log" / "_last_checkpoint").read_text("utf-8"))
    assert checkpoint["version"] == CHECKPOINT
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    ours = [jobs.apply(i) for i in range(jobs.size()) if jobs.apply(i).jobId() >= first]
    named = [str(job.description()) for job in ours]
    beside = [name for name in named if "in the background" in name]
    assert beside
    if driver.writer.sink.mode == "append":  # a merge reads the log in each batch
        state = f"Compute snapshot for version: {CHECKPOINT}"
        computed = [name for name in named if state in name]
        assert computed
        assert set(computed) <= set(beside)
    before = rows(spark, table, "id")
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    assert rows(spark, table, "id") == before  # by the checkpoint
    again = Driver(spark, table, **sink)
    again.write(CHECKPOINT + 2)  # it is there
    assert rows(spark, table, "id") == before


@pytest.mark.long
def test_a_later_batch_of_a_killed_run_is_skipped_by_the_next(spark, topic, tmp_path):
    """The run was killed between the table's commit and the checkpoint's."""
    topic.create(1)
    send(topic, [(str(n), f'{{"id": {n}, "seq": 1}}') for n in range(40)])
    config = job(topic, tmp_path)
    config["source"]["maxOffsetsPerTrigger"] = 10
    run_job(spark, config)
    forget_last_commit(tmp_path / "checkpoint" / "sink")
    send(topic, [(str(n), f'{{"id": {n}, "seq": 1}}') for n in range(40, 60)])
    run_job(spark, config)
    assert rows(spark, tmp_path / "table", "id") == [(n,) for n in range(60)]
    commits = spark.sql(f"DESCRIBE HISTORY delta.`{tmp_path / 'table'}`").collect()
    assert [row.operation for row in commits].count("WRITE") == 6


@pytest.mark.long
def test_a_batch_that_another_driver_merged_is_skipped(spark, tmp_path):
    """The checksum shows it, as for an append; Delta's own merge would read the log."""
    merges = {"mode": "upsert", "keys": "id", "sequence_by": "seq"}
    table = tmp_path / "table"
    driver = Driver(spark, table, **merges)
    for number in range(4):
        driver.write(number)
    Driver(spark, table, **merges).write(4)
    driver.write(4, driver.frame(6))
    assert rows(spark, table, "id", "seq") == [(0, 4), (1, 3)]
    driver.write(5, driver.frame(2))  # older than the rows in the table
    driver.write(6, driver.frame(5))
    assert rows(spark, table, "id", "seq") == [(0, 4), (1, 5)]
    assert driver.uses_checksums


@pytest.mark.long
def test_a_batch_written_meanwhile_by_another_driver_is_skipped(spark, tmp_path):
    """This also applies after the first batch of a run."""
    table = tmp_path / "table"
    one, two = Driver(spark, table), Driver(spark, table)
    one.write(0)
    for number in (0, 1, 2):
        two.write(number)
    one.write(1)
    one.write(2)
    one.write(3)
    two.write(3)
    assert one.uses_checksums
    assert two.uses_checksums
    assert rows(spark, table, "id") == [(0,), (1,), (2,), (3,)]


def test_two_drivers_that_write_a_batch_at_once_write_it_once(spark, tmp_path):
    """The first has read the table and waits in a task while the second commits."""
    table, gate, reached = tmp_path / "table", tmp_path / "gate", tmp_path / "reached"
    one, two = Driver(spark, table), Driver(spark, table)
    for driver in (one, two):
        driver.write(0)

    def wait(parts: Any) -> Any:
        reached.touch()
        for _ in range(1200):
            if gate.exists():
                break
            time.sleep(0.05)
        yield from parts

    schema = one.frame(1).schema
    single = one.frame(1).rdd.coalesce(1)  # the other driver needs a slot, too
    slow = one.session.createDataFrame(single.mapPartitions(wait), schema)
    failures: list[Exception] = []

    def write() -> None:
        try:
            one.write(1, slow)
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    wait_until(reached.exists, "the first driver's task", 60)
    two.write(1)
    gate.touch()
    thread.join(60)
    assert "ConcurrentTransaction" in str(failures) or "CONCURRENT_TRANSACTION" in str(failures)
    assert rows(spark, table, "id") == [(0,), (1,)]


@pytest.mark.long
def test_the_log_is_read_if_there_is_no_checksum(spark, tmp_path):
    """This happens if another engine committed, or a property expires transaction ids."""
    table = tmp_path / "table"
    driver = Driver(spark, table)
    jobs = [driver.write(number) for number in range(3)]
    for file in table.glob("_delta_log/*.crc"):
        file.unlink()
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    assert driver.write(2) > 0
    assert rows(spark, table, "id") == [(0,), (1,), (2,)]
    driver.write(3)
    driver.write(4)
    properties = "'delta.setTransactionRetentionDuration' = 'interval 5 days'"
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ({properties})")
    assert driver.write(5) > jobs[-1]
    driver.write(5)
    assert rows(spark, table, "id") == [(n,) for n in range(6)]


@pytest.mark.long
def test_a_table_restored_or_recreated_meanwhile_is_written_as_by_delta(spark, tmp_path):
    """A removed batch is treated as in Delta, and the run continues after it."""
    found = []
    for name in ("by the log", "by checksums"):
        table = tmp_path / name
        driver = Driver(spark, table)
        if name == "by the log":
            driver.writer.once_writer.unsupported_reason = "of this test"
        for number in range(4):
            driver.write(number)
        DeltaTable.forPath(spark, str(table)).restoreToVersion(2)
        driver.write(3)
        driver.write(4)
        spark.sql(f"CREATE OR REPLACE TABLE delta.`{table}` (id BIGINT) USING delta")
        driver.write(4)
        driver.write(5)
        found.append(rows(spark, table, "id"))
    assert found[0] == found[1]


@pytest.mark.long
@pytest.mark.parametrize(
    "way",
    [
        pytest.param("by checksums", marks=pytest.mark.long),
        pytest.param("by the log", marks=pytest.mark.long),
        "by a merge",
    ],
)
def test_a_table_removed_meanwhile_is_not_created_again(spark, tmp_path, way):
    """Regression: an append created a table with its batch alone."""
    table = tmp_path / "table"
    driver = Driver(spark, table, **(MERGED if way == "by a merge" else {}))
    driver.writer._checkpoint = "c"
    if way == "by the log":
        driver.writer.once_writer.unsupported_reason = "of this test"
    driver.write(0)
    driver.write(1)
    shutil.rmtree(table)
    with pytest.raises(
        TableError,
        match="no longer exists, but according to checkpoint 'c', its query has completed batch 1",
    ):
        driver.write(2)
    assert not table.exists()


def commit_file(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020}.json"


def newest_version(table: Path) -> int:
    return max(int(file.stem) for file in table.glob("_delta_log/*.json"))


@pytest.mark.long
def test_a_run_lists_the_tables_log_only_after_a_checkpoint(spark, tmp_path):
    """A listing would find the commit after a gap, which Delta treats as a damaged log."""
    table = tmp_path / "table"
    driver = Driver(spark, table)
    driver.write(0)
    gap = commit_file(table, 3 * CHECKPOINT)
    gap.touch()
    for number in range(1, CHECKPOINT):
        driver.write(number)
    checkpoint = table / "_delta_log" / "_last_checkpoint"
    wait_until(checkpoint.exists, "the checkpoint, which is written beside", 60)
    listed = []
    for number in range(CHECKPOINT, 2 * CHECKPOINT):
        try:
            driver.write(number)
        except Py4JJavaError as error:
            listed.append(str(error))
            gap.unlink()
            driver.write(number)
            gap.touch()
    [what] = listed  # the latter where the checkpoint is of the last commit before the gap
    assert re.search("DELTA_VERSIONS_NOT_CONTIGUOUS|DELTA_TRUNCATED_TRANSACTION_LOG", what)
    gap.unlink()
    assert driver.uses_checksums
    assert rows(spark, table, "id") == [(n,) for n in range(2 * CHECKPOINT)]


@pytest.mark.long
def test_checkpoints_that_are_still_being_written_are_found(spark, tmp_path):
    """Otherwise the log, and the part that a checkpoint reads, would grow forever."""
    table = tmp_path / "table"
    driver = Driver(spark, table)
    driver.write(0)
    properties = "'delta.checkpointInterval' = '1'"
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ({properties})")
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, str(table))
    known = []
    for number in range(1, 6 * CHECKPOINT):
        driver.write(number)
        known.append(log.unsafeVolatileSnapshot().checkpointProvider().version())
        if known[-1] > known[0]:  # the first commit sets the properties
            break
    assert driver.uses_checksums
    assert known[-1] > known[0], known


@pytest.mark.long
def test_a_commit_of_another_process_is_found(spark, tmp_path):
    """Its driver was thought dead; the batch is skipped without a conflict."""
    table = tmp_path / "table"
    driver = Driver(spark, table)
    for number in range(4):
        driver.write(number)
    another = {"txn": {"appId": make_writer_name(QUERY), "version": 4}}
    commit_file(table, newest_version(table) + 1).write_text(json.dumps(another), "utf-8")
    driver.write(4)
    driver.write(5)
    assert driver.uses_checksums
    assert rows(spark, table, "id") == [(0,), (1,), (2,), (3,), (5,)]


@pytest.mark.long
@pytest.mark.parametrize(
    "batches",
    [
        pytest.param(3, id="fewer commits"),
        pytest.param(4, id="as many commits", marks=pytest.mark.long),
    ],
)
def test_a_table_restored_by_another_process_is_written_after_its_last_commit(
    spark, tmp_path, batches
):
    table, copy = tmp_path / "table", tmp_path / "copy"
    other = Driver(spark, copy)
    for number in range(batches):
        other.write(number, other.frame(number + 100))
    driver = Driver(spark, table)
    for number in range(4):
        driver.write(number)
    shutil.rmtree(table)
    shutil.copytree(copy, table)
    driver.write(4)
    assert newest_version(table) == newest_version(copy) + 1
    assert rows(spark, table, "id") == [(4,), *((n + 100,) for n in range(batches))]


@pytest.mark.long
def test_an_unsupported_delta_writes_all_batches_itself(spark, tmp_path, monkeypatch, caplog):
    """In the worst case, the mismatch is detected after the commit."""
    table = tmp_path / "table"
    driver = Driver(spark, table)
    try_jar = OnceWriter._try_jar
    asked = []

    def misfits(self: OnceWriter, jvm: Any, write: Any) -> str:
        asked.append(try_jar(self, jvm, write))
        return "java.lang.NoSuchMethodError: x"

    monkeypatch.setattr(OnceWriter, "_try_jar", misfits)
    with caplog.at_level(logging.WARNING):
        for number in range(4):
            driver.write(number)
    assert asked == [None]
    assert [r.getMessage() for r in caplog.records if "NoSuchMethodError" in r.getMessage()] == [
        "sink: each batch reads the table's log, because the jar cannot be used "
        "(java.lang.NoSuchMethodError: x)"
    ]
    assert rows(spark, table, "id") == [(0,), (1,), (2,), (3,)]


@pytest.mark.long
def test_errors_of_a_batch_are_raised_unchanged(spark, tmp_path):
    driver = Driver(spark, tmp_path / "table")
    driver.write(0)
    with pytest.raises(Exception, match="no such luck"):
        driver.write(
            1, driver.frame(1).selectExpr("CAST(raise_error('no such luck') AS BIGINT) AS id")
        )
    with pytest.raises(Exception, match=r"(?i)schema"):
        driver.write(1, driver.frame(1).selectExpr("id", "id AS other"))
    assert driver.uses_checksums
    driver.write(1)
    assert rows(spark, tmp_path / "table", "id") == [(0,), (1,)]
