"""Check that a query can continue: its checkpoint, its table, and its sources belong together.

What was set back, deleted or renamed between two runs makes a query skip rows or write them twice,
and nothing of it shows. So before anything is written the checkpoint is compared with the table's
log, which has each batch in the same commit as its rows, and with the topics of each source now.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from assignor_bridge.errors import elide
from checkpoints.log_files import is_number
from checkpoints.offset_log import LastBatches, read_last_batches
from streaming.delta.transactions import NEVER, NEW_CHECKPOINT, describe_mismatch, read_log
from streaming.observe.checkpoint_files import HadoopFolder
from streaming.pipeline.delta.table import missing_table
from streaming.pipeline.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from streaming.pipeline.delta.writer import DeltaWriter
    from streaming.pipeline.spark.plan_sources import PlanSource


def check_continuity(
    spark: SparkSession,
    sources: Sequence[PlanSource],
    checkpoint: str,
    delta: DeltaWriter | None,
) -> None:
    """Raise TableError unless a query continues with its own sources and table, at one batch.

    `sources` are those of the query's plan, and `checkpoint` is the query's own; `delta` has
    checked the table, None is another sink.
    """
    standing = read_last_batches(HadoopFolder(checkpoint, spark))
    check_sources_kept(sources, checkpoint, standing)
    if delta is None:
        return
    if delta.table_exists:
        _check_table(spark, delta, checkpoint, standing)
    elif standing.completed is not None:
        raise missing_table(delta.table.where, checkpoint, standing.completed)


def check_sources_kept(
    sources: Sequence[PlanSource], checkpoint: str, standing: LastBatches
) -> None:
    """Check that each topic of the checkpoint is still read by the source of the same number.

    Spark gives a source the offsets of its number, whatever topics they are of. If two sources
    change places, each gets the offsets of the other's topics. The order of two sources that read
    the same topics is not checked.
    """
    topics = [(int(n), topic) for n, of in standing.ends.items() if is_number(n) for topic in of]
    left_out, is_moved = [], False
    for number, topic in sorted(topics):
        source = sources[number] if number < len(sources) else None
        if source is not None and source.reads(topic):
            continue
        if any(other.reads(topic) for other in sources):
            is_moved = True
        elif source is None or (source.is_kafka and not source.accepts_data_loss):
            left_out.append(topic)
    if left_out:
        raise TableError(
            f"the checkpoint {checkpoint!r} has read topic {left_out[0]!r}, which no source reads "
            "any more: what it had not read would be lost; read it still, set failOnDataLoss: "
            f"false, or {NEW_CHECKPOINT}"
        )
    if is_moved:
        raise TableError(_in_another_order(checkpoint, topics))


def _in_another_order(checkpoint: str, topics: Sequence[tuple[int, str]]) -> str:
    by_number: dict[int, list[str]] = {}
    for number, topic in sorted(topics):
        by_number.setdefault(number, []).append(topic)
    wanted = elide([" and ".join(map(repr, of[:2])) for of in by_number.values()], 5, ", then ")
    return (
        f"the sources of the query are not in the order of its checkpoint {checkpoint!r}: Spark "
        "distinguishes them by their order alone, so topics would be read again or left out; name "
        f"the sources in FROM, JOIN, and UNION in the order of their topics: {wanted}, or "
        f"{NEW_CHECKPOINT}"
    )


def _check_table(
    spark: SparkSession, delta: DeltaWriter, checkpoint: str, standing: LastBatches
) -> None:
    where = delta.table.where
    # A merge of the same records again changes nothing.
    may_be_shared = delta.sink.mode == "upsert" or delta.sink.shared
    if standing.query_id is None and standing.completed is None and may_be_shared:
        return
    log = read_log(HadoopFolder(delta.table.location(spark), spark), standing.query_id)
    completed = NEVER if standing.completed is None else standing.completed
    planned = NEVER if standing.planned is None else standing.planned.batch_id
    if standing.query_id is None:
        log = replace(log, batch=NEVER)
    wrong = describe_mismatch(log, checkpoint, planned, completed)
    if wrong is not None:
        raise TableError(f"the table {where!r} {wrong}")
    if log.batch == NEVER == completed and log.other and not may_be_shared:
        raise TableError(
            f"the table {where!r} has rows of another query ({log.other}), and the "
            f"checkpoint {checkpoint!r} is new, so rows could stand in it twice: use the "
            "checkpoint that wrote them or a new table, or set shared: true"
        )
