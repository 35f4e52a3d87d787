"""Count the Kafka positions in a Delta table; test_row_order.py runs this driver.

Spark reads the Parquet files that the table's log names, without Delta and without the bridge. It
prints a line of JSON per Kafka partition: rows, distinct offsets, and first and last offset.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def main() -> None:
    table = Path(sys.argv[1])
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    counts = (
        spark.read.parquet(*(str(table / name) for name in list_data_files(table)))
        .groupBy("partition")
        .agg(
            f.count("*").alias("rows"),
            f.countDistinct("offset").alias("offsets"),
            f.min("offset").alias("first"),
            f.max("offset").alias("last"),
        )
    )
    for row in counts.collect():
        print(json.dumps(row.asDict()), flush=True)
    spark.stop()


def list_data_files(table: Path) -> set[str]:
    """Return the files of the table's newest version."""
    files = set()
    for commit in sorted((table / "_delta_log").glob("*.json")):
        for line in commit.read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                files.add(action["add"]["path"])
            if "remove" in action:
                files.remove(action["remove"]["path"])
    return files


if __name__ == "__main__":
    main()
