"""What a table remembers, its columns beside those of the rows, and the lock of a checkpoint."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from checkpoints.folders import LocalFolder
from checkpoints.offset_log import LastBatches, LoggedBatch
from streaming.delta.transactions import read_log
from streaming.pipeline.config.loading import load_job
from streaming.pipeline.config.sinks import DeltaSink
from streaming.pipeline.delta import continuity
from streaming.pipeline.delta.continuity import check_topics_kept
from streaming.pipeline.delta.table import Table, check_columns
from streaming.pipeline.delta.write_mode import (
    WriteMode,
    check_same,
    of_columns,
    of_properties,
    of_sink,
)
from streaming.pipeline.delta.writer import DeltaWriter
from streaming.pipeline.errors import ConfigError, JobError, TableError
from streaming.pipeline.run import start_job
from streaming.pipeline.spark.folders import holder, lock_checkpoint
from streaming.pipeline.spark.session import check_master, session_for
from tests.unit.lag.checkpoint_files import QUERY, write_query
from tests.unit.streaming.test_pipeline_config import changed

A, AB = (
    StructType().add("a", IntegerType()),
    StructType().add("A", IntegerType()).add("b", LongType()),
)
UPSERT = WriteMode("upsert", ("id", "Day"), "remove", ("seq",))


def columns(kind: DataType) -> StructType:
    return StructType().add("c", kind)


@pytest.mark.parametrize(
    ("there", "rows", "plain", "evolving"),
    [
        pytest.param(A, A, True, True, id="the same"),
        pytest.param(StructType().add("A", IntegerType()), A, True, True, id="another case"),
        pytest.param(A, AB, False, True, id="a new field"),
        pytest.param(AB, A, False, True, id="a field that the rows lack"),
        pytest.param(ArrayType(A), ArrayType(AB), False, True, id="in a list"),
        pytest.param(MapType(A, A), MapType(A, AB), False, True, id="in a map's values"),
        pytest.param(MapType(A, A), MapType(AB, A), False, False, id="in a map's keys"),
        pytest.param(A, StructType().add("a", LongType()), False, False, id="another type"),
        pytest.param(A, IntegerType(), False, False, id="no struct"),
    ],
)
def test_structs_are_compared_as_delta_merges_them(there, rows, plain, evolving):
    for evolves, fits in ((False, plain), (True, evolving)):
        try:
            check_columns("t", columns(there), columns(rows), evolves)
        except TableError:
            assert not fits
        else:
            assert fits


@pytest.mark.parametrize(
    ("now", "message"),
    [
        pytest.param(
            WriteMode("upsert", ("DAY", "ID"), "remove", ("SEQ",)), None, id="same by case"
        ),
        pytest.param(WriteMode("append"), "mode upsert, the job says append: set it", id="mode"),
        pytest.param(
            WriteMode("upsert", ("id",), "remove", ("seq",)), "keys id, Day, the job says id",
            id="keys",
        ),
        pytest.param(
            WriteMode("upsert", ("id", "day"), "mark", ("seq",)), "remove, the job says mark",
            id="marks",
        ),
        pytest.param(
            WriteMode("upsert", ("id", "day"), "remove", ()), "sequence_by seq, the job says none",
            id="order",
        ),
    ],
)  # fmt: skip
def test_a_table_that_was_kept_otherwise_is_refused(now, message):
    before = of_properties(UPSERT.properties())
    assert before == UPSERT
    if message is None:
        check_same("t", before, now, str.lower, is_inferred=False)
        return
    with pytest.raises(TableError, match=message):
        check_same("t", before, now, str.lower, is_inferred=False)


def test_where_spark_tells_cases_apart_so_do_keys():
    now = WriteMode("upsert", ("ID", "Day"), "remove", ("seq",))
    check_same("t", UPSERT, now, str.lower, is_inferred=False)
    with pytest.raises(TableError, match="keys id, Day, the job says ID, Day"):
        check_same("t", UPSERT, now, str, is_inferred=False)


def test_properties_that_cannot_be_read_are_told():
    assert of_properties({"delta.appendOnly": "false"}) is None
    for text in ("id", "1", '{"id": 1}', "[1]"):
        with pytest.raises(TableError, match=r"assignor\.keys"):
            of_properties({"assignor.mode": "upsert", "assignor.keys": text})


def test_an_older_table_tells_by_its_columns_how_it_was_kept():
    order = StructType().add("seq", LongType())
    for name in ("timestamp", "partition", "offset"):
        order = order.add(name, LongType())
    plain = StructType().add("id", LongType())
    kept = plain.add("_sequence", order)
    assert of_columns(StructType().add("id", LongType()), ["id"]) == WriteMode("append")
    assert of_columns(kept, ["id"]) == WriteMode("upsert", None, "remove", ("seq",))
    assert of_columns(kept, ["id", "_Sequence"]) == WriteMode("append"), "the user's own column"
    marked = StructType(kept.fields).add("_deleted", StringType())
    assert of_columns(marked, ["id"]) == WriteMode("upsert", None, "mark", ("seq",))
    assert of_columns(marked, ["id", "_deleted"]) == WriteMode("upsert", None, "remove", ("seq",))
    upsert = of_sink(DeltaSink(path="t", mode="upsert", keys=("id",)))
    with pytest.raises(
        TableError, match=r"was not made by an upsert .*a new table and the job a n"
    ):
        check_same("t", WriteMode("append"), upsert, str.lower, is_inferred=True)


def test_a_dead_letter_table_by_name_gets_a_catalog_that_lasts(monkeypatch):
    """It could be written once only: the catalog was in memory, the table's folder was not."""
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda builder: builder)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    catalog = "spark.sql.catalogImplementation"
    records = {"format": "json", "schema": "id INT", "bad_records": "dead_letter"}
    for letter, wanted in (({"table": "bad"}, "hive"), ({"path": "/bad"}, None)):
        data = changed("source/records", {**records, "dead_letter": letter})
        monkeypatch.setattr(SparkSession.Builder, "_options", {}, raising=False)
        builder = session_for(load_job(data, environment={}).job)
        assert builder._options.get(catalog) == wanted


def test_only_spark_on_this_machine_writes_its_logs_without_processes(monkeypatch):
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda builder: builder)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    key = "spark.hadoop.fs.AbstractFileSystem.file.impl"
    users = "org.apache.hadoop.fs.local.LocalFs"
    for settings, expected in (
        ({}, "io.assignorbridge.LocalFiles"),
        ({"spark.master": "local-cluster[2,1,1024]"}, "io.assignorbridge.LocalFiles"),
        ({"spark.master": "yarn"}, None),
        ({key: users}, users),
    ):
        monkeypatch.setattr(SparkSession.Builder, "_options", {}, raising=False)
        builder = session_for(load_job(changed("spark", settings), environment={}).job)
        assert builder._options.get(key) == expected


def test_a_master_that_does_not_answer_is_one_line():
    """Spark itself would try for a minute."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(JobError, match=f"no master answers .{nobody}: Connection refused"):
            check_master(f"spark://{nobody}")
        with socket.create_server(("127.0.0.1", 0)) as server:
            check_master(f"spark://{nobody},127.0.0.1:{server.getsockname()[1]}")
    with pytest.raises(ConfigError, match="'host' is not host:port"):
        check_master("spark://host")
    check_master("yarn")


def test_a_session_of_spark_connect_is_refused_in_one_line(monkeypatch):
    class Client:
        """A session without a JVM."""

    with pytest.raises(ConfigError, match="cannot run in a session of Spark Connect"):
        start_job(Client(), changed("spark", {}))
    for setting in ("spark.remote", "spark.master"):
        loaded = load_job(changed("spark", {setting: "sc://host"}), environment={})
        with pytest.raises(ConfigError, match="cannot run in a session of Spark Connect"):
            session_for(loaded.job)
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    with pytest.raises(ConfigError, match="cannot run in a session of Spark Connect"):
        session_for(load_job(changed("spark", {}), environment={}).job)


@pytest.mark.parametrize(
    ("settings", "variables"),
    [
        ({"spark.api.mode": "connect"}, {}),
        ({}, {"SPARK_API_MODE": "Connect"}),
        ({}, {"SPARK_CONNECT_MODE": "1"}),
        ({"spark.api.mode": "other"}, {"SPARK_CONNECT_MODE": "1"}),
    ],
)
def test_the_mode_that_makes_it_spark_connect_is_refused_in_the_same_line(
    settings, variables, monkeypatch
):
    """It was `PyArrow >= 11.0.0 must be installed`, or another package that clients need."""
    monkeypatch.setattr(SparkSession.Builder, "_options", {}, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match="cannot run in a session of Spark Connect"):
        session_for(load_job(changed("spark", settings), environment={}).job)


def test_one_run_of_a_job_at_a_time(tmp_path):
    """A process that ended without a word has no lock; nor has a job whose queries were stopped."""
    place = str(tmp_path / "checkpoint")
    code = (
        "import sys; from streaming.pipeline.spark.folders import lock_checkpoint as lock;"
        f"l = lock({place!r}); print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        with pytest.raises(BlockingIOError):
            lock_checkpoint(place)
        assert holder(place) == str(other.pid)
        other.kill()
    lock = lock_checkpoint(f"file:{place}")
    assert lock is not None
    assert holder(place) == str(os.getpid())
    with pytest.raises(BlockingIOError):
        lock_checkpoint(place)
    lock.is_used = lambda: False
    second = lock_checkpoint(place)
    assert second is not None
    lock.release()  # it has none any more
    with pytest.raises(BlockingIOError):
        lock_checkpoint(place)
    second.release()
    third = lock_checkpoint(place)
    assert third is not None
    third.release()
    assert lock_checkpoint("s3a://bucket/checkpoint") is None


def test_a_checkpoint_is_locked_where_it_is_and_a_lock_that_cannot_be_had_stops_nobody(
    tmp_path, monkeypatch
):
    """Another user's lock file was unreadable, `a#1` was taken for `a`, `a%20b` for `a b`."""
    for name in ("a#1", "a%20b", "a?b"):
        lock = lock_checkpoint(f"file:{tmp_path}/{name}")
        assert lock is not None
        assert (tmp_path / name / ".assignor.lock").stat().st_mode & 0o044 == 0o044
        assert holder(f"file:{tmp_path}/{name}") == str(os.getpid())
        lock.release()
    assert len(list(tmp_path.iterdir())) == 3
    (tmp_path / "file").touch()
    assert lock_checkpoint(str(tmp_path / "file" / "below")) is None

    real = os.open

    def as_another_user(path, flags, *mode):
        if flags & os.O_RDWR:
            raise PermissionError(path)
        return real(path, flags, *mode)

    monkeypatch.setattr(os, "open", as_another_user)
    lock = lock_checkpoint(str(tmp_path / "a#1"))
    assert lock is not None
    with pytest.raises(BlockingIOError):
        lock_checkpoint(str(tmp_path / "a#1"))
    lock.release()


def test_a_tables_log_names_the_batch_the_restore_after_it_and_all_streaming_writers(tmp_path):
    other = QUERY.replace("d", "e")
    log = tmp_path / "_delta_log"
    log.mkdir()
    restore = {"operation": "RESTORE", "operationParameters": {"version": 1}}
    for number, actions in enumerate((
        [{"commitInfo": {"operation": "CREATE TABLE"}}],
        [{"txn": {"appId": other, "version": 7}}],
        [{"commitInfo": restore}],
        [{"txn": {"appId": f"assignor-{QUERY}", "version": 3}}, {"txn": {"appId": "nightly"}}],
        [{"commitInfo": restore}],
        [{"commitInfo": {"operation": "DELETE"}}],
    )):  # fmt: skip
        (log / f"{number:020}.json").write_text("\n".join(map(json.dumps, actions)))
    folder = LocalFolder(tmp_path)
    log_of_query = read_log(folder, QUERY)
    assert (log_of_query.batch, log_of_query.restored) == (3, (1, 4))
    assert read_log(folder, other).restored is None, "both went back to its own commit"
    assert read_log(folder, None).others == {QUERY, other}


@pytest.mark.parametrize(
    ("restores", "set_back"),
    [
        pytest.param([1], (1, 3), id="once"),
        pytest.param([1, 2], None, id="undone, as the message asks for"),
        pytest.param([1, 3], (1, 3), id="to what it was set back to"),
        pytest.param([1, 2, 3], (1, 3), id="undone, and that undone"),
        pytest.param([2], None, id="to the batch itself"),
        pytest.param([None], (None, 3), id="to a time"),
    ],
)
def test_a_restore_that_was_undone_takes_nothing_away(tmp_path, restores, set_back):
    """A user who did what the message asks for got the same message about his own RESTORE."""
    log = tmp_path / "_delta_log"
    log.mkdir()
    actions = [{}, {}, {"txn": {"appId": QUERY, "version": 1}}] + [
        {"commitInfo": {"operation": "RESTORE", "operationParameters": {"version": to}}}
        for to in restores
    ]
    for number, action in enumerate(actions):
        (log / f"{number:020}.json").write_text(json.dumps(action))
    assert read_log(LocalFolder(tmp_path), QUERY).restored == set_back


def test_an_older_table_whose_properties_cannot_be_written_is_written_to(monkeypatch, caplog):
    """Who may append need not have the right to ALTER, which no run had needed before."""

    def refuse(*_: object) -> None:
        raise PermissionError("no ALTER for you")

    monkeypatch.setattr(Table, "set_properties", refuse)
    for sink in (DeltaSink(path="t"), DeltaSink(path="t", mode="upsert", keys=("id",))):
        writer = DeltaWriter(sink, "job: sink")
        writer.table_exists = writer._is_of_older_version = True
        writer.prepare(None, None)  # type: ignore[arg-type]
    [warning] = caplog.messages
    assert "'t' cannot remember its keys (no ALTER for you)" in warning


def test_topics_that_a_transform_in_python_reads_itself_are_not_missed():
    """They stand in the checkpoint, beside those of the job's own sources."""
    standing = LastBatches(
        QUERY, LoggedBatch(0, {"0": {"t": {0: 1}}, "1": {"own": {0: 1}}}, True, 1, 1), 0
    )
    job = load_job(changed("source/subscribe", "t"), environment={}).job
    with pytest.raises(TableError, match="has read topic 'own'"):
        check_topics_kept(job, "c", standing)
    data = changed("source/subscribe", "t") | {"transform": {"python": "steps:join"}}
    check_topics_kept(load_job(data, environment={}).job, "c", standing)


@pytest.mark.parametrize(
    "sink",
    [
        pytest.param(DeltaSink(path="t", shared=True), id="shared"),
        pytest.param(DeltaSink(path="t", mode="upsert", keys=("id",)), id="upsert"),
        pytest.param(DeltaSink(path="t"), id="append"),
    ],
)
def test_a_checkpoint_that_lost_the_querys_id_is_refused(tmp_path, monkeypatch, sink):
    """Under a new id Delta skips nothing: a batch that was written would be written again."""
    checkpoint = write_query(tmp_path / "checkpoint", {"orders": {0: 5}})
    log = tmp_path / "table" / "_delta_log"
    log.mkdir(parents=True)
    transaction = {"txn": {"appId": f"assignor-{QUERY}", "version": 0}}
    (log / f"{0:020}.json").write_text(json.dumps(transaction))
    monkeypatch.setattr(continuity, "HadoopFolder", lambda path, _: LocalFolder(Path(path)))
    monkeypatch.setattr(Table, "location", lambda *_: str(tmp_path / "table"))
    job = load_job(changed("source/subscribe", "orders"), environment={}).job
    writer = DeltaWriter(sink, "job: sink")
    writer.table_exists = True
    continuity.check_continuity(None, job, checkpoint, writer)  # type: ignore[arg-type]
    (tmp_path / "checkpoint" / "metadata").unlink()
    with pytest.raises(TableError, match="holds no batch of the query"):
        continuity.check_continuity(None, job, checkpoint, writer)  # type: ignore[arg-type]


def test_what_a_compaction_failed_with_is_told_without_secrets(monkeypatch, caplog):
    """The writer's warnings went past the redactor that the job's other words go through."""

    def fail(*_: object) -> None:
        raise PermissionError("no access with topsecret99")

    monkeypatch.setattr(Table, "open", fail)
    loaded = load_job(changed("sink/path", "${PLACE}"), environment={"PLACE": "topsecret99"})
    writer = DeltaWriter(DeltaSink(path="t"), "job: sink", redact=loaded.redact)
    writer._compact(None)  # type: ignore[arg-type]
    [warning] = caplog.messages
    assert "compaction failed: no access with ${PLACE}" in warning


def test_secret_settings_are_not_on_the_command_line_of_the_jvm(monkeypatch):
    """pyspark puts all settings there; `make long` looks at a real one (test_canary.py)."""
    launched: list[dict[str, str]] = []
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda builder: builder)
    monkeypatch.setattr(SparkSession.Builder, "_options", {}, raising=False)
    monkeypatch.setattr(
        SparkContext, "_ensure_initialized",
        lambda conf: launched.append(dict(conf.getAll())),
    )  # fmt: skip
    monkeypatch.setattr(SparkContext, "_jvm", None)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    settings = {"spark.hadoop.fs.s3a.secret.key": "topsecret99", "spark.driver.memory": "1g"}
    builder = session_for(load_job(changed("spark", settings), environment={}).job)
    assert builder._options["spark.hadoop.fs.s3a.secret.key"] == "topsecret99"
    [shown] = launched
    assert shown["spark.driver.memory"] == "1g"
    assert "topsecret99" not in str(shown)


def test_what_an_operator_hides_in_the_ui_stays_hidden(monkeypatch, tmp_path):
    """Ours once took the place of the pattern in spark-defaults.conf."""
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.redaction.regex (?i)pin[._]code\n", "utf-8"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda builder: builder)
    monkeypatch.setattr(SparkSession.Builder, "_options", {}, raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    builder = session_for(load_job(changed("spark", {}), environment={}).job)
    pattern = str(builder._options["spark.redaction.regex"])
    assert pattern.startswith("(?i)pin[._]code|")
    assert "passw" in pattern
