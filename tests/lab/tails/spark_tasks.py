"""Run tasks of given durations and locations in Spark, without Python workers or a source.

`SparkContext.makeRDD(Seq[(T, Seq[String])])` sets the preferred locations of each element, which is
one task. The tasks sleep in the JVM, so that a loaded machine delays them little.
"""

from __future__ import annotations

import json
import threading
import uuid
from typing import TYPE_CHECKING, Any

from tests.lab.tails.markings import MarkedTask, Slot
from tests.lab.tails.placement import LaunchedTask
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

_SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [{"name": "ms", "type": "integer", "nullable": False, "metadata": {}}],
    }
)
_SLEEP = "java_method('java.lang.Thread', 'sleep', CAST(ms AS BIGINT)) AS slept"


def create_session(master: str, folder: Path, **settings: str) -> SparkSession:
    """Start Spark without jars or extensions; settings have `_` for `.` in their names."""
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    )
    for name, value in settings.items():
        builder = builder.config(name.replace("_", "."), value)
    return builder.getOrCreate()


def create_located_rdd(spark: SparkSession, elements: Sequence[tuple[Any, Any]]) -> Any:
    """Return a JVM RDD with one partition per pair of an element and a Java list of locations."""
    jvm: Any = spark.sparkContext._jvm
    pairs = jvm.java.util.ArrayList()
    any_class = getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$").Any()
    as_sequence = jvm.org.apache.spark.api.python.PythonUtils.toSeq
    for element, locations in elements:
        pairs.add(jvm.scala.Tuple2(element, as_sequence(locations)))
    return spark.sparkContext._jsc.sc().makeRDD(as_sequence(pairs), any_class)


class SleepingJob:
    """A job of one stage whose tasks sleep; it runs in a thread of its own."""

    def __init__(self, spark: SparkSession, tasks: Sequence[MarkedTask]) -> None:
        self._spark = spark
        self._group = uuid.uuid4().hex
        self._error: BaseException | None = None
        self._rows = self._create_rows(tasks)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """Cancel the job, interrupt its tasks, and wait until all have ended."""
        self._spark.sparkContext.cancelJobGroup(self._group)
        self._thread.join(60)
        assert "cancel" in str(self._error), self._error

    def wait(self, timeout_s: float = 120) -> None:
        """Wait for the end; raise the job's error."""
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), "the job has not ended"
        if self._error is not None:
            raise self._error

    def count_completed(self) -> int:
        """Return the number of tasks that have ended, as the status store has it."""
        tracker = self._spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in self._stages()]
        return sum(stage.numCompletedTasks for stage in stages if stage)

    def read_tasks(self) -> list[LaunchedTask]:
        """Return the tasks that have ended."""
        context: Any = self._spark.sparkContext._jsc.sc()
        context.listenerBus().waitUntilEmpty()
        launched = []
        for stage in self._stages():
            tasks = context.statusStore().taskList(stage, 0, 100_000)
            launched += [_read_task(tasks.apply(i)) for i in range(tasks.size())]
        return launched

    def _stages(self) -> list[int]:
        tracker = self._spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group)]
        return [stage for job in jobs if job for stage in job.stageIds]

    def _run(self) -> None:
        self._spark.sparkContext.setJobGroup(self._group, "sleeping tasks", interruptOnCancel=True)
        try:
            self._rows.selectExpr(_SLEEP).write.format("noop").mode("overwrite").save()
        except BaseException as error:  # noqa: BLE001  (raised in the main thread)
            self._error = error

    def _create_rows(self, tasks: Sequence[MarkedTask]) -> Any:
        from pyspark.sql.classic.dataframe import DataFrame

        gateway: Any = self._spark.sparkContext._gateway
        jvm = gateway.jvm
        elements = []
        for task in tasks:
            values = gateway.new_array(jvm.Object, 1)
            values[0] = task.ms
            locations = jvm.java.util.ArrayList()
            for location in task.locations:
                locations.add(location)
            elements.append((jvm.org.apache.spark.sql.RowFactory.create(values), locations))
        schema = jvm.org.apache.spark.sql.types.DataType.fromJson(_SCHEMA)
        rdd = create_located_rdd(self._spark, elements)
        session: Any = self._spark._jsparkSession
        return DataFrame(session.createDataFrame(rdd, schema), self._spark)


def hold_slots(spark: SparkSession, slots: Sequence[Slot]) -> SleepingJob:
    """Start a job that holds these slots of one executor until it is cancelled."""
    [executor] = {slot.executor for slot in slots}
    job = SleepingJob(spark, [MarkedTask(600_000, (slot.location,)) for slot in slots])
    wait_until(lambda: count_active(spark).get(executor) == len(slots), "the held slots", 60)
    return job


def list_slots(spark: SparkSession) -> list[Slot]:
    """Return the slots of all executors, in the order of hosts and ids.

    An executor has no host yet until its block manager has registered; its slots are left out.
    """
    executors = sorted(
        (e.hostPort().rpartition(":")[0], e.id(), e.totalCores()) for e in _list_executors(spark)
    )
    return [Slot(host, executor) for host, executor, cores in executors if host
            for _ in range(cores)]  # fmt: skip


def count_active(spark: SparkSession) -> dict[str, int]:
    """Return the number of running tasks of each executor."""
    return {e.id(): e.activeTasks() for e in _list_executors(spark)}


def count_tasks(spark: SparkSession) -> int:
    """Return the number of running tasks, also of a driver that runs tasks itself."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(stage.numActiveTasks for stage in stages if stage)


def _list_executors(spark: SparkSession) -> list[Any]:
    store: Any = spark.sparkContext._jsc.sc().statusStore()
    executors = store.executorList(True)
    listed = [executors.apply(i) for i in range(executors.size())]
    return [executor for executor in listed if executor.id() != "driver"]


def _read_task(task: Any) -> LaunchedTask:
    launch_ms, duration = task.launchTime().getTime(), task.duration()
    assert duration.isDefined(), f"task {task.index()} has not ended"
    return LaunchedTask(
        task.index(), task.taskId(), task.executorId(), task.taskLocality(),
        launch_ms, launch_ms + duration.get(),
    )  # fmt: skip
