"""Jobs from a real broker into real Delta tables: each record is in the table once."""

from __future__ import annotations

import json
import random
import threading
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.sql.streaming.listener import StreamingQueryListener

from streaming import JobTimeoutError, run_job, start_job
from streaming.pipeline.broker_checks import _send_records, check_topics
from streaming.pipeline.config.loading import load_job
from streaming.pipeline.config.sinks import DeltaSink
from streaming.pipeline.config.sources import Records
from streaming.pipeline.delta.sink_table import Table
from streaming.pipeline.delta.writer import DeltaWriter
from streaming.pipeline.job_errors import ConfigError, JobError, summarize
from streaming.pipeline.spark.records import Upsert, parse_records
from tests.support.pipeline_tools import forget_last_commit, job, rows, send
from tests.support.spark_tools import get_last_stage, list_tasks_since

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration

#: Columns of an older table of bad records, without the reason.
OLD_LETTERS = {
    "topic": "STRING", "partition": "INT", "offset": "BIGINT", "timestamp": "TIMESTAMP",
    "key": "BINARY", "value": "BINARY",
}  # fmt: skip


def record(key: int, seq: int, **more: Any) -> tuple[str, str]:
    return str(key), json.dumps({"id": key, "seq": seq, "name": f"n{key}-{seq}", **more})


def read_history(spark: SparkSession, name: str) -> list[Any]:
    return DeltaTable.forName(spark, name).history().collect()


@pytest.mark.long
def test_append_writes_each_record_once_in_files_of_the_target_size(spark, topic, tmp_path):
    """The batch is repeated after a crash, then again with a new checkpoint."""
    topic.create(4)
    send(topic, [record(n, 1) for n in range(400)])
    config = job(topic, tmp_path) | {"metrics": {"textfile": str(tmp_path / "job.prom")}}
    run_job(spark, config)
    assert len(list((tmp_path / "table").glob("*.parquet"))) == 1
    assert f'topic="{topic.name}"' in (tmp_path / "job.prom").read_text()
    forget_last_commit(tmp_path / "checkpoint" / "sink")
    run_job(spark, config)
    assert rows(spark, tmp_path / "table", "id") == [(n,) for n in range(400)]
    config["sink"] |= {"target_file_size": "1KB", "shared": True}
    run_job(spark, config | {"checkpoint": str(tmp_path / "another")})
    assert rows(spark, tmp_path / "table", "id") == [(n // 2,) for n in range(800)]
    assert len(list((tmp_path / "table").glob("*.parquet"))) > 2


def expected_rows(records: list[tuple[str | None, str | None]]) -> list[tuple[Any, ...]]:
    """Return the row with the greatest seq of each key; the name `gone` deletes it."""
    newest: dict[int, tuple[int, int, str]] = {}
    for number, (_, value) in enumerate(records):
        read = json.loads(value or "")
        newest[read["id"]] = max(
            newest.get(read["id"], (-1, -1, "")), (read["seq"], number, read["name"])
        )
    return sorted((k, s, n) for k, (s, _, n) in newest.items() if n != "gone")


def test_upsert_keeps_the_newest_of_each_key_within_and_across_batches(spark, topic, tmp_path):
    """A merge repeated after a crash is skipped, although its rows have changed since."""
    topic.create(1)
    draw = random.Random(8)
    sent = [record(draw.randrange(12), draw.randrange(50)) for _ in range(80)]
    sent += draw.choices(sent, k=20)
    for number in range(0, len(sent), 9):
        read = json.loads(sent[number][1])
        sent[number] = (sent[number][0], json.dumps({**read, "name": "gone"}))
    send(topic, sent)
    config = job(
        topic, tmp_path, mode="upsert", keys="id", sequence_by="seq",
        delete_when="name = 'gone'", deletes="mark",
    )  # fmt: skip
    config["source"]["maxOffsetsPerTrigger"] = 50
    run_job(spark, config)
    path = str(tmp_path / "table")
    table = spark.read.format("delta").load(path)
    found = sorted(map(tuple, table.where("NOT _deleted").select("id", "seq", "name").collect()))
    assert found == expected_rows(sent)
    DeltaTable.forPath(spark, path).delete()
    forget_last_commit(tmp_path / "checkpoint" / "sink")
    run_job(spark, config)
    assert spark.read.format("delta").load(path).count() == 0


@pytest.mark.long
def test_a_small_merge_takes_few_tasks_and_with_few_partitions_half_the_jobs(spark, tmp_path):
    """Measured for the second batch, which rewrites a file of the first; 64 is faster than 200."""
    jobs, tasks = {}, {}
    for partitions in (2, 64):
        session = spark.newSession()
        session.conf.set("spark.sql.shuffle.partitions", str(partitions))
        writer = DeltaWriter(
            DeltaSink(path=str(tmp_path / str(partitions)), mode="upsert", keys="id"), "sink"
        )
        writer.set_query("query")
        for number in range(2):
            batch = session.range(number, 20).selectExpr(
                "id", f"named_struct('seq', {number}) AS _sequence", "false AS __delete"
            )
            if number == 0:
                writer.prepare(session, batch)
            jobs_before, last = count_jobs(spark), get_last_stage(spark)
            writer(batch, number)
            jobs[partitions] = count_jobs(spark) - jobs_before
            tasks[partitions] = len(list_tasks_since(spark, last))
    assert tasks[64] < 64
    assert 2 * jobs[2] < jobs[64] + 4


def count_jobs(spark: SparkSession) -> int:
    count: int = spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()
    return count


@pytest.mark.long
def test_a_tombstone_removes_the_row_of_its_key(spark, topic, tmp_path):
    topic.create(1)
    send(topic, [record(1, 1), record(2, 1), ("1", None), ("2", "null"), record(3, 1)])
    run_job(spark, job(topic, tmp_path, mode="upsert", keys="id"))
    assert rows(spark, tmp_path / "table", "id") == [(3,)]


@pytest.mark.long
def test_a_null_in_a_key_or_sequence_fails_with_one_line_and_writes_nothing(spark, topic, tmp_path):
    topic.create(1)
    send(topic, [record(1, 1), (None, '{"seq": 1}')])
    for columns, message in (
        ({"keys": "id"}, r"' failed: key column 'id' is null in the row of .*-0 offset 1, but"),
        (
            {"keys": "seq", "sequence_by": "id"},
            r"' failed: sequence column 'id' is null in the row of .*-0 offset 1",
        ),
    ):
        folder = tmp_path / columns["keys"]
        with pytest.raises(JobError, match=message) as raised:
            run_job(spark, job(topic, folder, mode="upsert", **columns))
        assert len(str(raised.value).splitlines()) == 1
        assert rows(spark, folder / "table", "id") == []


def test_bad_records_fail_with_their_position_or_go_to_the_dead_letter(spark, topic, tmp_path):
    topic.create(1)
    send(topic, [record(1, 1), ("x", '{"id": "secret"}'), record(2, 1)])
    config = job(topic, tmp_path)
    with pytest.raises(JobError, match=r"-0 offset 1 cannot be read as json") as raised:
        run_job(spark, config)
    assert "secret" not in str(raised.value)
    assert rows(spark, tmp_path / "table", "id") == []
    config["source"]["records"] |= {
        "bad_records": "dead_letter",
        "dead_letter": {"path": str(tmp_path / "bad")},
    }
    bad = DeltaTable.createIfNotExists(spark).location(str(tmp_path / "bad"))
    for name, kind in OLD_LETTERS.items():
        bad = bad.addColumn(name, kind)
    bad.execute()  # as older versions created it
    progress: list[tuple[str, int]] = []
    with start_job(
        spark, config, on_progress=lambda result, _: progress.append((result.name, result.read))
    ) as running:
        running.await_end(timeout=300)
    assert rows(spark, tmp_path / "table", "id") == [(1,), (2,)]
    [letter] = spark.read.format("delta").load(str(tmp_path / "bad")).collect()
    assert (letter.offset, bytes(letter.value)) == (1, b'{"id": "secret"}')
    assert letter.reason == "these columns cannot be read as their types: id"
    result = running.result
    assert (result.read, result.written, result.bad, result.batches) == (3, 2, 1, 1)
    assert result.tables == {str(tmp_path / "table"): 2, str(tmp_path / "bad"): 1}
    assert sorted(progress) == [(config["name"], 3), (f"{config['name']}.dead_letter_records", 3)]
    again = run_job(spark, config)
    assert (again.read, again.written, again.batches) == (0, 0, 0)
    config["trigger"] = "processingTime 1 hour"
    with pytest.raises(JobTimeoutError, match=r"was stopped after its timeout of 0\.1 s"):
        run_job(spark, config, timeout=0.1)


def test_a_table_may_have_any_characters_in_its_path_and_columns(spark, tmp_path):
    rows = spark.createDataFrame([], "`people.name` STRING, `a``b` INT, id INT")
    for name, layout in (
        ("a`b c", {"cluster_by": ("people.name", "a`b")}),
        ("50%", {"partition_by": ("people.name",)}),
    ):
        sink = DeltaSink(path=str(tmp_path / name), **layout)
        table = Table(sink.path, None)
        for _ in range(2):
            table.create(spark, sink, rows.schema, {"a": "b"})
        assert table.exists(spark)
        table.check_layout(spark, sink)
        assert (tmp_path / name / "_delta_log").is_dir()


def test_each_bad_record_has_its_reason(spark):
    frame = spark.createDataFrame(
        [
            (n, 0, "t", datetime(2026, 1, 1), b"k", bytearray(value, "utf-8") if value else None)
            for n, value in enumerate(('{"id": 1, "n": 5', '{"n": 5}', '{"id": 1, "n": "x"}', None))
        ],
        "offset BIGINT, partition INT, topic STRING, timestamp TIMESTAMP, key BINARY, value BINARY",
    )
    records = Records(format="json", schema="-", bad_records="drop", key="k BIGINT")
    upserts = [Upsert(("k",), set_by_transform=False)]
    bad = parse_records(
        frame, "records", records, "id INT NOT NULL, n INT", upserts=upserts
    ).bad_records
    assert bad is not None
    assert [row.reason for row in bad.orderBy("offset").collect()] == [
        "it cannot be read as json with the schema",
        "these NOT NULL columns have no value: id",
        "these columns cannot be read as their types: n",
        "a tombstone whose key cannot be read as the upsert's key",
    ]


def test_the_error_of_a_query_shows_no_environment_values(spark, topic, tmp_path):
    """Checked in the exception and in the metrics log, for Spark's sinks and the Delta sink."""
    topic.create(1)
    send(topic, [record(1, 1)])
    log = tmp_path / "m.jsonl"
    for number, sink in enumerate([{"type": "console"}, {"path": str(tmp_path / "table")}]):
        config = job(topic, tmp_path) | {
            "sink": sink,
            "transform": {"sql": "SELECT id, raise_error('no ${SECRETX} here') AS v FROM records"},
            "checkpoint": str(tmp_path / str(number)),
            "metrics": {"log_file": str(log)},
        }
        with pytest.raises(JobError, match=r"failed: no \$\{SECRETX\} here$"):
            run_job(spark, load_job(config, environment={"SECRETX": "topsecret99"}))
    told = [json.loads(line) for line in log.read_text().splitlines()]
    assert "topsecret99" not in log.read_text()
    assert [line["event"] for line in told] == ["ended", "ended"]
    assert all("no ${SECRETX} here" in line["error"] for line in told)
    assert told[1]["error"] == "no ${SECRETX} here"
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.long
def test_a_hanging_listener_does_not_hide_a_failure_or_keep_the_lock(spark, topic, tmp_path):
    """Regression: Spark waits 10 s for its listeners, and its timeout replaced the error."""
    heard_enough = threading.Event()

    class Hanging(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            pass

        onQueryIdle = onQueryProgress = onQueryStarted

        def onQueryTerminated(self, event: Any) -> None:
            heard_enough.wait(120)

    topic.create(1)
    send(topic, [record(1, 1)])
    config = job(topic, tmp_path) | {
        "transform": {"sql": "SELECT id, CAST(raise_error('no luck') AS STRING) AS v FROM records"},
        "metrics": {"textfile": str(tmp_path / "job.prom")},
    }
    hanging = Hanging()
    spark.streams.addListener(hanging)
    try:
        with pytest.raises(JobError, match=r"failed: no luck$"):
            run_job(spark, config)
    finally:
        heard_enough.set()
        spark.streams.removeListener(hanging)
    with pytest.raises(JobError, match=r"failed: no luck$"):
        run_job(spark, config)


def test_an_internal_topic_of_kafka_is_found(spark, topic, tmp_path):
    """Regression: `__consumer_offsets` was reported as missing."""
    topic.create(1).fill([1])
    topic.commit("somebody", {0: 1})
    config = job(topic, tmp_path)
    config["source"] |= {"subscribe": f"__consumer_offsets,{topic.name}"}
    check_topics(spark, load_job(config))


@pytest.mark.parametrize("size", [5_000, 2_000_000])
def test_a_too_large_seed_record_is_an_error_and_not_counted(topic, size):
    """Regression: it was counted as sent, or was a traceback."""
    topic.create(1, {"max.message.bytes": "1000"})
    with pytest.raises(JobError, match=r"were delivered \(1 of 1 were not\): .*too large"):
        _send_records(topic.bootstrap_servers, topic.name, [(None, bytes(size))])


@pytest.mark.long
def test_a_table_by_name_is_clustered_compacted_and_evolved(spark, topic, tmp_path):
    topic.create(2)
    name = "t_" + topic.name.rpartition("-")[2]
    send(topic, [record(n, 1) for n in range(8)])
    sink = {"table": name, "cluster_by": "id", "compact_every": 2, "target_file_size": "off"}
    config = job(topic, tmp_path, **sink)
    config["source"]["maxOffsetsPerTrigger"] = 4
    run_job(spark, config)
    operations = [row.operation for row in read_history(spark, name)]
    assert operations[0] == "OPTIMIZE"
    assert operations.count("WRITE") == 2
    assert DeltaTable.forName(spark, name).detail().first().clusteringColumns == ["id"]
    send(topic, [record(8, 1, city="Ur")])
    config["source"]["records"]["schema"] += ", city STRING"
    with pytest.raises(
        ConfigError,
        match=r"lacks columns of the rows \('city'\): select only the table's columns, or set",
    ):
        run_job(spark, config)
    config["sink"]["schema_evolution"] = True
    run_job(spark, config)
    assert sorted(map(tuple, spark.table(name).select("id", "city").collect())) == [
        *((n, None) for n in range(8)),
        (8, "Ur"),
    ]
    config["source"]["records"]["schema"] += ", at TIMESTAMP_NTZ"
    with pytest.raises(ConfigError, match="cannot have columns of type TIMESTAMP_NTZ yet"):
        run_job(spark, config)
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')")
    run_job(spark, config)
    [folder] = spark.sql(f"DESCRIBE DETAIL {name}").select("location").first()
    two = {"named": config["sink"], "of_path": {"path": folder, "schema_evolution": True}}
    with pytest.raises(ConfigError, match=r"sinks.of_path: sinks.named has the same table"):
        run_job(spark, {key: v for key, v in config.items() if key != "sink"} | {"sinks": two})
    spark.sql(f"DROP TABLE {name}")


@pytest.mark.long
def test_compaction_writes_files_of_the_target_size(spark, topic, tmp_path):
    """By default, Delta would write files of 1 GB."""
    topic.create(2)
    send(topic, [record(n, 1) for n in range(800)])
    config = job(topic, tmp_path, compact_every=4, target_file_size="10KB")
    config["source"]["maxOffsetsPerTrigger"] = 200
    run_job(spark, config)
    table = DeltaTable.forPath(spark, str(tmp_path / "table"))
    [compacted] = table.history().where("operation = 'OPTIMIZE'").collect()
    assert int(compacted.operationMetrics["numAddedFiles"]) > 1
    assert table.toDF().count() == 800


def test_errors_are_reported_before_anything_is_written(spark, topic, tmp_path):
    topic.create(1)
    wrong_column = job(topic, tmp_path) | {"transform": {"sql": "SELECT nmae FROM records"}}
    wrong_topic = job(topic, tmp_path)
    wrong_topic["source"] = wrong_topic["source"] | {"subscribe": "no-such-topic"}
    wrong_schema = job(topic, tmp_path)
    wrong_schema["source"]["records"]["schema"] = "id BIGGINT"
    wrong_time = job(topic, tmp_path)
    wrong_time["source"]["watermark"] = {"column": "name"}
    wrong_option = job(topic, tmp_path)
    wrong_option["source"]["kafka.auto.offset.reset"] = "latest"
    wrong_key = job(topic, tmp_path, mode="upsert", keys=["id", "m"])
    wrong_key["source"]["records"]["schema"] = "id BIGINT, m MAP<STRING, INT>"
    bad_checkpoint = job(topic, tmp_path) | {"checkpoint": "/proc/no/checkpoint"}
    spark.range(3).createOrReplaceTempView("records")
    for config, code, message in (
        (wrong_column, 2, r"config: transform.sql: .*`nmae` cannot be resolved"),
        (wrong_topic, 1, "config: source: topic 'no-such-topic' does not exist"),
        (wrong_schema, 2, "config: source.records: the schema cannot be read: .*BIGGINT"),
        (wrong_time, 2, "config: source: .*TIMESTAMP"),
        (wrong_option, 2, "config: source: .*auto.offset.reset"),
        (job(topic, tmp_path, mode="upsert", keys="ide"), 2, "sink: keys: 'ide' is not a column"),
        (wrong_key, 2, 'config: sink: .*"m" cannot be sorted'),
        (job(topic, tmp_path, partition_by="day"), 2, "sink: partition_by: 'day' is not a column"),
        (job(topic, tmp_path, table="a-b"), 2, "sink.table: the name of a table such as"),
        (job(topic, tmp_path, table="a b; DROP TABLE x"), 2, "sink.table: the name of a table"),
        (job(topic, tmp_path, table="delta.`/none`"), 2, "sink: the table 'delta.`/none`' cannot"),
        (job(topic, tmp_path, path="/proc/no/table"), 1, "sink: the table '/proc/no/table' cannot"),
        (bad_checkpoint, 1, "checkpoint: the folder '/proc/no/checkpoint' cannot be written: "),
    ):
        with pytest.raises((ConfigError, JobError), match=message) as raised:
            run_job(spark, config)
        assert len(str(raised.value).splitlines()) == 1
        assert raised.value.exit_code == code
    assert list(tmp_path.iterdir()) == []
    assert spark.table("records").count() == 3, "the session's own view"
    spark.catalog.dropTempView("records")


def test_a_java_error_with_only_a_name_includes_its_class(spark: SparkSession) -> None:
    """Regression: the message was "Spark does not start: Klass"."""
    with pytest.raises(Py4JJavaError) as raised:
        spark._jvm.java.lang.Class.forName("no.such.Klass")
    assert summarize(raised.value) == "ClassNotFoundException: no.such.Klass"
