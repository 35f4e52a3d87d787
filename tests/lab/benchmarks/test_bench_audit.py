"""What it costs that each commit says which offsets and how many records it holds.

A job of `assignor run` appends JSON of about 100 bytes to a Delta table, once with what `assignor
audit` needs and once without (no ranges, no checksum of the records). Both run in one Spark in
local mode with two cores and read the same topic, in turns of a few batches each; which of the two
goes first alternates, and a turn's first batch is left out. Small batches show what a commit costs
more, large ones what a record costs more.

Whole batches (`with_s`, `without_s`: medians of the turns' medians; `apart`: their ratio pair by
pair, median and quartiles) scatter by ten times of what is looked for. `overhead` is made of what
scatters less: the time of the processors that the tasks took which read and wrote the records
(`cpu_ms`, the lower quartile of all batches, for what else takes time only adds to it; shared by
two cores), and what the driver took for the ranges (`driver_ms`, a batch), of a batch without.
"""

from __future__ import annotations

import statistics
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import pytest
from confluent_kafka import Producer

from streaming import start_job
from streaming.audit.all_checks import audit
from streaming.audit.audited_files import read_evidence
from streaming.kafka.embedded import EmbeddedBroker
from streaming.pipeline.delta.audit_trail import NO_METADATA, AuditTrail, CommitMetadata
from streaming.pipeline.spark import records
from tests.lab.benchmarks.report import write_report
from tests.support.kafka_topics import Topic
from tests.support.pipeline_tools import job
from tests.support.spark_tools import (
    get_last_stage,
    list_stages_since,
    start_spark,
    to_dict,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

CORES, PARTITIONS, TURNS, WARM_UP_TURNS = 2, 20, 11, 2
#: Records of a batch, and batches of a turn.
SIZES = {1_000: 7, 200_000: 4}
MOST_OVERHEAD = 0.02


def test_what_the_audits_figures_cost(tmp_path: Path) -> None:
    rows = []
    with EmbeddedBroker() as broker:
        spark = start_spark(
            f"local[{CORES}]", tmp_path, spark_ui_retainedStages="100000",
            spark_hadoop_fs_AbstractFileSystem_file_impl="io.assignorbridge.LocalFiles",
        )  # fmt: skip
        try:
            for size, batches in SIZES.items():
                topic = filled(broker, size * (batches + 2) * TURNS)
                ways = [
                    Way(spark, topic, tmp_path / f"{name}-{size}", size, with_audit=with_audit)
                    for name, with_audit in (("with", True), ("without", False))
                ]
                took: list[list[Turn]] = [[], []]
                for turn in range(TURNS):
                    for which in (0, 1) if turn % 2 else (1, 0):
                        turn_took = ways[which].run(batches)
                        if turn >= WARM_UP_TURNS:
                            took[which].append(turn_took)
                rows.append(row(size, *took, statistics.median(ways[0].driver_s)))
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
        assert each["overhead"] <= MOST_OVERHEAD, each


class Turn(NamedTuple):
    """One turn, in seconds: the median of its batches, and each one's time of processors."""

    batch_s: float
    cpu_s: list[float]


def row(size: int, with_audit: list[Turn], without: list[Turn], driver_s: float) -> dict[str, Any]:
    """Compare the turns, pair by pair; the quartiles show how far they scatter."""
    pairs = list(zip(with_audit, without, strict=True))
    low, apart, high = statistics.quantiles([a.batch_s / b.batch_s - 1 for a, b in pairs], n=4)
    batch_s = statistics.median(turn.batch_s for turn in without)
    cpu_s, cpu_without_s = (
        statistics.quantiles([one for turn in of for one in turn.cpu_s], n=4)[0]
        for of in (with_audit, without)
    )
    return {
        "records_a_batch": size,
        "with_s": statistics.median(turn.batch_s for turn in with_audit),
        "without_s": batch_s,
        "apart": apart,
        "apart_quartiles": f"{low:.1%} to {high:.1%}",
        "cpu_ms_with": 1000 * cpu_s,
        "cpu_ms_without": 1000 * cpu_without_s,
        "driver_ms": 1000 * driver_s,
        "overhead": (max(0.0, cpu_s - cpu_without_s) / CORES + driver_s) / batch_s,
        "turns": len(pairs),
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
        #: What the driver took for each batch.
        self.driver_s: list[float] = []

    def run(self, batches: int) -> Turn:
        """Run so many batches; all but the first count."""
        before = get_last_stage(self._spark)
        with _with_audit(self._with_audit, self.driver_s):
            running = start_job(self._spark, self._config)
            try:
                [query] = running.queries
                wait_until(lambda: len(query.recentProgress) >= batches, "batches", 300)
                progresses = [to_dict(p) for p in query.recentProgress[:batches]]
            finally:
                running.stop()
        assert {p["numInputRows"] for p in progresses} == {self._size}
        took = [p["durationMs"]["triggerExecution"] / 1000 for p in progresses[1:]]
        read = [one for one in list_stages_since(self._spark, before) if one.records == self._size]
        assert len(read) >= batches, [one.records for one in read]
        return Turn(statistics.median(took), [one.cpu_s for one in read[1:batches]])

    def proved(self) -> int:
        """Count the batches whose ranges and records the audit proves from the table alone."""
        [query] = audit(read_evidence(str(self._table), None)).queries
        return query.batches_counted


@contextmanager
def _with_audit(is_on: bool, driver_s: list[float]) -> Iterator[None]:
    """Leave out what a batch does for the audit; or do it, and note the driver's time."""
    build_metadata = AuditTrail.build_metadata

    def timed(*arguments: Any) -> CommitMetadata:
        began = time.perf_counter()
        origin = build_metadata(*arguments)
        driver_s.append(time.perf_counter() - began)
        return origin

    if is_on:
        with mock.patch.object(AuditTrail, "build_metadata", timed):
            yield
        return
    with (
        mock.patch.object(AuditTrail, "build_metadata", return_value=NO_METADATA),
        mock.patch.object(records, "build_checksum_columns", list),
    ):
        yield
