"""Run the stages of all conditions on one Spark: started by `python -m tests.lab.tails`.

Usage: `cluster_run.py FOLDER ROUNDS LAYOUT... [--states STATE...] [--markings MARKING...]`. Prints
a line of JSON per stage.

Each layout has six executors of two slots. The state `busy` has a second job, which holds both
slots of the last executor until two tasks per slot have ended. It is cancelled by that count, so a
loaded machine changes the seconds but not the order. In the state `joined`, the plan does not know
the last executor: no task prefers it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lab.tails.markings import MARKINGS, mark_tasks
from tests.lab.tails.placement import measure_placement
from tests.lab.tails.spark_tasks import SleepingJob, create_session, hold_slots, list_slots
from tests.support.quick_jvms import start_jvms_quickly
from tests.support.spark_tools import wait_until
from tests.support.standalone_cluster import standalone_cluster, workers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from tests.lab.tails.markings import Slot
    from tests.lab.tails.placement import LaunchedTask, Placement

SLOTS_PER_EXECUTOR, EXECUTORS = 2, 6
#: Cores of each host.
LAYOUTS = {"one": (2,) * 6, "three": (6, 6)}
STATES = ("idle", "busy", "joined")
WARM_UP_STAGES = 3
WAITS_S = (3, 0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("rounds", type=int)
    parser.add_argument("layouts", nargs="+", choices=LAYOUTS)
    parser.add_argument("--states", nargs="+", choices=STATES, default=STATES)
    parser.add_argument("--markings", nargs="+", choices=MARKINGS, default=list(MARKINGS))
    arguments = parser.parse_args()
    start_jvms_quickly()
    for layout in arguments.layouts:
        where = arguments.folder / layout
        with standalone_cluster(where / "cluster", workers(*LAYOUTS[layout])) as cluster:
            spark = create_session(
                cluster.url, where,
                spark_executor_cores=str(SLOTS_PER_EXECUTOR), spark_executor_memory="512m",
            )  # fmt: skip
            try:
                run_layout(spark, layout, arguments)
            finally:
                spark.stop()


def run_layout(spark: SparkSession, layout: str, arguments: argparse.Namespace) -> None:
    """Run each condition once per round, all of them alternately."""
    expected = SLOTS_PER_EXECUTOR * EXECUTORS
    wait_until(lambda: len(list_slots(spark)) == expected, f"{expected} slots", 600)
    slots = list_slots(spark)
    for _ in range(WARM_UP_STAGES):
        SleepingJob(spark, mark_tasks(slots, "A")).wait()
    configuration: Any = spark.sparkContext._jsc.sc().conf()
    for number in range(arguments.rounds):
        for wait_s in WAITS_S:
            # A TaskSetManager reads the wait from the context when it is created.
            configuration.set("spark.locality.wait", f"{wait_s}s")
            for state in arguments.states:
                for marking in arguments.markings:
                    condition = {
                        "spark": spark.version, "executors_per_host": layout, "state": state,
                        "locality_wait_s": wait_s, "marking": marking, "round": number,
                    }  # fmt: skip
                    placement = run_stage(spark, slots, marking, state)
                    print(json.dumps(condition | placement.to_dict()), flush=True)


def run_stage(spark: SparkSession, slots: Sequence[Slot], marking: str, state: str) -> Placement:
    """Run one stage, and return its figures."""
    executors = [slot.executor for slot in slots]
    of_last = [slot for slot in slots if slot.executor == executors[-1]]
    planned = slots[: -len(of_last)] if state == "joined" else slots
    tasks = mark_tasks(planned, marking)
    other_tasks: list[LaunchedTask] = []
    if state == "busy":
        other = hold_slots(spark, of_last)
        try:
            job = SleepingJob(spark, tasks)
            wait_until(lambda: job.count_completed() >= 2 * len(slots), "two tasks per slot", 120)
        finally:
            other.cancel()
        job.wait()
        other_tasks = other.read_tasks()
    else:
        job = SleepingJob(spark, tasks)
        job.wait()
    cores = {executor: executors.count(executor) for executor in executors}
    return measure_placement(job.read_tasks(), executors[: len(planned)], cores, other_tasks)


if __name__ == "__main__":
    main()
