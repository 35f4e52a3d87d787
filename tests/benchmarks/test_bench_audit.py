"""What it costs that each commit says which offsets and how many records it holds.

A job of `assignor run` appends JSON of about 100 bytes to a Delta table, once with what `assignor
audit` needs and once without (no ranges, no checksum of the records). Both run in one Spark in
local mode with two cores and read the same topic, in turns of a few batches each; which of the two
goes first alternates, and a turn's first batch is left out. Compared are the two medians of a turn.
Small batches show what a commit costs more, large ones what a record costs more.
"""

from __future__ import annotations

import statistics
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from confluent_kafka import Producer

from streaming import start_job
from streaming.audit.audit import audit
from streaming.audit.evidence import read_evidence
from streaming.kafka.embedded import EmbeddedBroker
from streaming.pipeline.delta.audit_trail import NOTHING, AuditTrail
from streaming.pipeline.spark import records
from tests.benchmarks.report import write_report
from tests.kafka_topics import Topic
from tests.pipeline_tools import job
from tests.spark_tools import as_dict, start_spark, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

PARTITIONS, TURNS, WARM_UP_TURNS = 20, 9, 1
#: Records of a batch, and batches of a turn.
SIZES = {1_000: 7, 200_000: 4}
MOST_OVERHEAD = 0.02


def test_what_the_audits_figures_cost(tmp_path: Path) -> None:
    rows = []
    with EmbeddedBroker() as broker:
        spark = start_spark(
            "local[2]", tmp_path,
            spark_hadoop_fs_AbstractFileSystem_file_impl="io.assignorbridge.LocalFiles",
        )  # fmt: skip
        try:
            for size, batches in SIZES.items():
                topic = filled(broker, size * (batches + 2) * TURNS)
                ways = [
                    Way(spark, topic, tmp_path / f"{name}-{size}", size, with_audit=with_audit)
                    for name, with_audit in (("with", True), ("without", False))
                ]
                took: list[list[float]] = [[], []]
                for turn in range(TURNS):
                    for which in (0, 1) if turn % 2 else (1, 0):
                        seconds = ways[which].run(batches)
                        if turn >= WARM_UP_TURNS:
                            took[which].append(seconds)
                rows.append(row(size, *took))
                assert ways[0].proved() >= batches * TURNS
                assert ways[1].proved() == 0
        finally:
            spark.stop()
    for each in rows:
        print(each)
    write_report(
        "audit",
        title="What the figures for `assignor audit` cost",
        command="make bench",
        rows=rows,
        notes=__doc__ or "",
    )
    for each in rows:
        assert each["overhead_median"] <= MOST_OVERHEAD, each


def row(size: int, with_audit: list[float], without: list[float]) -> dict[str, Any]:
    """Compare the turns, pair by pair; the quartiles show how far they scatter."""
    ratios = [one / other - 1 for one, other in zip(with_audit, without, strict=True)]
    low, median, high = statistics.quantiles(ratios, n=4)
    return {
        "records_a_batch": size,
        "with_s_median": statistics.median(with_audit),
        "without_s_median": statistics.median(without),
        "overhead_median": median,
        "overhead_quartile_low": low,
        "overhead_quartile_high": high,
        "overhead_of_sums": sum(with_audit) / sum(without) - 1,
        "turns": len(ratios),
    }


def filled(broker: EmbeddedBroker, count: int) -> Topic:
    """Write all records that one size needs; a query may begin more batches than are counted."""
    topic = Topic(broker.bootstrap_servers, f"bench-{uuid.uuid4().hex[:6]}").create(PARTITIONS)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50,
         "queue.buffering.max.messages": 1_000_000}
    )  # fmt: skip
    name = "x" * 60
    for n in range(count):
        text = f'{{"id": {n}, "seq": {n * 7}, "name": "{name}"}}'
        producer.produce(topic.name, text.encode(), partition=n % PARTITIONS)
        if n % 100_000 == 0:
            producer.flush(120)
    assert producer.flush(120) == 0
    return topic


class Way:
    """A job with its own table and checkpoint, that goes on turn after turn."""

    def __init__(
        self, spark: SparkSession, topic: Topic, folder: Path, size: int, *, with_audit: bool
    ) -> None:
        self._spark = spark
        self._table = folder / "table"
        self._with_audit = with_audit
        self._config = job(topic, folder) | {"trigger": "processingTime 0 seconds"}
        self._config["source"]["maxOffsetsPerTrigger"] = size
        self._size = size

    def run(self, batches: int) -> float:
        """Run so many batches, and give the median seconds of all but the first."""
        with _with_audit(self._with_audit):
            running = start_job(self._spark, self._config)
            try:
                [query] = running.queries
                wait_until(lambda: len(query.recentProgress) >= batches, "batches", 300)
                progresses = [as_dict(p) for p in query.recentProgress[:batches]]
            finally:
                running.stop()
        assert {p["numInputRows"] for p in progresses} == {self._size}
        took = [p["durationMs"]["triggerExecution"] / 1000 for p in progresses[1:]]
        return statistics.median(took)

    def proved(self) -> int:
        """Count the batches whose ranges and records the audit proves from the table alone."""
        [query] = audit(read_evidence(str(self._table), None)).queries
        return query.counted


@contextmanager
def _with_audit(is_on: bool) -> Iterator[None]:
    """Leave out what a batch does for the audit, or not."""
    if is_on:
        yield
        return
    with (
        mock.patch.object(AuditTrail, "of_batch", return_value=NOTHING),
        mock.patch.object(records, "checksum_columns", list),
    ):
        yield
