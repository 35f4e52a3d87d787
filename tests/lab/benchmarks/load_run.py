"""A driver that reads one topic in a few batches: run by test_bench_load.py, once for each reader.

It prints one line of JSON: what the executors hold after the last batch, and what the brokers
counted. A process of its own, so that nothing is left of the reader before.
"""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lab.benchmarks.broker_counts import BrokerCounts, jcmd
from tests.lab.benchmarks.job_process import parts_of
from tests.lab.benchmarks.reader_runs import Load, producer_of, started
from tests.lab.benchmarks.turns import cluster
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import assert_planned, read_topic, wait_until

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

EXECUTORS = 2
_CONNECTED = "01"
_HEAP_USED = re.compile(r" used (\d+)K")
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)


class Run:
    """One query; each of its batches reads one load of the topic, whole."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._asked = asked
        self._topic = Topic(asked["servers"], asked["topic"])
        self._load = Load(asked["partitions"], asked["records_per_partition"], record_bytes=100)
        self._spark = cluster(Path(asked["folder"]), EXECUTORS, **asked["settings"])
        self._counts = BrokerCounts(self._spark, asked["brokers"])

    def figures(self) -> dict[str, Any]:
        """Run the first batch, then those that count; without any, the first one counts."""
        producer = producer_of(self._topic)
        before = self._counts.read()
        self._load.write(self._topic, producer)
        # The first batch takes what is there; the others wait for a whole load.
        whole = {"minOffsetsPerTrigger": str(self._load.records), "maxTriggerDelay": "5h"}
        query = started(read_topic(self._spark, self._topic, {**whole, **self._asked["options"]}))
        self._wait_for(query, 1)
        batches = self._asked["batches"]
        if batches:
            before = self._counts.read()
        for number in range(batches):
            self._load.write(self._topic, producer)
            self._wait_for(query, 2 + number)
        counted = self._counts.read().since(before)
        parts = parts_of(os.getpid())
        assert len(parts["executors"]) == EXECUTORS
        held = [self._held_by(pid) for pid in parts["executors"]]
        [driver] = map(self._held_by, parts["driver"])
        found = [json.loads(each.json()) for each in self._batches(query)]
        assert [batch["numInputRows"] for batch in found] == [self._load.records] * len(found)
        if "assignor" in self._asked["options"]:
            assert_planned(found)
        query.stop()
        self._spark.stop()
        seconds = [batch["durationMs"]["triggerExecution"] / 1000 for batch in found]
        return {
            "records": self._load.records,
            "seconds": seconds[-batches:],
            "requests": dict(counted.requests),
            "made": counted.made,
            "sessions": counted.sessions,
            "evicted": counted.evicted,
            "executors": held,
            "driver": driver,
        }

    def _wait_for(self, query: StreamingQuery, batches: int) -> None:
        def are_there() -> bool:
            assert query.exception() is None, query.exception()
            return len(self._batches(query)) == batches

        wait_until(are_there, f"batch {batches}", self._asked["limit_s"])

    @staticmethod
    def _batches(query: StreamingQuery) -> list[Any]:
        """Batches with records, as Java has them: as JSON they may be megabytes each."""
        return [each for each in query._jsq.recentProgress() if each.numInputRows()]

    def _held_by(self, pid: int) -> dict[str, Any]:
        """What a JVM holds, after a collection of its heap."""
        ports = {int(server.rpartition(":")[2]) for server in self._asked["servers"].split(",")}
        jcmd(pid, "GC.run")
        heap = _HEAP_USED.search(jcmd(pid, "GC.heap_info"))
        peak = _PEAK.search(Path(f"/proc/{pid}/status").read_text())
        assert heap
        assert peak
        return {
            "heap_mb": int(heap[1]) / 1024,
            "peak_rss_mb": int(peak[1]) / 1024,
            "files": len(files_of(pid)),
            "connections": connections_of(pid, ports),
        }


def files_of(pid: int) -> list[str]:
    """What each open file of a process is; sockets have their number in it."""
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            found.append(str(entry.readlink()))
    return found


def connections_of(pid: int, ports: set[int]) -> int:
    """How many connections of a process to these ports there are."""
    found = set()
    for table in ("tcp", "tcp6"):  # of all processes
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, _, to, state, *_, inode = line.split()[:10]
            if state == _CONNECTED and int(to.rpartition(":")[2], 16) in ports:
                found.add(f"socket:[{inode}]")
    return len(found.intersection(files_of(pid)))


if __name__ == "__main__":
    print(json.dumps(Run(json.loads(sys.argv[1])).figures()), flush=True)
