"""Append salted rows to Delta while executors die; test_row_order.py runs this driver.

A query reads a topic in batches, distributes each by `rand(7)`, and appends it to a Delta table
once (`txnAppId`, `txnVersion`). After the shuffle of each batch except the first, an executor is
killed when a random number of tasks are completed. The last line is JSON: the numbers of completed
tasks at each kill, the number of repeated stages, and the source's metrics.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from tests.lab.kills.driver import start_spark
from tests.support.executor_kills import Executors, hold_until
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import list_stages, read_topic, wait_for_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITIONS, RECORDS = 8, 500  # records of each partition in a batch
TASKS = 12


def main() -> None:
    servers, name, folder_name, kills, seed = sys.argv[1:]
    folder, rng = Path(folder_name), random.Random(int(seed))
    topic = Topic(servers, name).create(PARTITIONS)
    topic.fill([(int(kills) + 1) * RECORDS] * PARTITIONS)
    spark = start_spark(
        "local-cluster[2,1,1024]", folder, spark_sql_streaming_numRecentProgressUpdates="1000"
    )
    executors = Executors(spark, 2)
    executors.wait_for_all()
    killed_at = []

    def append(batch: DataFrame, number: int) -> None:
        salted = batch.withColumn("salt", (f.rand(7) * 64).cast("int")).repartition(TASKS, "salt")
        if number == 0:
            write(salted, number)
            return
        completed, killed = rng.randrange(TASKS), folder / f"killed-{number}"
        killed_at.append(completed)
        delayed = salted.rdd.mapPartitionsWithIndex(hold_until(killed, completed))
        with executors.kill_one(lambda ids: rng.choice(sorted(ids)), TASKS, completed, killed):
            write(spark.createDataFrame(delayed, salted.schema), number)
        executors.wait_for_all()  # so that the next batch is planned for both

    def write(rows: DataFrame, number: int) -> None:
        writer = rows.write.format("delta").mode("append")
        writer.options(txnAppId=name, txnVersion=number).save(f"{folder}/table")

    query = (
        read_topic(
            spark, topic,
            {
                "assignor": "lag-aware-sticky",
                "assignor.onError": "fail",
                "maxOffsetsPerTrigger": str(PARTITIONS * RECORDS),
            },
        )
        .select("partition", "offset")
        .writeStream.foreachBatch(append)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )  # fmt: skip
    progresses = [p for p in wait_for_end(query, 60.0 * (int(kills) + 4)) if p["numInputRows"]]
    repeated = sum(stage.attemptId() > 0 for stage in list_stages(spark))
    metrics = [p["sources"][0]["metrics"] for p in progresses]
    print(
        json.dumps({"killed_at": killed_at, "repeated": repeated, "metrics": metrics}), flush=True
    )
    spark.stop()


if __name__ == "__main__":
    main()
