"""A real query, measured: what its endpoint, textfile and log tell is what it read."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streaming.cli import main
from streaming.metrics.attach import attach
from streaming.metrics.config import MetricsConfig
from streaming.metrics.names import METRICS
from streaming.replay.log import read_log
from tests.spark_tools import as_dict, assert_planned, read_topic, wait_until
from tests.support.metric_queries import check, queries, selectors

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.kafka_topics import Topic

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
    assert mine[0]["progress"]["sources"][0]["numInputRows"] == mine[0]["rows"]
    # The checkpoint alone tells what each batch read.
    log = read_log(checkpoint)
    assert log.checkpoint.query_id == str(query.id)
    assert [sum(r.size for r in batch.ranges) for batch in log.sources["0"]] == [60, 60]
    assert main.run(["replay", "--checkpoint", checkpoint, "--json"]) == 0
    found_by_replay = json.loads(capsys.readouterr().out)
    assert (found_by_replay["batches"], found_by_replay["records"]) == (2, sum(counts))


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
    needed = {s.name for _, query in queries() for s in selectors(query)} - OF_ZONES
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
            assert_planned(map(as_dict, query.recentProgress))
        finally:
            query.stop()
    for _, text in queries():
        if found.keys() >= {selector.name for selector in selectors(text)}:
            check(text, found)
