"""A job for spark-submit, which knows nothing of ours: reads a topic with the option, once.

Where it found our package, and the progress of each batch with rows, are written to a file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession


def main() -> None:
    """Do as the module says."""
    import assignor_bridge

    servers, topic, where = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("assignor", "lag-aware-sticky")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", f"{where}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    told = [json.loads(p.json) for p in query.recentProgress if p.numInputRows]
    Path(where, "told.json").write_text(
        json.dumps({"package": assignor_bridge.__file__, "batches": told})
    )
    spark.stop()


if __name__ == "__main__":
    main()
