"""Changes between two runs of a job: it continues correctly, or stops with an error.

The rows of docs/internals/evidence.md, "Changes between two runs", name tests of this module.
"""

from __future__ import annotations

import contextlib
import copy
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from delta.tables import DeltaTable

from streaming import run_job, start_job
from streaming.cli import main
from streaming.observe.checkpoint_files import HadoopFolder
from streaming.pipeline.config.loading import load_job
from streaming.pipeline.config.sinks import DeltaSink
from streaming.pipeline.delta import upsert
from streaming.pipeline.delta.writer import DeltaWriter
from streaming.pipeline.job_errors import ConfigError, JobError, TableError
from streaming.pipeline.queries import plan_queries
from tests.support.kafka_topics import Topic
from tests.support.pipeline_tools import forget_last_commit, job, rows, send
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.integration


def record(key: int, name: str | None = "n") -> tuple[str, str | None]:
    return str(key), None if name is None else json.dumps({"id": key, "seq": 1, "name": name})


def change_sink(config: dict[str, Any], **sink: Any) -> dict[str, Any]:
    """Return the job with changed keys of its sink; None removes a key."""
    made = copy.deepcopy(config)
    made["sink"] |= sink
    made["sink"] = {key: value for key, value in made["sink"].items() if value is not None}
    return made


def assert_refused(spark: SparkSession, config: dict[str, Any], *words: str) -> None:
    """Check that a run fails before it starts, with one line that contains these words."""
    with pytest.raises((ConfigError, JobError)) as raised:
        start_job(spark, config).stop()
    said = str(raised.value)
    assert [word for word in words if word not in said] == [], said
    assert len(said.splitlines()) == 1


def copy_before_next_batch(checkpoint: Path, run: Callable[[], Any]) -> Path:
    """Copy a checkpoint, run one more batch, and return the copy's folder."""
    copied = checkpoint.with_name(checkpoint.name + "-copy")
    shutil.copytree(checkpoint, copied)
    run()
    return copied


def run_doctor(capsys: pytest.CaptureFixture[str], checkpoint: Path, table: Path) -> str:
    """Return what `assignor doctor` prints about the table."""
    main.run(["doctor", "--checkpoint", str(checkpoint), "--delta-table", str(table)])
    [line] = [n for n in capsys.readouterr().out.splitlines() if " Delta table " in n]
    return line


def alter(spark: SparkSession, table: Path, clause: str) -> None:
    spark.sql(f"ALTER TABLE delta.`{table}` {clause}")


def drop_properties(spark: SparkSession, table: Path) -> None:
    """Remove a table's properties, as if an older version had created it."""
    names = [r.key for r in spark.sql(f"SHOW TBLPROPERTIES delta.`{table}`").collect()]
    ours = ", ".join(f"'{name}'" for name in names if name.startswith("assignor."))
    alter(spark, table, f"UNSET TBLPROPERTIES ({ours})")


@contextlib.contextmanager
def override_settings(spark: SparkSession, more: dict[str, str]) -> Iterator[None]:
    """Make Delta check a table's files in one task instead of 10,000."""
    few = more | {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "1"}
    for key, value in few.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in few:
            spark.conf.unset(key)


@pytest.mark.long
def test_an_upserts_table_is_written_in_the_same_mode(spark, topic, tmp_path, capsys):
    """Other keys, deletes, order or mode are refused, but not another spelling of the same."""
    topic.create(1)
    send(topic, [record(1, "a"), record(2, "b"), record(3, "c"), record(1, None)])
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    config = job(topic, tmp_path, mode="upsert", keys="ID", deletes="mark")
    run_job(spark, config)
    assert rows(spark, table, "id", "_deleted") == [(1, True), (2, False), (3, False)]

    def assert_refusals() -> None:
        assert_refused(
            spark,
            change_sink(config, keys="name"),
            "was written with keys",
            "the job has name",
            "restore",
        )
        assert_refused(
            spark, change_sink(config, deletes="remove"), "deletes mark, but the job has remove"
        )
        assert_refused(
            spark, change_sink(config, sequence_by="seq"), "sequence_by none, but the job has seq"
        )
        plain = change_sink(config, mode=None, keys=None, deletes=None)
        assert_refused(spark, plain, "mode upsert, but the job has append", "a new table")

    assert_refusals()
    send(topic, [record(2, None), record(9, "b")])
    copied = copy_before_next_batch(
        checkpoint / "sink", lambda: run_job(spark, change_sink(config, keys=["id"]))
    )
    assert rows(spark, table, "id", "name", "_deleted") == [
        (1, None, True), (2, None, True), (3, "c", False), (9, "b", False),
    ]  # fmt: skip

    assert run_doctor(capsys, checkpoint / "sink", table).startswith("ok ")
    assert "FAILED" in (said := run_doctor(capsys, copied, table))
    assert "last batch: 1 in the table, 0 in the checkpoint" in said
    shutil.move(copied, tmp_path / "back" / "sink")
    older = config | {"checkpoint": str(tmp_path / "back")}
    assert_refused(
        spark, older, "has batch 1 of the query", "ends at 0", "is older", "new checkpoint"
    )

    drop_properties(spark, table)
    assert_refused(
        spark, change_sink(config, deletes="remove"), "deletes mark, but the job has remove"
    )
    assert_refused(
        spark, change_sink(config, sequence_by="seq"), "sequence_by none, but the job has seq"
    )
    assert_refused(
        spark,
        change_sink(config, mode=None, keys=None, deletes=None),
        "mode upsert, but the job has",
    )
    before = rows(spark, table, "id", "name", "_deleted", "_sequence")
    run_job(spark, config | {"checkpoint": str(tmp_path / "new")})
    assert rows(spark, table, "id", "name", "_deleted", "_sequence") == before
    assert_refusals()  # it is recorded again


@pytest.mark.long
def test_an_upsert_whose_columns_look_secret_starts_again(spark, topic, tmp_path):
    """Regression: Spark's SQL masks such properties, so the job seemed to have changed."""
    topic.create(1)
    config = job(topic, tmp_path, mode="upsert", keys="url", sequence_by="token")
    config["source"]["records"]["schema"] = "url STRING, token BIGINT"
    for token in (2, 3):
        send(topic, [("k", json.dumps({"url": "u", "token": token}))])
        run_job(spark, config)
    assert rows(spark, tmp_path / "table", "url", "token") == [("u", 3)]
    assert_refused(spark, change_sink(config, keys="token"), "with keys url, but the job has token")


@pytest.mark.long
def test_a_removed_restored_or_vacuumed_table_is_handled(spark, topic, tmp_path, capsys):
    topic.create(1)
    send(topic, [record(1), record(2)])
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    config = job(topic, tmp_path)
    run_job(spark, config)
    shutil.copytree(table, tmp_path / "older")
    send(topic, [record(3)])
    copied = copy_before_next_batch(checkpoint / "sink", lambda: run_job(spark, config))
    assert "FAILED" in run_doctor(capsys, copied, table)
    shutil.move(copied, tmp_path / "back" / "sink")
    assert_refused(
        spark, config | {"checkpoint": str(tmp_path / "back")}, "the checkpoint is older"
    )

    table.rename(tmp_path / "kept")
    assert_refused(spark, config, "no longer exists", "has completed batch 1", "new checkpoint")
    assert not table.exists()
    shutil.copytree(tmp_path / "older", table)
    assert_refused(spark, config, "has the query's batches only up to 0", "has completed batch 1")
    assert "FAILED" in run_doctor(capsys, checkpoint / "sink", table)
    shutil.rmtree(table)
    spark.range(0).selectExpr("id", "1L seq", "'' name").write.format("delta").save(str(table))
    assert_refused(spark, config, "has no batch of the query", "has completed batch 1")
    assert "FAILED" in run_doctor(capsys, checkpoint / "sink", table)
    shutil.rmtree(table)
    (tmp_path / "kept").rename(table)

    with override_settings(spark, {}):
        spark.sql(f"RESTORE TABLE delta.`{table}` TO VERSION AS OF 1")
    assert_refused(spark, config, "was restored to version 1 by RESTORE (version 3) after batch 1")
    alter(spark, table, "SET TBLPROPERTIES ('assignor.acceptedRestore' = '3')")
    with override_settings(
        spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}
    ):
        spark.sql(f"VACUUM delta.`{table}` RETAIN 0 HOURS")
    send(topic, [record(4)])
    run_job(spark, config)
    assert rows(spark, table, "id") == [(1,), (2,), (4,)]


@pytest.mark.long
def test_a_table_that_was_replaced_is_refused_until_it_is_put_back_or_accepted(
    spark, topic, tmp_path, capsys
):
    """Regression: Delta keeps the number of the last batch, so it seemed to be in the table."""
    topic.create(1)
    send(topic, [record(1), record(2)])
    name, checkpoint = f"replaced_{topic.name[-6:]}", tmp_path / "checkpoint"
    config = job(topic, tmp_path, table=name)
    run_job(spark, config)
    table = Path(urlsplit(DeltaTable.forName(spark, name).detail().first().location).path)
    columns = "(id BIGINT, seq BIGINT, name STRING) USING delta"
    select = "USING delta AS SELECT 7L AS id, 1L AS seq, 'n' AS name"

    def replace_table(words: str, rest: str) -> int:
        spark.sql(f"{words} {name} {rest}")  # by path, Delta would not replace it
        [last] = DeltaTable.forName(spark, name).history(1).collect()
        assert last.operation == words + (" AS SELECT" if rest is select else "")
        return int(last.version)

    for words in ("CREATE OR REPLACE TABLE", "REPLACE TABLE"):
        for rest in (columns, select):
            version = replace_table(words, rest)
            assert_refused(
                spark, config, "has no batch of the query", "has completed batch 0",
                f"'assignor.acceptedRestore' = '{version}'",
            )  # fmt: skip
    assert "FAILED" in run_doctor(capsys, checkpoint / "sink", table)
    with override_settings(spark, {}):
        spark.sql(f"RESTORE TABLE delta.`{table}` TO VERSION AS OF 1")
    send(topic, [record(3)])
    run_job(spark, config)
    assert rows(spark, table, "id") == [(1,), (2,), (3,)]

    version = replace_table("CREATE OR REPLACE TABLE", columns)
    alter(spark, table, f"SET TBLPROPERTIES ('assignor.acceptedRestore' = '{version}')")
    for key in (4, 5):
        send(topic, [record(key)])
        run_job(spark, config)
    assert rows(spark, table, "id") == [(4,), (5,)]

    replace_table("CREATE OR REPLACE TABLE", columns)
    assert_refused(spark, config, "has no batch of the query", "has completed batch 3")
    run_job(spark, config | {"checkpoint": str(tmp_path / "new")})
    assert rows(spark, table, "id") == [(1,), (2,), (3,), (4,), (5,)]
    spark.sql(f"DROP TABLE {name}")


def test_a_second_start_reports_the_first_regardless_of_the_checkpoint(spark, topic, tmp_path):
    """Regression: the first wrote a batch between two checks of the second, which then failed."""
    topic.create(1)
    send(topic, [record(1)])
    config = job(topic, tmp_path) | {"trigger": "processingTime 1 hour"}
    checkpoint = tmp_path / "checkpoint" / "sink"
    going = start_job(spark, config)
    try:
        wait_until(lambda: going.queries[0].lastProgress, "the first batch")
        (checkpoint / "offsets").rename(tmp_path / "offsets")
        (checkpoint / "commits").rename(tmp_path / "commits")
        assert_refused(
            spark,
            config,
            "config: checkpoint: another run (process ",
            ") uses checkpoint",
            "wait until it",
        )
    finally:
        going.stop()
    assert_refused(spark, config, "has batch 0 of the query", "the checkpoint is older")
    for name in ("offsets", "commits"):
        (tmp_path / name).rename(checkpoint / name)
    start_job(spark, config).stop()  # the refused start holds no lock


def test_a_job_stopped_within_a_batch_ends_as_stopped(spark, topic, tmp_path):
    """Regression: Spark searched a whole Java trace, and its stack overflowed."""
    topic.create(1)
    send(topic, [record(1)])
    sql = "SELECT *, reflect('java.lang.Thread', 'sleep', 600000L) AS slept FROM records"
    config = job(topic, tmp_path) | {"transform": {"sql": sql}}
    going = start_job(spark, config)
    [query] = going.queries
    tracker = spark.sparkContext.statusTracker()
    try:
        wait_until(lambda: tracker.getJobIdsForGroup(str(query.runId)), "the batch's job")
    finally:
        going.stop()
    assert query.exception() is None
    assert query.status["message"] == "Stopped"


@pytest.mark.long
def test_an_append_under_another_name_or_checkpoint_is_not_written_twice(
    spark, topic, tmp_path, capsys
):
    """Rename the sink, the source with its dead letters, and the topic; start two runs at once."""
    topic.create(1)
    send(topic, [record(1), ("x", "no JSON"), record(2)])
    table, bad, checkpoint = (tmp_path / name for name in ("table", "bad", "checkpoint"))
    config = job(topic, tmp_path)
    letters = {"bad_records": "dead_letter", "dead_letter": {"path": str(bad)}}
    config["source"]["records"] |= letters
    run_job(spark, config)
    send(topic, [("y", "no JSON"), record(3)])
    forget_last_commit(checkpoint / "dead_letter_records")
    copied = copy_before_next_batch(
        checkpoint / "dead_letter_records", lambda: run_job(spark, config)
    )
    query = json.loads((copied / "metadata").read_text())["id"]
    log = (bad / "_delta_log" / f"{2:020}.json").read_text()
    assert f'"appId":"{query}"' in log, "as older versions noted it, so that none is written twice"
    assert "ok " in run_doctor(capsys, checkpoint / "dead_letter_records", bad)
    assert "FAILED" in run_doctor(capsys, copied, bad)
    assert rows(spark, bad, "offset") == [(1,), (3,)]

    new = "has rows of another query"
    assert_refused(spark, config | {"checkpoint": str(tmp_path / "another")}, "config: sink:", new)
    other = {key: value for key, value in config.items() if key not in ("source", "sink")}
    sink = config["sink"]
    renamed = other | {"source": config["source"], "sinks": {"renamed": sink}}
    assert_refused(spark, renamed, "config: sinks.renamed:", new, "shared: true")
    renamed = other | {"sources": {"renamed": config["source"]}, "sink": sink}
    assert_refused(spark, renamed, "config: sources.renamed.records.dead_letter:", new)
    elsewhere = Topic(topic.bootstrap_servers, topic.name + "-2").create(1)
    renamed = copy.deepcopy(config)
    renamed["source"]["subscribe"] = elsewhere.name
    assert_refused(
        spark, renamed, f"has offsets of topic {topic.name!r}, which no source reads any more"
    )

    going = start_job(spark, config | {"trigger": "processingTime 1 hour"})
    assert_refused(
        spark,
        config,
        "config: checkpoint: another run (process ",
        ") uses checkpoint",
        "wait until it ends",
    )
    for query in going.queries:  # as in a notebook
        query.stop()
    send(topic, [record(4)])
    plain = {**config["source"], "records": {**config["source"]["records"], "bad_records": "drop"}}
    del plain["records"]["dead_letter"]
    run_job(spark, other | {"sources": {"renamed": plain}, "sink": sink})
    assert rows(spark, table, "id") == [(1,), (2,), (3,), (4,)]

    again = change_sink(config, shared=True) | {"checkpoint": str(tmp_path / "another")}
    run_job(spark, again | {"source": plain})
    assert rows(spark, table, "id") == [(n // 2,) for n in range(2, 10)]


@pytest.mark.long
def test_sources_in_another_order_are_refused_and_in_the_same_order_continue(
    spark, topic, tmp_path
):
    """Regression: Spark numbers sources by their order in the plan, so all was read again."""
    topics = [topic, *(Topic(topic.bootstrap_servers, f"{topic.name}-{n}") for n in (1, 2))]
    for number, each in enumerate(topics):
        send(each.create(1), [record(number)])
    config = job(topic, tmp_path)
    source = {**config.pop("source"), "failOnDataLoss": "false"}
    pattern = {**source, "subscribePattern": f"{topic.name}-[\\p{{Digit}}&&[^1]]"}
    del pattern["subscribe"]
    config["sources"] = {
        "a": source, "b": {**source, "subscribe": topics[1].name}, "c": pattern,
    }  # fmt: skip

    def with_order(order: str) -> dict[str, Any]:
        return config | {"transform": {"sql": " UNION ALL ".join(f"TABLE {x}" for x in order)}}

    def files() -> list[Path]:
        return sorted(path for path in tmp_path.rglob("*") if not path.name.startswith("."))

    run_job(spark, with_order("abc"))
    before = files()
    for order in ("bac", "acb"):
        assert_refused(
            spark, with_order(order), "config: sink: the sources of the query are not in the order",
            ", then ".join(repr(each.name) for each in topics),
        )  # fmt: skip
    joined = "SELECT b.* FROM b JOIN a USING (id) JOIN c USING (id)"
    assert_refused(spark, config | {"transform": {"sql": joined}}, "not in the order")
    assert files() == before
    send(topic, [record(3)])
    run_job(spark, with_order("abc"))
    assert rows(spark, tmp_path / "table", "id") == [(0,), (1,), (2,), (3,)]


@pytest.mark.long
def test_a_schema_cannot_change_between_queries_that_parse_a_record(spark, topic, tmp_path):
    """Regression: a record was in neither table, or in both, as one query used the old schema."""
    topic.create(1)
    send(topic, [("1", '{"id": 1, "v": "a"}'), ("2", '{"id": 2}'), ("3", "no JSON")])
    config = job(topic, tmp_path, schema_evolution=True)
    table, bad, checkpoint = (tmp_path / name for name in ("table", "bad", "checkpoint"))

    def by(schema: str, **records: Any) -> dict[str, Any]:
        letters = {"bad_records": "dead_letter", "dead_letter": {"path": str(bad)}}
        made = copy.deepcopy(config)
        made["source"]["records"] = {"format": "json", "schema": schema, **(records or letters)}
        return made

    lax, strict = "id BIGINT, v STRING", "id BIGINT, v STRING NOT NULL"
    words = (
        "config: source.records: the schema or another parsing rule has changed",
        f"the record at {topic.name}-0 offset 1 is good under either the old or the new rules",
    )
    run_job(spark, by(lax, bad_records="drop"))
    assert_refused(spark, by(strict), *words)
    assert not (checkpoint / "dead_letter_records").exists()
    run_job(spark, by(lax))
    for query in ("sink", "dead_letter_records"):
        forget_last_commit(checkpoint / query)  # it is killed after the batch was written
        assert_refused(spark, by(strict), *words)
        run_job(spark, by(f"{lax}, w STRING"))  # both schemas agree on all records
    assert rows(spark, table, "id") == [(1,), (2,)]
    send(topic, [("4", '{"id": 4}'), ("5", '{"id": 5, "v": "e"}')])
    run_job(spark, by(strict))  # both queries have read the same records
    assert rows(spark, table, "id") == [(1,), (2,), (5,)]
    assert rows(spark, bad, "offset") == [(2,), (3,)]

    forget_last_commit(checkpoint / "sink")
    kept = checkpoint / ".assignor-schemas.json"
    kept.write_text("{")
    (checkpoint / f".{kept.name}.crc").unlink()
    assert_refused(
        spark, by(strict), f"config: checkpoint: {kept.name!r} cannot be read: it is damaged"
    )


def test_only_one_query_commits_offsets_to_a_group(spark, topic, tmp_path):
    """Regression: each query committed its own offsets, also if the other had failed."""
    topic.create(1)
    config = job(topic, tmp_path)
    config["source"]["assignor.commitGroup"] = "g"
    assert len(plan_queries(spark, load_job(config))) == 1

    letters = copy.deepcopy(config)
    letters["source"]["records"] |= {"bad_records": "dead_letter", "dead_letter": {"path": "bad"}}
    name = config["name"]
    assert_refused(
        spark, letters, "config: source.records.dead_letter: ", "the group 'g'",
        f"may also be committed by {name!r}", "remove the option",
    )  # fmt: skip
    sink = {"from": "records", **config["sink"]}
    two = {**config, "sinks": {"one": sink, "two": {**sink, "path": str(tmp_path / "two")}}}
    del two["sink"]
    assert_refused(spark, two, "config: sinks.two: ", f"may also be committed by '{name}.one'")
    joined = "SELECT id FROM records a JOIN records b USING (id) UNION ALL SELECT id FROM records"
    plan_queries(spark, load_job({**config, "transform": {"sql": joined}}))  # one source to Spark
    sources = {**config, "sources": dict.fromkeys("ab", config["source"])}
    del sources["source"]
    union = {"sql": "TABLE a UNION ALL TABLE b"}
    assert_refused(
        spark, {**sources, "transform": union}, f"may also be committed a second time by {name!r}"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_deletes_survive_dedupe(spark, topic, tmp_path):
    """Tombstones have only their key, so with `dedupe: name` all are equal."""
    topic.create(1)
    sent = [record(1, "a"), record(2, "b"), record(3, "c"), record(3, "c"), record(1, None)]
    send(topic, [*sent, record(2, None)])
    config = job(topic, tmp_path)
    source = config.pop("source")
    timely = {**source["records"], "schema": "id BIGINT, ts TIMESTAMP"}
    config["sources"] = {
        "plain": {**source, "dedupe": ["name"]},
        "timely": {
            **source, "records": timely, "dedupe": ["id"], "watermark": {"column": "ts"},
        },
    }  # fmt: skip
    del config["sink"]
    config["sinks"] = {
        name: {"from": name, "path": str(tmp_path / name), "mode": "upsert", "keys": "id"}
        for name in config["sources"]
    }
    run_job(spark, config)
    assert rows(spark, tmp_path / "plain", "id") == [(3,)]
    assert rows(spark, tmp_path / "timely", "id") == [(3,)]


def test_folders_are_read_with_the_sessions_own_settings(spark, tmp_path):
    """Regression: credentials set by `spark.conf.set` were missing in the first checks."""
    (tmp_path / "offsets").mkdir()
    with override_settings(spark, {"fs.viewfs.mounttable.own.link./data": tmp_path.as_uri()}):
        assert HadoopFolder("viewfs://own/data", spark).names("") == ["offsets"]


def write(spark: SparkSession, sink: dict[str, Any], number: int, *columns: str) -> None:
    """Write a batch as a query does: check, create the table, write."""
    ours = ("struct(1L AS timestamp) AS _sequence", "false AS __delete")
    batch = spark.range(1).selectExpr(*columns, *(ours if "keys" in sink else ()))
    write_batch(DeltaSink.model_validate(sink), batch, number)


def write_batch(sink: DeltaSink, batch: DataFrame, number: int) -> None:
    spark = batch.sparkSession
    writer = DeltaWriter(sink, "sink")
    writer.check(spark, batch)
    writer.prepare(spark, batch)
    writer.set_query("query")
    writer(batch, number)


def merge_batches(table: Path, *batches: DataFrame, **sink: Any) -> None:
    """Merge batches of rows as a query does."""
    made = DeltaSink.model_validate({"path": str(table), "mode": "upsert", "keys": "id"} | sink)
    for number, batch in enumerate(batches):
        write_batch(made, upsert.add_sequence(batch, made), number)


#: Kafka's struct of one record.
KAFKAS = (
    "named_struct('topic', 't', 'partition', 0, 'offset', 7L, 'timestamp', "
    "timestamp'2026-01-01', 'key', binary('k'), 'tombstone', false)"
)


@pytest.mark.long
def test_an_upsert_accepts_nested_maps_and_variants(spark, tmp_path):
    """Regression: Spark cannot hash them, so every batch failed. As keys they are refused."""
    columns = (
        "{id}L AS id", "1L AS seq", "map('a', {id}, 'b', 2) AS m", "parse_json('[{id}]') AS v",
        "named_struct('l', array(map('k', parse_json('{{\"x\": {id}}}')), null), 'n', 5) AS n",
    )  # fmt: skip
    first, second = (
        spark.range(1).selectExpr(*(column.format(id=number) for column in columns))
        for number in (1, 2)
    )
    merge_batches(tmp_path / "table", first, first.union(second), sequence_by="seq")
    found = spark.read.format("delta").load(str(tmp_path / "table"))
    assert sorted(map(tuple, found.selectExpr("id", "m.a", "to_json(struct(v, n))").collect())) == [
        (n, n, f'{{"v":[{n}],"n":{{"l":[{{"k":{{"x":{n}}}}},null],"n":5}}}}') for n in (1, 2)
    ]
    for key in ("m", "v", "n"):
        with pytest.raises(Exception, match=r"is not orderable|not support ordering"):
            merge_batches(tmp_path / "none", first, keys=key, sequence_by="seq")
    assert not (tmp_path / "none").exists()


def test_the_choice_between_equally_new_rows_is_deterministic(spark):
    """Maps and variants are compared by content, not by the order of their entries."""
    sink = DeltaSink.model_validate(
        {"path": "t", "mode": "upsert", "keys": "id", "sequence_by": "seq"}
    )
    one, same, other = (
        upsert.add_sequence(spark.sql(f"SELECT 1 AS id, 1 AS seq, {content}"), sink)
        for content in (
            """map('a', array(1), 'b', null) AS m, parse_json('{"x": 1, "y": "1"}') AS v""",
            """map('b', null, 'a', array(1)) AS m, parse_json('{"y": "1", "x": 1}') AS v""",
            """map('b', null, 'a', array(1)) AS m, parse_json('{"y": "1", "x": "1"}') AS v""",
        )
    )
    hashes = [frame.select(upsert.hash_content(frame)).first()[0] for frame in (one, same, other)]
    assert hashes[0] == hashes[1] != hashes[2]
    first, second = (
        upsert.keep_newest(rows, sink, upsert.UpsertLayout((), ()))
        .selectExpr("to_json(v)")
        .collect()
        for rows in (one.union(other), other.union(one))
    )
    assert first == second


@pytest.mark.long
def test_sequence_columns_may_repeat_kafkas_or_their_own_names(spark, tmp_path):
    """Regression: `_sequence` had two fields of one name, which Delta refuses."""
    for number, (names, parts) in enumerate(
        (
            (["Timestamp", "offset"], ["_Timestamp", "_offset"]),
            (["seq", "SEQ"], ["seq", "_SEQ"]),
        )
    ):
        old, new = (
            spark.sql(
                f"SELECT 1 AS id, {n} AS timestamp, {n} AS offset, {n} AS seq, {KAFKAS} _kafka"
            )
            for n in (1, 2)
        )
        table = tmp_path / str(number)
        merge_batches(table, new, old, sequence_by=names)
        assert rows(spark, table, "id", "seq") == [(1, 2)]
        found = spark.read.format("delta").load(str(table)).schema["_sequence"].dataType
        assert found.names == [*parts, "offset", "partition", "topic", "timestamp"]


@pytest.mark.long
def test_an_upsert_keeps_rows_whose_kafka_struct_is_null(spark, tmp_path):
    """A LEFT JOIN that takes the struct of its right side has such rows; they are the oldest."""
    first, second = (
        spark.range(3).selectExpr("id", f"{n} AS n", f"IF(id = {has}, {KAFKAS}, null) AS _kafka")
        for n, has in ((1, 1), (2, 0))
    )
    for deletes, more in (("remove", []), ("mark", ["_deleted"])):
        table = tmp_path / deletes
        merge_batches(table, first, second, deletes=deletes, delete_when="id = 2")
        kept = [(0, 2, False), (1, 1, False), (2, 1, True)] if more else [(0, 2), (1, 1)]
        assert rows(spark, table, "id", "n", *more) == kept


@pytest.mark.long
def test_schema_evolution_adds_fields_of_structs_ignoring_case(spark, tmp_path):
    narrow, wide = (
        (
            f"from_json('{text}', '{kind}') AS {n}",
            f"from_json('[{text}]', 'ARRAY<STRUCT<{kind}>>') AS l",
        )
        for text, kind, n in (('{"a":1}', "a INT", "n"), ('{"A":2,"b":2}', "A INT, b INT", "N"))
    )
    for sink in ({"mode": "append"}, {"mode": "upsert", "keys": "Select"}):
        sink |= {"path": str(tmp_path / sink["mode"]), "partition_by": ["SELECT"]}
        write(spark, sink, 0, "1 AS select", *narrow)
        with pytest.raises(
            TableError, match=r"'N' is .*: set schema_evolution: on, which adds fields$"
        ):
            write(spark, sink, 1, "2 AS select", *wide)
        sink["schema_evolution"] = True
        write(spark, sink, 1, "2 AS select", *wide)
        write(spark, sink, 2, "3 AS select", *narrow)
        assert rows(spark, tmp_path / sink["mode"], "select", "n", "l") == [
            (1, (1, None), [(1, None)]), (2, (2, 2), [(2, 2)]), (3, (1, None), [(1, None)]),
        ]  # fmt: skip


@pytest.mark.long
def test_a_topic_sink_accepts_columns_of_any_name_and_type(spark, topic, tmp_path):
    topic.create(1)
    send(topic, [("7", '{"a.b": 1, "id": 7, "n": {"x": 1}, "value": 5}')])
    config = job(topic, tmp_path)
    config["source"]["records"]["schema"] = "`a.b` BIGINT, id BIGINT, n STRUCT<x: INT>, value INT"
    del config["sink"]
    kinds = {
        "dotted": ("SELECT `a.b`, id FROM records", {}),
        "number": ("SELECT value, id FROM records", {"key": "id"}),
        "nested": ("SELECT n, 'k' AS KEY FROM records", {"value": "n"}),
    }
    config["transforms"] = {f"of_{name}": {"sql": sql} for name, (sql, _) in kinds.items()}
    out = Topic(topic.bootstrap_servers, f"{topic.name}-out").create(1)
    servers = {"kafka.bootstrap.servers": topic.bootstrap_servers}
    config["sinks"] = {
        name: {"type": "kafka", "topic": out.name, "from": f"of_{name}", **more, **servers}
        for name, (_, more) in kinds.items()
    }
    run_job(spark, config)
    read = spark.read.format("kafka").options(**servers, subscribe=out.name).load()
    sent = {(r.key and bytes(r.key), bytes(r.value)) for r in read.collect()}
    assert sent == {(None, b'{"a.b":1,"id":7}'), (b"7", b"5"), (b"k", b'{"x":1}')}
    config["sinks"]["nested"]["value"] = "no_such"
    assert_refused(spark, config, "config: sinks.nested: ", "no_such")


def test_a_column_headers_becomes_the_headers_of_a_topic_sinks_records(spark, topic, tmp_path):
    topic.create(1)
    send(topic, [record(7)])
    config = job(topic, tmp_path)
    config["transform"] = {
        "sql": "SELECT 'v' AS value, array(struct('h' AS key, "
        "CAST(CONCAT(id, 'x') AS BINARY) AS value)) AS headers FROM records"
    }
    out = Topic(topic.bootstrap_servers, f"{topic.name}-out").create(1)
    servers = {"kafka.bootstrap.servers": topic.bootstrap_servers}
    config["sink"] = {"type": "kafka", "topic": out.name, **servers}
    run_job(spark, config)
    reader = spark.read.format("kafka").options(**servers, subscribe=out.name)
    [row] = reader.option("includeHeaders", "true").load().collect()
    assert [(h.key, bytes(h.value)) for h in row.headers] == [("h", b"7x")]
    assert_refused(spark, change_sink(config, includeHeaders=True), "unknown key 'includeHeaders'")


@pytest.mark.long
def test_a_topic_sink_killed_before_its_commit_writes_the_batch_again_and_loses_none(
    spark, topic, tmp_path
):
    """Rows and dead letters are written at least once; a committed batch is written once."""
    topic.create(1)
    out, bad = (
        Topic(topic.bootstrap_servers, f"{topic.name}-{kind}").create(1) for kind in ("out", "bad")
    )
    servers = {"kafka.bootstrap.servers": topic.bootstrap_servers}
    config = job(topic, tmp_path)
    config["sink"] = {"type": "kafka", "topic": out.name, **servers}
    config["source"]["records"] |= {
        "bad_records": "dead_letter",
        "dead_letter": {"topic": bad.name},
    }

    def read_topic(to: Topic) -> dict[bytes, int]:
        values = spark.read.format("kafka").options(**servers, subscribe=to.name).load()
        return dict(Counter(bytes(row.value) for row in values.select("value").collect()))

    send(topic, [record(1), ("x", "no JSON")])
    run_job(spark, config)
    send(topic, [record(2), ("y", "nor this")])
    run_job(spark, config)
    for query in ("sink", "dead_letter_records"):
        forget_last_commit(tmp_path / "checkpoint" / query)
    send(topic, [record(3)])
    run_job(spark, config)
    assert [json.loads(value)["id"] for value in read_topic(out)] == [1, 2, 3]
    assert list(read_topic(out).values()) == [1, 2, 1]
    assert read_topic(bad) == {b"no JSON": 1, b"nor this": 2}


def test_reserved_column_names_are_refused(spark, topic, tmp_path):
    topic.create(1)
    for name, sink in (
        ("_Sequence", {"mode": "upsert", "keys": "id"}),
        ("__delete", {"mode": "upsert", "keys": "id"}),
        ("_deleted", {"mode": "upsert", "keys": "id", "deletes": "mark"}),
        ("_kafka", {}),
    ):
        config = job(topic, tmp_path, **sink)
        config["source"]["records"]["schema"] += f", {name} STRING"
        assert_refused(spark, config, f"the column '{name}' has a reserved name: use another")
    config = job(topic, tmp_path, mode="upsert", keys="id")
    config["source"]["records"]["schema"] += ", __Tombstone STRING"
    config["source"]["dedupe"] = ["id"]
    assert_refused(
        spark, config, "config: source: the column '__Tombstone' has a reserved name: use ano"
    )
    [query] = plan_queries(spark, load_job(config | {"sink": job(topic, tmp_path)["sink"]}))
    assert "__Tombstone" in query.rows.columns, "reserved for an upsert alone"
    config = job(topic, tmp_path) | {"transform": {"sql": "SELECT id, 1 AS _kafka FROM records"}}
    assert_refused(
        spark, config, "config: sink: the column '_kafka' has a reserved name: use another"
    )
    assert list(tmp_path.iterdir()) == []
