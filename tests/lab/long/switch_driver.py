"""A driver that is started switched off, with a kill switch's file named: run by test_switch.py.

It runs three queries at once, two of them in one session, works the switches between batches, and
prints as JSON who planned each batch of each query, and what they have read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.kafka_topics import Topic
from tests.support.spark_tools import read_topic, start_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

OPTION = {"assignor": "lag-aware-sticky"}
ENABLED = "spark.assignor.enabled"


def main() -> None:
    """Do as the module says."""
    servers, name, folder, file = sys.argv[1:]
    topic, off = Topic(servers, name), Path(file)
    spark = start_spark(
        "local[2]", Path(folder), spark_assignor_enabled="false", spark_assignor_killSwitchFile=file
    )
    other = spark.newSession()
    sessions = [spark, spark, other]
    queries = [
        started(session, topic, f"query{number}", folder) for number, session in enumerate(sessions)
    ]
    batches: dict[str, list[Any]] = {}
    fallbacks: set[str] = set()

    def batch(when: str) -> None:
        topic.fill([5, 5], first=5 * len(batches))
        batches[when] = []
        for query in queries:
            query.processAllAvailable()
            metrics = [p for p in query.recentProgress if p.numInputRows][-1].sources[0].metrics
            planner = metrics["assignor.strategy"], metrics.get("assignor.switchedOff")
            batches[when].append(planner)
            fallbacks.add(metrics["assignor.fallbacks"])

    batch("as started")
    spark.conf.set(ENABLED, "true")
    batch("one session switched on")
    other.conf.set(ENABLED, "true")
    batch("both switched on")
    off.touch()
    batch("the file is there")
    off.unlink()
    batch("the file is gone")
    rows = []
    for number, (session, query) in enumerate(zip(sessions, queries, strict=True)):
        query.stop()
        table = session.table(f"query{number}")
        rows.append((table.count(), table.distinct().count()))
    told = {"batches": batches, "rows": rows, "fallbacks": sorted(fallbacks)}
    print(json.dumps(told), flush=True)
    spark.stop()


def started(session: SparkSession, topic: Topic, name: str, folder: str) -> StreamingQuery:
    return (
        read_topic(session, topic, OPTION)
        .selectExpr("partition", "offset")
        .writeStream.format("memory")
        .queryName(name)
        .option("checkpointLocation", f"{folder}/{name}")
        .start()
    )


if __name__ == "__main__":
    main()
