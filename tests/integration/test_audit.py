"""`assignor audit` on a table that a job wrote: clean, looked after, and with one thing wrong each.

The job runs twice; each fault is made in a copy of its table and checkpoint, without Spark.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from delta.tables import DeltaTable
from pyspark.sql import functions as f

from assignor_bridge.errors import OptionError
from assignor_bridge.model import Partition
from streaming import run_job
from streaming.audit.all_checks import audit
from streaming.audit.audited_files import read_evidence
from streaming.audit.checksum import compute_range_checksum
from streaming.audit.findings import KINDS
from streaming.audit.row_sources import Columns, audit_rows
from streaming.cli.main import run
from streaming.kafka.brokers import Brokers
from streaming.pipeline.delta.audit_trail import USER_METADATA
from tests.support.audit_faults import FAULTS, Copy, file_lost
from tests.support.delta_log import list_written_files
from tests.support.kafka_topics import Topic
from tests.support.pipeline_tools import forget_last_commit, job, send

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from streaming.audit.all_checks import Audit
    from streaming.kafka.embedded import EmbeddedBroker

pytestmark = pytest.mark.integration

MANY = 1_100  # more stretches than an audit names
RAW = Columns("topic", "partition", "offset")
RECORDS, PARTITIONS = 240, 3
EACH = RECORDS // PARTITIONS


def values(first: int, count: int) -> list[tuple[str, str]]:
    return [(str(n), f'{{"id": {n}, "seq": 1}}') for n in range(first, first + count)]


def audited(copy: Copy, since: int | None = None) -> Audit:
    return audit(read_evidence(str(copy.table), str(copy.checkpoint)), since)


def kinds(result: Audit) -> set[str]:
    return {finding.kind for finding in result.findings}


@pytest.fixture(scope="module")
def fed(broker: EmbeddedBroker) -> Topic:
    """A topic of JSON, as many records in each partition."""
    topic = Topic(broker.bootstrap_servers, f"audit-{uuid.uuid4().hex[:6]}").create(PARTITIONS)
    topic.fill([0] * PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for n in range(RECORDS):
        producer.produce(topic.name, f'{{"id": {n}}}'.encode(), partition=n % PARTITIONS)
    assert producer.flush(60) == 0
    return topic


@pytest.fixture(scope="module")
def made(spark: SparkSession, fed: Topic, tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """The table of a job: five batches, and one after a restart."""
    folder = tmp_path_factory.mktemp("audit")
    config = job(fed, folder)
    config["source"]["maxOffsetsPerTrigger"] = RECORDS // 5
    run_job(spark, config)
    forget_last_commit(folder / "checkpoint" / "sink")
    send(fed, values(RECORDS, 30))
    run_job(spark, config)
    return Copy(folder / "table", folder / "checkpoint" / "sink")


def test_a_table_of_a_job_is_proved(made: Copy):
    result = audited(made)
    assert result.findings == []
    [query] = result.queries
    assert query.offsets == RECORDS + 30
    assert query.partitions == PARTITIONS
    assert len(query.batches) == 6
    assert all(batch.metadata and batch.metadata.ranges for batch in query.batches)
    assert (query.batches_counted, query.offsets_without_record, query.batches_recounted) == (
        6,
        0,
        0,
    )
    assert (result.rows, result.last_version) == (RECORDS + 30, 6)


def test_the_command_says_what_it_proves_and_what_to_do(made: Copy, tmp_path: Path, capsys):
    words = ["--table", str(made.table), "--checkpoint", str(made.checkpoint)]
    assert run(["audit", *words]) == 0
    shown = capsys.readouterr().out
    assert f"{RECORDS + 30} offsets, each committed exactly once" in shown
    copy = made.to(tmp_path)
    file_lost(copy)
    words = ["--table", str(copy.table), "--checkpoint", str(copy.checkpoint)]
    assert run(["audit", *words]) == 1
    shown = capsys.readouterr().out
    assert "NOT PROVED" in shown
    assert "WRONG file-lost" in shown
    assert KINDS["file-lost"].cure in shown
    assert run(["audit", *words, "--json"]) == 1
    [finding] = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["kind"], finding["verdict"]) == ("file-lost", "wrong")


@pytest.mark.long
def test_batches_without_a_row_are_proved(spark: SparkSession, topic: Topic, tmp_path: Path):
    """Filtered records, a tombstone, and a dead-letter table; a file is added for none of them."""
    topic.create(1)
    send(topic, [
        ("1", '{"id": 1}'), ("2", '{"id": 2}'), ("-3", '{"id": -3}'), ("4", None),
        ("5", "bad"), ("6", '{"id": 6}'),
    ])  # fmt: skip
    config = job(topic, tmp_path)
    config["source"] |= {"maxOffsetsPerTrigger": 2}
    letters = {"bad_records": "dead_letter", "dead_letter": {"path": str(tmp_path / "bad")}}
    config["source"]["records"] |= letters
    config["transform"] = {"sql": "SELECT * FROM records WHERE id > 0"}
    run_job(spark, config)
    tables = {"table": ("sink", 3, 2), "bad": ("dead_letter_records", 1, 1)}
    for table, (checkpoint, rows, files) in tables.items():
        copy = Copy(tmp_path / table, tmp_path / "checkpoint" / checkpoint)
        result = audited(copy)
        assert (result.findings, result.rows, result.files) == ([], rows, files)


@pytest.mark.parametrize("has_statistics", [True, False])
def test_the_generator_of_logs_adds_the_files_that_delta_adds(
    spark: SparkSession, tmp_path: Path, has_statistics: bool
):
    setting = "spark.databricks.delta.stats.collect"
    spark.conf.set(setting, str(has_statistics).lower())
    try:
        for n, (tasks, condition) in enumerate({
            (2, 2, 2): "true", (0, 2, 2): "id >= 2", (2, 0, 2): "id not in (2, 3)",
            (0, 0, 0): "false",
        }.items()):  # fmt: skip
            table = tmp_path / str(n)
            spark.range(0, 6, 1, 3).where(condition).write.format("delta").save(str(table))
            actions = Copy(table, table).read(0)
            [info] = [a["commitInfo"] for a in actions if "commitInfo" in a]
            metrics = info["operationMetrics"]
            adds = [a["add"] for a in actions if "add" in a]
            number, rows = list_written_files(tasks, has_statistics=has_statistics)
            assert (int(metrics["numFiles"]), len(adds)) == (number, len(rows))
            assert int(metrics["numOutputRows"]) == sum(tasks)
            if has_statistics:
                counts = sorted(json.loads(add["stats"])["numRecords"] for add in adds)
                assert counts == sorted(rows)
    finally:
        spark.conf.unset(setting)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_found_and_named(made: Copy, tmp_path: Path, fault: Callable[[Copy], None]):
    copy = made.to(tmp_path)
    fault(copy)
    result = audited(copy)
    assert kinds(result) == FAULTS[fault], result.findings


@pytest.mark.long
def test_a_table_that_is_looked_after_is_proved(spark: SparkSession, made: Copy, tmp_path: Path):
    """Compaction, VACUUM, deletion vectors, a checkpoint of the log, a restore that was undone."""
    copy = made.to(tmp_path)
    table = f"delta.`{copy.table}`"
    for statement in (
        f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        f"OPTIMIZE {table}",
        f"VACUUM {table}",
        f"RESTORE {table} TO VERSION AS OF 3",
        f"RESTORE {table} TO VERSION AS OF {copy.last + 2}",
    ):
        spark.sql(statement)
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(
        spark._jsparkSession, str(copy.table)
    )
    log.checkpoint()
    assert list(copy.log.glob("*.checkpoint.parquet"))
    result = audited(copy)
    assert result.findings == []
    assert result.rows == RECORDS + 30
    name = "a topic's name that is longer than one block of the hash, by far ü"
    hashed = f.bit_xor(f.xxhash64(f.lit(name), f.lit(7), "id"))
    [row] = spark.range(5, 50).select(hashed).collect()
    assert compute_range_checksum(name, 7, 5, 50) == row[0] % 2**64


@pytest.mark.long
def test_an_upsert_is_proved_and_the_users_own_metadata_stay(
    spark: SparkSession, fed: Topic, tmp_path: Path
):
    config = job(fed, tmp_path, mode="upsert", keys="id", delete_when="id % 7 = 0", deletes="mark")
    config["source"]["maxOffsetsPerTrigger"] = RECORDS // 3
    spark.conf.set(USER_METADATA, '{"team": "shop"}')
    try:
        run_job(spark, config)
    finally:
        spark.conf.unset(USER_METADATA)
    copy = Copy(tmp_path / "table", tmp_path / "checkpoint" / "sink")
    spark.sql(f"OPTIMIZE delta.`{copy.table}`")
    result = audited(copy)
    assert result.findings == []
    [query] = result.queries
    assert query.batches_counted == len(query.batches) >= 3
    for version in range(1, copy.last):
        info = copy.read(version)[0]["commitInfo"]
        assert json.loads(info["userMetadata"])["team"] == "shop"


@pytest.mark.long
def test_rows_are_compared_with_the_topic(spark: SparkSession, fed: Topic, tmp_path: Path):
    """Of a table whose rows have Kafka's columns: all of them, and a sample."""
    config = job(fed, tmp_path)
    del config["source"]["records"]
    run_job(spark, config)
    table = str(tmp_path / "table")
    brokers = Brokers({"bootstrap.servers": fed.bootstrap_servers}, 10)
    found = audited(Copy(tmp_path / "table", tmp_path / "checkpoint" / "sink"))
    assert found.findings == []
    assert found.queries[0].batches_counted == 0, "records that are not parsed are not counted"
    spans = found.spans
    for sample, compared in ((None, found.queries[0].offsets), (100, 100)):
        rows, findings = audit_rows(spark, table, RAW, spans, brokers, sample=sample)
        assert findings == []
        assert rows.rows_read == rows.records_compared
        assert 0 < rows.rows_read <= compared
    rows, findings = audit_rows(spark, table, RAW, {})
    assert (findings, rows.records_compared) == ([], None)
    written = DeltaTable.forPath(spark, table)
    twice = written.toDF().where("partition = 0 AND offset = 3")
    twice.write.format("delta").mode("append").save(table)
    written.delete("partition = 1 AND offset = 5")
    written.update("partition = 2 AND offset = 7", {"value": f.lit(b"x")})
    written.update("partition = 2 AND offset = 9", {"offset": f.lit(1_000_000)})
    rows, findings = audit_rows(spark, table, RAW, spans, brokers)
    assert {each.kind: each.details for each in findings} == {
        "rows-doubled": f"1 offset: {Partition(fed.name, 0)} offset 3",
        "rows-missing": f"2 offsets: {Partition(fed.name, 1)} offset 5, "
        f"{Partition(fed.name, 2)} offset 9",
        "rows-differ": f"1 offset: {Partition(fed.name, 2)} offset 7",
        "rows-invented": f"1 offset: {Partition(fed.name, 2)} offset 1000000",
    }
    with pytest.raises(OptionError, match="the table's columns are key, value"):
        audit_rows(spark, table, Columns("topic", "partition", "nothing"), spans)


@pytest.mark.long
def test_more_than_a_thousand_stretches_of_aborted_records_are_not_missing(
    spark: SparkSession, topic: Topic, tmp_path: Path
):
    """One transaction, whose records come between those of another producer."""
    topic.create(1)
    servers = {"bootstrap.servers": topic.bootstrap_servers, "linger.ms": 0}
    plain = Producer(servers)
    aborting = Producer({**servers, "transactional.id": topic.name})
    aborting.init_transactions(60)
    aborting.begin_transaction()
    for _ in range(MANY):
        for producer in (aborting, plain):
            producer.produce(topic.name, b"x", partition=0)
            assert producer.flush(60) == 0
    aborting.abort_transaction(60)
    table = str(tmp_path / "table")
    rows = [(topic.name, 0, offset) for offset in range(1, 2 * MANY, 2)]
    frame = spark.createDataFrame(rows, "topic STRING, partition INT, offset BIGINT")
    frame.write.format("delta").save(table)
    brokers = Brokers({"bootstrap.servers": topic.bootstrap_servers}, 10)
    spans = {Partition(topic.name, 0): (0, 2 * MANY + 1)}
    found, findings = audit_rows(spark, table, RAW, spans, brokers)
    assert findings == []
    assert (found.rows_read, found.records_compared) == (MANY, 2 * MANY)
