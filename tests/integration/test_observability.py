"""A real query, measured: what its endpoint, textfile and log tell is what it read."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streaming.cli import main
from streaming.metrics.attach import attach
from streaming.metrics.config import MetricsConfig
from streaming.metrics.names import METRICS
from streaming.replay.log import read_checkpoint_log
from tests.support.alert_rules import Series, find_firing_alerts
from tests.support.metric_queries import RULES, check_query, list_queries, list_selectors
from tests.support.spark_tools import assert_planned, read_topic, to_dict, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.support.kafka_topics import Topic

pytestmark = pytest.mark.integration


def samples(text: str, topic_or_query: str) -> dict[str, dict[str, float]]:
    """Values of this test's series by metric and partition (empty where there is none)."""
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if topic_or_query in (sample.labels.get("query"), sample.labels.get("group")):
                part = sample.labels.get("partition", sample.labels.get("phase", ""))
                found.setdefault(sample.name, {})[part] = sample.value
    return found


def test_a_query_is_measured_while_it_runs(
    spark: SparkSession, topic: Topic, checkpoint: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    counts = [90, 20, 10, 0]
    topic.create(4).fill(counts)
    config = MetricsConfig(
        port=0,
        address="127.0.0.1",
        textfile=tmp_path / "query.prom",
        log_file=tmp_path / "progress.jsonl",
    )
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "1s")
    with attach(spark, config) as exporter:
        assert exporter is not None
        options = {"assignor": "lag-aware-sticky", "maxOffsetsPerTrigger": "60"}
        query = (
            read_topic(spark, topic, options)
            .writeStream.format("noop")
            .queryName(topic.name)
            .option("checkpointLocation", checkpoint)
            .start()
        )
        try:
            url = f"http://127.0.0.1:{exporter.port}/metrics"

            def caught_up() -> dict[str, dict[str, float]] | None:
                with urllib.request.urlopen(url, timeout=10) as answer:
                    found = samples(answer.read().decode(), topic.name)
                rows = found.get("spark_streaming_input_rows_total", {}).get("")
                return found if rows == sum(counts) else None

            def is_idle() -> bool:
                told = caught_up() or {}
                alive_s = told.get("spark_streaming_last_progress_timestamp_seconds", {}).get("", 0)
                return alive_s > begun_s and "assignor_freshness_max_seconds" not in told

            found = wait_until(caught_up, "all rows in the endpoint")
            begun_s = found["spark_streaming_last_progress_timestamp_seconds"][""]
            wait_until(is_idle, "a time without records")
        finally:
            query.stop()
            spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")
    assert set(found) <= set(METRICS)
    offsets = found["kafka_consumergroup_group_offset"]
    assert offsets == {str(p): n for p, n in enumerate(counts)}
    assert set(found["kafka_consumergroup_group_lag"].values()) == {0.0}
    assert found["spark_streaming_batches_total"][""] == 2
    assert found["assignor_fallbacks_total"][""] == 0
    assert found["assignor_slots"][""] == 2
    # Values are "<partition>/<number>"; there are no keys.
    size = sum(len(f"{p}/{i}") for p, n in enumerate(counts) for i in range(n))
    assert found["assignor_reader_bytes_total"][""] == size
    # The query has ended: its last figures stay in the file, and the log says so.
    assert samples((tmp_path / "query.prom").read_text(), topic.name)[
        "kafka_consumergroup_group_offset"
    ] == dict(offsets)
    lines = [json.loads(line) for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    mine = [line for line in lines if line["queryId"] == str(query.id)]
    assert [line["event"] for line in mine] == ["batch", "batch", "ended"]
    assert [line["lag"] for line in mine[:2]] == [60, 0]
    assert [line["heldBack"] for line in mine[:2]] == [60, 0]
    assert mine[0]["progress"]["sources"][0]["numInputRows"] == mine[0]["rows"]
    # The checkpoint alone tells what each batch read.
    log = read_checkpoint_log(checkpoint)
    assert log.checkpoint.query_id == str(query.id)
    assert [sum(r.size for r in batch.ranges) for batch in log.batches_by_source["0"]] == [60, 60]
    assert main.run(["estimate", "--checkpoint", checkpoint, "--json"]) == 0
    found_by_replay = json.loads(capsys.readouterr().out)
    assert (found_by_replay["batches"], found_by_replay["records"]) == (2, sum(counts))


def test_a_query_that_is_slower_than_its_topic_has_lag_and_fires_the_alert(
    spark: SparkSession, topic: Topic, checkpoint: str,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Each of its batches reads all that was there when it was planned: lag was always 0."""
    monkeypatch.setattr("streaming.metrics.attach._LAG_INTERVAL_S", 0.2)
    topic.create(4).fill([60, 20, 10, 0])
    may_end = threading.Semaphore(1)
    history: dict[tuple[str, frozenset[tuple[str, str]]], list[tuple[float, float]]] = {}
    begun_s = time.monotonic()

    def end_if_allowed(batch: DataFrame, _number: int) -> None:
        batch.write.format("noop").mode("append").save()
        may_end.acquire(timeout=60)

    with attach(spark, MetricsConfig(port=0, address="127.0.0.1")) as exporter:
        assert exporter is not None
        url = f"http://127.0.0.1:{exporter.port}/metrics"

        def scrape() -> dict[str, dict[str, float]]:
            with urllib.request.urlopen(url, timeout=10) as answer:
                text = answer.read().decode()
            now_s = time.monotonic() - begun_s
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    key = sample.name, frozenset(sample.labels.items())
                    history.setdefault(key, []).append((now_s, sample.value))
            return samples(text, topic.name)

        def has_lag(*unread: float) -> dict[str, dict[str, float]] | None:
            found = scrape()
            lag = found.get("kafka_consumergroup_group_lag", {})
            return found if lag == dict(zip("0123", unread, strict=True)) else None

        query = (
            read_topic(spark, topic, {"assignor": "lag-aware-sticky"})
            .writeStream.foreachBatch(end_if_allowed)
            .queryName(topic.name)
            .option("checkpointLocation", checkpoint)
            .start()
        )
        try:
            wait_until(lambda: has_lag(0, 0, 0, 0), "a batch that has read everything")
            for unread in (5, 15, 25, 35):  # the batch that reads some of the first does not end
                topic.fill([unread - max(0, unread - 10)] * 4, first=60 + unread)
                found = wait_until(lambda n=unread: has_lag(n, n, n, n), "lag that grows")
            command = ["lag", "--checkpoint", checkpoint, "--json",
                       "--bootstrap-server", topic.bootstrap_servers]  # fmt: skip
            assert main.run(command) == 0
            by_command = json.loads(capsys.readouterr().out)["partitions"]
            may_end.release()
            wait_until(lambda: len(query.recentProgress) > 1, "the end of the batch")
            [slow] = to_dict(query.recentProgress[1])["sources"]
            ends = slow["endOffset"][topic.name]
            left = [n + 35 - ends[str(p)] for p, n in enumerate([60, 20, 10, 0])]
            wait_until(lambda: has_lag(*left), "lag after the batch")
            may_end.release(100)
            wait_until(lambda: has_lag(0, 0, 0, 0), "a query that has caught up")
        finally:
            may_end.release(100)
            query.stop()
    assert [row["lag"] for row in by_command] == [35] * 4
    seconds = found["kafka_consumergroup_group_lag_seconds"]
    for row in by_command:
        assert seconds[str(row["partition"])] == pytest.approx(row["seconds_behind"], abs=3)
    assert found["assignor_held_back_records"][""] == 0
    # The same rule, in seconds for minutes.
    [rule] = [rule for rule in RULES if rule["alert"] == "StreamLagGrows"]
    quick = {"expr": rule["expr"].replace("30m", "4s").replace("> 300", "> 2"), "for": "1s"}
    series = [Series(name, labels, points) for (name, labels), points in history.items()]
    ends_s = int(time.monotonic() - begun_s)
    fired = [find_firing_alerts(rule | quick, at_s, 0.5, series) for at_s in range(ends_s)]
    assert [labels["group"] for [(labels, _)] in filter(None, fired)][:1] == [topic.name]


def test_nothing_asked_for_costs_nothing(spark: SparkSession) -> None:
    listeners = spark._jsparkSession.streams().listListeners()
    with attach(spark, MetricsConfig()) as exporter:
        assert len(spark._jsparkSession.streams().listListeners()) == len(listeners)
        assert exporter.port is None


#: Racks are known to no broker and no executor here; `test_racks.py` sees these.
OF_ZONES = {"assignor_cross_zone_ratio", "assignor_cross_zone_bytes_total",
            "assignor_received_bytes_total"}  # fmt: skip


def test_what_rules_and_board_ask_for_is_exported(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    topic.create(4).fill([40] * 4)
    options = {
        "assignor": "lag-aware-sticky", "assignor.onError": "fail", "maxOffsetsPerTrigger": "30",
        "assignor.fairness": "deadline", "assignor.commitGroup": topic.name,
    }  # fmt: skip
    needed = {s.name for _, query in list_queries() for s in list_selectors(query)} - OF_ZONES
    written, found = 40, dict[str, set[str]]()
    with attach(spark, MetricsConfig(port=0, address="127.0.0.1")) as exporter:
        assert exporter is not None
        url = f"http://127.0.0.1:{exporter.port}/metrics"

        def all_there() -> bool:
            """Ask again while records come: lag in seconds needs a log that grows."""
            nonlocal written
            topic.fill([10] * 4, first=written)
            written += 10
            with urllib.request.urlopen(url, timeout=10) as answer:
                text = answer.read().decode()
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    found.setdefault(sample.name, set()).update(sample.labels)
            return needed <= found.keys()

        query = (
            read_topic(spark, topic, options)
            .writeStream.format("noop")
            .queryName(topic.name)
            .option("checkpointLocation", checkpoint)
            .start()
        )
        try:
            wait_until(all_there, f"in the endpoint: {sorted(needed)}")
            assert_planned(map(to_dict, query.recentProgress))
        finally:
            query.stop()
    for _, text in list_queries():
        if found.keys() >= {selector.name for selector in list_selectors(text)}:
            check_query(text, found)
