"""What the benchmarks of limited batches share: a session, and the proof that we set the limits."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from confluent_kafka.admin import AdminClient

from tests.lab.benchmarks.tuned_spark import SHORT_WAIT
from tests.support.spark_tools import assert_planned, start_spark

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.support.kafka_topics import Topic

#: Of Spark's own source; its default waits half a second for each partition that has no more.
BEST = dict(SHORT_WAIT)
OURS = {"assignor": "lag-aware-sticky", "assignor.onError": "fail"}


def two_executors(folder: Path) -> SparkSession:
    """Start Spark with two executors of one slot, and what `assignor run` sets on one machine."""
    session = start_spark(
        "local-cluster[2,1,1024]", folder,
        spark_locality_wait="3s",
        spark_kafka_consumer_cache_capacity="4000",
        spark_databricks_delta_snapshotPartitions="1",
        spark_sql_codegen_cache_maxEntries="200",
        spark_sql_streaming_numRecentProgressUpdates="5000",
    )  # fmt: skip
    session.sparkContext.setLogLevel("ERROR")
    return session


def assert_limited(batches: Sequence[dict[str, Any]], options: Mapping[str, str]) -> None:
    """With our options, we planned and limited each batch; without, nobody but Spark did."""
    sources = [source for batch in batches for source in batch["sources"]]
    if "assignor" not in options:
        assert not any(key.startswith("assignor.") for s in sources for key in s["metrics"])
        return
    assert_planned(batches)
    metrics = [source["metrics"] for source in sources]
    for source in sources:
        admitted = int(source["metrics"]["assignor.admittedRecords"])
        assert admitted == offsets(source["endOffset"]) - offsets(source["startOffset"]), source
    assert all(m["assignor.heldBackBy"] != "spark" for m in metrics)
    assert any(int(m["assignor.heldBackRecords"]) for m in metrics), "nothing was held back"


def offsets(by_topic: Mapping[str, Mapping[str, int]] | None) -> int:
    """Add the offsets of all partitions up; the topics of these runs begin at 0."""
    return sum(end for of_topic in (by_topic or {}).values() for end in of_topic.values())


def began(batch: Mapping[str, Any]) -> float:
    """When the trigger of a batch began, in seconds since 1970."""
    return datetime.fromisoformat(str(batch["timestamp"]).replace("Z", "+00:00")).timestamp()


def seconds_of(batches: Sequence[Mapping[str, Any]]) -> list[float]:
    """Give what each batch took."""
    return [batch["durationMs"]["triggerExecution"] / 1000 for batch in batches]


def delete(*topics: Topic) -> None:
    """Delete topics, so that the broker is as it was before the next way."""
    admin = AdminClient({"bootstrap.servers": topics[0].bootstrap_servers})
    for deleted in admin.delete_topics([topic.name for topic in topics]).values():
        deleted.result(30)


def percentiles(values: Any) -> tuple[float, float]:
    """Give the median and the 99th percentile."""
    p50, p99 = np.percentile(values, (50, 99))
    return float(p50), float(p99)
