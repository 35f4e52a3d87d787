"""Executors that stall in the middle of a batch: the shared tail, and Spark's settings.

Four executors of one slot, 16 partitions of 500 records of 1 ms (a sleep at every tenth record), so
that a batch takes two seconds. All configurations alternate, one whole batch per round. In each
batch, one executor's process is disturbed, another one each time:

- `stop`: SIGSTOP half a second after its tasks have started, SIGCONT two seconds later;
- `busy`: from the start of its tasks to the end of the batch, SIGSTOP and SIGCONT alternate every
  50 ms, so that the executor has half of its speed, as if it shared its core with a busy loop.

Spark's settings have `fetch.max.wait.ms=1` and, apart from the default, four, eight, and 16 tasks
per slot. `times_best` is the median of the rounds' ratios to the Spark setting with the lowest
median, with its 95% interval; `tail_tasks` is the median over batches.

`ASSIGNOR_BENCH_SCALE=0.2` runs fewer rounds and writes nothing.
"""

from __future__ import annotations

import os
import signal
import statistics
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from tests.lab.benchmarks.reader_runs import Reader
from tests.lab.benchmarks.report import is_written, write_report
from tests.lab.benchmarks.turns import (
    NO_WAIT,
    OURS,
    SCALE,
    Work,
    cluster,
    compare_by_rounds,
    find_best_of_spark,
    in_turn,
)
from tests.support.kafka_topics import Topic
from tests.support.processes import find_processes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from streaming.kafka.embedded import EmbeddedBroker

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

SLOTS, PARTITIONS, RECORDS = 4, 16, 500
WARM_UP, ROUNDS = 7, max(2, int(15 * SCALE))
SLEEP = "CASE WHEN offset % 10 = 9 THEN java_method('java.lang.Thread', 'sleep', 10L) END"
PER_SLOT = (4, 8, 16)
CONFIGURATIONS = {
    "Spark: default": NO_WAIT,
    **{
        f"Spark: minPartitions={SLOTS * tasks}": NO_WAIT | {"minPartitions": str(SLOTS * tasks)}
        for tasks in PER_SLOT
    },
    "lag-aware-sticky": OURS,
    "lag-aware-sticky, tail=off": OURS | {"assignor.tail": "off"},
}
KINDS = ("stop", "busy")
BEGIN_S, STALL_S, BEAT_S = 0.5, 2.0, 0.05


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = cluster(tmp_path_factory.mktemp("spark"), SLOTS)
    yield session
    session.stop()


@contextmanager
def disturb(spark: SparkSession, kind: str, process: int) -> Iterator[None]:
    """Disturb a process from the start of the next stage on."""
    ended, tracker = threading.Event(), spark.sparkContext.statusTracker()

    def run() -> None:
        while not ended.is_set() and not tracker.getActiveStageIds():
            ended.wait(BEAT_S)
        ended.wait(BEGIN_S)
        pauses = (STALL_S,) if kind == "stop" else (BEAT_S,) * int(60 / BEAT_S)
        for pause_s in pauses:
            if ended.is_set():
                return
            os.kill(process, signal.SIGSTOP)
            try:
                ended.wait(pause_s)
            finally:
                os.kill(process, signal.SIGCONT)
            ended.wait(BEAT_S)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def measure(spark: SparkSession, servers: str, kind: str) -> list[dict[str, Any]]:
    """Return a row for each configuration."""
    work = Work.of([RECORDS] * PARTITIONS, SLEEP)
    readers: list[Reader] = []
    tails: dict[str, list[int]] = {name: [] for name in CONFIGURATIONS}
    try:
        for name, options in CONFIGURATIONS.items():
            topic = Topic(servers, f"stalls-{uuid4().hex[:8]}").create(PARTITIONS)
            readers.append(Reader.start(spark, name, topic, work, options, shape=work.shape))
        for number in range(WARM_UP + ROUNDS):
            processes = find_processes(os.getpid(), "CoarseGrainedExecutorBackend")
            process = sorted(processes)[number % SLOTS]
            for reader in in_turn(readers, number):
                with disturb(spark, kind, process):
                    batch = reader.round(measured=number >= WARM_UP)
                metrics = batch["sources"][0]["metrics"] or {}
                tails[reader.name].append(int(metrics.get("assignor.tailTasks", 0)))
    finally:
        for reader in readers:
            reader.stop()
    seconds = {reader.name: reader.seconds for reader in readers}
    best, rows = find_best_of_spark(seconds), []
    for name, batches in seconds.items():
        times_best, interval = compare_by_rounds(batches, seconds[best])
        rows.append({
            "disturbance": kind, "configuration": name, "best_of_spark": best,
            "batch_s_median": statistics.median(batches), "batch_s_max": max(batches),
            "times_best": times_best, "interval": interval,
            "tail_tasks": statistics.median(tails[name][WARM_UP:]), "rounds": ROUNDS,
        })  # fmt: skip
        print(rows[-1], flush=True)
    return rows


@pytest.fixture(scope="module")
def rows() -> Iterator[list[dict[str, Any]]]:
    """Collects the figures, and writes them if both kinds are there."""
    collected: list[dict[str, Any]] = []
    yield collected
    if SCALE == 1 and is_written(len(collected) == len(KINDS) * len(CONFIGURATIONS)):
        write_report(
            "stalls", title="Executors that stall", rows=collected, notes=__doc__ or "",
            command="make bench (tests/lab/benchmarks/test_bench_stalls.py)",
        )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_stalls(
    spark: SparkSession, broker: EmbeddedBroker, rows: list[dict[str, Any]], kind: str
) -> None:
    rows += measure(spark, broker.bootstrap_servers, kind)
