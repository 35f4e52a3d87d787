"""Measure what many locations per tail cost the driver: started by `python -m tests.lab.tails`.

Usage: `driver_cost.py FOLDER`. Prints a line of JSON per number of locations.

The driver has one slot, which another job holds. The 1,000 executors exist only in the offers that
this program makes to `TaskSchedulerImpl.resourceOffers`, as the scheduler backend would: one offer
of all free slots, which launches the heads, then one offer per ended task, which launches a tail.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import statistics
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lab.tails.markings import MarkedTask
from tests.lab.tails.spark_tasks import (
    SleepingJob,
    count_tasks,
    create_located_rdd,
    create_session,
)
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

EXECUTORS, EXECUTORS_PER_HOST, TAILS = 1_000, 3, 6_000
LOCATIONS = (0, 1, 8, 16, 64, 256, 1_000)
ROUNDS = 1
#: Log of the scheduler: when each step of a stage's submission began, and how long the last took.
_LOGGING = """
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %c{{1}}: %m%n
logger.dag.name = org.apache.spark.scheduler.DAGScheduler
logger.dag.level = info
logger.set.name = org.apache.spark.scheduler.TaskSetManager
logger.set.level = debug
"""
_SUBMITTING_STAGE = r"Submitting ResultStage"
_SUBMITTING_TASKS = r"Submitting \d+ missing tasks"
_ADDED_TASKS = r"Adding pending tasks took (\d+) ms"


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    log, logging = folder / "scheduler.log", folder / "log4j2.properties"
    logging.write_text(_LOGGING.format(log=log), encoding="utf-8")
    spark = create_session(
        "local[1]", folder,
        spark_driver_memory="8g",
        spark_driver_extraJavaOptions=f"-Dlog4j2.configurationFile={logging.as_uri()}",
    )  # fmt: skip
    holder = SleepingJob(spark, [MarkedTask(3_600_000, ())])
    wait_until(lambda: count_tasks(spark) == 1, "the held slot", 60)
    measure(spark, log, 8)  # to warm up
    for number, locations in itertools.product(range(ROUNDS), LOCATIONS):
        row = {"spark": spark.version, "locations": locations, "round": number}
        print(json.dumps(row | measure(spark, log, locations)), flush=True)
    holder.cancel()
    spark.stop()


def measure(spark: SparkSession, log: Path, locations: int) -> dict[str, Any]:
    """Submit a stage, make the offers, and return the seconds of each step and the memory."""
    context: Any = spark.sparkContext._jsc.sc()
    rdd = create_located_rdd(spark, create_elements(spark, locations)).toJavaRDD()
    used_before, logged = measure_heap(spark), log.stat().st_size
    job = rdd.countAsync()
    wait_until(lambda: re.search(_ADDED_TASKS, read_log(log, logged)), "the task set", 300)
    used = measure_heap(spark) - used_before
    scheduler = context.taskScheduler()
    scheduler.resourceOffers(create_offers(spark, range(EXECUTORS), cores=0), True)  # registers
    first_s, heads = make_offer(scheduler, create_offers(spark, range(EXECUTORS), cores=1))
    offers = [create_offers(spark, [executor], cores=1) for executor in range(EXECUTORS)]
    ended = [tail % EXECUTORS for tail in range(TAILS)]
    random.Random(1).shuffle(ended)
    made = [make_offer(scheduler, offers[executor]) for executor in ended]
    job.cancel(True)
    text = read_log(log, logged)
    steps = {name: find_time(text, name) for name in (_SUBMITTING_STAGE, _SUBMITTING_TASKS)}
    return {
        "read_locations_s": (steps[_SUBMITTING_TASKS] - steps[_SUBMITTING_STAGE]).total_seconds(),
        "add_pending_s": int(re.findall(_ADDED_TASKS, text)[0]) / 1000,
        "first_offer_s": round(first_s, 3),
        "offer_ms": round(1000 * statistics.median(seconds for seconds, _ in made), 3),
        "launched": heads + sum(tails for _, tails in made),
        "driver_mb": round(used / 1e6),
    }


def create_elements(spark: SparkSession, locations: int) -> list[tuple[Any, Any]]:
    """Return an element and its Java list of locations for each head and each tail."""
    array_list = spark.sparkContext._jvm.java.util.ArrayList  # type: ignore[union-attr]
    names = [f"executor_{host_of(number)}_{number}" for number in range(EXECUTORS)]
    java_names = array_list()
    for name in [*names, *names]:  # so that a list may continue with the first after the last
        java_names.add(name)
    heads = [java_names.subList(number, number + 1) for number in range(EXECUTORS)]
    starts = [tail % EXECUTORS for tail in range(TAILS)]
    tails = [java_names.subList(start, start + locations) for start in starts]
    return [(0, each) for each in [*heads, *tails]]


def host_of(executor: int) -> str:
    return f"10.0.{executor // EXECUTORS_PER_HOST // 250}.{executor // EXECUTORS_PER_HOST % 250}"


def create_offers(spark: SparkSession, executors: Iterable[int], cores: int) -> Any:
    """Return offers of these executors, as a JVM sequence."""
    jvm: Any = spark.sparkContext._jvm
    package = jvm.org.apache.spark.scheduler
    resources = getattr(getattr(package, "ExecutorResourcesAmounts$"), "MODULE$").empty()
    address, offers = jvm.scala.Option.empty(), jvm.java.util.ArrayList()
    for executor in executors:
        offers.add(
            package.WorkerOffer(str(executor), host_of(executor), cores, address, resources, 0)
        )
    return jvm.org.apache.spark.api.python.PythonUtils.toSeq(offers).toIndexedSeq()


def make_offer(scheduler: Any, offers: Any) -> tuple[float, int]:
    """Return the seconds of an offer, and how many tasks it launched."""
    count = offers.size()
    begin = time.perf_counter()
    launched = scheduler.resourceOffers(offers, count > 1)
    seconds = time.perf_counter() - begin
    return seconds, sum(launched.apply(number).size() for number in range(count))


def measure_heap(spark: SparkSession) -> int:
    """Return the bytes in use on the driver's heap after a collection."""
    system: Any = spark.sparkContext._jvm.java.lang  # type: ignore[union-attr]
    system.System.gc()
    runtime = system.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())


def read_log(log: Path, begin: int) -> str:
    return log.read_bytes()[begin:].decode("utf-8", "replace")


def find_time(text: str, pattern: str) -> datetime:
    line = next(line for line in text.splitlines() if re.search(pattern, line))
    return datetime.strptime(line.split()[0], "%Y-%m-%dT%H:%M:%S,%f")


if __name__ == "__main__":
    main()
