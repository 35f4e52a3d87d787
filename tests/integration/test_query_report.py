"""A real query, reported: its UI, checkpoint and log tell the same as its progress."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streaming.cli import main
from streaming.metrics.attach import attach
from streaming.metrics.config import MetricsConfig
from streaming.observe.spark_ui import SparkUi, choose_query
from streaming.observe.web import Address
from tests.support.spark_tools import read_topic, to_dict, wait_until
from tests.unit.metrics.samples import flush
from tests.unit.streaming.test_query_report import write_report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from tests.support.kafka_topics import Topic

pytestmark = pytest.mark.integration


def test_report_and_live_frame_of_a_running_query(
    spark: SparkSession, topic: Topic, checkpoint: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    counts = [60, 20, 10, 0]
    topic.create(4).fill(counts)
    url = spark.sparkContext.uiWebUrl
    assert url is not None
    log = tmp_path / "progress.jsonl"
    config = MetricsConfig(port=0, address="127.0.0.1", log_file=log)
    with attach(spark, config) as exporter:
        assert exporter is not None
        options = {"assignor": "lag-aware-sticky", "maxOffsetsPerTrigger": "45"}
        query = (
            read_topic(spark, topic, options)
            .writeStream.format("noop")
            .queryName(topic.name)
            .option("checkpointLocation", checkpoint)
            .start()
        )
        try:
            wait_until(lambda: _rows(query) == sum(counts), "all rows read")
            flush(exporter)
            endpoint = f"http://127.0.0.1:{exporter.port}"
            assert (
                main.run(["report", "--live", "--once", "--query", topic.name, url, endpoint]) == 0
            )
            shown = re.sub(" {2,}", " | ", capsys.readouterr().out)
        finally:
            query.stop()
    assert "lag 0 in 0 of 4 partitions" in shown
    assert "2 slots, 2 batches, busiest" in shown
    assert re.search(r"^1 \| +[\d.]+ \| 45 \| 2 \| ", shown, re.MULTILINE)
    assert "assignor: lag-aware-sticky · 2 tasks" in shown
    # What the UI says of each batch is what the progress said.
    ui = SparkUi(Address.parse(url))
    run = ui.fetch_run(choose_query(ui.fetch_batches(), str(query.id), url))
    told = {p["batchId"]: p["numInputRows"] for p in map(to_dict, query.recentProgress)}
    assert {f.batch: f.records for f in run.batches} == {0: 45, 1: 45}
    assert {batch: told[batch] for batch in (0, 1)} == {0: 45, 1: 45}
    assert {task.slot for f in run.batches for task in f.tasks} == set(run.slots)
    states = Path(checkpoint, "sources", "0", "assignments")
    wait_until(lambda: list(states.glob("*.v*")), "the planner's state beside the checkpoint")
    words = write_report(tmp_path, checkpoint, url, log)
    assert f"Query {topic.name}" in words
    assert "After the last batch, 0 records were unread in 0 of 4 partitions" in words
    assert "When each slot worked, batch 1 " in words
    assert "of a partition to another executor in" in words
    assert "one record of a usual partition" in words
    assert "is unknown" not in words


def _rows(query: StreamingQuery) -> int:
    return sum(p["numInputRows"] for p in map(to_dict, query.recentProgress))
