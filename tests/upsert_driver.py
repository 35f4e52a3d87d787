"""A driver that runs an upsert until it is killed: run by test_pipeline_kills.py.

It takes one command a line: `drain` reads all there is and prints the table; `executor` kills one
of its executors at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from streaming import start_job
from tests.kill_driver import start_spark
from tests.spark_tools import wait_until


def main() -> None:
    """Start the job of a file, then do as told."""
    config, folder = map(Path, sys.argv[1:])
    folder.mkdir()
    spark = start_spark(folder)
    running = start_job(spark, config)
    [query] = running.queries
    table = running.loaded.job.sink
    print("RUNNING", flush=True)
    for command in sys.stdin:
        if command.strip() == "executor":
            os.kill(wait_until(_executors, "an executor")[0], signal.SIGKILL)
            continue
        query.processAllAvailable()
        rows = spark.read.format("delta").load(table.path)
        found = rows.select("id", "seq", "name", "_deleted").orderBy("id").collect()
        print("ROWS " + json.dumps([tuple(row) for row in found]), flush=True)


def _executors() -> list[int]:
    """The executors' processes: JVMs that the driver's JVM started."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            same_group = os.getpgid(int(entry.name)) == os.getpgid(0)
        except OSError:
            continue  # it has ended
        if same_group and b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words:
            found.append(int(entry.name))
    return sorted(found)


if __name__ == "__main__":
    main()
