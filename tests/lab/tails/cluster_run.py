"""Run the stages of all conditions on one Spark: started by `python -m tests.lab.tails`.

Usage: `cluster_run.py FOLDER ROUNDS LAYOUT...`. Prints a line of JSON per stage.

Each layout has six executors of two slots. In the state `busy`, a job of another thread holds both
slots of the last executor until twice as many tasks as slots have ended. Nothing else depends on
time: the job is cancelled by count, so a loaded machine changes the seconds but not the order.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lab.tails.markings import MARKINGS, mark_tasks
from tests.lab.tails.placement import LaunchedTask, measure_placement
from tests.lab.tails.spark_tasks import SleepingJob, create_session, hold_slots, list_slots
from tests.support.quick_jvms import start_jvms_quickly
from tests.support.spark_tools import wait_until
from tests.support.standalone_cluster import standalone_cluster, workers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from tests.lab.tails.markings import Slot

SLOTS_PER_EXECUTOR, EXECUTORS = 2, 6
#: Cores of each host.
LAYOUTS = {"one": (2,) * 6, "three": (6, 6)}
STATES = ("idle", "busy")
WAITS_S = (3, 0)


def main() -> None:
    folder, rounds = Path(sys.argv[1]), int(sys.argv[2])
    start_jvms_quickly()
    for layout in sys.argv[3:]:
        where = folder / layout
        with standalone_cluster(where / "cluster", workers(*LAYOUTS[layout])) as cluster:
            spark = create_session(
                cluster.url, where,
                spark_executor_cores=str(SLOTS_PER_EXECUTOR), spark_executor_memory="512m",
            )  # fmt: skip
            try:
                run_layout(spark, layout, rounds)
            finally:
                spark.stop()


def run_layout(spark: SparkSession, layout: str, rounds: int) -> None:
    """Run each condition once per round, all of them alternately."""
    expected = SLOTS_PER_EXECUTOR * EXECUTORS
    wait_until(lambda: len(list_slots(spark)) == expected, f"{expected} slots", 120)
    slots = list_slots(spark)
    SleepingJob(spark, mark_tasks(slots, "A")).wait()
    configuration: Any = spark.sparkContext._jsc.sc().conf()  # type: ignore[attr-defined]
    for number in range(rounds):
        for wait_s in WAITS_S:
            # A TaskSetManager reads the wait from the context when it is created.
            configuration.set("spark.locality.wait", f"{wait_s}s")
            for state in STATES:
                for marking in MARKINGS:
                    stage, other_job = run_stage(spark, slots, marking, state)
                    condition = {
                        "spark": spark.version, "executors_per_host": layout, "state": state,
                        "locality_wait_s": wait_s, "marking": marking, "round": number,
                    }  # fmt: skip
                    owners = [slot.executor for slot in slots]
                    cores = {executor: owners.count(executor) for executor in owners}
                    placement = measure_placement(stage, owners, cores, other_job)
                    print(json.dumps(condition | placement.to_dict()), flush=True)


def run_stage(
    spark: SparkSession, slots: Sequence[Slot], marking: str, state: str
) -> tuple[list[LaunchedTask], list[LaunchedTask]]:
    """Return the tasks of the stage, and those of the other job."""
    tasks = mark_tasks(slots, marking)
    if state == "idle":
        job = SleepingJob(spark, tasks)
        job.wait()
        return job.read_tasks(), []
    other = hold_slots(spark, [slot for slot in slots if slot.executor == slots[-1].executor])
    try:
        job = SleepingJob(spark, tasks)
        wait_until(lambda: job.count_completed() >= 2 * len(slots), "two tasks per slot", 120)
    finally:
        other.cancel()
    job.wait()
    return job.read_tasks(), other.read_tasks()


if __name__ == "__main__":
    main()
