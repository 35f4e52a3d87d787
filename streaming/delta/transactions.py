"""Read from a Delta table's log which batches its queries wrote.

A query records each batch in the same commit as its rows: a `txn` action with the writer's name as
`appId` and the batch's number as `version`. Delta skips a batch unless its number is higher. The
writer's name is the query's id, which `assignor run` prefixes. Only JSON commits are read. Delta
keeps them for 30 days by default, so older batches are unknown.
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
ACCEPTED = "assignor.acceptedRestore"
NEW_CHECKPOINT = (
    "start the query with a new checkpoint, and set startingOffsets to where the table's rows end"
)


def make_writer_name(query_id: str) -> str:
    """Return the name under which `assignor run` records a query's batches."""
    return f"{_RUN_PREFIX}{query_id}"


def parse_query_id(app_id: str) -> str | None:
    """Return the query id in a writer's name; None if the writer is not a streaming query."""
    match = _WRITER_NAME.fullmatch(app_id)
    return match[1] if match else None


@dataclass(frozen=True, slots=True)
class TableLog:
    """The information about one query in a table's log."""

    #: Number of the query's newest batch; `NO_BATCH` if it has none, None if unknown.
    batch: int | None
    #: The `RESTORE` that removed this batch; None if none did, or a later `RESTORE` undid it.
    restore: TableRestore | None = None
    #: Version of a `REPLACE TABLE` that removed all earlier rows; None if the query wrote since.
    replace_version: int | None = None
    #: Id of another streaming query that wrote to the table, if this query has written no batch.
    other_query_id: str | None = None
    #: Value of the `ACCEPTED` property: the version whose row loss a user accepts.
    accepted_version: str | None = None

    def is_row_loss_accepted(self, version: int | None) -> bool:
        """Return whether a user accepts that this version removed rows."""
        return version is not None and self.accepted_version == str(version)


def describe_mismatch(log: TableLog, checkpoint: str, planned: int, completed: int) -> str | None:
    """Return why a query must not continue with a table; None if table and checkpoint match.

    `planned` and `completed` are the checkpoint's last batches, or `NO_BATCH`. The text continues a
    sentence that starts with the table. If the table's newest batch is unknown, None is returned.
    """
    newest = log.batch
    if newest is None:
        return None
    if newest > planned:
        return (
            f"has batch {newest} of the query, but its checkpoint {checkpoint!r} ends at {planned}"
            ": the checkpoint is older than the table, and Delta would skip batches up to "
            f"{newest}; restore the newer checkpoint, or {NEW_CHECKPOINT}"
        )
    replaced = log.replace_version
    if newest < completed and not log.is_row_loss_accepted(replaced):
        batches = f"the query's batches only up to {newest}"
        batches = "no batch of the query" if newest == NO_BATCH else batches
        or_accept = f", or {_describe_acceptance(replaced)}" if replaced is not None else ""
        return (
            f"has {batches}, but the checkpoint {checkpoint!r} has completed batch "
            f"{completed}: the table was recreated, restored from a copy, or replaced by another, "
            f"so rows are missing; restore the table, or {NEW_CHECKPOINT}{or_accept}"
        )
    if log.restore is not None and not log.is_row_loss_accepted(log.restore.version):
        restored_to, version = log.restore
        target = "an earlier time" if restored_to is None else f"version {restored_to}"
        return (
            f"was restored to {target} by RESTORE (version {version}) after batch {newest}, so "
            f"rows may be missing that are not read again: RESTORE it to version {version - 1}, "
            f"{NEW_CHECKPOINT}, or {_describe_acceptance(version)}"
        )
    return None


def _describe_acceptance(version: int) -> str:
    return f"set the table property '{ACCEPTED}' = '{version}' to accept the missing rows"


def read_log(table: str | Folder, query_id: str | None) -> TableLog:
    """Read a query's batches from a table's log; `query_id` is None for a new query.

    Raises
    ------
    OptionError
        If there is no Delta table, or it cannot be read.
    """
    name = table if isinstance(table, str) else table.name
    try:
        return _read_table_log(open_folder(table) if isinstance(table, str) else table, query_id)
    except CheckpointError as error:
        raise OptionError(str(error).replace("checkpoint", "Delta table", 1)) from error
    except (OSError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        if isinstance(error, OptionError):
            raise
        reason = getattr(error, "strerror", None) or f"its log is damaged ({type(error).__name__})"
        raise OptionError(f"Delta table {name!r} cannot be read: {reason}") from error


def _read_table_log(folder: Folder, query_id: str | None) -> TableLog:
    newest_first = list_versions(folder)[::-1]
    if not newest_first:
        raise OptionError(f"{folder.name!r} is not a Delta table: it has no commits in {LOG!r}")
    restores: list[TableRestore] = []
    other_query_id: str | None = None
    properties: dict[str, str | None] | None = None  # of the newest commit that has any
    for version in newest_first:
        try:
            commit = read_commit(folder, version)
        except CommitGoneError:  # Delta removed the commit after it was listed
            return TableLog(None, other_query_id=other_query_id)
        if commit.is_restore:
            restores.append(TableRestore(commit.restored_to, version))
        if properties is None and commit.metadata is not None:
            properties = commit.metadata.configuration
        accepted = (properties or {}).get(ACCEPTED)
        for transaction in commit.transactions:
            writer_id = parse_query_id(transaction.app_id)
            if writer_id is not None and writer_id == query_id:
                restore = _find_reverting_restore(restores, version)
                return TableLog(transaction.version, restore, accepted_version=accepted)
            other_query_id = other_query_id or writer_id
        if _REPLACE in commit.info.operation and _find_reverting_restore(restores, version) is None:
            return TableLog(NO_BATCH, None, version, other_query_id, accepted)
        if query_id is None and other_query_id is not None:  # it is not in older commits
            return TableLog(NO_BATCH, other_query_id=other_query_id)
    is_complete = len(newest_first) == newest_first[0] + 1
    return TableLog(NO_BATCH if is_complete else None, other_query_id=other_query_id)


def _find_reverting_restore(restores: list[TableRestore], version: int) -> TableRestore | None:
    """Return the restore that reverted a version; None if the version is still in effect.

    `restores` is sorted newest first. A restore undoes all restores since the version it names.
    """
    max_version: float = math.inf
    for restore in restores:
        if restore.version > max_version:
            continue
        if restore.target is None or restore.target < version:
            return restore
        max_version = restore.target
    return None
