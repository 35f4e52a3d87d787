"""The Spark queries that a user would write: Kafka to Delta with Spark's own sink.

`python -m tests.lab.peers.spark_way '{"servers": …, "topic": …, "table": …, "kind": …, …}'`

`kind` is `default` (no settings but the memory), `tuned` (`tuned_spark.py`, one task per slot, and
the settings that `assignor run` uses on one machine), or `option` (the same session; the option
instead of the reader's settings).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from assignor_bridge import configure_spark
from assignor_bridge.jars import connector_coordinate
from streaming import configure_delta
from tests.lab.benchmarks.tuned_spark import LARGE_FETCHES
from tests.lab.peers.ways import HEAP, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping

_PACKAGES = "spark.jars.packages"
_OPTION = {"assignor": "lag-aware-sticky", "assignor.onError": "fail"}
#: Options of the source for each kind.
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "default": {},
    "tuned": LARGE_FETCHES,
    "option": _OPTION,
}


def start_session(kind: str, folder: Path, cores: int) -> SparkSession:
    """Start Spark with Delta, and with the bridge for the option."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": HEAP,
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    if kind != "default":
        settings |= {
            "spark.sql.shuffle.partitions": str(cores),
            "spark.databricks.delta.snapshotPartitions": "1",
        }
    builder = configure_delta(SparkSession.builder.master(f"local[{cores}]"))
    for key, value in settings.items():
        builder = builder.config(key, value)
    if kind == "option":
        return configure_spark(builder).getOrCreate()
    delta = builder._options[_PACKAGES]
    return builder.config(_PACKAGES, f"{delta},{connector_coordinate()}").getOrCreate()


def main(config: dict[str, Any]) -> None:
    """Copy the topic into the table until the process is killed."""
    kind, folder = config["kind"], Path(config["state"])
    folder.mkdir(parents=True, exist_ok=True)
    spark = start_session(kind, folder, config["cores"])
    spark.sparkContext.setLogLevel("WARN")
    reader = spark.readStream.format("kafka").option("subscribe", config["topic"])
    reader = reader.option("kafka.bootstrap.servers", config["servers"])
    reader = reader.option("startingOffsets", "earliest").options(**OPTIONS[kind])
    parsed = f.from_json(f.col("value").cast("string"), SCHEMA).alias("row")
    rows = reader.load().select(parsed).select("row.*")
    if kind == "tuned":
        rows = rows.coalesce(config["cores"])
    writer = rows.writeStream.format("delta")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer = writer.trigger(processingTime=f"{config['interval_s']} seconds")
    writer.start(config["table"]).awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
