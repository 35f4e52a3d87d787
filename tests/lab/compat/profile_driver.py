"""A stream through `mapInArrow` with a resource profile: run by test_resource_profile.py.

Two executors of two cores; tasks of the profile take both. What became of it is a line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests
from pyspark.sql import SparkSession

from streaming.demo.spark_process import link_spark_home
from tests.lab.compat.class_path import jars
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import (
    assert_planned,
    list_stages,
    read_topic,
    wait_for_end,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow


def as_they_are(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Give each row back, in a Python worker of the stage that reads the topic."""
    yield from batches


def main() -> None:
    """Do as the module says."""
    servers, name, where = sys.argv[1:]
    folder = Path(where)
    os.environ["SPARK_HOME"] = str(link_spark_home(folder))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local-cluster[2,2,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.jars", ",".join(map(str, jars())))
        .config("spark.assignor.python", sys.executable)
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    context = spark.sparkContext._jsc.sc()
    wait_until(lambda: context.getExecutorMemoryStatus().size() == 3, "two executors", 120)
    profile = ResourceProfileBuilder().require(TaskResourceRequests().cpus(2)).build
    stream = read_topic(spark, Topic(servers, name), {"assignor": "lag-aware-sticky"})
    query = (
        stream.select("partition", "offset")
        .mapInArrow(as_they_are, "partition int, offset long", profile=profile)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "rows"))
    )
    progresses = wait_for_end(query)
    assert_planned(progresses)
    rows = spark.read.parquet(str(folder / "rows"))
    [batch] = [p for p in progresses if p["numInputRows"]]
    told = {
        "rows": rows.count(),
        "distinct": rows.distinct().count(),
        "profiles": sorted({int(stage.resourceProfileId()) for stage in list_stages(spark)}),
        "slots": batch["sources"][0]["metrics"]["assignor.slots"],
    }
    print(json.dumps(told), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
