"""Programs of README and docs that need a Spark or a broker, as they stand on the page.

Only names of places are put in: the broker's address, a topic, folders. What needs neither runs in
`tests/unit/test_docs_programs.py`, the quick start in `test_quickstart.py`, the notebook in
`test_examples.py`, Spark Connect in `make compat`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from tests.support.spark_tools import assert_planned, read_topic, to_dict, wait_for_end
from tests.unit.test_docs import ROOT, text_of
from tests.unit.test_docs_programs import blocks

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql.streaming.query import StreamingQuery

    from tests.support.kafka_topics import Topic

pytestmark = [pytest.mark.integration]


def program(page: str, containing: str) -> str:
    """Return the only program of a page with this text in it."""
    text = (ROOT / page).read_text(encoding="utf-8") if page == "README.md" else text_of(page)
    [block] = [block for block in blocks(text, "python") if containing in block]
    return block


def put(block: str, **places: str) -> str:
    """Put places into a program; each must be named in it."""
    for name, value in places.items():
        assert name in block, name
        block = block.replace(name, value)
    return block


def once(frame: Any, checkpoint: str) -> list[dict[str, Any]]:
    """Read what is there."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
    return wait_for_end(writer.trigger(availableNow=True).start())


def test_the_readme_and_the_checkpoint_of_its_query(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    topic.create(3)
    names: dict[str, Any] = {"SparkSession": SparkSession}
    readme = program("README.md", "configure_spark").replace('"orders")\n', f'"{topic.name}")\n')
    exec(put(readme, **{"broker:9092": topic.bootstrap_servers}), names)  # noqa: S102
    writer = names["orders"].writeStream.format("noop").option("checkpointLocation", checkpoint)
    query: StreamingQuery = writer.start()
    try:
        query.processAllAvailable()  # which has begun at the end of an empty topic
        topic.fill([30, 20, 10])
        query.processAllAvailable()
        assert_planned([to_dict(p) for p in query.recentProgress])
    finally:
        query.stop()
    block = put(
        program("diagnose.md", "read_checkpoint"),
        **{"s3a://bucket/checkpoint": f"file:{checkpoint}"},
    )
    names = {"spark": spark}
    *first, last = block.strip().splitlines()
    exec("\n".join(first), names)  # noqa: S102
    batch, ends = eval(last, names)  # noqa: S307
    assert batch >= 0
    assert sum(ends[topic.name].values()) == 60


def test_the_options_of_limited_batches(spark: SparkSession, topic: Topic, checkpoint: str) -> None:
    topic.create(2).fill([40, 40])
    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", topic.bootstrap_servers)
        .option("subscribe", topic.name)
        .option("startingOffsets", "earliest")
    )
    block = program("limit-batches.md", "targetBatchSeconds")
    frame = eval(f"(stream\n{block})", {"stream": stream}).load()  # noqa: S307
    batches = once(frame, checkpoint)
    assert_planned(batches)
    assert sum(batch["numInputRows"] for batch in batches) == 80


def test_the_records_that_an_audit_misses_are_read_again(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.create(2).fill([60, 60])
    names = {
        "spark": spark,
        "kafka": {"kafka.bootstrap.servers": topic.bootstrap_servers},
        "transform": lambda frame: frame.selectExpr("partition", "offset"),
    }
    places = {'"t"': f'"{topic.name}"', "tables/orders": str(tmp_path / "table")}
    exec(put(program("audit.md", "missing"), **places), names)  # noqa: S102
    rows = spark.read.format("delta").load(str(tmp_path / "table")).collect()
    assert sorted((row.partition, row.offset) for row in rows) == [(1, n) for n in range(10, 50)]


def test_metrics_of_a_query(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.create(2).fill([20, 20])
    options = {"assignor": "lag-aware-sticky"}
    names = {"spark": spark, "orders": read_topic(spark, topic, options)}
    places = {
        "port=9404": "port=0",
        "/var/lib/node/a.prom": str(tmp_path / "a.prom"),
        "progress.jsonl": str(tmp_path / "progress.jsonl"),
        ".writeStream": ".writeStream.trigger(availableNow=True)",
    }
    exec(put(program("monitor.md", "MetricsConfig"), **places), names)  # noqa: S102
    assert "assignor_" in (tmp_path / "a.prom").read_text()
    lines = (tmp_path / "progress.jsonl").read_text().splitlines()
    assert sum(json.loads(line).get("rows", 0) for line in lines) == 40


def test_an_assignor_of_ones_own_passes_the_conformance_suite(tmp_path: Path) -> None:
    page = "writing-an-assignor.md"
    (tmp_path / "team_rules.py").write_text(program(page, "class LargestFirst:"), encoding="utf-8")
    test = program(page, "AssignorConformance")
    (tmp_path / "test_mine.py").write_text(test, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "test_mine.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
