"""Executors' memory outside the heap, with the option and with Spark's own source.

Three jobs run at the same time on one machine, each with two executors of one slot and 1 GB of heap
from the start (`-Xms1g -XX:+AlwaysPreTouch`), at 1,000 records a second into a Delta table of its
own, with a trigger of one second. One has the option, one Spark's own source (`assignor: none`) and
one the option with `MALLOC_ARENA_MAX=2` in its executors' environment. All three set
`kafka.fetch.max.wait.ms=1`. Every two minutes `/proc/PID/smaps` gives the resident memory of each
executor by kind, and Native Memory Tracking (NMT, which takes 11 MB of an executor itself) what the
JVM has committed. "NMT: all by malloc" is what the JVM has allocated and not freed, direct buffers
("Other") included; "Arena Chunk, peak" is the most that its compilers and other short work have
held at a time since the start. A cell has, of both executors of a job together, the MB at the end
and, over the second half of the run, the MB an hour: the median of the slopes of all pairs of
samples, with their middle half. `make executor-memory`; `SOAK_S=300` tries the command, and then no
page is written. The samples stay in `build/executor_memory`.
"""

from __future__ import annotations

import gzip
import os
import shutil
import time
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from streaming.kafka.topics import create_topic
from streaming.observe.progress_log import read_batches
from tests.lab.benchmarks.executor_memory_figures import growth_by_quarter, read_job, rows_of
from tests.lab.benchmarks.job_process import JobProcess
from tests.lab.benchmarks.long_run_load import Load
from tests.lab.benchmarks.native_memory import look_at
from tests.lab.benchmarks.report import ROOT, write_report
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from streaming.kafka.embedded import EmbeddedBroker

LASTS_S = float(os.environ.get("SOAK_S") or 0)
pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.skipif(not LASTS_S, reason="an hour and more: `make executor-memory` runs it"),
    pytest.mark.timeout(LASTS_S + 1800),
]

RATE, PARTITIONS, WARM_UP, EVERY_S, LONG_S = 1_000, 4, 100, 120.0, 3_600
KEPT = ROOT / "build" / "executor_memory"
#: Each job's assignor, and the environment of its executors.
JOBS = {
    "with the option": ("lag-aware-sticky", ""),
    "Spark's own source": ("none", ""),
    "with the option, two arenas": ("lag-aware-sticky", "spark.executorEnv.MALLOC_ARENA_MAX: '2'"),
}
JOB = """
name: memory
kafka.bootstrap.servers: ${BROKER}
source:
  subscribe: ${TOPIC}
  assignor: ${ASSIGNOR}
  kafka.fetch.max.wait.ms: 10
  records: {format: json, schema: "id BIGINT, value DOUBLE"}
sink: {path: "${OUT}/table", compact_every: 100}
trigger: processingTime 1 second
checkpoint: ${OUT}/checkpoint
metrics: {log_file: "${OUT}/progress.jsonl"}
spark:
  spark.master: local-cluster[2,1,1024]
  spark.driver.memory: 640m
  spark.executor.extraJavaOptions: >-
    -Xms1g -XX:+AlwaysPreTouch -XX:NativeMemoryTracking=summary
"""


class Records(Load):
    """Writes the same record of JSON to the topic of each job."""

    def _send(self, number: int) -> None:
        for topic in self._topics:
            self._producer.produce(topic, f'{{"id": {number}, "value": {number / 8}}}')


def test_memory_outside_the_heap(broker: EmbeddedBroker, tmp_path: Path) -> None:
    mark, jobs, topics = uuid4().hex[:6], {}, []
    try:
        for number, (name, (assignor, environment)) in enumerate(JOBS.items()):
            topics.append(f"memory-{mark}-{number}")
            create_topic(broker.bootstrap_servers, topics[-1], PARTITIONS)
            folder = tmp_path / name
            folder.mkdir()
            (folder / "job.yaml").write_text(f"{JOB}  {environment}\n")
            settings = {"TOPIC": topics[-1], "ASSIGNOR": assignor, "OUT": str(folder)}
            settings |= {"BROKER": broker.bootstrap_servers}
            jobs[name] = JobProcess(folder / "job.yaml", folder, settings)
            wait_until(jobs[name].is_running, "the job's start", 240)
        first, second, third = topics
        load = Records(broker.bootstrap_servers, (first, second, third), RATE)
        load.warm_up(WARM_UP)
        load.start()
        try:
            look_at_executors(jobs, tmp_path)
        finally:
            load.stop()
        for job in jobs.values():
            job.stop()
    finally:
        for job in jobs.values():
            job.kill()
        keep(tmp_path)
    report(KEPT)


def look_at_executors(jobs: Mapping[str, JobProcess], folder: Path) -> None:
    """Write what each executor holds into files, every two minutes until the end."""
    began = time.monotonic()
    for number in range(1 + int(LASTS_S / EVERY_S)):
        time.sleep(max(0.0, began + number * EVERY_S - time.monotonic()))
        for name, job in jobs.items():
            assert job.is_running()
            for pid in job.pids("executors"):
                path = folder / name / f"{pid}-{number:03}.gz"
                path.write_bytes(gzip.compress(look_at(pid).encode()))


def keep(folder: Path) -> None:
    """Copy the samples: an hour is not lost when a check fails, nor with pytest's folder."""
    shutil.rmtree(KEPT, ignore_errors=True)
    for name in JOBS:
        (KEPT / name).mkdir(parents=True)
        for pattern in ("*-*.gz", "progress.jsonl"):
            for path in (folder / name).glob(pattern):
                shutil.copy(path, KEPT / name)


def report(folder: Path) -> None:
    """Print the rows of a run; write the page if it lasted an hour."""
    jobs = [read_job(folder / name) for name in JOBS]
    rows = rows_of(jobs)
    print(*rows, sep="\n", flush=True)
    lasts_s = jobs[0].lasts_s
    if lasts_s < LONG_S:
        return
    batches = {name: len(read_batches(folder / name / "progress.jsonl")) for name in JOBS}
    counts = ", ".join(f"{count:,} ({name})" for name, count in batches.items())
    write_report(
        "executor_memory",
        title=f"Executors' memory outside the heap over {lasts_s / 60:.0f} minutes",
        command=f"make executor-memory SOAK_S={LASTS_S:g}",
        rows=rows,
        notes=f"{__doc__}\nBatches: {counts}.",
        series=growth_by_quarter(jobs),
    )
