"""Run Spark with a given class path; used by test_class_paths.py and the compat tests.

The driver takes JSON on its command line, reads a topic once with the options of each run, and
prints the results as JSON. By default, the runs are without the option, with it, and with
`onError=fail`. If the connector comes by `spark.jars`, it reads Spark's rate source, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from tests.support.kafka_topics import Topic
from tests.support.spark_tools import read_topic, wait_for_end

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

OPTION = {"assignor": "lag-aware-sticky"}
RUNS = {"without": {}, "with": OPTION, "fail": OPTION | {"assignor.onError": "fail"}}


def run_driver(
    topic: Topic,
    folder: Path,
    class_path: Iterable[Path],
    jars: Iterable[Path] = (),
    **task: object,
) -> tuple[dict[str, Any], list[str]]:
    """Run the driver; return the results of its queries, and the bridge's warnings."""
    task |= {
        "servers": topic.bootstrap_servers,
        "topic": topic.name,
        "folder": str(folder),
        "class path": [str(path) for path in class_path],
        "jars": [str(jar) for jar in jars],
    }
    completed = subprocess.run(
        [sys.executable, __file__, json.dumps(task)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    log = (folder / "driver.log").read_text() if (folder / "driver.log").exists() else ""
    assert completed.returncode == 0, completed.stderr[-3000:] + log[-3000:]
    [line] = [line for line in completed.stdout.splitlines() if line.startswith("RESULTS ")]
    warnings = [line for line in log.splitlines() if " WARN " in line and "assignor" in line]
    return json.loads(line.removeprefix("RESULTS ")), warnings


def main() -> None:
    task = json.loads(sys.argv[1])
    folder = Path(task["folder"])
    spark = start(folder, task)
    results: dict[str, Any] = {}
    for name, options in task.get("runs", RUNS).items():
        topic = Topic(task["servers"], task["topic"])
        try:
            results[name] = run(read_topic(spark, topic, options), folder / name)
        except Exception as error:  # noqa: BLE001  (Spark's exceptions have no common parent)
            results[name] = {"error": str(error)[:3000]}
    if task["jars"]:
        rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "7").load()
        results["rate"] = run(rate, folder / "rate")
    print("RESULTS " + json.dumps(results), flush=True)
    spark.stop()


def start(folder: Path, task: dict[str, Any]) -> SparkSession:
    """Start Spark; a child class loader has the jars of `spark.jars`."""
    logging = Path(__file__).parent / "log4j2.properties"
    return (
        SparkSession.builder.master(task.get("master", "local[2]"))
        .config("spark.ui.enabled", "false")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.driver.extraClassPath", os.pathsep.join(task["class path"]))
        .config("spark.executor.extraClassPath", os.pathsep.join(task.get("executors", [])))
        .config("spark.jars", ",".join(task["jars"]))
        .config(
            "spark.driver.extraJavaOptions",
            f"-Dassignor.test.log={folder}/driver.log"
            f" -Dlog4j2.configurationFile={logging.as_uri()}",
        )
        .config("spark.assignor.python", sys.executable)
        .config(map=task.get("conf", {}))
        .getOrCreate()
    )


def run(frame: DataFrame, checkpoint: Path) -> dict[str, Any]:
    """Read all records; return the number of rows and the assignor's metrics."""
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    read = [p for p in wait_for_end(query) if p["numInputRows"]]
    metrics = [p["sources"][0].get("metrics") or {} for p in read]
    return {
        "rows": sum(p["numInputRows"] for p in read),
        "metrics": [{k: v for k, v in m.items() if k.startswith("assignor.")} for m in metrics],
    }


if __name__ == "__main__":
    main()
