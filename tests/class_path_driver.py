"""A driver with a class path of its own: run by test_class_paths.py.

It takes JSON on its command line, reads a topic without the option, with it, and with it and
`onError=fail`, and prints what became of each as JSON. Where the connector comes by `spark.jars`,
it reads Spark's rate source, too.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from tests.kafka_topics import Topic
from tests.spark_tools import finished, read_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OPTION = {"assignor": "lag-aware-sticky"}
RUNS = {"without": {}, "with": OPTION, "fail": OPTION | {"assignor.onError": "fail"}}


def main() -> None:
    """Do as the module says."""
    task = json.loads(sys.argv[1])
    folder = Path(task["folder"])
    spark = start(folder, task["class path"], task["jars"])
    told: dict[str, Any] = {}
    for name, options in RUNS.items():
        topic = Topic(task["servers"], task["topic"])
        try:
            told[name] = run(read_topic(spark, topic, options), folder / name)
        except Exception as error:  # noqa: BLE001  (Spark's exceptions have no common parent)
            told[name] = {"error": str(error)[:3000]}
    if task["jars"]:
        rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "7").load()
        told["rate"] = run(rate, folder / "rate")
    print("TOLD " + json.dumps(told), flush=True)
    spark.stop()


def start(folder: Path, class_path: list[str], jars: list[str]) -> SparkSession:
    """Start Spark: one loader has the class path, its child those that `spark.jars` names."""
    logging = Path(__file__).parent / "log4j2.properties"
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.driver.extraClassPath", os.pathsep.join(class_path))
        .config("spark.jars", ",".join(jars))
        .config(
            "spark.driver.extraJavaOptions",
            f"-Dassignor.test.log={folder}/driver.log"
            f" -Dlog4j2.configurationFile={logging.as_uri()}",
        )
        .config("spark.assignor.python", sys.executable)
        .getOrCreate()
    )


def run(frame: DataFrame, checkpoint: Path) -> dict[str, Any]:
    """Read what is there; tell rows and our metrics."""
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    read = [p for p in finished(query) if p["numInputRows"]]
    metrics = [p["sources"][0].get("metrics") or {} for p in read]
    return {
        "rows": sum(p["numInputRows"] for p in read),
        "metrics": [{k: v for k, v in m.items() if k.startswith("assignor.")} for m in metrics],
    }


if __name__ == "__main__":
    main()
