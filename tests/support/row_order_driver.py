"""Read the batches of a query more than once; test_row_order.py runs this driver.

There are two hosts of one slot each, because Spark starts a copy of a slow task only on another
host. A query reads a topic in batches with the given reader, and `BATCHES` names the action for
each batch. The driver prints a line of JSON per batch: `lost` and `doubled` compare the rows with
the topic, and `differences` counts rows that differ from those of the first action. A last line has
the source's metrics. Further arguments are Spark settings, with `_` for `.` in their names.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from tests.lab.kills.driver import start_spark
from tests.support.executor_kills import Executors, hold_until
from tests.support.kafka_topics import Topic
from tests.support.shared_reader_tools import fill_in_batches
from tests.support.spark_tools import get_last_stage, list_stages, read_topic, wait_for_end
from tests.support.standalone_cluster import standalone_cluster, workers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

#: Actions for the batches of each reader, in order.
BATCHES = {"shared": ("shuffle", "compare", "cached"), "spark": ("compare",)}
#: Ways to distribute rows in a shuffle.
DISTRIBUTIONS = ("rand", "rdd", "id")
PARTITIONS, RECORDS = 16, 250  # records of each partition in a batch
EXECUTORS = 2
#: Number of tasks after a shuffle, and of those completed when an executor is killed.
TASKS, COMPLETED = 12, 3
OPTIONS = {
    "assignor": "lag-aware-sticky",
    "assignor.onError": "fail",
    "maxOffsetsPerTrigger": str(PARTITIONS * RECORDS),
    # Small fetches: each range takes several, so that ranges arrive alternately.
    "kafka.max.partition.fetch.bytes": "1000",
    "kafka.max.poll.records": "40",
}
_MIDDLE = f"offset % {RECORDS} = {RECORDS // 2}"
_COMMAND = "java_method('java.lang.System', 'getProperty', 'sun.java.command')"
_LIMIT_S = 300


def main() -> None:
    servers, name, folder_name, reader, *settings = sys.argv[1:]
    folder, batches = Path(folder_name), BATCHES[reader]
    topic = Topic(servers, name).create(PARTITIONS)
    fill_in_batches(topic, [len(batches) * RECORDS] * PARTITIONS, batches=5 * len(batches))
    with standalone_cluster(folder / "cluster", workers(*[1] * EXECUTORS)) as cluster:
        spark = start_spark(
            cluster.url, folder,
            spark_executor_memory="512m",
            spark_speculation="true", spark_speculation_interval="100ms",
            spark_speculation_quantile="1.0",  # none until `speculation` lowers it
            **dict(setting.split("=", 1) for setting in settings),
        )  # fmt: skip
        run_query(spark, topic, folder, reader, batches)
        spark.stop()


def run_query(
    spark: SparkSession, topic: Topic, folder: Path, reader: str, batches: Sequence[str]
) -> None:
    """Run a query, with the action of its name on each of the batches."""
    scene = Scene(spark, folder / reader)
    scene.folder.mkdir()

    def do(batch: DataFrame, number: int) -> None:
        if number < len(batches):
            result = scene.do(batches[number], batch, number)
            print_json(reader=reader, batch=number, done=batches[number], **result)

    query = (
        read_topic(spark, topic, OPTIONS | {"assignor.reader": reader})
        .select("partition", "offset", "value")
        .writeStream.foreachBatch(do)
        .option("checkpointLocation", str(scene.folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    progresses = [p for p in wait_for_end(query, 900) if p["numInputRows"]]
    print_json(reader=reader, metrics=[p["sources"][0]["metrics"] for p in progresses])


class Scene:
    """The actions on a batch, on a cluster that may lose an executor."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.folder = folder
        self._spark = spark
        self._context: Any = spark.sparkContext._jsc.sc()
        self._executors = Executors(spark, EXECUTORS)
        self._executors.wait_for_all()

    def do(self, what: str, batch: DataFrame, number: int) -> dict[str, Any]:
        """Run an action on a batch, then wait for all executors, so that the next plan has them."""
        actions = {
            "compare": self.compare,
            "shuffle": self.lose_shuffled_rows,
            "cached": self.lose_cached_rows,
        }
        result = actions[what](batch, number)
        self._executors.wait_for_all()
        return result

    def compare(self, batch: DataFrame, number: int) -> dict[str, Any]:
        """Read a batch in several actions; in some of them, a task runs twice."""
        frame = add_row_order(batch)
        first = frame.collect()
        differ = {"again": count_differences(first, frame.collect())}
        stage = get_last_stage(self._spark)
        differ["retried"] = count_differences(first, frame.select("*", fail_once(number)).collect())
        with self._speculation():
            stalled = frame.select("*", stall_on(min(self._executors.processes())))
            differ["speculated"] = count_differences(first, stalled.collect())
        attempts = self._attempts_since(stage)
        cached = frame.persist()
        differ["cached"] = max(count_differences(first, cached.collect()) for _ in range(2))
        cached.unpersist(blocking=True)
        rows = compare_with_topic(list_positions(first), number)
        return {"differences": differ, "attempts": attempts, "rows": rows}

    def lose_cached_rows(self, batch: DataFrame, number: int) -> dict[str, Any]:
        """Kill an executor between two actions on a cached batch."""
        cached = add_row_order(batch).persist()
        first = cached.collect()
        self._executors.kill(min(self._executors.processes()))
        again = cached.collect()
        cached.unpersist(blocking=True)
        rows = compare_with_topic(list_positions(again), number)
        return {"differences": {"cached": count_differences(first, again)}, "rows": rows}

    def lose_shuffled_rows(self, batch: DataFrame, number: int) -> dict[str, Any]:
        """Kill an executor when some of the tasks after three shuffles are completed."""
        rand, rdd, by_id = (distribute(batch, by).glom() for by in DISTRIBUTIONS)
        killed = self.folder / f"killed-{number}"
        with self._executors.kill_one(min, TASKS, COMPLETED, killed):
            delayed = rand.zip(rdd).zip(by_id).mapPartitionsWithIndex(hold_until(killed, COMPLETED))
            tasks = delayed.collect()
        rows_by: dict[str, list[Any]] = {by: [] for by in DISTRIBUTIONS}
        for (of_rand, of_rdd), of_id in tasks:
            for by, rows in zip(DISTRIBUTIONS, (of_rand, of_rdd, of_id), strict=True):
                rows_by[by] += rows
        return {
            by: compare_with_topic(list_positions(rows), number) for by, rows in rows_by.items()
        }

    @contextlib.contextmanager
    def _speculation(self) -> Iterator[None]:
        """Make Spark start a copy of the slower of two tasks in the `with` block."""
        self._context.conf().set("spark.speculation.quantile", "0.5")
        yield
        self._context.conf().set("spark.speculation.quantile", "1.0")

    def _attempts_since(self, stage: int) -> dict[str, int]:
        """Count the failed tasks and the speculative tasks after this stage."""
        stages = [data for data in list_stages(self._spark) if data.stageId() > stage]
        store = self._context.statusStore()
        attempts: Counter[str] = Counter(failed=0, speculative=0)
        for data in stages:
            tasks = store.taskList(data.stageId(), data.attemptId(), 1000)
            for task in (tasks.apply(i) for i in range(tasks.size())):
                attempts["failed"] += task.status() == "FAILED"
                attempts["speculative"] += task.speculative()
        return dict(attempts)


def add_row_order(batch: DataFrame) -> DataFrame:
    """Add columns that depend on a row's position in its task."""
    return batch.withColumns({"id": f.monotonically_increasing_id(), "draw": f.rand(7)})


def distribute(batch: DataFrame, by: str) -> Any:
    """Distribute rows by a value that depends on their position in a task."""
    rows = batch.select("partition", "offset")
    if by == "rdd":
        return rows.rdd.repartition(TASKS)
    salt = f.rand(7) * 64 if by == "rand" else f.monotonically_increasing_id() % 64
    salted = rows.withColumn("salt", salt.cast("int")).repartition(TASKS, "salt")
    return salted.select("partition", "offset").rdd


def fail_once(batch: int) -> Any:
    """Fail the first attempt of each task on an executor, in the middle of its first range."""
    name = f"concat('row-order-{batch}-', spark_partition_id())"
    is_first = f"java_method('java.lang.System', 'setProperty', {name}, 'failed') <=> 'null'"
    return f.expr(f"CASE WHEN {_MIDDLE} AND {is_first} THEN raise_error('on purpose') END AS x")


def stall_on(executor: str) -> Any:
    """Stop in the middle of a range on this executor, until the task is killed."""
    condition = f"{_COMMAND} LIKE '%--executor-id {executor} %'"
    stop = f"java_method('java.lang.Thread', 'sleep', {_LIMIT_S * 1000}L)"
    return f.expr(f"CASE WHEN {_MIDDLE} AND {condition} THEN {stop} END AS x")


def count_differences(first: Sequence[Any], other: Sequence[Any]) -> int:
    """Count the positions with different rows in two actions; ignore additional columns."""
    width = len(first[0])
    same = sum(tuple(a) == tuple(b)[:width] for a, b in zip(first, other, strict=False))
    return max(len(first), len(other)) - same


def list_positions(rows: Iterable[Any]) -> Iterator[tuple[int, int]]:
    return ((row.partition, row.offset) for row in rows)


def compare_with_topic(rows: Iterable[tuple[int, int]], batch: int) -> dict[str, int]:
    """Count the missing and the duplicate offsets of a batch."""
    counts = Counter(rows)
    expected = Counter(
        (partition, offset)
        for partition in range(PARTITIONS)
        for offset in range(batch * RECORDS, (batch + 1) * RECORDS)
    )
    return {"lost": (expected - counts).total(), "doubled": (counts - expected).total()}


def print_json(**values: Any) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main()
