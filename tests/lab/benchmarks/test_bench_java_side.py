"""What the driver's JVM adds around a planner call: encode, decode, verify and build.

The requests and answers of the planner's benchmark (steady batches: with state and a report for
each piece, packed), in a warm JVM without Spark running. `planner_ms` is the planner itself on the
same request; the JVM may take no longer than the limit of the planner.
`state_write_ms` is the writing of the state file and the deleting of an old one on this machine's
disk, after the batch and on a thread of its own; it is no part of `jvm_ms`. `spark_log_ms` is the
same text given to Spark's own writer, as for a file of its offset log, in turns with ours: what
Spark itself takes twice a batch. (On a local disk and without Hadoop's native library, as here, all
but a millisecond of both is ten processes that Hadoop 3.4.1 starts for a file: `chmod` twice,
`readlink` eight times, counted by the JVM's flight recorder.)
"""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING

import orjson
import pytest

from tests.lab.benchmarks.report import write_report
from tests.lab.benchmarks.test_bench_planner import GRID, request, timed
from tests.support.java_program import compile_programs, run_java
from tests.support.packed import pack_task_rows
from tests.support.planner_process import plan

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1200)]

RUNS = 20
PHASES = ("encode_ms", "decode_ms", "verify_and_build_ms")


def test_the_jvm_takes_no_longer_than_the_planner_may(tmp_path: Path) -> None:
    class_path = compile_programs(tmp_path / "classes", "BridgeTime", "Exchanges", connector=True)
    rows = []
    for partitions, executors, allowed_ms in GRID:
        first = plan(orjson.loads(request(partitions, executors, None)))
        asked = request(partitions, executors, first)
        _, planner_ms = timed(asked, 5)
        answer = plan(orjson.loads(asked))
        answer["tasks"] = pack_task_rows(answer["tasks"])
        exchange = tmp_path / f"{partitions}.jsonl"
        exchange.write_bytes(asked + b"\n" + orjson.dumps(answer))
        states = str(tmp_path / f"states-{partitions}")
        done = run_java(
            class_path, "planning.BridgeTime", str(exchange), str(RUNS), states, options=("-Xmx2g",)
        )
        *phases, state_write, spark_log = [json.loads(line) for line in done.stdout.splitlines()]
        whole = [sum(parts) for parts in zip(*phases, strict=True)]
        rows.append(
            {
                "partitions": partitions,
                "executors": executors,
                **{name: statistics.median(ms) for name, ms in zip(PHASES, phases, strict=True)},
                "jvm_ms_median": statistics.median(whole),
                "jvm_ms_min": min(whole),
                "jvm_ms_max": max(whole),
                "allowed_ms": allowed_ms,
                "planner_ms": statistics.median(planner_ms),
                "state_write_ms": statistics.median(state_write),
                "state_write_ms_max": max(state_write),
                "spark_log_ms": statistics.median(spark_log),
                "runs": RUNS,
            }
        )
        print(rows[-1])
    write_report(
        "java_side",
        title="What the driver's JVM adds around a planner call",
        command="make bench (tests/lab/benchmarks/test_bench_java_side.py)",
        rows=rows,
        notes=(__doc__ or "").split("\n", 2)[2],
    )
