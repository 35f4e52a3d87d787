"""The driver that is killed: one Spark, an append and an upsert job on the same topic.

It starts Spark, then takes one line: `run` runs both queries until it is killed. Anything else is
JSON, for the last run: the number of records in each partition and versions of the upsert's table.
Both queries read all there is; the appended rows are checked, and the rows of those versions and of
the last one are written to `tables.json` in its folder.
"""

from __future__ import annotations

import json
import os
import re
import sys
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delta.pip_utils import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

from assignor_bridge import ivy
from assignor_bridge.jars import connector_coordinate, find_built_jar
from streaming import start_job
from tests.lab.kills.feed import GONE
from tests.lab.kills.places import APPEND, LOCAL, UPSERT, Place, Query, in_table
from tests.lab.kills.process import task_from_the_test
from tests.support.kafka_topics import Topic
from tests.support.pipeline_tools import job
from tests.support.spark_tools import assert_each_row_once, create_spark_builder, read_topic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery


def start_append(
    spark: SparkSession, query: Query, trigger: dict[str, Any], limits: Mapping[str, str]
) -> StreamingQuery:
    """Each record as a row."""
    options = {"assignor": "lag-aware-sticky", "assignor.commitGroup": query.group, **limits}
    return (
        read_topic(spark, Topic(query.bootstrap_servers, query.topic), options)
        .selectExpr(
            "topic", "partition", "offset", "get_json_object(CAST(value AS STRING), '$.at') value"
        )
        .writeStream.format("delta")
        .queryName(query.name)
        .option("checkpointLocation", str(query.checkpoint))
        .trigger(**trigger)
        .start(str(query.table))
    )


def start_upsert(
    spark: SparkSession, query: Query, trigger: str, limits: Mapping[str, str]
) -> StreamingQuery:
    """Of each key the newest record, by a job."""
    config = job(
        Topic(query.bootstrap_servers, query.topic), query.folder, mode="upsert", keys="id",
        sequence_by="seq", delete_when=f"name = '{GONE}'", deletes="mark",
    ) | {"name": query.name, "trigger": trigger}  # fmt: skip
    config["source"] |= {"assignor.commitGroup": query.group, **limits}
    [started] = start_job(spark, config).queries
    return started


def tables(spark: SparkSession, query: Query, versions: list[int]) -> dict[int, list[Any]]:
    """The rows of versions of the upsert's table, as `feed.Reference` gives them."""

    def version(number: int) -> DataFrame:
        table = spark.read.format("delta").option("versionAsOf", number).load(str(query.table))
        return table.selectExpr(
            f"{number} AS version", "id", "seq", "name", "_deleted", "_sequence.partition",
            "_sequence.offset",
        )  # fmt: skip

    found: dict[int, list[Any]] = {number: [] for number in versions}
    read = reduce(lambda one, other: one.union(other), map(version, versions))
    for number, *row in sorted(tuple(row) for row in read.collect()):
        found[number].append(row)
    return found


def start_spark(master: str, folder: Path, **settings: str) -> SparkSession:
    """Start Spark; the number of executors is waited for, so that the first plan sees them all.

    Further settings are given with `_` for `.`.

    The jars are on the class path of all processes: resolving packages and handing them out takes
    as long as a batch, and there are many starts.
    """
    jars = os.pathsep.join(map(str, class_path()))
    # In local mode as `assignor run` has it.
    ours, hadoops = "io.assignorbridge.LocalFiles", "org.apache.hadoop.fs.local.LocalFs"
    local_files = ours if master == LOCAL else hadoops
    return create_spark_builder(
        master,
        folder,
        spark_driver_extraClassPath=jars,
        spark_executor_extraClassPath=jars,
        spark_assignor_python=sys.executable,
        spark_cores_max="2",
        spark_scheduler_minRegisteredResourcesRatio="1.0",
        spark_sql_codegen_wholeStage="false",
        spark_sql_codegen_factoryMode="NO_CODEGEN",
        spark_locality_wait="1s",
        spark_hadoop_fs_AbstractFileSystem_file_impl=local_files,
        **settings,
    ).getOrCreate()


def class_path() -> list[Path]:
    """Our jar, the connector's and Delta's, without what Spark brings itself."""
    named = configure_spark_with_delta_pip(SparkSession.builder)._options["spark.jars.packages"]
    there = {_module(jar) for jar in (ivy.pyspark_home() / "jars").iterdir()}
    fetched = [*ivy.fetch(connector_coordinate()), *ivy.fetch(named)]
    return [find_built_jar(), *(jar for jar in fetched if _module(jar) not in there)]


def _module(jar: Path) -> str:
    """Name of a jar without its version."""
    return re.sub(r"-\d.*", "", jar.name)


def main() -> None:
    """Do as the module says."""
    place, folder = Place(**json.loads(sys.argv[1])), Path(sys.argv[2])
    append, upsert = place.query(APPEND), place.query(UPSERT)
    spark = start_spark(place.master, folder)
    task = task_from_the_test()
    if task == "run":
        start_upsert(spark, upsert, "100 milliseconds", place.limits)
        start_append(spark, append, {"processingTime": "100 milliseconds"}, place.limits)
        spark.streams.awaitAnyTermination()
        raise AssertionError("a query has stopped")
    last = json.loads(task)
    for query in (
        start_upsert(spark, upsert, "availableNow", {}),
        start_append(spark, append, {"availableNow": True}, {}),
    ):
        query.awaitTermination()
    assert_each_row_once(spark, str(append.table), last["counts"])
    found = tables(spark, upsert, sorted({*last["versions"], in_table(upsert)}))
    (folder / "tables.json").write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()
