"""`python -m tests.support.report_picture`: makes the picture of docs/report.md, of a real query.

Twelve skewed partitions on three executors of two slots; one of the executors is killed. The page
is that of `assignor report`, by checkpoint, log of metrics, plan log and the running driver's UI;
the picture has some of its pictures. It has to be looked at: nothing compares.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from streaming.kafka.embedded import EmbeddedBroker
from streaming.metrics.attach import attach
from streaming.metrics.config import MetricsConfig
from streaming.report.svg import standalone
from tests.decommission_driver import pid_of
from tests.kafka_topics import Topic
from tests.spark_tools import as_dict, assert_planned, read_topic, start_spark, wait_until
from tests.strategies_snapshots import lags

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "images" / "report.svg"
PARTITIONS, RECORDS, BATCHES, KILLED_IN = 12, 3_000, 16, 11
#: Pictures of the page, by how their headings begin.
PANELS = (
    "Lag when a batch began", "Records read by each slot", "When each slot worked",
    "Time a record takes", "Seconds of each batch",
)  # fmt: skip
COST = "CASE WHEN offset % 10 = 9 THEN java_method('java.lang.Thread', 'sleep', 20L) END"


def report_of_a_query(folder: Path) -> str:
    """Run the query, and give the page of `assignor report`."""
    checkpoint, log, plans = (
        folder / "checkpoint",
        folder / "progress.jsonl",
        folder / "plans.jsonl",
    )
    options = {"assignor": "lag-aware-sticky", "assignor.planLog": str(plans)}
    whole = {"minOffsetsPerTrigger": str(RECORDS), "maxTriggerDelay": "5h"}
    with EmbeddedBroker() as broker:
        topic = Topic(broker.bootstrap_servers, "orders").create(PARTITIONS)
        spark = start_spark("local-cluster[3,2,1024]", folder, spark_ui_enabled="true")
        known = spark.sparkContext._jsc.sc()
        wait_until(lambda: known.getExecutorMemoryStatus().size() > 3, "three executors", 180)
        topic.fill(lags("zipf-1.2", PARTITIONS, RECORDS))
        with attach(spark, MetricsConfig(log_file=log)):
            query = (
                read_topic(spark, topic, options | whole)
                .selectExpr(COST)
                .writeStream.format("noop")
                .queryName("orders")
                .option("checkpointLocation", str(checkpoint))
                .start()
            )
            for number in range(1, BATCHES + 1):
                wait_until(lambda n=number: done(query) >= n, f"batch {number}", 120)
                if number == KILLED_IN:
                    port = spark.sparkContext.getConf().get("spark.driver.port")
                    os.kill(pid_of("2", port), signal.SIGKILL)
                if number < BATCHES:
                    topic.fill(lags("zipf-1.2", PARTITIONS, RECORDS, seed=number % 3))
            assert_planned([b for b in map(as_dict, query.recentProgress) if b["numInputRows"]])
            page = folder / "report.html"
            sources = [str(checkpoint), str(log), str(plans), spark.sparkContext.uiWebUrl]
            words = ["-m", "streaming.cli.main", "report", *sources, "--output", str(page)]
            subprocess.run([sys.executable, *words], cwd=ROOT, check=True)
            query.stop()
        spark.stop()
    return page.read_text(encoding="utf-8")


def done(query: Any) -> int:
    """Count the batches that read records."""
    assert query.exception() is None
    return sum(p.numInputRows > 0 for p in query.recentProgress)


def picture_of(page: str) -> str:
    """Lay the page's pictures out, under their own headings."""
    framed = re.findall(r"<figure><h3>(?:<span[^>]*></span>)?(.*?)</h3>(<svg.*?</svg>)", page, re.S)
    panels = [
        found[0]
        for wanted in PANELS
        if (found := [(title, svg) for title, svg in framed if title.startswith(wanted)])
    ]
    return standalone("A report of a real query", panels)


def main() -> None:
    """Write the picture; leave the page for whoever wants to see all of it."""
    with tempfile.TemporaryDirectory(prefix="report-") as folder:
        page = report_of_a_query(Path(folder))
        drawn = picture_of(page)
        assert folder not in drawn
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build" / "report.html").write_text(page, encoding="utf-8")
    PICTURE.write_text(drawn, encoding="utf-8")
    print(PICTURE)


if __name__ == "__main__":
    main()
