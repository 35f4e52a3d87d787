"""Which executor slot read how many records in a micro-batch, as Spark's UI and the progress tell.

Works for any mapping of partitions to tasks, ours or Spark's own, because it looks at what ran.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streaming.observe.query_progress import read_progress
from streaming.observe.spark_ui import SparkUi, choose_query
from streaming.observe.web import Address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from streaming.observe.figures import BatchFigures
    from streaming.observe.query_progress import BatchProgress


def ui_of(spark: SparkSession) -> SparkUi:
    """Return the UI of a session of this process."""
    return SparkUi(Address.parse(str(spark.sparkContext.uiWebUrl)))


def measure(
    spark: SparkSession, progresses: Sequence[Mapping[str, Any]]
) -> tuple[BatchFigures, ...]:
    """Join the progresses of one query, as dicts, with the tasks that read their records."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    ui = ui_of(spark)
    batches = {progress.batch: progress for progress in map(read_progress, progresses)}
    query = next(progress.query_id for progress in batches.values())
    ran = [b for b in choose_query(ui.batches(), query, ui.address) if b.batch in batches]
    run = ui.run(ran, {number: progress.rows for number, progress in batches.items()})
    return tuple(_joined(figures, batches[figures.batch]) for figures in run.batches)


def _joined(figures: BatchFigures, progress: BatchProgress) -> BatchFigures:
    source = progress.sources[0]
    lag = {str(tp): count for tp, count in sorted(source.waiting.items())}
    return replace(
        figures, seconds=progress.seconds, records=progress.rows, lag=lag, metrics=source.metrics
    )
