"""A user's own query into Delta, started in a process of its own, with the option or without.

`python -m tests.lab.benchmarks.start_program SERVERS TOPIC FOLDER [none|lag-aware-sticky]`
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from assignor_bridge import configure_spark
from assignor_bridge.jars import connector_coordinate
from streaming import configure_delta

_PACKAGES = "spark.jars.packages"


def main(servers: str, topic: str, folder: str, assignor: str = "") -> None:
    """Read what is there into a table."""
    builder = configure_delta(SparkSession.builder.master("local[2]"))
    builder = builder.config("spark.ui.enabled", "false")
    if assignor:
        spark = configure_spark(builder).getOrCreate()
    else:
        delta = builder._options[_PACKAGES]
        spark = builder.config(_PACKAGES, f"{delta},{connector_coordinate()}").getOrCreate()
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    if assignor:
        reader = reader.option("assignor", assignor)
    rows = reader.load().selectExpr("CAST(value AS STRING) AS value")
    writer = rows.writeStream.format("delta").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(Path(folder) / "checkpoint"))
    writer.start(str(Path(folder) / "table")).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
