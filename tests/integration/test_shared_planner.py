"""One planner process for all streams of a driver: what fails for one is no other one's failure."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from tests.support import own_assignor, planner_proxy
from tests.support.java_program import compile_programs, run_java
from tests.support.kafka_topics import Topic
from tests.support.packed import unpack_tasks
from tests.support.processes import find_planners, has_ended
from tests.support.spark_tools import (
    assert_planned,
    read_topic,
    run_in_batches,
    to_dict,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.integration

STREAMS = 3


class Streams:
    """Queries over a topic each, all running."""

    def __init__(self, spark: SparkSession, topic: Topic, checkpoint: str, **options: str) -> None:
        self.topics = [Topic(topic.bootstrap_servers, f"{topic.name}-{i}") for i in range(STREAMS)]
        self._written = 0
        for each in self.topics:
            each.create(2)
        self.queries = [
            read_topic(spark, each, {"assignor": "lag-aware-sticky"} | options)
            .writeStream.format("noop")
            .option("checkpointLocation", f"{checkpoint}-{each.name}")
            .trigger(processingTime="100 milliseconds")
            .start()
            for each in self.topics
        ]

    def read(self, queries: list[StreamingQuery] | None = None) -> None:
        """Give each stream something to read; wait until these, or all, have read it."""
        for each in self.topics:
            each.fill([10, 10], first=self._written)
        self._written += 10
        for query in queries or self.queries:
            query.processAllAvailable()

    def progresses(self, number: int) -> list[dict[str, Any]]:
        """Give those of a query that read something."""
        return [p for p in map(to_dict, self.queries[number].recentProgress) if p["numInputRows"]]

    def fallbacks(self) -> list[str]:
        """Give the number of batches that fell back, of each query."""
        last = [self.progresses(number)[-1] for number in range(STREAMS)]
        return [p["sources"][0]["metrics"]["assignor.fallbacks"] for p in last]


@contextlib.contextmanager
def running(
    spark: SparkSession, topic: Topic, checkpoint: str, **options: str
) -> Iterator[Streams]:
    """Run the streams, and stop them."""
    streams = Streams(spark, topic, checkpoint, **options)
    try:
        yield streams
    finally:
        for query in streams.queries:
            query.stop()


def served(record: Path) -> dict[int, set[str]]:
    """Give the numbers of the streams that each process has planned for."""
    found: dict[int, set[str]] = {}
    for entry in planner_proxy.read_entries(record):
        if entry.get("request", {}).get("type") == "plan":
            found.setdefault(entry["pid"], set()).add(entry["stream"])
    return found


def test_one_process_serves_all_and_its_end_costs_no_plan(
    spark: SparkSession, topic: Topic, checkpoint: str, planner: Callable[[str], None], record: Path
) -> None:
    planner("record")
    with running(spark, topic, checkpoint) as streams:
        streams.read()
        [(first, numbers)] = served(record).items()
        assert len(numbers) == STREAMS
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: has_ended(first), "the end of the planner")
        streams.read()
        assert len(served(record)) == 2
        [second] = served(record).keys() - {first}
        assert served(record)[second] == numbers
        for number in range(STREAMS):
            assert_planned(streams.progresses(number))

        streams.queries[0].stop()
        assert not planner_proxy.read_requests(record, "end")
        streams.read(streams.queries[1:])
        [end] = [
            entry["stream"]
            for entry in planner_proxy.read_entries(record)
            if entry.get("request", {}).get("type") == "end"
        ]
        assert end in numbers
        assert not has_ended(second)
    wait_until(lambda: has_ended(second), "the end of the planner with the last stream")


@pytest.mark.falls_back
@pytest.mark.parametrize("mode", [pytest.param("die", marks=pytest.mark.long), "late"])
def test_a_plan_that_fails_is_the_failure_of_one_stream(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    planner: Callable[[str], None],
    mode: str,
) -> None:
    """The others wait for the process that comes in place of it."""
    planner(mode)
    with running(spark, topic, checkpoint, **{"assignor.planTimeoutMs": "2000"}) as streams:
        streams.read()
        streams.read()
        assert sorted(streams.fallbacks()) == ["0"] * (STREAMS - 1) + ["1"]
        for number in range(STREAMS):
            last = streams.progresses(number)[-1]["sources"][0]["metrics"]
            assert last["assignor.strategy"] == "lag-aware-sticky"


def test_an_assignor_of_the_users_own_has_a_process_to_itself(
    spark: SparkSession, topic: Topic, checkpoint: str, planner: Callable[[str], None], record: Path
) -> None:
    planner("record")
    own = {"assignor": f"{own_assignor.__name__}:LastTakesAll,sticky"}
    with running(spark, topic, checkpoint, **own) as streams:
        streams.read()
        assert [len(numbers) for numbers in served(record).values()] == [1] * STREAMS


PLANNER = """#!{python}
import os, sys, time
sys.path.insert(0, {root!r})
from assignor_bridge.worker import Worker
from assignor_bridge.protocol.messages import Restored, decode_request, encode_answer
worker = Worker()
for line in sys.stdin.buffer:
    number, _, request = line.split(b" ", 2)
    answer = worker.answer(request)
    if isinstance(answer, Restored):
        time.sleep(int(decode_request(request).state) / 1000)
        answer = Restored(str(os.getpid()))
    sys.stdout.buffer.write(number + b" " + encode_answer(answer))
    sys.stdout.buffer.flush()
"""


@pytest.mark.long
def test_streams_that_are_stopped_hang_and_wait(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    planner = tmp_path / "planner"
    planner.write_text(PLANNER.format(python=sys.executable, root=str(root)))
    planner.chmod(0o755)
    class_path = compile_programs(tmp_path, "SharedPlannerChecks")
    done = run_java(class_path, "worker.SharedPlannerChecks", str(planner))
    checks = done.stdout.splitlines()
    assert len(checks) == 10
    assert [check for check in checks if not check.startswith("ok ")] == []


def test_queries_that_share_the_slots_begin_at_different_executors(
    spark: SparkSession, topic: Topic, checkpoint: str, planner: Callable[[str], None], record: Path
) -> None:
    """Two executors with a slot each: every other query has the first one."""
    planner("record")
    with running(spark, topic, checkpoint, **{"assignor.slots": "50%"}) as streams:
        streams.read()
        streams.read()
        for number in range(STREAMS):
            assert_planned(streams.progresses(number))
            for progress in streams.progresses(number):
                metrics = progress["sources"][0]["metrics"]
                assert (metrics["assignor.slots"], metrics["assignor.tasks"]) == ("1", "1")
    used: dict[int, set[str]] = {}
    for asked, answered in pairwise(planner_proxy.read_entries(record)):
        if asked.get("request", {}).get("type") == "plan":
            [task] = unpack_tasks(answered["answer"]["tasks"])
            used.setdefault(int(asked["stream"]), set()).add(task["executor"])
    first, second, third = (used[stream] for stream in sorted(used))
    assert first == third != second
    assert len(first | second) == 2


@pytest.mark.long
def test_a_query_that_fails_before_it_has_all_its_sources_leaves_no_planner_for_ever(
    spark: SparkSession, topic: Topic, checkpoint: str
) -> None:
    """Spark stops no source of such a query; each had a process of its own that never ended."""
    own = {"assignor": f"{own_assignor.__name__}:LastTakesAll,sticky"}
    wrong = {"assignor": "sticky", "assignor.maxImbalance": "x"}
    topic.create(1).fill([5])
    before = set(find_planners(os.getpid()))
    for number in range(3):
        query = (
            read_topic(spark, topic, own)
            .union(read_topic(spark, topic, wrong))
            .writeStream.format("noop")
            .option("checkpointLocation", f"{checkpoint}-{number}")
            .start()
        )
        with pytest.raises(StreamingQueryException, match="maxImbalance"):
            query.awaitTermination()
        assert len(set(find_planners(os.getpid())) - before) <= 2, "of the last one and this one"
    run_in_batches(spark, topic, checkpoint, assignor=own["assignor"])
    wait_until(lambda: not set(find_planners(os.getpid())) - before, "the end of all planners")
