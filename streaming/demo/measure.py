"""Which executor slot read how many records in a micro-batch, as Spark's status store has it.

Works for any mapping of partitions to tasks, ours or Spark's own, because it looks at what ran.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assignor_bridge.errors import AssignorError
from streaming.observe.figures import BatchFigures, TaskFigures
from streaming.observe.query_progress import read_progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

_MAX_TASKS = 1_000_000


class MeasureError(AssignorError):
    """The tasks that read a micro-batch were not found."""


def executors(spark: SparkSession) -> list[str]:
    """Return the ids of the executors that are registered now, sorted."""
    store = spark.sparkContext._jsc.sc().statusStore()
    found = [str(executor.id()) for executor in _items(store.executorList(True))]
    return sorted((name for name in found if name != "driver"), key=lambda n: (len(n), n))


def measure_batch(spark: SparkSession, data: Mapping[str, Any]) -> BatchFigures:
    """Join one progress of a query, as a dict, with the tasks that read its records.

    Slots are named after executors, so executors should have one core each.

    Raises
    ------
    MeasureError
        When no stage of the batch read as many records as the progress says.
    """
    progress = read_progress(data)
    source = progress.sources[0]
    return BatchFigures(
        batch=progress.batch,
        seconds=progress.seconds,
        records=progress.rows,
        tasks=_read_tasks(spark, progress.run_id, progress.batch, progress.rows),
        lag={f"{topic}-{p}": count for (topic, p), count in sorted(source.waiting.items())},
        metrics=source.metrics,
    )


def _read_tasks(
    spark: SparkSession, run_id: str, batch: int, records: int
) -> tuple[TaskFigures, ...]:
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    store = context.statusStore()
    for stage_id in sorted(_stages(store, run_id, batch)):
        for stage in _items(_attempts(spark, store, stage_id)):
            if str(stage.status()) == "COMPLETE" and stage.inputRecords() == records:
                found = _items(store.taskList(stage_id, stage.attemptId(), _MAX_TASKS))
                return _figures([task for task in found if task.status() == "SUCCESS"])
    raise MeasureError(f"batch {batch}: no finished stage read {records} records")


def _stages(store: Any, run_id: str, batch: int) -> set[int]:
    """Find the stages of the jobs of one batch: Spark writes its number into their description."""
    stages: set[int] = set()
    for job in _items(store.jobsList(None)):
        group, text = job.jobGroup(), job.description()
        if group.isDefined() and group.get() == run_id and text.isDefined():
            lines = text.get().replace("<br/>", "\n").splitlines()
            if f"batch = {batch}" in lines:
                stages.update(int(number) for number in _items(job.stageIds()))
    return stages


def _attempts(spark: SparkSession, store: Any, stage_id: int) -> Any:
    gateway: Any = spark.sparkContext._gateway
    none = gateway.new_array(gateway.jvm.double, 0)
    return store.stageData(stage_id, False, gateway.jvm.java.util.ArrayList(), False, none)


def _figures(tasks: list[Any]) -> tuple[TaskFigures, ...]:
    first_ms = min((task.launchTime().getTime() for task in tasks), default=0)
    return tuple(
        TaskFigures(
            slot=f"{task.executorId()}/0",
            start_s=(task.launchTime().getTime() - first_ms) / 1000,
            seconds=(task.duration().get() if task.duration().isDefined() else 0) / 1000,
            records=int(task.taskMetrics().get().inputMetrics().recordsRead()),
            local=task.taskLocality() == "PROCESS_LOCAL",
        )
        for task in sorted(tasks, key=lambda task: task.index())
    )


def _items(sequence: Any) -> list[Any]:
    """Return the elements of a Scala sequence."""
    iterator = sequence.iterator()
    items = []
    while iterator.hasNext():
        items.append(iterator.next())
    return items
