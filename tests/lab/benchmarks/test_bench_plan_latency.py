"""What planning adds to a micro-batch: from Spark's own ranges to the planned tasks, in the JVM.

The figure is the stream's own `assignor.planMillis`: request, Python planner, verification and the
building of the input partitions. Spark's own planning of the same batch runs before it either way.
"""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.benchmarks.report import write_report
from tests.support.spark_tools import assert_planned, read_topic, wait_for_end

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.support.kafka_topics import Topic

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1200)]

PARTITIONS = 1000
RECORDS_PER_BATCH = 2000
BATCHES = 15
WARM_UP = 5


def test_planning_of_a_thousand_partitions(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.create(PARTITIONS).fill([RECORDS_PER_BATCH * BATCHES // PARTITIONS] * PARTITIONS)
    rows = []
    for round_number in range(3):
        options = {
            "assignor": "lag-aware-sticky",
            "maxOffsetsPerTrigger": str(RECORDS_PER_BATCH),
        }
        query = (
            read_topic(spark, topic, options)
            .writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / str(round_number)))
            .trigger(availableNow=True)
            .start()
        )
        batches = [p for p in wait_for_end(query, 600) if p["numInputRows"]][WARM_UP:]
        assert_planned(batches)
        rows.append(figures_of(round_number + 1, batches))
    write_report(
        "plan_latency",
        title="Planning time of a micro-batch over 1,000 partitions",
        command="make bench",
        rows=rows,
        notes=__doc__ or "",
    )
    print(json.dumps(rows, indent=2))


def figures_of(number: int, batches: list[dict[str, Any]]) -> dict[str, Any]:
    """Sum up one run: planning beside the whole batch, in milliseconds."""
    plans = [int(p["sources"][0]["metrics"]["assignor.planMillis"]) for p in batches]
    whole = [p["durationMs"]["triggerExecution"] for p in batches]
    return {
        "run": number,
        "partitions": PARTITIONS,
        "batches": len(batches),
        "plan_ms_min": min(plans),
        "plan_ms_median": statistics.median(plans),
        "plan_ms_max": max(plans),
        "batch_ms_median": statistics.median(whole),
    }
