"""A driver that runs one query until it is killed: started again and again by tests/kills.py.

To add a query: write a function that makes its writer from the records and the place, and one that
checks its table once all records are read; name both in `QUERIES`, and give that name as the
place's `query`. The query must write to Delta under `place.table`, with the batch's number as the
version of the transaction (`txnVersion` in `foreachBatch`): from it `kills.py` knows which batches
the table holds.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delta.pip_utils import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

from assignor_bridge import ivy
from assignor_bridge.jars import built_jar, connector_coordinate
from tests.kafka_topics import Topic
from tests.kills import Place
from tests.spark_tools import assert_each_row_once, read_topic, spark_builder

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

TWO_EXECUTORS = "local-cluster[2,1,1024]"


def append(records: DataFrame, place: Place) -> Any:
    """Each record as a row."""
    rows = records.selectExpr("topic", "partition", "offset", "CAST(value AS STRING) AS value")
    return rows.writeStream.format("delta").option("path", str(place.table))


def holds_each_record(spark: SparkSession, place: Place, counts: list[int]) -> None:
    """Each record is a row, once."""
    assert_each_row_once(spark, str(place.table), counts)


@dataclass(frozen=True)
class Query:
    """One way to use the records."""

    #: Makes the writer; checkpoint and trigger are set by `main`.
    write: Callable[[DataFrame, Place], Any]
    #: Fails unless the table is right, given the number of records in each partition.
    check: Callable[[SparkSession, Place, list[int]], None]


QUERIES = {"append": Query(append, holds_each_record)}


def start_spark(folder: Path) -> SparkSession:
    """Two executors; their number is waited for, so that the first plan sees them both.

    The jars are on the class path of all processes: resolving packages and handing them out takes
    as long as a batch, and there are many starts.
    """
    jars = os.pathsep.join(map(str, class_path()))
    return spark_builder(
        TWO_EXECUTORS,
        folder,
        spark_driver_extraClassPath=jars,
        spark_executor_extraClassPath=jars,
        spark_assignor_python=sys.executable,
        spark_cores_max="2",
        spark_scheduler_minRegisteredResourcesRatio="1.0",
        spark_sql_codegen_wholeStage="false",
        spark_locality_wait="1s",
    ).getOrCreate()


def class_path() -> list[Path]:
    """Our jar, the connector's and Delta's, without what Spark brings itself."""
    named = configure_spark_with_delta_pip(SparkSession.builder)._options["spark.jars.packages"]
    there = {_module(jar) for jar in (ivy.pyspark_home() / "jars").iterdir()}
    fetched = [*ivy.fetch(connector_coordinate()), *ivy.fetch(named)]
    return [built_jar(), *(jar for jar in fetched if _module(jar) not in there)]


def _module(jar: Path) -> str:
    """Name of a jar without its version."""
    return re.sub(r"-\d.*", "", jar.name)


def end_with_the_test() -> None:
    """Kill all processes of this driver once the test is gone, whatever ended it."""
    os.read(sys.stdin.fileno(), 1)  # not `sys.stdin.read`: it holds a lock that the exit needs
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Run until killed; given the number of records in each partition, read them all and check."""
    place = Place(**json.loads(sys.argv[1]))
    folder, mode = Path(sys.argv[2]), sys.argv[3]
    threading.Thread(target=end_with_the_test, daemon=True).start()
    spark = start_spark(folder)
    query = QUERIES[place.query]
    options = {"assignor": "lag-aware-sticky", "assignor.commitGroup": place.group}
    records = read_topic(spark, Topic(place.bootstrap_servers, place.topic), options)
    writer = query.write(records, place).option("checkpointLocation", str(place.checkpoint))
    if mode == "run":
        writer.start().awaitTermination()
    else:
        writer.trigger(availableNow=True).start().awaitTermination()
        query.check(spark, place, json.loads(mode))
    spark.stop()


if __name__ == "__main__":
    main()
