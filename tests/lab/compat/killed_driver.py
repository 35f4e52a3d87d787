"""The driver that test_kill.py kills: one query, whose batches go to a file.

The task is JSON: `options` of the stream, and `hold`, the batch that is never done (None for none).
Each batch that is done is a line of `batches.jsonl` in the query's folder: its number and the
offsets by partition that it read. At its end the driver writes the metrics of its batches.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from tests.lab.compat.class_path import jars
from tests.lab.kills.places import APPEND, Place
from tests.lab.kills.process import task_from_the_test
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import read_topic, wait_for_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def main() -> None:
    """Do as the module says."""
    place, folder = Place(**json.loads(sys.argv[1])), Path(sys.argv[2])
    logging = Path(__file__).parents[2] / "support" / "log4j2.properties"
    spark = (
        SparkSession.builder.master(place.master)
        .config("spark.ui.enabled", "false")
        .config("spark.jars", ",".join(map(str, jars())))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.assignor.python", sys.executable)
        .config(
            "spark.driver.extraJavaOptions",
            f"-Dassignor.test.log={folder}/driver.log"
            f" -Dlog4j2.configurationFile={logging.as_uri()}",
        )
        .getOrCreate()
    )
    task = json.loads(task_from_the_test())
    query = place.query(APPEND)

    def note(batch: DataFrame, number: int) -> None:
        rows = sorted([row.partition, row.offset] for row in batch.collect())
        if number == task["hold"]:
            threading.Event().wait()
        with (query.folder / "batches.jsonl").open("a") as file:
            file.write(json.dumps([number, rows]) + "\n")

    topic = Topic(query.bootstrap_servers, query.topic)
    started = (
        read_topic(spark, topic, task["options"] | {"maxOffsetsPerTrigger": "10"})
        .select("partition", "offset")
        .writeStream.foreachBatch(note)
        .queryName(query.name)
        .option("checkpointLocation", str(query.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    progresses = wait_for_end(started)
    metrics = {
        p["batchId"]: p["sources"][0].get("metrics", {}) for p in progresses if p["numInputRows"]
    }
    (folder / "metrics.json").write_text(json.dumps(metrics))
    spark.stop()


if __name__ == "__main__":
    main()
