"""What a Delta table's log knows of the queries that write it, read from its JSON commits.

A query notes each batch in the same commit as its rows: a `txn` action with the writer's name as
`appId` and the batch's number as `version`; Delta skips a batch of that number or a lower one. The
name is the query's id for Delta's own streaming sink, with a prefix for the tables of `assignor
run`. Only JSON is read, which Delta keeps for 30 days by default: what an older Parquet checkpoint
holds is unknown.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from assignor_bridge.errors import OptionError
from checkpoints.folders import CheckpointError, Folder, open_folder
from streaming.delta.log import LOG, CommitGoneError, Restore, read_commit, versions

_RUN_PREFIX = "assignor-"
_STREAMING = re.compile(
    rf"(?:{_RUN_PREFIX})?([0-9a-f]{{8}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{12}})"
)
#: The table holds no batch of the query.
NEVER = -1
#: In each of Delta's words for it: `CREATE OR REPLACE TABLE`, `REPLACE TABLE AS SELECT`, ….
_REPLACE = "REPLACE TABLE"
#: Set to the version of a `RESTORE` or `REPLACE TABLE` by who goes on with the table as it is.
ACCEPTED = "assignor.acceptedRestore"
NEW_CHECKPOINT = (
    "give the query a new checkpoint, with startingOffsets exactly where the rows of the table end"
)


def writer_name(query_id: str) -> str:
    """Return the name under which `assignor run` notes a query's batches."""
    return f"{_RUN_PREFIX}{query_id}"


def query_of(app_id: str) -> str | None:
    """Return the id of the query that notes its batches under a name; None for another writer."""
    writer = _STREAMING.fullmatch(app_id)
    return writer[1] if writer else None


@dataclass(frozen=True, slots=True)
class TableLog:
    """What a table's log knows of one query."""

    #: The newest batch of the query; `NEVER` for none, None when that is unknown.
    batch: int | None
    #: The `RESTORE` that took that batch away; None when none did, or a later one undid it.
    restored: Restore | None = None
    #: Where there is no batch of the query: the version of the `REPLACE TABLE` that its log begins
    #: with, as what was before is not in the table; None for none.
    replaced: int | None = None
    #: Where there is no batch of the query: the id of another streaming query that wrote.
    other: str | None = None
    #: The version up to which somebody wants to go on with the table as it was left; as text.
    accepted: str | None = None

    def accepts(self, version: int | None) -> bool:
        """Whether somebody wants to go on with the table as that version left it."""
        return version is not None and self.accepted == str(version)


def describe_mismatch(log: TableLog, checkpoint: str, planned: int, completed: int) -> str | None:
    """Return why a query must not continue with a table; None if table and checkpoint fit.

    `planned` and `completed` are the last batches of the checkpoint, `NEVER` for none. The text is
    the rest of a sentence that begins with the table. A table whose batch is unknown fits.
    """
    held = log.batch
    if held is None:
        return None
    if held > planned:
        return (
            f"holds batch {held} of the query, its checkpoint {checkpoint!r} ends at {planned}: it "
            f"was set back, and Delta would skip batches up to {held}; put the newer checkpoint "
            f"back, or {NEW_CHECKPOINT}"
        )
    if held < completed and not log.accepts(log.replaced):
        holds = "no batch" if held == NEVER else f"only batch {held}"
        or_accept = f", or {_accept(log.replaced)}" if log.replaced is not None else ""
        return (
            f"holds {holds} of the query, its checkpoint {checkpoint!r} has completed batch "
            f"{completed}: it was made again, put back from a copy or is another one, and rows are "
            f"missing; put the table back, or {NEW_CHECKPOINT}{or_accept}"
        )
    if log.restored is not None and not log.accepts(log.restored.version):
        to, version = log.restored
        state = "an earlier time" if to is None else f"version {to}"
        return (
            f"was set back to {state} by RESTORE (version {version}) after batch {held}, so rows "
            f"may be missing that are not read again: RESTORE it to version {version - 1}, "
            f"{NEW_CHECKPOINT}, or {_accept(version)}"
        )
    return None


def _accept(version: int) -> str:
    return f"go on without those rows by the table's property '{ACCEPTED}' = '{version}'"


def read_log(table: str | Folder, query_id: str | None) -> TableLog:
    """Read what a table's log knows of a query; None stands for one that has no id yet.

    Raises
    ------
    OptionError
        When there is no Delta table, or it cannot be read.
    """
    name = table if isinstance(table, str) else table.name
    try:
        return _read(open_folder(table) if isinstance(table, str) else table, query_id)
    except CheckpointError as error:
        raise OptionError(str(error).replace("checkpoint", "Delta table", 1)) from error
    except (OSError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        if isinstance(error, OptionError):
            raise
        why = getattr(error, "strerror", None) or f"its log is damaged ({type(error).__name__})"
        raise OptionError(f"Delta table {name!r} cannot be read: {why}") from error


def _read(folder: Folder, query_id: str | None) -> TableLog:
    newest_first = versions(folder)[::-1]
    if not newest_first:
        raise OptionError(f"{folder.name!r} is not a Delta table: it has no commits in {LOG!r}")
    restores: list[Restore] = []
    other: str | None = None
    properties: dict[str, str | None] | None = None  # the newest
    for version in newest_first:
        try:
            commit = read_commit(folder, version)
        except CommitGoneError:  # Delta cleaned its log up after it was listed
            return TableLog(None, other=other)
        if commit.is_restore:
            restores.append(Restore(commit.restored_to, version))
        if properties is None and commit.metadata is not None:
            properties = commit.metadata.configuration
        accepted = (properties or {}).get(ACCEPTED)
        for transaction in commit.transactions:
            writer = query_of(transaction.app_id)
            if writer is not None and writer == query_id:
                restored = _restore_that_reverted(restores, version)
                return TableLog(transaction.version, restored, accepted=accepted)
            other = other or writer
        if _REPLACE in commit.info.operation and _restore_that_reverted(restores, version) is None:
            return TableLog(NEVER, replaced=version, other=other, accepted=accepted)
        if query_id is None and other is not None:  # it has no batch, and all the rest is old
            return TableLog(NEVER, other=other)
    is_whole = len(newest_first) == newest_first[0] + 1
    return TableLog(NEVER if is_whole else None, other=other)


def _restore_that_reverted(restores: list[Restore], version: int) -> Restore | None:
    """Return the restore that took away what a version did; None when it still holds.

    A restore may itself have been undone by a later one, to a version between the two; the newest
    comes first.
    """
    up_to: float = math.inf
    for restore in restores:
        if restore.version > up_to:
            continue
        if restore.to is None or restore.to < version:
            return restore
        up_to = restore.to
    return None
