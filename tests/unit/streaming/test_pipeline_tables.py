"""The properties, columns and log of a table, the lock of a checkpoint, and Spark's settings."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    TimestampNTZType,
)

from assignor_bridge.errors import OptionError
from checkpoints.folders import LocalFolder
from checkpoints.log_files import LoggedBatch
from checkpoints.offset_log import LastBatches
from streaming.delta.transactions import NO_BATCH, TableLog, describe_mismatch, read_table_log
from streaming.pipeline.config.loading import load_job
from streaming.pipeline.config.sinks import DeltaSink
from streaming.pipeline.delta import continuity
from streaming.pipeline.delta.continuity import check_sources
from streaming.pipeline.delta.sink_table import Table, check_columns, check_timestamps
from streaming.pipeline.delta.write_mode import (
    BY_OFFSET,
    BY_TIMESTAMP,
    WriteMode,
    check_same_mode,
    find_kafka_fields,
    get_sink_mode,
    infer_mode,
    parse_mode,
)
from streaming.pipeline.delta.writer import DeltaWriter
from streaming.pipeline.job_errors import ConfigError, JobError, TableError
from streaming.pipeline.job_run import start_job, warn_about_late_records
from streaming.pipeline.spark import job_session
from streaming.pipeline.spark.job_folders import find_owner, lock_folder
from streaming.pipeline.spark.job_session import _CODE_CACHE_SIZE, check_master, start_session
from streaming.pipeline.spark.plan_sources import PlanSource
from tests.unit.lag.checkpoint_files import QUERY, write_query
from tests.unit.streaming.test_pipeline_config import changed

if TYPE_CHECKING:
    from collections.abc import Callable

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
    ("rows", "feature", "fits"),
    [
        pytest.param(TimestampNTZType(), None, False, id="new"),
        pytest.param(ArrayType(columns(TimestampNTZType())), "", False, id="within others"),
        pytest.param(TimestampNTZType(), "timestampNtz", True, id="supported"),
        pytest.param(columns(IntegerType()), "", True, id="other types"),
    ],
)
def test_a_column_without_its_table_feature_is_refused_before_the_start(rows, feature, fits):
    """Delta would refuse it in the first batch, after the query has started."""
    properties = {"delta.minReaderVersion": "1", f"delta.feature.{feature}": "supported"}
    added = StructType().add("timestamp_ntz", IntegerType()).add("new", rows)
    check_timestamps("t", added, added, properties)
    check_timestamps("t", columns(IntegerType()), added, {"as Delta's details": "have them"})
    if fits:
        check_timestamps("t", columns(IntegerType()), added, properties)
        return
    with pytest.raises(TableError, match=r"'delta.feature.timestampNtz' = 'supported'"):
        check_timestamps("t", columns(IntegerType()), added, properties)


@pytest.mark.parametrize(
    ("now", "message"),
    [
        pytest.param(
            WriteMode("upsert", ("DAY", "ID"), "remove", ("SEQ",)), None, id="same by case"
        ),
        pytest.param(WriteMode("append"), "upsert, but the job has append: set", id="mode"),
        pytest.param(
            WriteMode("upsert", ("id",), "remove", ("seq",)), "keys id, Day, but the job has id",
            id="keys",
        ),
        pytest.param(
            WriteMode("upsert", ("id", "day"), "mark", ("seq",)), "remove, but the job has mark",
            id="marks",
        ),
        pytest.param(
            WriteMode("upsert", ("id", "day"), "remove", ()), "seq, but the job has none",
            id="order",
        ),
    ],
)  # fmt: skip
def test_a_table_written_in_another_mode_is_refused(now, message):
    before = parse_mode(UPSERT.to_properties())
    assert before == UPSERT
    if message is None:
        check_same_mode("t", before, now, str.lower, is_inferred=False)
        return
    with pytest.raises(TableError, match=message):
        check_same_mode("t", before, now, str.lower, is_inferred=False)


def test_keys_are_case_sensitive_if_spark_is():
    now = WriteMode("upsert", ("ID", "Day"), "remove", ("seq",))
    check_same_mode("t", UPSERT, now, str.lower, is_inferred=False)
    with pytest.raises(TableError, match="keys id, Day, but the job has ID, Day"):
        check_same_mode("t", UPSERT, now, str, is_inferred=False)


def test_invalid_table_properties_are_an_error():
    assert parse_mode({"delta.appendOnly": "false"}) is None
    for text in ("id", "1", '{"id": 1}', "[1]"):
        with pytest.raises(TableError, match=r"assignor\.keys"):
            parse_mode({"assignor.mode": "upsert", "assignor.keys": text})


def test_the_mode_of_an_older_table_is_inferred_from_its_columns():
    for fields in (BY_OFFSET, BY_TIMESTAMP):
        order = StructType().add("seq", LongType())
        for name in fields:
            order = order.add(name, LongType())
        assert find_kafka_fields(order) == fields
        kept = StructType().add("id", LongType()).add("_sequence", order)
        assert infer_mode(kept, ["id"]) == WriteMode("upsert", None, "remove", ("seq",))
    assert infer_mode(StructType().add("id", LongType()), ["id"]) == WriteMode("append")
    assert infer_mode(kept, ["id", "_Sequence"]) == WriteMode("append"), "the user's own column"
    marked = StructType(kept.fields).add("_deleted", StringType())
    assert infer_mode(marked, ["id"]) == WriteMode("upsert", None, "mark", ("seq",))
    assert infer_mode(marked, ["id", "_deleted"]) == WriteMode("upsert", None, "remove", ("seq",))
    upsert = get_sink_mode(DeltaSink(path="t", mode="upsert", keys=("id",)))
    with pytest.raises(
        TableError, match=r"was not created by an upsert .*a new table and the job a n"
    ):
        check_same_mode("t", WriteMode("append"), upsert, str.lower, is_inferred=True)
    by_topic = get_sink_mode(
        DeltaSink(path="t", mode="upsert", keys=("id",), sequence_by=("topic",))
    )
    for part in ("topic", "_topic"):  # in the order by timestamp, and in that by offset
        check_same_mode(
            "t", by_topic._replace(sequence_by=(part,)), by_topic, str, is_inferred=True
        )


@pytest.fixture
def settings_of(monkeypatch) -> Callable[..., dict[str, str]]:
    """Return a function for the settings of a job's Spark, without starting it."""
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda builder: builder)
    monkeypatch.setattr(job_session, "start_context", lambda *_: None)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)

    def settings(data: dict[str, Any], *sets: str) -> dict[str, str]:
        monkeypatch.setattr(SparkSession.Builder, "_options", {}, raising=False)
        return start_session(load_job(data, overrides=sets, environment={}).job)._options

    return settings


def test_a_dead_letter_table_by_name_gets_a_persistent_catalog(settings_of):
    """Regression: the catalog was in memory, so the table could be written only once."""
    catalog = "spark.sql.catalogImplementation"
    records = {"format": "json", "schema": "id INT", "bad_records": "dead_letter"}
    for letter, wanted in (({"table": "bad"}, "hive"), ({"path": "/bad"}, None)):
        data = changed("source/records", {**records, "dead_letter": letter})
        assert settings_of(data).get(catalog) == wanted


def test_only_local_spark_writes_its_logs_without_processes(settings_of):
    key = "spark.hadoop.fs.AbstractFileSystem.file.impl"
    users = "org.apache.hadoop.fs.local.LocalFs"
    for settings, expected in (
        ({}, "io.assignorbridge.LocalFiles"),
        ({"spark.master": "local-cluster[2,1,1024]"}, "io.assignorbridge.LocalFiles"),
        ({"spark.master": "yarn"}, None),
        ({key: users}, users),
    ):
        assert settings_of(changed("spark", settings)).get(key) == expected


@pytest.mark.parametrize(
    ("sink", "pieces"),
    [
        pytest.param({"path": "/a"}, None, id="append"),
        pytest.param({"path": "/a", "mode": "upsert", "keys": ["id"]}, "200", id="upsert"),
    ],
)
def test_the_code_cache_has_room_for_each_merge_only(settings_of, sink, pieces):
    """Regression: with room for a thousand classes, the cache grew as long as a job ran."""
    assert settings_of(changed("sink", sink)).get(_CODE_CACHE_SIZE) == pieces


def test_the_code_cache_of_two_merges_respects_the_operators_size(
    settings_of, monkeypatch, tmp_path
):
    tables = {n: {"path": f"/{n}", "mode": "upsert", "keys": ["id"]} for n in ("a", "b")}
    data = changed("sink", None)
    data["sinks"] = {name: {"from": "records", **table} for name, table in tables.items()}
    assert settings_of(data).get(_CODE_CACHE_SIZE) == "300"
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text(f"{_CODE_CACHE_SIZE} 5000\n", "utf-8")
    assert settings_of(data).get(_CODE_CACHE_SIZE) is None


def test_settings_for_local_spark_do_not_override_the_defaults_file(
    settings_of, monkeypatch, tmp_path
):
    """Regression: a cluster in spark-defaults.conf got the settings of local Spark."""
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    key = "spark.sql.shuffle.partitions"
    for defaults, settings, expected in (
        ("", {}, str(os.cpu_count() or 2)),
        ("spark.master yarn", {}, None),
        ("spark.master yarn", {"spark.master": "local[2]"}, str(os.cpu_count() or 2)),
        (f"{key} 7", {}, None),
    ):
        (tmp_path / "spark-defaults.conf").write_text(f"{defaults}\n", "utf-8")
        assert settings_of(changed("spark", settings)).get(key) == expected


def test_java_reads_non_ascii_file_names_in_the_c_locale(settings_of, monkeypatch):
    """Regression: the error was "unmappable characters", and a folder had another name."""
    for before, after in (("C", "C.UTF-8"), ("POSIX", "C.UTF-8"), ("de_DE.UTF-8", "de_DE.UTF-8")):
        monkeypatch.setenv("LC_ALL", before)
        settings_of(changed("spark", {}))
        assert os.environ["LC_ALL"] == after


def test_a_jobs_kill_switch_is_set_when_its_driver_starts(settings_of):
    """docs/upgrading.md promises it; tests/lab/long/test_switch.py tests its effect."""
    key = "spark.assignor.killSwitchFile"
    assert settings_of(changed("spark", {key: "file:/off"}))[key] == "file:/off"
    assert settings_of(changed("spark", {}), f"{key}=file:/off")[key] == "file:/off"


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

    with pytest.raises(ConfigError, match="cannot run in a Spark Connect session"):
        start_job(Client(), changed("spark", {}))
    with pytest.raises(ConfigError, match="a SparkSession is expected"):
        start_job(None, changed("spark", {}))
    for setting in ("spark.remote", "spark.master"):
        loaded = load_job(changed("spark", {setting: "sc://host"}), environment={})
        with pytest.raises(ConfigError, match="cannot run in a Spark Connect session"):
            start_session(loaded.job)
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    with pytest.raises(ConfigError, match="cannot run in a Spark Connect session"):
        start_session(load_job(changed("spark", {}), environment={}).job)


@pytest.mark.parametrize(
    ("settings", "variables"),
    [
        ({"spark.api.mode": "connect"}, {}),
        ({}, {"SPARK_API_MODE": "Connect"}),
        ({}, {"SPARK_CONNECT_MODE": "1"}),
        ({"spark.api.mode": "other"}, {"SPARK_CONNECT_MODE": "1"}),
    ],
)
def test_the_connect_api_mode_is_refused_with_the_same_message(settings, variables, monkeypatch):
    """Regression: the error was `PyArrow >= 11.0.0 must be installed`."""
    monkeypatch.setattr(SparkSession.Builder, "_options", {}, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match="cannot run in a Spark Connect session"):
        start_session(load_job(changed("spark", settings), environment={}).job)


def test_only_one_run_of_a_job_is_allowed_at_a_time(tmp_path):
    """A killed process has no lock, nor has a job whose queries were stopped directly."""
    place = str(tmp_path / "checkpoint")
    code = (
        "import sys; from streaming.pipeline.spark.job_folders import lock_folder as lock;"
        f"l = lock({place!r}); print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        with pytest.raises(BlockingIOError):
            lock_folder(place)
        assert find_owner(place) == str(other.pid)
        other.kill()
    lock = lock_folder(f"file:{place}")
    assert lock is not None
    assert find_owner(place) == str(os.getpid())
    with pytest.raises(BlockingIOError):
        lock_folder(place)
    lock.is_in_use = lambda: False
    second = lock_folder(place)
    assert second is not None
    lock.release()  # the lock was released
    with pytest.raises(BlockingIOError):
        lock_folder(place)
    second.release()
    third = lock_folder(place)
    assert third is not None
    third.release()
    assert lock_folder("s3a://bucket/checkpoint") is None


def test_a_checkpoint_that_cannot_be_locked_does_not_stop_a_job(tmp_path, monkeypatch):
    """Regression: lock files of other users, and `a#1` or `a%20b` as folders, caused errors."""
    for name in ("a#1", "a%20b", "a?b"):
        lock = lock_folder(f"file:{tmp_path}/{name}")
        assert lock is not None
        assert (tmp_path / name / ".assignor.lock").stat().st_mode & 0o044 == 0o044
        assert find_owner(f"file:{tmp_path}/{name}") == str(os.getpid())
        lock.release()
    assert len(list(tmp_path.iterdir())) == 3
    (tmp_path / "file").touch()
    assert lock_folder(str(tmp_path / "file" / "below")) is None

    real = os.open

    def as_another_user(path, flags, *mode):
        if flags & os.O_RDWR:
            raise PermissionError(path)
        return real(path, flags, *mode)

    monkeypatch.setattr(os, "open", as_another_user)
    lock = lock_folder(str(tmp_path / "a#1"))
    assert lock is not None
    with pytest.raises(BlockingIOError):
        lock_folder(str(tmp_path / "a#1"))
    lock.release()


def test_a_link_named_like_the_lock_file_is_not_followed(tmp_path):
    """Regression: the target of the link was truncated."""
    file = tmp_path / "file"
    file.write_text("mine")
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / ".assignor.lock").symlink_to(file)
    assert lock_folder(str(tmp_path / "checkpoint")) is None
    assert file.read_text() == "mine"


OTHER = QUERY.replace("d", "e")


def write_log(folder: Path, *commits: list[dict[str, Any]]) -> LocalFolder:
    """Write a table's log from the actions of each commit."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    for number, actions in enumerate(commits):
        (log / f"{number:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return LocalFolder(folder)


def commit_info(operation: str, **parameters: Any) -> dict[str, Any]:
    return {"commitInfo": {"operation": operation, "operationParameters": parameters}}


def transaction(writer: str, batch: int) -> dict[str, Any]:
    return {"txn": {"appId": writer, "version": batch}}


def test_a_tables_log_has_the_last_batch_a_later_restore_and_other_writers(tmp_path):
    folder = write_log(
        tmp_path,
        [commit_info("CREATE TABLE")],
        [transaction(OTHER, 7)],
        [commit_info("RESTORE", version=1)],
        [transaction(f"assignor-{QUERY}", 3), transaction("nightly", 1)],
        [commit_info("RESTORE", version=1)],
        [commit_info("DELETE")],
    )
    log_of_query = read_table_log(folder, QUERY)
    assert (log_of_query.batch, log_of_query.restore) == (3, (1, 4))
    assert read_table_log(folder, OTHER).restore is None, "both went back to its own commit"
    assert read_table_log(folder, None).other_query_id == QUERY
    third = read_table_log(folder, QUERY.replace("d", "f"))
    assert (third.batch, third.other_query_id) == (NO_BATCH, QUERY)


def test_a_checkpoint_without_a_batch_has_no_number():
    mismatch = describe_mismatch(TableLog(5), "c", NO_BATCH, NO_BATCH)
    assert mismatch is not None
    assert "has batch 5 of the query, but the query's checkpoint 'c' has no batch: " in mismatch


def test_a_new_query_stops_reading_the_log_at_another_writer(tmp_path):
    """Reading the rest would cost a call into the JVM per commit."""
    folder = write_log(tmp_path, [commit_info("CREATE TABLE")], [transaction(OTHER, 7)])
    (tmp_path / "_delta_log" / f"{0:020}.json").write_text("no JSON")
    assert read_table_log(folder, None).other_query_id == OTHER
    with pytest.raises(OptionError, match="its log is damaged"):
        read_table_log(folder, QUERY)


@pytest.mark.parametrize(
    "operation",
    [
        "CREATE OR REPLACE TABLE",
        "CREATE OR REPLACE TABLE AS SELECT",
        "REPLACE TABLE",
        "REPLACE TABLE AS SELECT",
    ],
)
def test_a_replaced_table_has_no_earlier_batches(tmp_path, operation):
    """Delta keeps the number of the last batch, although its rows are removed."""
    before = [commit_info("CREATE TABLE")], [transaction(QUERY, 9)], [commit_info(operation)]
    log = read_table_log(write_log(tmp_path / "replaced", *before, [commit_info("DELETE")]), QUERY)
    assert (log.batch, log.replace_version, log.restore) == (NO_BATCH, 2, None)
    log = read_table_log(LocalFolder(tmp_path / "replaced"), None)
    assert log.other_query_id is None, "a new checkpoint may write to it"

    log = read_table_log(write_log(tmp_path / "since", *before, [transaction(QUERY, 10)]), QUERY)
    assert (log.batch, log.replace_version) == (10, None)
    within = [commit_info(operation), transaction(QUERY, 10)]
    log = read_table_log(write_log(tmp_path / "within", *before[:2], within), QUERY)
    assert (log.batch, log.replace_version) == (10, None)
    log = read_table_log(
        write_log(tmp_path / "undone", *before, [commit_info("RESTORE", version=1)]), QUERY
    )
    assert (log.batch, log.replace_version, log.restore) == (9, None, None)


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
def test_a_restore_that_was_undone_is_ignored(tmp_path, restores, set_back):
    """Regression: a user who followed the message got the same message about that RESTORE."""
    commits = [[commit_info("RESTORE", version=to)] for to in restores]
    folder = write_log(tmp_path, [], [], [transaction(QUERY, 1)], *commits)
    assert read_table_log(folder, QUERY).restore == set_back


def test_an_older_table_is_written_even_if_its_properties_cannot_be_set(monkeypatch, caplog):
    """Users who may append need not have the permission to ALTER."""

    def refuse(*_: object) -> None:
        raise PermissionError("no ALTER for you")

    monkeypatch.setattr(Table, "set_properties", refuse)
    for sink in (DeltaSink(path="t"), DeltaSink(path="t", mode="upsert", keys=("id",))):
        writer = DeltaWriter(sink, "job: sink")
        writer.table_exists = writer._is_of_older_version = True
        writer.prepare(None, None)  # type: ignore[arg-type]
    [warning] = caplog.messages
    assert "'t' cannot record its keys (no ALTER for you)" in warning


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        pytest.param([{"subscribe": "a"}, {"subscribe": "b,c"}], None, id="the same"),
        pytest.param([{"subscribe": "new,a"}, {"subscribe": "c,b"}], None, id="a topic more"),
        pytest.param([{"assign": '{"a": [0]}'}, {"subscribe": "b,c"}], None, id="assigned"),
        pytest.param(
            [{"subscribe": "b,c"}, {"subscribe": "a"}],
            "in this order of topics: 'a', then 'b' and 'c'; or start",
            id="another order",
        ),
        pytest.param(
            [{"subscribe": "a,b"}, {"subscribe": "c"}], "not in the order", id="a topic moved"
        ),
        pytest.param([{"subscribe": "a,b,c"}], "not in the order", id="a source fewer"),
        pytest.param(
            [{"subscribe": "z"}, {"subscribe": "b,c"}],
            "has offsets of topic 'a', which no source reads any more.* failOnDataLoss: false, or ",
            id="a renamed topic",
        ),
        pytest.param([{"subscribe": "a"}, {}], None, id="no source of Kafka's"),
    ],
)
def test_each_source_must_read_the_topics_of_its_number(sources, words):
    """Two sources that change places are refused with any `failOnDataLoss`."""
    ends = {"0": {"a": {0: 1}}, "1": {"b": {0: 1}, "c": {0: 1}}}
    standing = LastBatches(QUERY, LoggedBatch(0, ends, True, 1), 0)
    for accepted in ("true", "FALSE"):
        now = [PlanSource(of and {**of, "failondataloss": accepted}) for of in sources]
        if words is None or (accepted == "FALSE" and "no source" in words):
            check_sources(now, "c", standing)
        else:
            with pytest.raises(TableError, match=words):
                check_sources(now, "c", standing)


def test_only_a_source_can_accept_the_loss_of_a_topic():
    last_batches = LastBatches(QUERY, LoggedBatch(0, {"0": {}, "1": {"b": {0: 1}}}, True, 1), 0)
    sources = [PlanSource({"subscribe": "a", "failondataloss": "false"})]
    with pytest.raises(TableError, match="add the topic to a source again, or start the query"):
        check_sources(sources, "c", last_batches)


@pytest.mark.parametrize(
    "sink",
    [
        pytest.param(DeltaSink(path="t", shared=True), id="shared"),
        pytest.param(DeltaSink(path="t", mode="upsert", keys=("id",)), id="upsert"),
        pytest.param(DeltaSink(path="t"), id="append"),
    ],
)
def test_a_checkpoint_that_lost_the_querys_id_is_refused(tmp_path, monkeypatch, sink):
    """With a new id, Delta would write an already written batch again."""
    checkpoint = write_query(tmp_path / "checkpoint", {"orders": {0: 5}})
    write_log(tmp_path / "table", [transaction(f"assignor-{QUERY}", 0)])
    monkeypatch.setattr(continuity, "HadoopFolder", lambda path, _: LocalFolder(Path(path)))
    monkeypatch.setattr(Table, "find_location", lambda *_: str(tmp_path / "table"))
    sources = [PlanSource({"subscribe": "orders"})]
    writer = DeltaWriter(sink, "job: sink")
    writer.table_exists = True
    continuity.check_continuity(None, sources, checkpoint, writer)  # type: ignore[arg-type]
    (tmp_path / "checkpoint" / "metadata").unlink()
    with pytest.raises(TableError, match="has no batch of the query"):
        continuity.check_continuity(None, sources, checkpoint, writer)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "warns"),
    [
        pytest.param({"assignor.fairness": "even"}, True, id="even"),
        pytest.param({"assignor.weight.orders": 2}, True, id="a weight"),
        pytest.param({"assignor.floor.orders": 2}, True, id="a floor"),
        pytest.param({}, False, id="Spark's order"),
        pytest.param(
            {"assignor.fairness": "even", "assignor.alignEventTime": "9 minutes"},
            False,
            id="aligned",
        ),
    ],
)
def test_options_that_make_a_watermark_drop_records_cause_a_warning(options, warns, caplog):
    source = {**changed("source/subscribe", "orders")["source"], "maxOffsetsPerTrigger": 9}
    for watermark in ({}, {"watermark": {"column": "ts"}}):
        data = changed("source", {**source, **options, **watermark})
        warn_about_late_records(load_job(data, environment={}))
        assert len(caplog.messages) == (warns and bool(watermark))
    if warns:
        [warning] = caplog.messages
        assert "source: with assignor.fairness, a weight or a floor" in warning
        assert "set assignor.alignEventTime to the watermark's delay (10 minutes)" in warning


def test_the_error_of_a_compaction_is_logged_without_secrets(monkeypatch, caplog):
    """Regression: the writer's warnings were not redacted."""

    def fail(*_: object) -> None:
        raise PermissionError("no access with topsecret99")

    monkeypatch.setattr(Table, "open", fail)
    loaded = load_job(changed("sink/path", "${PLACE}"), environment={"PLACE": "topsecret99"})
    writer = DeltaWriter(
        DeltaSink(path="t", target_file_size="off"), "job: sink", redact=loaded.redact
    )
    writer._compact(None)  # type: ignore[arg-type]
    [warning] = caplog.messages
    assert "could not be compacted (no access with ${PLACE}); its rows are written" in warning


def test_secret_settings_are_not_on_the_command_line_of_the_jvm(monkeypatch):
    """pyspark would put all settings there; test_canary.py checks a real process."""
    started: list[dict[str, str]] = []
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda builder: builder)
    monkeypatch.setattr(SparkSession.Builder, "_options", {}, raising=False)
    monkeypatch.setattr(job_session, "start_context", lambda *given: started.extend(given))
    monkeypatch.setattr(SparkContext, "_jvm", None)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    settings = {
        "spark.hadoop.fs.s3a.secret.key": "topsecret99", "spark.driver.memory": "1g",
        "spark.hadoop.proxy": "http://ann:topsecret99@proxy.test",
    }  # fmt: skip
    start_session(load_job(changed("spark", settings), environment={}).job)
    all_settings, shown = started
    assert all_settings["spark.hadoop.fs.s3a.secret.key"] == "topsecret99"
    assert shown["spark.driver.memory"] == "1g"
    assert "topsecret99" not in str(shown)


def test_the_operators_redaction_pattern_is_kept(settings_of, monkeypatch, tmp_path):
    """Regression: the job's pattern replaced that of spark-defaults.conf."""
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.redaction.regex (?i)pin[._]code\n", "utf-8"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    pattern = settings_of(changed("spark", {}))["spark.redaction.regex"]
    assert pattern.startswith("(?i)pin[._]code|")
    assert "passw" in pattern
    hidden = re.compile(pattern.replace("|(?i)", "|"))  # Java takes flags anywhere, Python first
    assert hidden.search("https://ann:topsecret99@registry.test")
    assert not hidden.search("http://broker:9092/a")
