"""One job for two hours at 5,000 records a second, in batches of half a second: is memory level?

`assignor run` appends a topic of JSON records to a Delta table, with a driver, two executors of one
slot, a planner, a broker and the producer on one machine. Resident memory is looked at every five
seconds; what is told of it leaves out the first quarter of the run (half an hour of two), in which
caches fill and code is compiled. A slope is the median of those of all pairs of samples (Theil and
Sen), with their middle half. Driver and executors have the whole of their heaps from the start, so
that what rises is outside of them; "live heap" is what is in them after a full collection, which
each JVM is asked for 24 times (`jcmd GC.class_histogram`). At the end each record is in the table,
once, and each batch was planned by the option. A run of an hour or more fails, when its page is
written, if a part of the job rose by more than 5% an hour, or batches or records came slower than
asked. `make soak`; `SOAK_S=120` makes it shorter: such a run says nothing of memory, and writes no
page. What was measured stays in `build/soak`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from pyspark.sql import functions as f

from assignor_bridge.errors import OptionError
from assignor_bridge.ivy import find_tool
from streaming.kafka.topics import create_topic
from streaming.observe.progress_log import read_batches
from tests.lab.benchmarks import test_bench_long_run as long_run
from tests.lab.benchmarks.job_process import PARTS, JobProcess
from tests.lab.benchmarks.long_run_figures import Series, drawn, percentile
from tests.lab.benchmarks.long_run_load import Load
from tests.lab.benchmarks.report import FOLDER, ROOT, write_report
from tests.lab.benchmarks.soak_figures import after_first_quarter, over_time, slope
from tests.support.spark_tools import start_spark, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from streaming.kafka.embedded import EmbeddedBroker
    from streaming.observe.query_progress import BatchProgress

LASTS_S = float(os.environ.get("SOAK_S") or 0)
pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.skipif(not LASTS_S, reason="hours: `make soak` runs it"),
    pytest.mark.timeout(LASTS_S + 1800),
]

RATE, PARTITIONS, WARM_UP = 5_000, 4, 100
#: Full collections of each JVM over the run.
LOOKS = 24
JVMS = ("driver", "executors")
#: For a run that is long enough to tell: share of its memory by which a part may rise an hour,
#: batches (10,000 in two hours) and records a second.
LONG_S, MOST_RISE, LEAST_BATCHES, LEAST_RATE = 3_600, 0.05, 10_000 / 7_200, 0.99 * RATE
PICTURE = FOLDER.parent / "images" / "soak.svg"
KEPT = ROOT / "build" / "soak"
JOB = """
name: soak
kafka.bootstrap.servers: ${BROKER}
source: {subscribe: "soak-${MARK}", records: {format: json, schema: "id BIGINT, value DOUBLE"}}
sink: {path: "${OUT}/table", compact_every: 100}
trigger: processingTime 500 milliseconds
checkpoint: ${OUT}/checkpoint
metrics: {log_file: "${OUT}/progress.jsonl"}
spark:
  spark.master: local-cluster[2,1,1024]
  spark.driver.memory: 1g
  spark.driver.extraJavaOptions: -Xms1g -XX:+AlwaysPreTouch
  spark.executor.extraJavaOptions: -Xms1g -XX:+AlwaysPreTouch
"""


class LiveHeaps:
    """What is in the heaps of the job's JVMs after full collections, by class, in files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folder.mkdir()
        self._looks = 0

    def look(self, job: JobProcess) -> None:
        """Let each JVM collect all of its garbage, and count what is left."""
        self._looks += 1
        for part in JVMS:
            for pid in job.pids(part):
                command = [find_tool("jcmd"), str(pid), "GC.class_histogram"]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode == 0:  # what a JVM forks looks like it for a moment
                    path = self._folder / f"{part}-{self._looks:02}-{pid}.txt"
                    path.write_text(done.stdout)

    def mb(self, part: str) -> list[float]:
        """MB of one part at each look; of executors the sum."""
        return [
            sum(map(total_mb, self._folder.glob(f"{part}-{look:02}-*.txt")))
            for look in range(1, self._looks + 1)
        ]


def total_mb(histogram: Path) -> float:
    """Give the sum of a class histogram, whose last line is "Total", instances and bytes."""
    name, _, size = histogram.read_text().splitlines()[-1].split()
    assert name == "Total"
    return int(size) / 2**20


class Records(Load):
    """Writes one record of JSON a round."""

    def _send(self, number: int) -> None:
        self._producer.produce(self._topics[0], f'{{"id": {number}, "value": {number / 8}}}')


def test_memory_is_level(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_run, "LASTS_S", LASTS_S)
    live = LiveHeaps(tmp_path / "live")
    mark = uuid4().hex[:6]
    topic = f"soak-{mark}"
    create_topic(broker.bootstrap_servers, topic, PARTITIONS)
    (tmp_path / "job.yaml").write_text(JOB)
    environment = {"BROKER": broker.bootstrap_servers, "MARK": mark, "OUT": str(tmp_path)}
    job = JobProcess(tmp_path / "job.yaml", tmp_path, environment)
    try:
        wait_until(job.is_running, "the job's start", 180)
        load = Records(broker.bootstrap_servers, (topic, topic, topic), RATE)
        load.warm_up(WARM_UP)
        wait_until(lambda: is_read(job, tmp_path, load.rounds), "the first records", 180)
        load.start()
        try:
            every = max(1, int(LASTS_S / long_run.SAMPLE_S) // LOOKS)
            samples = long_run.sampled(job, broker.pid or 0, every, lambda: live.look(job))
        finally:
            load.stop()
        series = {part: list(samples.series(part).values) for part in (*PARTS, "broker")}
        (tmp_path / "samples.json").write_text(json.dumps(series))
        wait_until(lambda: is_read(job, tmp_path, load.rounds), "the last records", 300)
        job.stop()
    finally:
        job.kill()
        keep(tmp_path)
    batches = read_batches(tmp_path / "progress.jsonl")
    for source in (source for batch in batches for source in batch.sources):
        planned = [source.metrics.get(f"assignor.{key}") for key in ("strategy", "fallbacks")]
        assert planned == ["lag-aware-sticky", "0"], source.metrics
    spark = start_spark("local[2]", tmp_path / "reader")
    try:
        table = spark.read.format("delta").load(str(tmp_path / "table"))
        counted = table.agg(f.count("*"), f.countDistinct("id"), f.min("id"), f.max("id"))
        assert tuple(counted.collect()[0]) == (load.rounds, load.rounds, 0, load.rounds - 1)
    finally:
        spark.stop()
    step_s = every * long_run.SAMPLE_S
    heaps = [Series(f"{part}, live heap", live.mb(part), step_s) for part in JVMS]
    report(batches, load, samples, heaps)


def keep(folder: Path) -> None:
    """Copy what was measured: hours are not lost when a check fails, nor with pytest's folder."""
    KEPT.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(KEPT / "live", ignore_errors=True)
    shutil.copytree(folder / "live", KEPT / "live")
    for pattern in ("samples.json", "progress.jsonl"):
        for path in folder.glob(pattern):
            shutil.copy(path, KEPT)


def is_read(job: JobProcess, folder: Path, records: int) -> bool:
    assert job.is_running()
    try:
        return sum(batch.rows for batch in read_batches(folder / "progress.jsonl")) == records
    except OptionError:  # no batch yet
        return False


def report(
    batches: list[BatchProgress], load: Load, samples: long_run.Samples, heaps: list[Series]
) -> None:
    measured = [batch.seconds for batch in batches if batch.timestamp_s >= load.began_s]
    series = {part: samples.series(part) for part in (*PARTS, "broker")}
    series |= {heap.name: heap for heap in heaps}
    level = {p: Series(p, after_first_quarter(s.values), s.step_s) for p, s in series.items()}
    rows, rises = [], {}
    for part, found in level.items():
        rise = slope(found.values, found.step_s)
        rises[part] = rise.per_hour / percentile(found.values, 50)
        rows.append(
            {
                "part": part,
                "MB, median": round(percentile(found.values, 50)),
                "MB, most": round(max(found.values)),
                "MB an hour": f"{rise.per_hour:+.1f}",
                "middle half of the slopes": f"{rise.low:+.1f} to {rise.high:+.1f}",
            }
        )
    print(*rows, sep="\n", flush=True)
    if LASTS_S < LONG_S:
        return
    # Three lines a panel.
    panels = [("driver", "executors"), ("python", "planners", "broker")]
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(
        drawn(
            [("Resident memory, MB", [series[p].in_windows(60) for p in pair]) for pair in panels],
            "memory of a job",
        ),
        encoding="utf-8",
    )
    notes = [
        __doc__ or "",
        f"{len(measured):,} batches, {load.rounds:,} records, each once in the table; no batch "
        f"fell back to Spark's mapping. A batch took {percentile(measured, 50):.2f} s (median), "
        f"{percentile(measured, 95):.2f} s (95th percentile), {max(measured):.2f} s (most).",
        "",
        "![Resident memory over time](../images/soak.svg)",
    ]
    write_report(
        "soak",
        title=f"Memory of one job over {LASTS_S / 3600:g} hours",
        command=f"make soak SOAK_S={LASTS_S:g}",
        rows=rows,
        notes="\n".join(notes),
        series=over_time(measured, {heap.name: heap.values for heap in heaps}),
    )
    risen = {p: rise for p, rise in rises.items() if p != "broker" and rise > MOST_RISE}
    assert not risen
    assert len(measured) >= LEAST_BATCHES * LASTS_S
    assert load.rounds >= LEAST_RATE * LASTS_S
