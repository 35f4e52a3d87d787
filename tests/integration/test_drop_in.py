"""The drop-in, as a user sees it: rows in a table, the executors that read them, metrics."""

from __future__ import annotations

import re
import socket
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import IllegalArgumentException, StreamingQueryException

from tests.support.spark_tools import (
    DriverLog,
    assert_each_row_once,
    assert_planned,
    get_last_stage,
    list_tasks_since,
    read_topic,
    run_in_batches,
    run_to_table,
    to_dict,
    to_list,
    wait_for_end,
    wait_until,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from tests.support.kafka_topics import Topic

pytestmark = pytest.mark.integration

SKEWED = [100_000, 60_000, 50_000, 5_000, 3_000, 2_000, 1_000, 0]


def records_by_executor(spark: SparkSession, stage: int) -> Counter[str]:
    """Records that each executor read from Kafka in the jobs of a query (the largest stage)."""
    runs = list_tasks_since(spark, stage)
    by_stage = Counter({r.stage: 0 for r in runs})
    for run in runs:
        by_stage[run.stage] += run.records
    scan = by_stage.most_common(1)[0][0]
    read: Counter[str] = Counter()
    for run in runs:
        if run.stage == scan:
            read[run.executor] += run.records
    return read


def test_a_skewed_topic_is_read_evenly_by_both_executors(
    spark: SparkSession, topic: Topic, checkpoint: str, tmp_path: Path
) -> None:
    topic.create(8).fill(SKEWED)
    table = str(tmp_path / "table")
    before = get_last_stage(spark)

    [progress] = run_to_table(
        spark, topic, checkpoint, table, sink="delta", assignor="lag-aware-sticky"
    )

    assert sorted(records_by_executor(spark, before).values()) == [110_500, 110_500]
    assert_each_row_once(spark, table, SKEWED)
    metrics = progress["sources"][0]["metrics"]
    assert metrics["assignor.strategy"] == "lag-aware-sticky"
    assert metrics["assignor.tasks"] == "2"
    assert metrics["assignor.executors"] == "2"
    assert metrics["assignor.splitPartitions"] == "1"
    assert float(metrics["assignor.imbalance"]) == pytest.approx(0, abs=1e-6)
    assert metrics["assignor.fallbacks"] == "0"
    assert metrics["assignor.localityHitRate"] == "1.0000"
    assert int(metrics["assignor.planMillis"]) >= 0
    assert {"assignor.generation", "assignor.movedPartitions"} <= metrics.keys()
    # Spark's own stand beside them.
    assert metrics["maxOffsetsBehindLatest"] == "0"


def test_without_the_option_plan_tasks_and_metrics_are_sparks_own(
    spark: SparkSession, topic: Topic, checkpoint: str, tmp_path: Path
) -> None:
    topic.create(8).fill([n // 100 for n in SKEWED])
    table = str(tmp_path / "table")
    before = get_last_stage(spark)

    [progress] = run_to_table(spark, topic, checkpoint, table)

    assert not [name for name in progress["sources"][0]["metrics"] if "assignor" in name]
    per_task = sorted(r.records for r in list_tasks_since(spark, before) if r.stage == before + 1)
    assert per_task == [10, 20, 30, 50, 500, 600, 1000], "one task a partition that has records"
    explained = read_topic(spark, topic, {})._jdf.queryExecution().toString()
    with_option = read_topic(spark, topic, {"assignor": "range"})._jdf.queryExecution().toString()
    ids = re.compile(r"#\d+L?|@[0-9a-f]+")
    # Spark prints the relation by name and output: ours reads the same in both.
    assert ids.sub("", explained).splitlines()[1] == ids.sub("", with_option).splitlines()[1]
    table_class = "org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable"
    assert table_of(read_topic(spark, topic, {})) == table_class
    assert table_of(read_topic(spark, topic, {"assignor": "range"})) != table_class


def table_of(frame: object) -> str:
    """Class name of the table in a stream's analysed plan."""
    plan = frame._jdf.queryExecution().analyzed()  # type: ignore[attr-defined]
    return str(plan.table().getClass().getName())


def test_the_provider_class_name_works_as_the_format_too(spark: SparkSession, topic: Topic) -> None:
    topic.create(1)
    frame = (
        spark.readStream.format("org.apache.spark.sql.kafka010.KafkaSourceProvider")
        .option("kafka.bootstrap.servers", topic.bootstrap_servers)
        .option("subscribe", topic.name)
        .option("assignor", "lag-aware-sticky")
        .load()
    )
    assert table_of(frame) == "io.assignorbridge.source.AssignedTable"


def test_tasks_run_where_they_were_planned_over_ten_micro_batches(
    spark: SparkSession, topic: Topic, checkpoint: str, tmp_path: Path
) -> None:
    counts = [2000, 1500, 1200, 900, 700, 500, 300, 100]
    topic.create(8).fill(counts)
    before = get_last_stage(spark)

    progresses = run_to_table(
        spark,
        topic,
        checkpoint,
        str(tmp_path / "table"),
        assignor="lag-aware-sticky",
        maxOffsetsPerTrigger="700",
    )

    batches = [p for p in progresses if p["numInputRows"]]
    assert len(batches) >= 10
    rates = [float(p["sources"][0]["metrics"]["assignor.localityHitRate"]) for p in batches]
    assert sum(rates) / len(rates) >= 0.95
    # The status store is an independent witness: a task with a preferred executor that ran there
    # is PROCESS_LOCAL, elsewhere it is not.
    planned_tasks = sum(int(p["sources"][0]["metrics"]["assignor.tasks"]) for p in batches)
    scans = [r for r in list_tasks_since(spark, before) if r.records >= 100]
    hits = [r for r in scans if r.locality == "PROCESS_LOCAL"]
    assert len(scans) >= planned_tasks * 0.9
    assert len(hits) / len(scans) >= 0.95
    assert_each_row_once(spark, str(tmp_path / "table"), counts)


def test_switching_the_option_between_restarts_loses_and_repeats_nothing(
    spark: SparkSession, topic: Topic, checkpoint: str, tmp_path: Path
) -> None:
    topic.create(6)
    table = str(tmp_path / "table")
    limit = {"maxOffsetsPerTrigger": "900"}
    total = 0
    for round_number, options in enumerate(
        [
            {"assignor": "lag-aware-sticky"},
            {},
            {"assignor": "lag-aware-sticky", "assignor.split": "false"},
            {"minPartitions": "9"},
            {"assignor": "lag-aware-sticky", "minPartitions": "9"},
        ]
    ):
        topic.fill([500, 400, 30, 2, 1, 0], first=0) if round_number == 0 else None
        if round_number:
            refill(topic, round_number)
        progresses = run_to_table(spark, topic, checkpoint, table, **options, **limit)
        total += sum(p["numInputRows"] for p in progresses)
    counts = [500 * 5, 400 * 5, 30 * 5, 2 * 5, 1 * 5, 0]
    assert total == sum(counts)
    assert_each_row_once(spark, table, counts)


def refill(topic: Topic, round_number: int) -> None:
    """Write the next records; their numbers go on where the last round ended, per partition."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": topic.bootstrap_servers, "linger.ms": 20})
    for partition, count in enumerate([500, 400, 30, 2, 1, 0]):
        for number in range(round_number * count, (round_number + 1) * count):
            producer.produce(topic.name, f"{partition}/{number}".encode(), partition=partition)
    assert producer.flush(60) == 0


def test_min_partitions_stays_a_floor(spark: SparkSession, topic: Topic, checkpoint: str) -> None:
    topic.create(2).fill([300, 10])
    query = (
        read_topic(spark, topic, {"assignor": "lag-aware-sticky", "minPartitions": "6"})
        .writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    [progress] = wait_for_end(query)
    assert int(progress["sources"][0]["metrics"]["assignor.tasks"]) >= 6


def test_a_self_join_reads_each_row_once_on_both_sides(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    topic.create(3).fill([40, 20, 0])
    stream = read_topic(spark, topic, {"assignor": "lag-aware-sticky"}).selectExpr(
        "CAST(value AS STRING) AS v"
    )
    query = (
        stream.alias("a")
        .join(stream.alias("b"), "v")
        .writeStream.format("memory")
        .queryName("self_join")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    wait_for_end(query)
    assert spark.table("self_join").count() == 60


def test_each_action_and_each_physical_plan_of_a_batch_gets_the_same_tasks(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    """Read the first batch again in the second, when its reports would lead to another plan."""
    counts = [900, 300, 100]
    topic.create(len(counts)).fill(counts)
    batches: list[DataFrame] = []
    read: list[tuple[int, list[tuple[int, ...]]]] = []

    def write(batch: DataFrame, number: int) -> None:
        batches.append(batch)
        for each in (number, 0):
            rows = batches[each].selectExpr("spark_partition_id()", "partition", "offset")
            read.append((each, sorted(tuple(row) for row in rows.collect())))

    query = (
        read_topic(spark, topic, {"assignor": "lag-aware-sticky", "maxOffsetsPerTrigger": "700"})
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert len(wait_for_end(query)) == len(batches) == 2
    first = dict(reversed(read))
    assert sum(map(len, first.values())) == sum(counts)
    for number, rows in read:
        assert rows == first[number], f"other tasks read batch {number}"

    # Delta's own sink and a self-join make further physical plans of a batch.
    plan = query._jsq.streamingQuery().lastExecution().executedPlan()  # type: ignore[attr-defined]
    [scan] = [leaf for leaf in to_list(plan.collectLeaves()) if "Scan" in leaf.nodeName()]
    again = scan.stream().planInputPartitions(scan.start(), scan.end())
    tasks = to_list(scan.inputPartitions())
    assert len(again) == len(tasks) == 2
    assert all(one.equals(other) for one, other in zip(again, tasks, strict=True))


def test_two_sources_in_one_query_are_planned_apart(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    topic.create(4).fill([40, 30, 20, 10])
    ours = read_topic(spark, topic, {"assignor": "lag-aware-sticky"})
    theirs = read_topic(spark, topic, {})
    query = (
        ours.union(theirs)
        .selectExpr("partition", "offset")
        .writeStream.format("memory")
        .queryName("two_sources")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    [progress] = wait_for_end(query)
    assert spark.table("two_sources").count() == 200
    assert "assignor.strategy" in progress["sources"][0]["metrics"]
    assert "assignor.strategy" not in progress["sources"][1]["metrics"]


def test_the_session_can_name_the_strategy_for_all_streams_but_those_that_say_none(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    topic.create(2).fill([10, 10])
    spark.conf.set("spark.assignor.strategy", "lag-aware-sticky")
    spark.conf.set("spark.assignor.maxImbalance", "0.2")
    try:
        query = (
            read_topic(spark, topic, {})
            .union(read_topic(spark, topic, {"assignor": " None "}))
            .writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        [progress] = wait_for_end(query)
    finally:
        spark.conf.unset("spark.assignor.strategy")
        spark.conf.unset("spark.assignor.maxImbalance")
    planned, left_alone = (source["metrics"] for source in progress["sources"])
    assert planned["assignor.strategy"] == "lag-aware-sticky"
    assert planned["assignor.fallbacks"] == "0"
    assert left_alone
    assert not any(name.startswith("assignor.") for name in left_alone)


def test_the_switch_is_read_before_each_batch(
    spark: SparkSession, topic: Topic, checkpoint: str, tmp_path: Path
) -> None:
    """By a setting of the session, or by a file; nothing is read twice or lost over it."""
    topic.create(2)
    file = tmp_path / "off"
    enabled, killed = "spark.assignor.enabled", "spark.assignor.killSwitchFile"
    spark.conf.set(killed, str(file))
    query = (
        read_topic(spark, topic, {"assignor": "lag-aware-sticky"})
        .selectExpr("partition", "offset")
        .writeStream.format("memory")
        .queryName("switched")
        .option("checkpointLocation", checkpoint)
        .start()
    )
    batches: list[tuple[str, str | None]] = []

    def batch() -> None:
        topic.fill([5, 5], first=5 * len(batches))
        query.processAllAvailable()
        progress = [p for p in query.recentProgress if p.numInputRows][-1]
        metrics = progress.sources[0].metrics
        assert metrics["assignor.fallbacks"] == "0"
        batches.append((metrics["assignor.strategy"], metrics.get("assignor.switchedOff")))

    try:
        batch()
        # From here on: another test may have left the driver switched off.
        driver_log = DriverLog(Path(spark.conf.get("assignor.test.log") or ""))
        spark.conf.set(enabled, " False")
        batch()
        spark.conf.set(enabled, "true")
        batch()
        file.touch()
        batch()
        file.unlink()
        batch()
        spark.conf.set(enabled, "perhaps")
        batch()
    finally:
        query.stop()
        spark.conf.unset(enabled)
        spark.conf.unset(killed)

    ours = ("lag-aware-sticky", None)
    by_setting, by_file = f"{enabled} is false", f"{killed} exists: {file}"
    assert batches == [ours, ("spark", by_setting), ours, ("spark", by_file), ours, ours]
    rows = spark.table("switched")
    assert rows.count() == rows.distinct().count() == 60
    assert len(driver_log.lines("switched off")) == len(driver_log.lines("switched on again")) == 2
    [warning] = driver_log.lines("stays switched on")
    assert f"{enabled} must be true or false, not 'perhaps'" in warning


def test_a_file_system_without_its_libraries_cannot_end_a_query_by_the_switch(
    spark: SparkSession, topic: Topic, checkpoint: str, driver_log: DriverLog
) -> None:
    """It throws a LinkageError: Hadoop's own for SFTP does where jsch is not there, as in Spark."""
    killed = "spark.assignor.killSwitchFile"
    topic.create(1).fill([5])
    spark.conf.set("fs.sftp.impl", "org.apache.hadoop.fs.sftp.SFTPFileSystem")
    query = (
        read_topic(spark, topic, {"assignor": "lag-aware-sticky"})
        .writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .start()
    )
    try:
        query.processAllAvailable()
        spark.conf.set(killed, "sftp://ann@127.0.0.1/off")
        topic.fill([5], first=5)
        query.processAllAvailable()
        assert_planned([to_dict(p) for p in query.recentProgress if p.numInputRows])
        query.stop()
        [warning] = driver_log.lines("stays switched on")
        assert f"{killed} could not be checked: java.lang.NoClassDefFoundError" in warning
        with pytest.raises(StreamingQueryException, match=f"{killed} could not be checked"):
            run_in_batches(spark, topic, f"{checkpoint}-2")
    finally:
        query.stop()
        spark.conf.unset(killed)
        spark.conf.unset("fs.sftp.impl")


def test_a_server_that_takes_too_long_cannot_end_a_query_by_the_switch(
    spark: SparkSession, topic: Topic, checkpoint: str, driver_log: DriverLog
) -> None:
    """Java's exception for it is that of an interrupt: the thread of the query was interrupted."""
    killed, limit = "spark.assignor.killSwitchFile", "dfs.webhdfs.socket.read-timeout"
    topic.create(1).fill([5])
    query = (
        read_topic(spark, topic, {"assignor": "lag-aware-sticky"})
        .writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .start()
    )
    with socket.create_server(("127.0.0.1", 0)) as silent:
        try:
            query.processAllAvailable()
            spark.conf.set(limit, "500ms")
            spark.conf.set(killed, f"webhdfs://127.0.0.1:{silent.getsockname()[1]}/off")
            topic.fill([5], first=5)
            query.processAllAvailable()
            assert_planned([to_dict(p) for p in query.recentProgress if p.numInputRows])
            query.stop()
        finally:
            query.stop()
            spark.conf.unset(killed)
            spark.conf.unset(limit)
    [warning] = driver_log.lines("stays switched on")
    assert "SocketTimeoutException" in warning


def test_a_setting_of_the_session_in_two_spellings_is_refused(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    """Which of the two held was a matter of hash codes."""
    topic.create(1).fill([5])
    spark.conf.set("spark.assignor.onError", "fail")
    spark.conf.set("spark.assignor.onerror", "fallback")
    try:
        with pytest.raises(StreamingQueryException, match="is set twice, in different case: keep"):
            run_in_batches(spark, topic, checkpoint)
        _, rows = run_in_batches(spark, topic, f"{checkpoint}-3", assignor_onError="fail")
        assert rows == 5  # the source has its own, so it is not refused
        spark.conf.set("spark.assignor.enabled", "false")  # then it is nobody's
        _, rows = run_in_batches(spark, topic, f"{checkpoint}-2")
        assert rows == 5
    finally:
        spark.conf.unset("spark.assignor.enabled")
        spark.conf.unset("spark.assignor.onError")
        spark.conf.unset("spark.assignor.onerror")


def test_a_stream_that_starts_switched_off_needs_no_python(
    spark: SparkSession, topic: Topic, checkpoint: str, tmp_path: Path
) -> None:
    topic.create(2).fill([3, 4])
    python = spark.conf.get("spark.assignor.python") or ""
    spark.conf.set("spark.assignor.enabled", "false")
    spark.conf.set("spark.assignor.python", str(tmp_path / "missing"))
    try:
        [progress] = run_to_table(
            spark, topic, checkpoint, str(tmp_path / "table"), assignor="lag-aware-sticky"
        )
        spark.conf.set("spark.assignor.enabled", "no")
        with pytest.raises(StreamingQueryException, match="must be true or false, not 'no'"):
            run_to_table(spark, topic, checkpoint, str(tmp_path / "table"), assignor="range")
    finally:
        spark.conf.unset("spark.assignor.enabled")
        spark.conf.set("spark.assignor.python", python)
    assert progress["numInputRows"] == 7
    metrics = progress["sources"][0]["metrics"]
    assert (metrics["assignor.strategy"], metrics["assignor.fallbacks"]) == ("spark", "0")


def test_a_topic_named_error_is_planned_as_any_other(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    """Offsets are JSON by topic, and a planner's answer with `error` in it is a failure."""
    error = replace(topic, name="error").create(2)
    error.fill([30, 20])

    progresses, rows = run_in_batches(spark, error, checkpoint)

    assert rows == 50
    metrics = [p["sources"][0]["metrics"] for p in progresses]
    assert {m["assignor.strategy"] for m in metrics} == {"lag-aware-sticky"}
    assert {m["assignor.fallbacks"] for m in metrics} == {"0"}


def test_a_stream_that_spark_reads_the_old_way_says_that_the_option_has_no_effect(
    spark: SparkSession, topic: Topic, checkpoint: str, driver_log: DriverLog
) -> None:
    topic.create(1).fill([7])
    option = {"assignor": "lag-aware-sticky"}
    key = "spark.sql.streaming.disabledV2MicroBatchReaders"
    spark.conf.set(key, "org.apache.spark.sql.kafka010.KafkaSourceProvider")
    try:
        query = (
            read_topic(spark, topic, option)
            .writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        [progress] = wait_for_end(query)
        with pytest.raises(IllegalArgumentException, match=key):
            read_topic(spark, topic, option | {"assignor.onError": " fail"})
    finally:
        spark.conf.unset(key)
    [warning] = driver_log.lines("option 'assignor' has no effect")
    assert key in warning
    assert progress["numInputRows"] == 7
    [source] = progress["sources"]
    assert source["description"].startswith("KafkaSourceV1[")
    assert "metrics" not in source


def test_continuous_processing_says_that_the_option_has_no_effect(
    spark: SparkSession, topic: Topic, checkpoint: str, driver_log: DriverLog
) -> None:
    topic.create(2).fill([1, 1])

    def start(options: dict[str, str]) -> StreamingQuery:
        return (
            read_topic(spark, topic, {"assignor": "lag-aware-sticky"} | options)
            .writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(continuous="1 second")
            .start()
        )

    query = start({})
    try:
        wait_until(lambda: driver_log.lines("option 'assignor' has no effect"), "a warning")
    finally:
        query.stop()
    [warning] = driver_log.lines("option 'assignor' has no effect")
    assert "continuous processing" in warning
    with pytest.raises(IllegalArgumentException, match="continuous processing"):
        start({"assignor.onError": "fail"})


def test_a_strategy_that_is_set_after_load_says_that_it_has_no_effect(
    spark: SparkSession, topic: Topic, checkpoint: str, driver_log: DriverLog
) -> None:
    topic.create(1).fill([3])
    strategy = "spark.assignor.strategy"
    asked = ({}, {"assignor": "none"}, {"assignor": "range"}, {"assignor.onError": "fail"})
    frames = [read_topic(spark, topic, options) for options in asked]
    spark.conf.set(strategy, "lag-aware-sticky")
    try:
        for number, frame in enumerate(frames[:3]):
            wait_for_end(to_nowhere(frame, f"{checkpoint}-{number}"))
        with pytest.raises(IllegalArgumentException, match="set after load"):
            to_nowhere(frames[3], checkpoint)
    finally:
        spark.conf.unset(strategy)
    [warning] = driver_log.lines("option 'assignor' has no effect")
    assert f"{strategy} was set after load()" in warning


def test_a_session_that_leaves_streams_to_spark_after_load_does_so(
    spark: SparkSession, topic: Topic, checkpoint: str, driver_log: DriverLog
) -> None:
    """'none' was refused at the query's start, and no strategy at all planned all the same."""
    topic.create(1).fill([3])
    strategy = "spark.assignor.strategy"
    for number, after in enumerate(("none", None)):
        spark.conf.set(strategy, "sticky")
        try:
            frame = read_topic(spark, topic, {})
            if after:
                spark.conf.set(strategy, after)
            else:
                spark.conf.unset(strategy)
            query = to_nowhere(frame, f"{checkpoint}-{number}")
            [progress] = [p for p in wait_for_end(query) if p["numInputRows"]]
        finally:
            spark.conf.unset(strategy)
        assert "assignor.strategy" not in progress["sources"][0]["metrics"]


def test_an_option_that_is_none_is_as_if_it_were_not_there(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    """Python's None came as Java's null, and was a bare NullPointerException."""
    topic.create(2).fill([3, 5])
    absent = dict.fromkeys(
        ("assignor.onError", "assignor.maxImbalance", "kafka.ssl.key.password"),
    )
    options: dict[str, Any] = {"assignor": "sticky", **absent}
    query = to_nowhere(read_topic(spark, topic, options), f"{checkpoint}-0")
    [progress] = [p for p in wait_for_end(query) if p["numInputRows"]]
    metrics = progress["sources"][0]["metrics"]
    assert (metrics["assignor.strategy"], metrics["assignor.fallbacks"]) == ("sticky", "0")
    spark.conf.set("spark.assignor.strategy", "sticky")
    try:
        frame = read_topic(spark, topic, {"assignor": None})  # type: ignore[dict-item]
        query = to_nowhere(frame, f"{checkpoint}-1")
        [progress] = [p for p in wait_for_end(query) if p["numInputRows"]]
    finally:
        spark.conf.unset("spark.assignor.strategy")
    assert progress["sources"][0]["metrics"]["assignor.fallbacks"] == "0"


def to_nowhere(frame: DataFrame, checkpoint: str) -> StreamingQuery:
    """Read what is there."""
    return (
        frame.writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )


def test_the_option_on_another_source_says_that_it_has_no_effect(
    spark: SparkSession, driver_log: DriverLog
) -> None:
    spark.readStream.format("rate").option("assignor", "lag-aware-sticky").load()
    [warning] = driver_log.lines("option 'assignor' has no effect")
    assert "source 'rate' is not Spark's Kafka source" in warning
