"""Whether a Delta table holds the batches that its query's checkpoint says it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.delta.transactions import NO_BATCH, describe_mismatch, read_log
from streaming.observe.checkpoint_files import read_checkpoint

if TYPE_CHECKING:
    from checkpoints.log_files import LoggedBatch
    from checkpoints.offset_log import Checkpoint


def same_batches(checkpoint: Checkpoint, table: str) -> tuple[bool, str]:
    """Return whether the table and the checkpoint hold the same batches, and why not.

    Raises OptionError when it is not a Delta table, or cannot be read.
    """
    if checkpoint.query_id is None:
        return True, "unknown: the checkpoint has no query id"
    log = read_log(table, checkpoint.query_id)
    planned, completed = _number(checkpoint.last_planned), _number(checkpoint.last_committed)
    if log.batch is None:
        return True, (
            "unknown: its JSON commits name no batch of the query, and older ones are in Parquet, "
            "which is not read"
        )
    if log.batch > planned:  # the query may run: what is planned by now?
        planned = _number(read_checkpoint(checkpoint.name).last_planned)
    wrong = describe_mismatch(log, checkpoint.name, planned, completed)
    return wrong is None, f"it {wrong}" if wrong else _fit(log.batch, planned, completed)


def _fit(held: int, planned: int, completed: int) -> str:
    if held < completed:
        return "it was replaced, which was accepted"
    if held == NO_BATCH:
        return "it has no batch of this query yet, and none was completed"
    return f"it holds batch {held}, the checkpoint's last is {planned}"


def _number(batch: LoggedBatch | None) -> int:
    return batch.batch_id if batch is not None else NO_BATCH
