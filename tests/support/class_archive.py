"""Archive the classes of Spark, so that drivers and executors of tests start faster.

It is an AppCDS archive (JEP 350), made once per Spark and Java. Tests that start many drivers then
take about a fifth less processor time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from assignor_bridge import ivy

_BUILD = Path(__file__).parents[2] / "build"
_LIMIT_S = 300


def find_archive() -> Path:
    """Return the path of the archive for the installed Spark and Java, whether it exists or not."""
    java = Path(ivy.find_tool("java")).resolve()
    return _BUILD / f"spark-{pyspark.__version__}-java-{java.stat().st_mtime_ns}.jsa"


def make_archive() -> None:
    """Run a query in a JVM that writes the archive when it exits, unless the archive exists."""
    archive = find_archive()
    if archive.exists():
        return
    archive.parent.mkdir(exist_ok=True)
    partial = archive.with_suffix(f".{os.getpid()}")
    submit = ivy.pyspark_home() / "bin" / "spark-submit"
    options = f"-XX:ArchiveClassesAtExit={partial} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    command = [str(submit), "--master", "local[2]", "--driver-java-options", options, __file__]
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        command, env=environment, timeout=_LIMIT_S, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if partial.exists():
        partial.rename(archive)
    else:  # tests do without it
        print(f"no archive of Spark's classes was written:\n{done.stdout}", file=sys.stderr)


def _run_query() -> None:
    from pyspark.sql import DataFrame, SparkSession

    with tempfile.TemporaryDirectory() as folder:

        def overwrite(rows: DataFrame, _: int) -> None:
            rows.write.mode("overwrite").parquet(f"{folder}/table")

        builder = SparkSession.builder.config("spark.ui.enabled", "false")
        spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "10").load()
        query = (
            source.groupBy("value").count()
            .writeStream.outputMode("complete").foreachBatch(overwrite)
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )  # fmt: skip
        query.awaitTermination()
        spark.read.parquet(f"{folder}/table").orderBy("value").collect()
        spark.stop()


if __name__ == "__main__":
    _run_query() if "SPARK_ENV_LOADED" in os.environ else make_archive()
