"""A client of Spark Connect, without a JVM: run by test_connect.py.

It takes JSON on its command line (the server's address, the topic's, a folder), runs queries that
ask for an assignor in several ways, and prints the metrics of each as JSON.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from tests.support.kafka_topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

#: Empty where the tests only look for this file.
TASK: dict[str, str] = json.loads(sys.argv[1]) if __name__ == "__main__" else {}
FOLDER = Path(TASK.get("folder", ""))


def stream(spark: SparkSession, **options: str) -> DataFrame:
    """Read the topic with further options."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", TASK["servers"])
        .option("subscribe", TASK["topic"])
        .option("startingOffsets", "earliest")
        .options(**options)
        .load()
        .select("partition", "offset")
    )


def metrics(writer: DataStreamWriter, name: str) -> list[dict[str, Any]]:
    """Run a query to its end; rows, and what we say of each batch."""
    query = (
        writer.option("checkpointLocation", str(FOLDER / name)).trigger(availableNow=True).start()
    )
    assert query.awaitTermination(120)
    return [  # the JSON of Connect has no numInputRows of its own
        {"rows": progress.numInputRows, **progress.sources[0].metrics}
        for progress in query.recentProgress
        if progress.numInputRows
    ]


def switched_while_it_runs(spark: SparkSession) -> list[str]:
    """Switch off and on again between batches of one query; who planned, one after the other."""
    frame = stream(spark, assignor="lag-aware-sticky")
    location = str(FOLDER / "switched")
    query = frame.writeStream.format("noop").option("checkpointLocation", location).start()
    query.processAllAvailable()
    for number, enabled in enumerate(("false", "true")):
        spark.conf.set("spark.assignor.enabled", enabled)
        Topic(TASK["servers"], TASK["topic"]).fill([5, 5], first=1000 + 5 * number)
        query.processAllAvailable()
    planned = [p.sources[0].metrics for p in query.recentProgress if p.numInputRows]
    query.stop()
    spark.conf.unset("spark.assignor.enabled")
    return [who for who, _ in itertools.groupby(m["assignor.strategy"] for m in planned)]


def main() -> None:
    """Do as the module says."""
    spark = SparkSession.builder.remote(TASK["server"]).create()
    other = SparkSession.builder.remote(TASK["server"]).create()
    told: dict[str, Any] = {}

    def noop(frame: DataFrame) -> DataStreamWriter:
        return frame.writeStream.format("noop")

    told["option"] = metrics(noop(stream(spark, assignor="lag-aware-sticky")), "option")
    spark.conf.set("spark.assignor.strategy", "range")
    told["strategy"] = metrics(noop(stream(spark)), "strategy")
    told["other session"] = metrics(noop(stream(other)), "other")
    spark.conf.set("spark.assignor.maxImbalance", "much")
    try:
        told["bad setting"] = metrics(noop(stream(spark)), "bad")
    except Exception as error:  # noqa: BLE001  (what a user sees)
        told["bad setting"] = str(error)
    spark.conf.unset("spark.assignor.maxImbalance")
    spark.conf.set("spark.assignor.enabled", "false")
    told["switched off"] = metrics(noop(stream(spark)), "strategy-off")
    spark.conf.unset("spark.assignor.enabled")
    rows = str(FOLDER / "rows")

    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("append").parquet(rows)

    told["foreachBatch"] = metrics(stream(spark).writeStream.foreachBatch(write), "foreach")
    told["rows"] = spark.read.parquet(rows).distinct().count()
    told["switched while it runs"] = switched_while_it_runs(spark)
    told["has a JVM"] = getattr(spark, "_jsparkSession", None) is not None
    print("TOLD " + json.dumps(told), flush=True)
    other.stop()
    spark.stop()


if __name__ == "__main__":
    main()
