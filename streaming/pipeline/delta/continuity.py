"""Check that a query's checkpoint, table, and sources belong together before it continues.

If one of them was restored, deleted, or renamed between two runs, the query would skip rows or
write them twice without an error. So before anything is written, the checkpoint is compared with
the table's log and with each source's current topics.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from assignor_bridge.errors import elide
from checkpoints.log_files import is_number
from checkpoints.offset_log import LastBatches, read_last_batches
from streaming.delta.transactions import NEW_CHECKPOINT, NO_BATCH, describe_mismatch, read_table_log
from streaming.observe.checkpoint_files import HadoopFolder
from streaming.pipeline.delta.sink_table import make_lost_table_error
from streaming.pipeline.job_errors import TableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from streaming.pipeline.delta.writer import DeltaWriter
    from streaming.pipeline.spark.plan_sources import PlanSource


def check_continuity(
    spark: SparkSession, sources: Sequence[PlanSource], checkpoint: str, writer: DeltaWriter | None
) -> None:
    """Raise TableError unless a query's checkpoint matches its sources and its table.

    `checkpoint` is the query's folder. `writer` has checked the table; it is None for other sinks.
    """
    last_batches = read_last_batches(HadoopFolder(checkpoint, spark))
    check_sources(sources, checkpoint, last_batches)
    if writer is None:
        return
    if writer.table_exists:
        _check_log(spark, writer, checkpoint, last_batches)
    elif last_batches.completed_batch_id is not None:
        raise make_lost_table_error(writer.table.title, checkpoint, last_batches.completed_batch_id)


def check_sources(sources: Sequence[PlanSource], checkpoint: str, batches: LastBatches) -> None:
    """Raise TableError if a source no longer reads the checkpoint's topics for its number.

    Spark assigns stored offsets to sources by number, regardless of topics. If two sources swap
    places, each gets the offsets of the other's topics. If two sources read the same topics, their
    order is not checked. A source with `failOnDataLoss: false` may drop topics.
    """
    ends_by_number = {int(n): ends for n, ends in batches.ends.items() if is_number(n)}
    numbered_topics = [(number, topic) for number, ends in ends_by_number.items() for topic in ends]
    dropped_topics, has_moved_topics = [], False
    for number, topic in sorted(numbered_topics):
        source = sources[number] if number < len(sources) else None
        if source is not None and source.reads(topic):
            continue
        if any(other.reads(topic) for other in sources):
            has_moved_topics = True
        elif source is None or (source.is_kafka and not source.accepts_data_loss):
            dropped_topics.append((topic, source))
    if dropped_topics:
        topic, source = dropped_topics[0]
        loss_remedy = "" if source is None else "set failOnDataLoss: false, "
        raise TableError(
            f"the checkpoint {checkpoint!r} has offsets of topic {topic!r}, which no source reads "
            "any more, so its unread records would be lost: add the topic to a source again, "
            f"{loss_remedy}or {NEW_CHECKPOINT}"
        )
    if has_moved_topics:
        raise TableError(_describe_source_order(checkpoint, numbered_topics))


def _describe_source_order(checkpoint: str, numbered_topics: Sequence[tuple[int, str]]) -> str:
    topics_by_number: dict[int, list[str]] = {}
    for number, topic in sorted(numbered_topics):
        topics_by_number.setdefault(number, []).append(topic)
    texts = [" and ".join(map(repr, names[:2])) for names in topics_by_number.values()]
    return (
        f"the sources of the query are not in the order of its checkpoint {checkpoint!r}: Spark "
        "distinguishes them only by their order, so topics would be read twice or skipped; put "
        f"the sources into FROM, JOIN, and UNION in this order of topics: "
        f"{elide(texts, 5, ', then ')}; or {NEW_CHECKPOINT}"
    )


def _check_log(
    spark: SparkSession, writer: DeltaWriter, checkpoint: str, batches: LastBatches
) -> None:
    title, query_id = writer.table.title, batches.query_id
    # Several upserts may merge the same records: the second merge changes nothing.
    may_be_shared = writer.sink.mode == "upsert" or writer.sink.shared
    if query_id is None and batches.completed_batch_id is None and may_be_shared:
        return
    log = read_table_log(HadoopFolder(writer.table.find_location(spark), spark), query_id)
    last_completed = NO_BATCH if batches.completed_batch_id is None else batches.completed_batch_id
    last_planned = NO_BATCH if batches.planned_batch is None else batches.planned_batch.batch_id
    if query_id is None:
        log = replace(log, batch=NO_BATCH)
    mismatch = describe_mismatch(log, checkpoint, last_planned, last_completed)
    if mismatch is not None:
        raise TableError(f"the table {title!r} {mismatch}")
    if log.batch == NO_BATCH == last_completed and log.other_query_id and not may_be_shared:
        raise TableError(
            f"the table {title!r} has rows of another query ({log.other_query_id}), and "
            f"the checkpoint {checkpoint!r} is new, so rows could be written twice: use the "
            "other query's checkpoint or a new table, or set shared: true"
        )
