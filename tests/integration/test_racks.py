"""Where executors and replicas are reaches the planner; what is unknown is unknown."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import ResourceType
from pyspark.errors import StreamingQueryException

from assignor_bridge.errors import OptionError
from streaming.cli.main import run
from streaming.kafka.embedded import EmbeddedBroker
from streaming.replay.racks_input import read_racks
from tests.support import planner_proxy
from tests.support.java_program import JAVA, compile_programs, run_java
from tests.support.kafka_topics import Topic
from tests.support.packed import decode_column, unpack_rows
from tests.support.secured_broker import LOGIN, PASSWORD, allow
from tests.support.spark_tools import assert_planned, read_topic, run_in_batches, wait_for_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from tests.support.secured_broker import Secured
    from tests.support.spark_tools import DriverLog

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def racked() -> Iterator[EmbeddedBroker]:
    """A broker in rack a."""
    with EmbeddedBroker(properties={"broker.rack": "a"}) as broker:
        yield broker


@pytest.fixture
def topic(racked: EmbeddedBroker, request: pytest.FixtureRequest) -> Topic:
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", request.node.name)[:60]
    return Topic(racked.bootstrap_servers, f"{name}-{uuid.uuid4().hex[:6]}").create(4)


def executor_ids(spark: SparkSession) -> list[str]:
    """Those that run, not the driver."""
    executors: Any = spark.sparkContext._jsc.sc().statusStore().executorList(True)
    ids = [executors.apply(i).id() for i in range(executors.size())]
    return sorted(one for one in ids if one != "driver")


@contextlib.contextmanager
def attributes(spark: SparkSession, *racks: str | None) -> Iterator[list[str]]:
    """Let Spark hear that executors have these racks, as they say when they register."""
    gateway: Any = spark.sparkContext._gateway
    bus = spark.sparkContext._jsc.sc().listenerBus()
    events = gateway.jvm.org.apache.spark.scheduler

    def post(executor: str, rack: str | None) -> None:
        said = gateway.jvm.java.util.HashMap()
        if rack is not None:
            said.put("RACK", rack)
        to_scala = gateway.jvm.PythonUtils.toScalaMap
        nothing = to_scala(gateway.jvm.java.util.HashMap())
        info = events.cluster.ExecutorInfo("127.0.0.1", 1, nothing, to_scala(said), nothing, 0)
        bus.post(events.SparkListenerExecutorAdded(int(time.time() * 1000), executor, info))

    ids = executor_ids(spark)
    assert len(ids) == len(racks)
    for executor, rack in zip(ids, racks, strict=True):
        post(executor, rack)
    bus.waitUntilEmpty()
    try:
        yield ids
    finally:
        bus.waitUntilEmpty()
        for executor in set(ids) & set(executor_ids(spark)):  # else the dead would come to life
            post(executor, None)
        bus.waitUntilEmpty()


def racks_asked_with(record: Path) -> list[tuple[dict[str, str | None], list[list[str]]]]:
    """Of each plan: the racks of executors, and those of the ranges in their order by name."""
    asked = []
    for request in planner_proxy.read_requests(record):
        executors = {e["id"]: e.get("rack") for e in request["executors"]}
        racks = request.get("racks") or {"sets": [], "range": ""}
        sets = [*racks["sets"], []]
        names = [(row["topic"], row["partition"]) for row in unpack_rows(request["ranges"])]
        held = dict(
            zip(names, map(sets.__getitem__, decode_column(racks["range"], "<i4")), strict=False)
        )
        asked.append((executors, [racks for _, racks in sorted(held.items())]))
    return asked


def metrics_of(progresses: list[dict[str, Any]]) -> list[dict[str, str]]:
    assert_planned(progresses)
    return [p["sources"][0]["metrics"] for p in progresses]


def test_racks_of_executors_and_replicas_reach_the_first_plan(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    planner: Callable[[str], None],
    record: Path,
    driver_log: DriverLog,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic.fill([20] * 4)
    planner("record")
    log = tmp_path / "plans.jsonl"
    with attributes(spark, "a", " b ") as (first, second):
        progresses, rows = run_in_batches(spark, topic, checkpoint, assignor_planLog=str(log))
    assert rows == 80
    asked = racks_asked_with(record)
    assert asked == [({first: "a", second: "b"}, [["a"]] * 4)] * 2
    metrics = metrics_of(progresses)
    assert all(15 < int(m["assignor.crossZoneOffsets"]) <= 20 for m in metrics)
    assert all("which have 50% of the total speed" in m["assignor.zoneAdvice"] for m in metrics)

    assert len(driver_log.lines("requested the racks (topics: 1): [[a]]")) == 1
    [told] = driver_log.lines("plans by zones")
    assert "0 of 2 executors have no known rack; racks of the others: a, b;" in told
    assert "0 of 4 partitions have no known rack; racks of the others: a;" in told
    assert " INFO " in told
    [advice] = driver_log.lines("reads across zones")
    assert "add executors there" in advice

    assert run(["plan", str(log)]) == 0
    replayed = capsys.readouterr()
    assert replayed.out.count("2 racks with executors") == 2
    assert replayed.err == ""  # nothing differs from what was planned


def test_without_a_rack_of_an_executor_nothing_is_asked_and_nothing_sent(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    planner: Callable[[str], None],
    record: Path,
    driver_log: DriverLog,
) -> None:
    topic.fill([20] * 4)
    planner("record")
    [*progresses], _ = run_in_batches(spark, topic, checkpoint)
    for request in planner_proxy.read_requests(record):
        assert list(request) == [
            "type", "parallelism", "executors", "ranges", "observed",
            *(["state"] if "state" in request else []), "stream", "partitions",
        ]  # fmt: skip
        assert all(list(e) == ["id", "host", "slots"] for e in request["executors"])
    assert not any(
        key.startswith("assignor.crossZone") for m in metrics_of(progresses) for key in m
    )
    threads = spark.sparkContext._jvm.java.lang.Thread.getAllStackTraces().keySet()  # type: ignore[union-attr]
    assert not [t.getName() for t in threads if t.getName() == "assignor-racks"]
    assert not driver_log.lines("zones")


def test_a_variable_of_executors_is_known_once_they_have_read(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    planner: Callable[[str], None],
    record: Path,
    driver_log: DriverLog,
) -> None:
    topic.fill([60] * 4)  # six batches
    planner("record")
    progresses, _ = run_in_batches(spark, topic, checkpoint, assignor_rack="env:SPARK_LOCAL_IP")
    ids = executor_ids(spark)
    asked = racks_asked_with(record)
    assert asked[0] == (dict.fromkeys(ids), [])
    assert asked[-1] == (dict.fromkeys(ids, "127.0.0.1"), [["a"]] * 4)
    [*_, last] = metrics_of(progresses)  # where executors are is spelt as no broker spells it
    unused_rack = "executors run in rack 127.0.0.1, where no replica is known"
    assert unused_rack in last["assignor.zoneAdvice"]
    [told] = driver_log.lines("plans by zones")
    assert "racks of the others: 127.0.0.1; 0 of 4 partitions have no known rack" in told
    assert len(driver_log.lines("reads across zones")) == 1


def test_a_variable_that_executors_do_not_have_is_told(
    spark: SparkSession, topic: Topic, checkpoint: str, driver_log: DriverLog
) -> None:
    topic.fill([60] * 4)
    progresses, _ = run_in_batches(spark, topic, checkpoint, assignor_rack="env:NOBODY_HAS_THIS")
    assert not any("assignor.crossZoneOffsets" in m for m in metrics_of(progresses))
    [told] = driver_log.lines("plans by zones")
    assert " WARN " in told
    assert "2 of 2 executors have no known rack" in told


def test_the_file_of_hosts_comes_first_and_is_read_again_when_it_changes(
    spark: SparkSession,
    topic: Topic,
    tmp_path: Path,
    planner: Callable[[str], None],
    record: Path,
    driver_log: DriverLog,
) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("# ours\n\n127.0.0.1 = c\n127.0.0.9\t/d\n")
    planner("record")

    def batch(query: Any) -> dict[str, str | None]:
        topic.fill([3] * 4)
        query.processAllAvailable()
        return racks_asked_with(record)[-1][0]

    options = {
        "assignor": "lag-aware-sticky", "assignor.rackFile": str(hosts),
        "assignor.rack": "env:SPARK_LOCAL_IP",
    }  # fmt: skip
    with attributes(spark, "x", "y") as ids:
        query = (
            read_topic(spark, topic, options)
            .writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        try:
            assert batch(query) == dict.fromkeys(ids, "c")
            hosts.write_text("127.0.0.1=a\n127.0.0.2\n")
            os.utime(hosts, (1, 1))
            assert batch(query) == dict.fromkeys(ids, "c")  # the file is broken
            assert batch(query) == dict.fromkeys(ids, "c")
            hosts.write_text("127.0.0.1=a\n")
            os.utime(hosts, (2, 2))
            assert batch(query) == dict.fromkeys(ids, "a")
            hosts.write_text("127.0.0.2=a\n")
            os.utime(hosts, (3, 3))
            assert batch(query) == dict.fromkeys(ids, "127.0.0.1")  # by the variable
        finally:
            query.stop()
    assert_planned([json.loads(p.json) for p in query.recentProgress])
    [warning] = driver_log.lines("keeps the previous racks")
    assert "line 2 (127.0.0.2) has no rack" in warning


WRONG = [
    pytest.param({"assignor.rack": "zone"}, "option 'assignor.rack' is 'zone': env:NAME with the "
                 "name of an environment variable is expected", id="no scheme"),
    pytest.param({"assignor.rack": "file:/x"}, "option 'assignor.rack' is 'file:/x': env:NAME",
                 id="an unknown scheme"),
    pytest.param({"assignor.rack": "env:"}, "option 'assignor.rack' is 'env:': env:NAME",
                 id="no variable"),
    pytest.param({"assignor.rackFile": "FOLDER/none"}, "option 'assignor.rackFile' is "
                 "'FOLDER/none': there is no such file on the driver; expected one line HOST=RACK "
                 "for each host with executors", id="no file"),
    pytest.param({"assignor.rackFile": "FOLDER"}, "it cannot be read (", id="a folder"),
    pytest.param({"assignor.rackFile": "FOLDER/broken"}, "line 2 (h2) has no rack; expected "
                 "one line HOST=RACK", id="a broken line"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "said"), WRONG)
def test_what_cannot_be_used_fails_the_query_at_its_start_in_one_line(
    spark: SparkSession, topic: Topic, tmp_path: Path, options: Mapping[str, str], said: str
) -> None:
    (tmp_path / "broken").write_text("h1=a\nh2\n")
    folder = str(tmp_path)
    options = {key: text.replace("FOLDER", folder) for key, text in options.items()}
    frame = read_topic(spark, topic, {"assignor": "lag-aware-sticky", **options})
    writer = frame.writeStream.format("noop").trigger(availableNow=True)
    with pytest.raises(StreamingQueryException) as raised:
        wait_for_end(writer.option("checkpointLocation", f"{folder}/checkpoint").start())
    [line] = [t for t in str(raised.value).splitlines() if "'assignor.rack" in t]
    assert said.replace("FOLDER", folder) in line


def test_a_user_who_may_only_read_is_planned_for_by_the_racks_of_leaders(
    spark: SparkSession,
    secured: Secured,
    checkpoint: str,
    planner: Callable[[str], None],
    record: Path,
    driver_log: DriverLog,
) -> None:
    broker, address, *_ = secured
    topic = Topic(broker.bootstrap_servers, f"t-{uuid.uuid4().hex[:6]}").create(2)
    topic.fill([9, 9])
    allow(broker, ResourceType.TOPIC, topic.name, "READ", "DESCRIBE")
    planner("record")
    login = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": LOGIN.format(user="ann", password=PASSWORD),
        "kafka.bootstrap.servers": address,
    }
    with attributes(spark, "s", "t") as (first, second):
        progresses, rows = run_in_batches(spark, topic, checkpoint, **login)
    assert rows == 18
    assert_planned(progresses)
    assert racks_asked_with(record) == [({first: "s", second: "t"}, [["s"], ["s"]])]
    [warning] = driver_log.lines("consumers can read from followers")
    assert warning.endswith("(the query's user needs DescribeConfigs on the Cluster)")
    assert PASSWORD not in warning


def test_a_client_that_cannot_ask_costs_no_batch(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    planner: Callable[[str], None],
    record: Path,
    driver_log: DriverLog,
) -> None:
    """An admin client refuses these settings; consumers do not, and Spark is told to use those."""
    topic.fill([20] * 4)
    planner("record")
    spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
    try:
        with attributes(spark, "a", "b") as (first, second):
            progresses, rows = run_in_batches(
                spark, topic, checkpoint, kafka_retries="-7", assignor_onError="fail"
            )
    finally:
        spark.conf.unset("spark.sql.streaming.kafka.useDeprecatedOffsetFetching")
    assert rows == 80
    assert_planned(progresses)
    assert racks_asked_with(record) == [({first: "a", second: "b"}, [])] * 2
    [warning] = driver_log.lines("not request the replica racks of any topic")
    assert "Invalid value -7 for configuration retries" in warning
    [told] = driver_log.lines("plans by zones")
    assert (
        "4 of 4 partitions have no known rack; racks of the others: none (check that broker" in told
    )


def test_racks_stand_beside_limited_batches(
    spark: SparkSession, topic: Topic, checkpoint: str, planner: Callable[[str], None], record: Path
) -> None:
    topic.fill([30] * 4)
    planner("record")
    with attributes(spark, "a", "b"):
        progresses, rows = run_in_batches(
            spark, topic, checkpoint, assignor_targetBatchSeconds="100", assignor_onError="fail"
        )
    assert rows == 120
    assert_planned(progresses)
    assert {held for _, racks in racks_asked_with(record) for [held] in racks} == {"a"}
    for request in planner_proxy.read_requests(record, "admit"):
        assert {e["rack"] for e in request["executors"]} == {"a", "b"}


def rack_checks(folder: Path, *words: str) -> list[str]:
    """What the driver's own code says of racks, a line each."""
    opened = (
        "java.lang",
        "java.net",
        "java.nio",
        "java.util",
        "sun.nio.ch",
        "java.util.concurrent",
    )
    options = [
        *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in opened),
        f"-Dlog4j2.configurationFile={(JAVA.parent / 'support/log4j2.properties').as_uri()}",
        f"-Dassignor.test.log={folder}/log",
    ]
    class_path = compile_programs(folder, "RackChecks")
    return run_java(class_path, "cluster.RackChecks", *words, options=options).stdout.splitlines()


@pytest.mark.long
def test_racks_of_yarns_topology(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_text("127.0.0.1 /a\n127.0.0.2 /x/b\n")
    said = rack_checks(tmp_path, "yarn", str(table), "127.0.0.1", "127.0.0.2", "127.0.0.3")
    assert said == ["a", "x/b", "null", "null", "null", "null"]


FILES = {
    "h1=a\nh2: b\nh3 c\n": "a b c",
    "h1=/a\n  h2  =  b\\u0063\n\\u00683=e": "/a bc e",
    "! a comment\n#another\n\n  h1 = a \n": "a null null",
    "h1=a\nh1=a\n": "a null null",
    "": "null null null",
    "h1=a\nh1=b\n": "line 2 (h1=b) contradicts an earlier one, with rack a",
    "=a\n": "line 1 (=a) has no host",
    "h1=a\nh2=\n": "line 2 (h2=) has no rack",
    "h1=\\u12\n": "line 1 (h1=\\u12) has a malformed Unicode escape",
}


def read_by_replay(file: Path) -> str:
    try:
        found = read_racks(file).executor_racks
    except OptionError as error:
        return str(error)
    return " ".join(found.get(host, "null") for host in ("h1", "h2", "h3"))


def test_files_of_hosts(tmp_path: Path) -> None:
    """As Spark's own mapper reads them, and as `assignor estimate --racks` does."""
    files = tmp_path / "files"
    files.mkdir()
    expected = []
    for number, (text, said) in enumerate(FILES.items()):
        file = files / str(number)
        file.write_text(text)
        assert (said if text else "names no executor") in read_by_replay(file)
        expected.append(
            f"misuse: option 'assignor.rackFile' is '{file}': {said}; expected one line HOST=RACK "
            "for each host with executors"
            if said.startswith("line")
            else said
        )
    assert rack_checks(tmp_path, "files", str(files), "h1", "h2", "h3") == expected
