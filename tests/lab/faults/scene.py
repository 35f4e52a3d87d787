"""One query from Kafka to Delta with a group, records that come all the while, and the checks."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException

from checkpoints.folders import LocalFolder
from checkpoints.offset_log import read_last_batches
from tests.lab.faults.group import Group
from tests.support.kafka_topics import Topic
from tests.support.processes import find_planners, find_processes
from tests.support.spark_tools import read_topic, to_dict, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from tests.lab.faults.feed import Era

_CATCH_UP_S = 240
#: One of so many last batches moves no partition, when the fault is over.
_SETTLED = 3


class Scene:
    """What a fault is made in: the query runs, and is looked at when the fault is over.

    With `ours` false it is Spark's own source that reads.
    """

    def __init__(
        self, spark: SparkSession, topic: Topic, direct: str, folder: Path, seed: int,
        options: Mapping[str, str], *, ours: bool = True,
    ) -> None:  # fmt: skip
        self.rng = random.Random(seed)
        self.topic = topic
        #: The brokers' own address, where the query's leads through a proxy.
        self.direct = Topic(direct, topic.name)
        self._is_ours, self.name = ours, "ours" if ours else "sparks"
        self.checkpoint = str(folder / "checkpoint" / self.name)
        self.group = Group(self.direct, Path(self.checkpoint))
        self.table = str(folder / "table" / self.name)
        self.spark = spark
        self.options = {
            # Else a request to a broker that is silent is waited for longer than the fault takes.
            "kafka.request.timeout.ms": "10000", "kafka.default.api.timeout.ms": "60000",
            **options,
        }  # fmt: skip
        if ours:
            chosen = {"assignor": "lag-aware-sticky", "assignor.commitGroup": self.group.name}
            self.options = chosen | self.options
        self._query: StreamingQuery | None = None
        #: Batches that Spark's own mapping has read, of the runs before this one.
        self._fallbacks = 0

    @property
    def query(self) -> StreamingQuery:
        """The query while it runs; its failure is raised."""
        assert self._query is not None
        if not self._query.isActive:
            self._query.awaitTermination(1)
        assert self._query.isActive
        return self._query

    @property
    def is_active(self) -> bool:
        """Whether it runs."""
        return self._query is not None and self._query.isActive

    def failure(self, limit_s: float = 180) -> StreamingQueryException:
        """Wait until the query fails."""
        assert self._query is not None
        try:
            self._query.awaitTermination(int(limit_s))
        except StreamingQueryException as error:
            return error
        raise AssertionError("the query did not fail")

    @property
    def jvm(self) -> Any:
        """The driver's."""
        return self.spark._jvm

    def setting(self, name: str) -> str:
        """Return a setting of the session."""
        return str(self.spark.conf.get(name))

    def start(self) -> None:
        """Start the query, or go on with it."""
        self._fallbacks += self._fallbacks_of_this_run()
        self._query = (
            read_topic(self.spark, self.topic, self.options)
            .selectExpr(
                "partition", "offset", "trim(CAST(value AS STRING)) AS value",
                "length(value) AS size",
            )
            .writeStream.format("delta")
            .option("checkpointLocation", self.checkpoint)
            .trigger(processingTime="0 seconds")
            .start(self.table)
        )  # fmt: skip

    def stop(self) -> None:
        """Stop the query."""
        if self._query is not None:
            self._query.stop()

    def batches(self) -> int:
        """How many batches are complete, empty ones too."""
        progress = self.query.lastProgress
        return -1 if progress is None else int(progress["batchId"])

    def wait_for_batches(self, count: int = 2, limit_s: float = 120) -> None:
        """Wait until so many more batches are complete; the group is never ahead meanwhile."""
        wanted = self.batches() + count

        def complete() -> bool:
            if self._is_ours:
                self.group.glance()
            return self.batches() >= wanted

        wait_until(complete, f"batch {wanted}", limit_s)

    def executors(self) -> list[int]:
        """Process ids of the executors."""
        return find_processes(os.getpid(), "CoarseGrainedExecutorBackend")

    def planners(self) -> list[int]:
        """Process ids of the planner processes."""
        return find_planners(os.getpid())

    def driver(self) -> int:
        """Process id of the driver's JVM; what it forks has its command line for a moment."""
        return int(self.jvm.java.lang.ProcessHandle.current().pid())

    @contextlib.contextmanager
    def paused(self, pid: int) -> Iterator[None]:
        """Stop a process as SIGSTOP does, within."""
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):  # somebody has killed it
                os.kill(pid, signal.SIGCONT)

    def await_a_batch(self) -> None:
        """Wait until a batch has begun and not ended."""
        wait_until(self.is_in_a_batch, "a batch that has begun and not ended")

    def is_in_a_batch(self) -> bool:
        """Whether a batch is in Spark's log of offsets and not yet in that of commits."""
        planned = read_last_batches(LocalFolder(Path(self.checkpoint))).planned_batch
        return planned is not None and not planned.committed

    def ends(self) -> dict[int, int]:
        """Where the last batch ended, by partition; nothing before the first."""
        assert self._query is not None
        progress = self._query.lastProgress
        if progress is None:
            return {}
        end = to_dict(progress)["sources"][0]["endOffset"] or {}
        return {int(p): offset for p, offset in end.get(self.topic.name, {}).items()}

    def stands_at(self, ends: Mapping[int, int]) -> bool:
        """Whether the last batch ended there."""
        now = self.ends()
        return all(now.get(p) == end for p, end in ends.items())

    def catch_up(self, counts: Mapping[int, int]) -> None:
        """Let the query read what there is, up to these offsets, or fail."""
        expected = {p: count for p, count in counts.items() if count}

        def caught_up() -> bool:
            assert self.query  # its failure is raised
            now = self.ends()
            return all(now.get(p, 0) >= count for p, count in expected.items())

        wait_until(caught_up, f"{sum(expected.values())} records", _CATCH_UP_S)

    def check_table(
        self,
        eras: Sequence[Era],
        gone: Mapping[tuple[int, int], set[int]],
        values: Mapping[int, list[str]],
        padding: int = 0,
    ) -> tuple[int, int]:
        """Compare the table with what was written; the numbers of rows and of those lost.

        Rows of the offsets `gone`, by era and partition, may be missing, none may be there twice.
        `values` are those of partitions that the feed leaves alone, `padding` that of the others.
        """
        rows = self.spark.read.format("delta").load(self.table)
        found: dict[tuple[int, int], list[int]] = defaultdict(list)
        others: dict[int, list[str]] = defaultdict(list)
        for row in rows.select("partition", "offset", "value", "size").collect():
            if row.partition in values:
                others[row.partition].append(row.value)
                continue
            at, _, era = row.value.rpartition("/")
            assert at == f"{row.partition}/{row.offset}", row
            assert row.size == len(row.value) + padding, row
            found[int(era), row.partition].append(row.offset)
        assert {p: sorted(of) for p, of in others.items()} == {
            p: sorted(of) for p, of in values.items()
        }
        lost = 0
        for number, era in enumerate(eras):
            for partition in era.counts:
                offsets, written = found[number, partition], era.offsets(partition)
                who = f"era {number}, partition {partition}"
                assert len(set(offsets)) == len(offsets), f"{who}: rows came twice"
                assert not set(offsets) - written, f"{who}: rows of nobody"
                missing = written - set(offsets)
                left = sorted(missing - gone.get((number, partition), set()))
                assert not left, f"{who} lacks {left[:5]}"
                lost += len(missing)
        return sum(map(len, [*found.values(), *others.values()])), lost

    def check_plans(
        self, fallbacks: tuple[int, int], metrics: AbstractSet[str], before: Mapping[str, str]
    ) -> int:
        """See that the last batches were planned by us; how many were not, from .. to.

        They are planned as the one before the fault: for as many slots, by a planner that
        remembers, for executors that are there, and partitions stay.
        """
        plans = self._plans()
        last, settled = plans[-1], plans[-_SETTLED:]
        assert last["assignor.strategy"] == "lag-aware-sticky", last
        assert metrics <= last.keys(), last
        assert last["assignor.slots"] == before["assignor.slots"], f"{before} before: {last}"
        assert "assignor.stateWarning" not in last, last
        generations = [int(plan["assignor.generation"]) for plan in (before, last)]
        assert generations[1] >= generations[0], f"{before} before: {last}"
        moved = [plan.get("assignor.movedPartitions") for plan in settled]
        assert "0" in moved, f"partitions that moved in the last batches: {moved}"
        hits = [plan.get("assignor.localityHitRate") for plan in settled]
        assert "1.0000" in hits, f"tasks that ran where they were planned for: {hits}"
        count = self._fallbacks + self._fallbacks_of_this_run()
        assert fallbacks[0] <= count <= fallbacks[1], last
        return count

    def last_plan(self) -> dict[str, str]:
        """Return the metrics of the last batch with records."""
        return self._plans()[-1]

    def held_back(self) -> int:
        """How many records the batches of this run left for later ones, in all."""
        return sum(int(float(plan.get("assignor.heldBackRecords", 0))) for plan in self._plans())

    def _plans(self) -> list[dict[str, str]]:
        """Return the metrics of the batches with records, of this run."""
        planned = [to_dict(p) for p in self.query.recentProgress]
        with_rows = [p["sources"][0]["metrics"] for p in planned if p["numInputRows"]]
        assert with_rows, "no batch with rows"
        return with_rows

    def _fallbacks_of_this_run(self) -> int:
        """Batches that Spark's own mapping has read since the query was started."""
        progress = self._query.recentProgress if self._query is not None else []
        metrics = [to_dict(p)["sources"][0].get("metrics", {}) for p in progress]
        return max((int(each.get("assignor.fallbacks", 0)) for each in metrics), default=0)

    def threads(self) -> dict[int, str]:
        """Return the threads of assignor-bridge in the driver: name, state, and innermost calls."""
        stacks = self.jvm.java.lang.Thread.getAllStackTraces()
        return {
            int(thread.getId()): f"{thread.getName()} ({thread.getState()}): "
            f"{list(map(str, stacks[thread]))[:8]}"
            for thread in stacks.keySet()
            if thread.getName().startswith("assignor-")
        }
