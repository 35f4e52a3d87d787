"""Two drivers, one after the other, on a cluster of three hosts: run by test_three_hosts.py.

The first reads with executors whose ids the second will not have. The second goes on from its
checkpoint, loses a worker, gets it back, gets a fourth, and loses a host in the middle of a batch.
Each phase is a batch, and what that was planned for is printed as a line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.kafka_topics import Topic
from tests.support.packed import unpack_tasks
from tests.support.spark_tools import read_topic, start_spark, wait_for_end, wait_until
from tests.support.standalone_cluster import Worker, standalone_cluster, workers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Records of each partition in the first batch, and in the others: who reads what in these is then
#: by what came before, and not what a plan without memory would say.
EARLY = [100 + 40 * (partition // 10) for partition in range(48)]
COUNTS = [100 + 40 * (partition % 5) for partition in range(48)]
#: A batch with this takes some ten seconds, in the middle of which a host can die.
SLOW = "java_method('java.lang.Thread', 'sleep', 5L) AS waited"


class Run:
    """One driver, from its start to its end."""

    def __init__(self, cluster: str, topic: Topic, folder: Path, number: int) -> None:
        self._topic = topic
        self._log = folder / f"plans-{number}.jsonl"
        self._spark = start_spark(
            cluster, folder / str(number),
            spark_executor_memory="512m", spark_locality_wait="30s",
        )  # fmt: skip
        options = {
            "assignor": "lag-aware-sticky",
            "assignor.onError": "fail",
            "assignor.planLog": str(self._log),
        }
        self._stream = read_topic(self._spark, topic, options)
        self._checkpoint, self._table = str(folder / "checkpoint"), str(folder / "table")

    def wait_for(self, executors: int, none_of: frozenset[str] = frozenset()) -> None:
        """Wait until so many executors are there, and none of these."""
        wait_until(
            lambda: len(ids := self.executors()) == executors and not ids & none_of,
            f"{executors} executors other than {sorted(none_of)}", 60,
        )  # fmt: skip

    def executors(self) -> frozenset[str]:
        """Ids of those that the scheduler knows."""
        ids = self._scheduler().getExecutorIds()
        return frozenset(str(ids.apply(i)) for i in range(ids.size()))

    def replace_executors(self) -> None:
        """End all executors; others come in their place."""
        before = self.executors()
        for executor in sorted(before):
            assert self._spark.sparkContext._jsc.sc().killAndReplaceExecutor(executor)
        self.wait_for(len(before), none_of=before)

    def read(
        self,
        phase: str,
        counts: Sequence[int] = COUNTS,
        meanwhile: Callable[[], object] | None = None,
    ) -> None:
        """Fill the topic, read it in one batch, and print what that was planned for.

        With something to do in the middle of the batch, each of its records takes a while.
        """
        self._topic.fill(counts)
        waited = SLOW if meanwhile else "CAST(NULL AS STRING) AS waited"
        rows = self._stream.selectExpr("partition", "offset", waited)
        query = (
            rows.writeStream.format("delta")
            .option("checkpointLocation", self._checkpoint)
            .trigger(availableNow=True)
            .start(self._table)
        )
        if meanwhile:
            wait_until(self._all_run_tasks, "a task on each executor")
            meanwhile()
            assert not any(p.numInputRows for p in query.recentProgress), (
                "the batch was over before"
            )
        [progress] = [p for p in wait_for_end(query) if p["numInputRows"]]
        line = json.loads(self._log.read_text().splitlines()[-1])
        assert line["batchId"] == progress["batchId"]
        metrics = progress["sources"][0]["metrics"]
        told = {"phase": phase, "metrics": metrics, "rows": self._rows(), **placed(line)}
        print(json.dumps(told), flush=True)

    def _rows(self) -> tuple[int, int]:
        """Give how many rows the table has, and how many different ones."""
        table = self._spark.read.format("delta").load(self._table).select("partition", "offset")
        return table.count(), table.distinct().count()

    def end(self) -> None:
        """End Spark."""
        self._spark.stop()

    def _all_run_tasks(self) -> bool:
        known = self.executors()
        found: Any = self._spark.sparkContext._jsc.sc().statusStore().executorList(True)
        listed = [found.apply(i) for i in range(found.size())]
        return all(each.activeTasks() > 0 for each in listed if each.id() in known)

    def _scheduler(self) -> Any:
        return self._spark.sparkContext._jsc.sc().schedulerBackend()


def placed(line: dict[str, Any]) -> dict[str, Any]:
    """Ids of the executors of a plan, and the host that reads each partition to its end."""
    hosts = {e["id"]: e["host"] for e in line["snapshot"]["executors"]}
    last: dict[int, tuple[int, str]] = {}
    for task in unpack_tasks(line["plan"]["tasks"]):
        for read in task["ranges"]:
            at = (read["end"], hosts[task["executor"]])
            last[read["partition"]] = max(last.get(read["partition"], at), at)
    return {"executors": hosts, "hosts": {p: host for p, (_, host) in last.items()}}


def main() -> None:
    """Do as the module says."""
    servers, name, where = sys.argv[1:]
    folder = Path(where)
    topic = Topic(servers, name).create(len(COUNTS))
    three = workers(1, 1, 1)
    with standalone_cluster(folder / "cluster", three) as cluster:
        run = Run(cluster.url, topic, folder, 1)
        run.wait_for(3)
        run.replace_executors()
        run.read("first", EARLY)
        run.read("second")
        run.end()
        run = Run(cluster.url, topic, folder, 2)
        run.wait_for(3)
        run.read("restarted")
        cluster.stop(three[1])
        run.wait_for(2)
        run.read("lost")
        cluster.start(three[1])
        run.wait_for(3)
        run.read("back")
        cluster.start(Worker("127.0.0.5"))
        run.wait_for(4)
        run.read("added")
        run.read("died", meanwhile=lambda: cluster.kill(three[0]))
        run.wait_for(3)
        run.read("after")
        run.end()


if __name__ == "__main__":
    main()
