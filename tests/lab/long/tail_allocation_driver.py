"""A driver with dynamic allocation that reads 20 batches of unpredictable times: one JSON line."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.lab.long.allocation_driver import say
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import read_topic, start_spark, wait_for_end, wait_until

BATCHES, PARTITIONS, RECORDS, MAX_EXECUTORS = 20, 8, 250, 4
#: Milliseconds of each record: 1 to 16, drawn by partition and batch.
WAIT_MS = f"4 * pow(2, pmod(xxhash64(partition, offset div {RECORDS}), 401) / 100.0 - 2)"


def main() -> None:
    """Read with one value of `assignor.tail`, and print the metrics of all batches."""
    master, servers, name, folder, tail = sys.argv[1:]
    topic = Topic(servers, name).create(PARTITIONS)
    topic.fill([BATCHES * RECORDS] * PARTITIONS)
    spark = start_spark(
        master, Path(folder),
        spark_dynamicAllocation_enabled="true",
        spark_dynamicAllocation_minExecutors="1",
        spark_dynamicAllocation_maxExecutors=str(MAX_EXECUTORS),
        spark_dynamicAllocation_executorIdleTimeout="20s",
        spark_executor_cores="1",
        spark_executor_memory="512m",
        spark_locality_wait="3s",
    )  # fmt: skip
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus
    wait_until(lambda: executors().size() > 1, "the first executor", 120)
    options = {
        "assignor": "lag-aware-sticky",
        "assignor.tail": tail,
        "maxOffsetsPerTrigger": str(PARTITIONS * RECORDS),
    }
    query = (
        read_topic(spark, topic, options)
        .selectExpr(f"java_method('java.lang.Thread', 'sleep', CAST({WAIT_MS} AS BIGINT))")
        .writeStream.format("noop")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    batches = [p for p in wait_for_end(query, 500) if p["numInputRows"]]
    say(metrics=[batch["sources"][0]["metrics"] for batch in batches])
    spark.stop()


if __name__ == "__main__":
    main()
