"""A driver with many streams, each over a topic of its own: run by test_bench_many_streams.py.

It prints one line of JSON: what the planners took while all streams ran, and how long it took to
start and to stop them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from tests.lab.benchmarks.job_process import used_by
from tests.support.kafka_topics import Topic
from tests.support.processes import find_planners
from tests.support.spark_tools import assert_planned, read_topic, start_spark, to_dict, wait_until


def main() -> None:
    """Start the streams, have each read two batches, stop them."""
    servers, names, folder, mode = sys.argv[1:]
    topics = [Topic(servers, name) for name in names.split(",")]
    spark = start_spark("local[2]", Path(folder), spark_driver_memory="2g")
    spark.range(1).write.format("noop").mode("overwrite").save()  # what a first job has to load
    queries = []
    started = time.monotonic()
    for number, topic in enumerate(topics):
        if mode == "alone":  # another environment, so another process
            spark.conf.set("spark.assignor.env", f"STREAM_{number}")
        queries.append(
            read_topic(spark, topic, {"assignor": "lag-aware-sticky"})
            .writeStream.format("noop")
            .option("checkpointLocation", f"{folder}/checkpoints/{topic.name}")
            .trigger(processingTime="1 second")
            .start()
        )
    for query in queries:
        query.processAllAvailable()
    start_s = time.monotonic() - started
    for topic in topics:
        topic.fill([100] * 4, first=100)
    for query in queries:
        query.processAllAvailable()
    planners = find_planners(os.getpid())
    rss_mb = sum(used_by(pid).rss_mb for pid in planners)
    read = [[p for p in map(to_dict, q.recentProgress) if p["numInputRows"]] for q in queries]
    for progresses in read:
        assert_planned(progresses)
    plan_ms = [
        float(p["sources"][0]["metrics"]["assignor.planMillis"]) for each in read for p in each[1:]
    ]
    stopping = time.monotonic()
    for query in queries:
        query.stop()
    stop_s = time.monotonic() - stopping
    wait_until(lambda: not find_planners(os.getpid()), "the end of the planners")
    figures = {
        "planners": len(planners), "planners_rss_mb": round(rss_mb), "start_s": round(start_s, 1),
        "stop_s": round(stop_s, 1), "slowest_plan_ms": round(max(plan_ms)),
    }  # fmt: skip
    print(json.dumps(figures), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
