"""Whether a Delta table holds the batches that its query's checkpoint says it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.delta.transactions import ACCEPTED, NEVER, TableLog, read_log
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
    misfit = _misfit(log, log.batch, planned, completed)
    return misfit is None, misfit or _fit(log.batch, planned, completed)


def _misfit(log: TableLog, held: int, planned: int, completed: int) -> str | None:
    if held > planned:
        return (
            f"it holds batch {held}, the checkpoint's last is {planned}, so the checkpoint was "
            f"restored from a copy: Delta will skip batches up to {held} and their rows are lost; "
            "give the query a new checkpoint whose startingOffsets are the offsets that the table "
            "holds"
        )
    if held < completed and not log.accepts(log.replaced):
        held_batch = f"batch {held}" if held > NEVER else "no batch"
        return (
            f"it holds {held_batch} of this query, but the checkpoint has completed batch "
            f"{completed}: it is another table, was re-created or restored from a copy, and rows "
            "that were read are not in it; name the query's table, or give the query a new "
            "checkpoint"
        )
    if log.restored is not None and not log.accepts(log.restored[1]):
        version = log.restored[1]
        return (
            f"it was set back by RESTORE (version {version}) after batch {held}, so rows may be "
            f"missing that are not read again: RESTORE it to version {version - 1}, give the query "
            f"a new checkpoint, or accept it by the table's property '{ACCEPTED}' = '{version}'"
        )
    return None


def _fit(held: int, planned: int, completed: int) -> str:
    if held < completed:
        return "it was replaced, which was accepted"
    if held == NEVER:
        return "it has no batch of this query yet, and none was completed"
    return f"it holds batch {held}, the checkpoint's last is {planned}"


def _number(batch: LoggedBatch | None) -> int:
    return batch.batch_id if batch is not None else NEVER
