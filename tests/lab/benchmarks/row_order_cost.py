"""What the order of rows costs: this checkout's reader compared with that of another one.

`python -m tests.lab.benchmarks.row_order_cost ../before` starts one Spark driver in each checkout
(each with its own `.venv`) and lets them read the same loads alternately, one while the other is
idle. A figure is the ratio of two neighbouring runs; it writes `docs/benchmarks/row_order.*`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streaming.kafka.embedded import EmbeddedBroker
from tests.lab.benchmarks.far_broker import far_broker
from tests.lab.benchmarks.reader_runs import Load, Reader, session
from tests.lab.benchmarks.report import ROOT, write_report
from tests.support.broker_cluster import BrokerCluster
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import assert_planned, read_topic, wait_for_end

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

OURS = {"assignor": "lag-aware-sticky", "assignor.onError": "fail"}
DELAY_S = 0.02
NOTES = """
Both readers run the same loads alternately, two executors with one slot and 1 GB each, rows into
Spark's `noop` sink. A ratio is the time of the ordered reader divided by the time of the reader
before it, of two neighbouring runs; above 1 the order costs time. Batches of 10 records a partition
are timed by `triggerExecution` of a running query; the backlog is one `availableNow` batch of 1 GB
in records of 1 KB over 8 partitions, timed by `addBatch`, with new consumers.
"""


@dataclass(frozen=True)
class Scene:
    """A load, and the brokers that it is read from."""

    load: Load
    brokers: str
    is_backlog: bool
    pairs: int

    @property
    def title(self) -> str:
        """Title of the load in the table."""
        if self.is_backlog:
            return f"backlog of {self.load.records * self.load.record_bytes / 1e9:.2g} GB"
        return f"{self.load.partitions:,} partitions x {self.load.records_per_partition:,} records"


def _scenes(scale: float) -> list[Scene]:
    pairs = max(2, round(15 * scale))
    backlog = Load(8, max(1, round(125_000 * scale)), 1_000)
    small = [Load(partitions, 10, 100) for partitions in (8, 200, 1_000)]
    scenes = []
    for brokers in ("one broker", "two brokers", "one broker, 20 ms away"):
        scenes += [Scene(load, brokers, is_backlog=False, pairs=pairs) for load in small]
        scenes.append(Scene(backlog, brokers, is_backlog=True, pairs=max(2, round(7 * scale))))
    return scenes


class Worker:
    """A Spark driver in a checkout, which runs one command at a time."""

    def __init__(self, checkout: Path) -> None:
        python = checkout / ".venv" / "bin" / "python"
        self._process = subprocess.Popen(
            [str(python), str(Path(__file__)), "--worker"], cwd=checkout, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment(checkout),
        )  # fmt: skip

    def run(self, **command: Any) -> Any:
        """Run a command and return what it measured."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(command) + "\n")
        stdin.flush()
        for line in stdout:
            if line.startswith("MEASURED "):
                return json.loads(line.removeprefix("MEASURED "))
        raise AssertionError("the worker has ended")

    def close(self) -> None:
        """End the driver."""
        self._process.communicate(timeout=120)


def _environment(checkout: Path) -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(checkout)}


@contextlib.contextmanager
def _brokers(kind: str) -> Iterator[str]:
    if kind == "two brokers":
        with BrokerCluster((None, None), heap="512m") as cluster:
            yield cluster.bootstrap_servers
    elif kind == "one broker":
        with EmbeddedBroker() as broker:
            yield broker.bootstrap_servers
    else:
        with far_broker(DELAY_S) as (_, address):
            yield address


def measure(workers: list[Worker], scene: Scene, servers: str) -> dict[str, Any]:
    """Run a scene in both drivers alternately; the row of the table."""
    seconds: list[list[float]] = [[], []]
    topic = Topic(servers, f"order-{uuid.uuid4().hex[:8]}")
    load = asdict(scene.load)
    if scene.is_backlog:
        topic.create(scene.load.partitions)
        scene.load.write(topic)
    else:
        for worker in workers:
            worker.run(do="start", servers=servers, load=load)
    for number in range(scene.pairs + 2):
        for one in (0, 1) if number % 2 else (1, 0):
            if scene.is_backlog:
                took = workers[one].run(do="read", servers=servers, topic=topic.name, load=load)
            else:
                took = workers[one].run(do="round")
            if number >= 2:
                seconds[one].append(took)
    for worker in workers:
        worker.run(do="stop")
    ratios = [after / before for before, after in zip(*seconds, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    row = {
        "load": scene.title,
        "brokers": scene.brokers,
        "before_s": round(statistics.median(seconds[0]), 3),
        "after_s": round(statistics.median(seconds[1]), 3),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_quartiles": f"{low:.3f} to {high:.3f}",
        "pairs": len(ratios),
    }
    print(row, flush=True)
    return row


def _work() -> None:
    reader: Reader | None = None
    with session("local-cluster[2,1,1024]") as spark:
        for line in sys.stdin:
            command = json.loads(line)
            if command["do"] == "start":
                topic = Topic(command["servers"], f"order-{uuid.uuid4().hex[:8]}")
                load = Load(**command["load"])
                topic.create(load.partitions, {"segment.index.bytes": "65536"})
                reader = Reader.start(spark, "ours", topic, load, OURS)
                took = 0.0
            elif command["do"] == "round":
                assert reader is not None
                took = reader.round()["durationMs"]["triggerExecution"] / 1000
            elif command["do"] == "read":
                took = _read(spark, Topic(command["servers"], command["topic"]), command["load"])
            else:
                took = 0.0
                if reader is not None:
                    reader.stop()
                reader = None
            print("MEASURED", json.dumps(took), flush=True)


def _read(spark: SparkSession, topic: Topic, load: dict[str, int]) -> float:
    import tempfile

    writer = read_topic(spark, topic, OURS).writeStream.format("noop").trigger(availableNow=True)
    with tempfile.TemporaryDirectory() as checkpoint:
        batches = wait_for_end(writer.option("checkpointLocation", checkpoint).start())
    assert_planned(batches)
    assert sum(batch["numInputRows"] for batch in batches) == Load(**load).records
    return sum(float(batch["durationMs"]["addBatch"]) for batch in batches) / 1000


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.benchmarks.row_order_cost")
    parser.add_argument("other", type=Path)
    parser.add_argument("--scale", type=float, default=1, help="below 1 nothing is written")
    given = parser.parse_args()
    workers = [Worker(given.other.resolve()), Worker(ROOT)]
    rows = []
    scenes = _scenes(given.scale)
    for brokers in dict.fromkeys(scene.brokers for scene in scenes):
        with _brokers(brokers) as servers:
            rows += [measure(workers, s, servers) for s in scenes if s.brokers == brokers]
    for worker in workers:
        worker.close()
    if given.scale == 1:
        write_report(
            "row_order",
            title="What the order of rows costs",
            command="python -m tests.lab.benchmarks.row_order_cost CHECKOUT",
            rows=rows,
            notes=NOTES,
        )


if __name__ == "__main__":
    if "--worker" in sys.argv:
        _work()
    else:
        main()
