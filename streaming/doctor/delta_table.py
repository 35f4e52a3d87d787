"""Check that the batches in a Delta table match those in its query's checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.delta.transactions import NO_BATCH, describe_mismatch, read_table_log
from streaming.observe.checkpoint_files import read_checkpoint

if TYPE_CHECKING:
    from checkpoints.log_files import LoggedBatch
    from checkpoints.offset_log import Checkpoint


def match_batches(checkpoint: Checkpoint, table: str) -> tuple[bool, str]:
    """Return whether table and checkpoint match (True if unknown), and a text that explains it.

    Raises OptionError if `table` is not a Delta table or cannot be read.
    """
    if checkpoint.query_id is None:
        return True, "unknown: the checkpoint has no query ID"
    log = read_table_log(table, checkpoint.query_id)
    last_planned = _get_batch_id(checkpoint.last_planned)
    last_committed = _get_batch_id(checkpoint.last_committed)
    if log.batch is None:
        return True, (
            "unknown: the table's JSON commits have no batch of the query, and older commits are "
            "in Parquet checkpoints, which are not read"
        )
    if log.batch > last_planned:  # a running query may have planned this batch meanwhile
        last_planned = _get_batch_id(read_checkpoint(checkpoint.name).last_planned)
    if fault := describe_mismatch(log, checkpoint.name, last_planned, last_committed):
        return False, f"it {fault}"
    return True, _describe_batches(log.batch, last_planned, last_committed)


def _describe_batches(table_batch: int, last_planned: int, last_committed: int) -> str:
    if table_batch < last_committed:
        return "it was replaced, and the replacement was accepted"
    if table_batch == NO_BATCH:
        return "it has no batch of this query yet, and the query has not completed any"
    return f"last batch: {table_batch} in the table, {last_planned} in the checkpoint"


def _get_batch_id(batch: LoggedBatch | None) -> int:
    return batch.batch_id if batch is not None else NO_BATCH
