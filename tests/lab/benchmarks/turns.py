"""Ways to read the same records, side by side: one whole batch each, round after round.

Each way has a topic of its own. First there are rounds that warm up and do not count; the order
changes from round to round, so that no way always follows a heavy one.
"""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from tests.lab.benchmarks.reader_runs import Reader
from tests.lab.benchmarks.tuned_spark import SHORT_WAIT
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import start_spark, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
#: Below 1 a benchmark tries whether it runs, and writes nothing.
SCALE = float(os.environ.get("ASSIGNOR_BENCH_SCALE", "1"))
OURS = {"assignor": "lag-aware-sticky", "assignor.onError": "fail"}
#: Of Spark's own source; its default waits half a second for each partition that has no more.
NO_WAIT = dict(SHORT_WAIT)


@dataclass(frozen=True)
class Work:
    """What each batch of a workload reads, and what the query makes of it."""

    partitions: int
    records: int
    write: Callable[[Topic], None]
    shape: Callable[[DataFrame], DataFrame]
    config: Mapping[str, str] | None = None

    @classmethod
    def of(cls, counts: Sequence[int], column: str = "offset") -> Work:
        """So many small records in each partition, and one column of each."""
        return cls(
            len(counts),
            sum(counts),
            lambda topic: topic.fill(counts),
            lambda frame: frame.selectExpr(column),
        )


def cluster(folder: Path, executors: int, slots: int = 1, **settings: str) -> SparkSession:
    """Start Spark with executors that are all there, and a consumer cache for all partitions."""
    usual = {"spark_kafka_consumer_cache_capacity": "4000", "spark_locality_wait": "3s"}
    master = f"local-cluster[{executors},{slots},1024]"
    session = start_spark(master, folder, **(usual | settings))
    known = session.sparkContext._jsc.sc()
    wait_until(lambda: known.getExecutorMemoryStatus().size() > executors, "all executors", 180)
    return session


def in_turn(ways: Sequence[T], number: int) -> list[T]:
    """Return the ways in the order of a round.

    In as many rounds as there are ways, each is once at each place and once right after each other
    (a Williams square); where the number of ways is odd, in twice as many twice.
    """
    count = len(ways)
    places = [(step + 1) // 2 * (1 if step % 2 else -1) for step in range(count)]
    order = [ways[(place + number) % count] for place in places]
    return order[::-1] if count % 2 and number // count % 2 else order


def take_turns(
    spark: SparkSession, servers: str, work: Work, ways: Mapping[str, Mapping[str, str]],
    rounds: int, warm_up: int = 2,
) -> dict[str, list[float]]:  # fmt: skip
    """Return the seconds of each way's batches; with the option, each must have a plan of ours."""
    readers: list[Reader] = []
    try:
        for way, options in ways.items():
            topic = Topic(servers, f"turns-{uuid4().hex[:8]}")
            topic.create(work.partitions, dict(work.config or {}))
            readers.append(Reader.start(spark, way, topic, work, options, shape=work.shape))
        for number in range(warm_up + rounds):
            for reader in in_turn(readers, number):
                reader.round(measured=number >= warm_up)
    finally:
        for reader in readers:
            reader.stop()
    return {reader.name: reader.seconds for reader in readers}


def find_best_of_spark(seconds: Mapping[str, list[float]]) -> str:
    """Return the configuration of Spark's own source with the lowest median."""
    names = [name for name in seconds if name.lower().startswith("spark")]
    return min(names, key=lambda name: statistics.median(seconds[name]))


def compare_by_rounds(batches: Sequence[float], others: Sequence[float]) -> tuple[float, str]:
    """Return the median of the rounds' ratios, and its 95% interval as text."""
    ratios = sorted(a / b for a, b in zip(batches, others, strict=True))
    low, high = find_median_interval(len(ratios))
    return statistics.median(ratios), f"{ratios[low]:.2f} to {ratios[high]:.2f}"


def find_median_interval(count: int) -> tuple[int, int]:
    """Return the indices, in sorted values, of the narrowest 95% interval of their median."""
    low, outside = 0, 2 * 0.5**count
    while low + 1 < count // 2 and outside + 2 * comb(count, low + 1) * 0.5**count <= 0.05:
        low += 1
        outside += 2 * comb(count, low) * 0.5**count
    return low, count - 1 - low


def rows_of(
    workload: str, work: Work, seconds: Mapping[str, list[float]], ours: str
) -> list[dict[str, Any]]:
    """Return a row for each way: seconds a batch, spread, and how many times ours, by rounds."""
    return [
        {
            "workload": workload,
            "way": way,
            "batch_s_median": statistics.median(batch),
            "batch_s_min": min(batch),
            "batch_s_max": max(batch),
            "records_a_second": round(work.records / statistics.median(batch)),
            "times_ours": statistics.median(
                a / b for a, b in zip(batch, seconds[ours], strict=True)
            ),
            "rounds": len(batch),
        }
        for way, batch in seconds.items()
    ]
