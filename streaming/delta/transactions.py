"""Read from a Delta table's log which batches its queries wrote.

A query records each batch in the same commit as its rows: a `txn` action with the writer's name as
`appId` and the batch's number as `version`. Delta skips a batch unless its number is higher. The
writer's name is the query's id, with a prefix for the sinks of `assignor run`, but not for dead
letters. Only JSON commits are read, so batches older than 30 days (by default) are unknown.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from assignor_bridge.errors import OptionError
from checkpoints.folders import CheckpointError, Folder, open_folder
from streaming.delta.delta_log import LOG, CommitGoneError, TableRestore, list_versions, read_commit

_RUN_PREFIX = "assignor-"
_WRITER_NAME = re.compile(
    rf"(?:{_RUN_PREFIX})?([0-9a-f]{{8}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{12}})"
)
#: Batch number for a query that has written no batch.
NO_BATCH = -1
#: Text in the names of all replacing operations, such as `CREATE OR REPLACE TABLE`.
_REPLACE = "REPLACE TABLE"
#: Table property: the version of a `RESTORE` or `REPLACE TABLE` whose row loss a user accepts.
ACCEPTED_RESTORE = "assignor.acceptedRestore"
NEW_CHECKPOINT = (
    "start the query with a new checkpoint, and set startingOffsets to where the sink's rows end"
)


def make_writer_name(query_id: str) -> str:
    """Return the name under which a sink's query records its batches."""
    return f"{_RUN_PREFIX}{query_id}"


def parse_query_id(app_id: str) -> str | None:
    """Return the query id in a writer's name; None if the writer is not a streaming query."""
    match = _WRITER_NAME.fullmatch(app_id)
    return match[1] if match else None


@dataclass(frozen=True, slots=True)
class TableLog:
    """The information about one query in a table's log."""

    #: Number of the query's newest batch; `NO_BATCH` if the table has none, None if unknown.
    batch: int | None
    #: The `RESTORE` that removed this batch; None if none did, or a later `RESTORE` undid it.
    restore: TableRestore | None = None
    #: Version of a `REPLACE TABLE` after which the query wrote no batch; None if there is none.
    replace_version: int | None = None
    #: ID of the last other streaming query that wrote; None if none did, or if this query did.
    other_query_id: str | None = None
    #: Value of `ACCEPTED_RESTORE` if set since the batch or `REPLACE TABLE`; otherwise None.
    accepted_version: str | None = None

    def is_row_loss_accepted(self, version: int | None) -> bool:
        """Return whether a user accepts that this version removed rows; False for None."""
        return version is not None and self.accepted_version == str(version)


def describe_mismatch(
    log: TableLog, checkpoint: str, last_planned: int, last_completed: int
) -> str | None:
    """Return why a query must not continue with a table; None if no reason is known.

    `last_planned` and `last_completed` are the checkpoint's last batches, or `NO_BATCH`. The text
    continues a sentence that starts with the table.
    """
    batch, replace_version = log.batch, log.replace_version
    if batch is None:
        return None
    if batch > last_planned:
        content = "has no batch" if last_planned == NO_BATCH else f"ends at {last_planned}"
        return (
            f"has batch {batch} of the query, but the query's checkpoint {checkpoint!r} {content}: "
            "the checkpoint is older than the table, and Delta would skip batches up to "
            f"{batch}; restore the newer checkpoint, or {NEW_CHECKPOINT}"
        )
    if batch < last_completed and not log.is_row_loss_accepted(replace_version):
        table_end = f"the query's batches only up to {batch}"
        table_end = "no batch of the query" if batch == NO_BATCH else table_end
        acceptance = (
            "" if replace_version is None else f"; or {_describe_acceptance(replace_version)}"
        )
        return (
            f"has {table_end}, but according to checkpoint {checkpoint!r}, the query has completed "
            f"batch {last_completed}: the table was recreated, restored from a copy, or replaced, "
            f"so rows are missing; restore the table, or {NEW_CHECKPOINT}{acceptance}"
        )
    if log.restore is not None and not log.is_row_loss_accepted(log.restore.version):
        target, version = log.restore
        target_text = "an earlier time" if target is None else f"version {target}"
        return (
            f"was restored to {target_text} by RESTORE (version {version}) after batch {batch}, so "
            f"rows may be missing that are not read again: RESTORE it to version {version - 1}; "
            f"{NEW_CHECKPOINT}; or {_describe_acceptance(version)}"
        )
    return None


def _describe_acceptance(version: int) -> str:
    return f"set the table property '{ACCEPTED_RESTORE}' = '{version}' to accept the missing rows"


def read_table_log(table: str | Folder, query_id: str | None) -> TableLog:
    """Find a query's newest batch in a table's log; `query_id` is None for a new query.

    Raises OptionError if there is no Delta table, or it cannot be read.
    """
    table_name = table if isinstance(table, str) else table.name
    try:
        return _read_table_log(open_folder(table) if isinstance(table, str) else table, query_id)
    except CheckpointError as error:
        raise OptionError(str(error).replace("checkpoint", "Delta table", 1)) from error
    except (OSError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        if isinstance(error, OptionError):
            raise
        reason = getattr(error, "strerror", None) or f"its log is damaged ({type(error).__name__})"
        raise OptionError(f"Delta table {table_name!r} cannot be read: {reason}") from error


def _read_table_log(folder: Folder, query_id: str | None) -> TableLog:
    versions = list_versions(folder)
    if not versions:
        raise OptionError(f"{folder.name!r} is not a Delta table: it has no commits in {LOG!r}")
    restores: list[TableRestore] = []
    other_query_id: str | None = None
    properties: dict[str, str | None] | None = None  # of the newest commit that has any
    for version in reversed(versions):
        try:
            commit = read_commit(folder, version)
        except CommitGoneError:  # Delta removed the commit after it was listed
            return TableLog(None, other_query_id=other_query_id)
        if commit.is_restore:
            restores.append(TableRestore(commit.restored_to, version))
        if properties is None and commit.metadata is not None:
            properties = commit.metadata.configuration
        accepted_version = (properties or {}).get(ACCEPTED_RESTORE)
        for transaction in commit.transactions:
            writer_query_id = parse_query_id(transaction.app_id)
            if writer_query_id is not None and writer_query_id == query_id:
                restore = _find_reverting_restore(restores, version)
                return TableLog(transaction.version, restore, accepted_version=accepted_version)
            other_query_id = other_query_id or writer_query_id
        if _REPLACE in commit.info.operation and _find_reverting_restore(restores, version) is None:
            return TableLog(NO_BATCH, None, version, other_query_id, accepted_version)
        if query_id is None and other_query_id is not None:  # a new query has no commit
            return TableLog(NO_BATCH, other_query_id=other_query_id)
    is_complete = len(versions) == versions[-1] + 1
    return TableLog(NO_BATCH if is_complete else None, other_query_id=other_query_id)


def _find_reverting_restore(restores: list[TableRestore], version: int) -> TableRestore | None:
    """Return the restore that reverted a version; None if the version is still in effect.

    `restores` is sorted newest first. A restore undoes all restores since the version it names; one
    to a time (`target` is None) is assumed to revert every version before it.
    """
    max_version: float = math.inf
    for restore in restores:
        if restore.version > max_version:
            continue
        if restore.target is None or restore.target < version:
            return restore
        max_version = restore.target
    return None
