"""What a Delta table's log tells of the queries that write it, read from its JSON commits.

A query notes each batch in the same commit as its rows: a `txn` action with the writer's name as
`appId` and the batch's number as `version`; Delta skips a batch of that number or a lower one. The
name is the query's id for Delta's own streaming sink, with a prefix for the tables of `assignor
run`. Only JSON is read, which Delta keeps for 30 days by default: what an older Parquet checkpoint
holds is unknown.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from assignor_bridge.errors import OptionError
from checkpoints.folders import CheckpointError, Folder, open_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_T = TypeVar("_T")
_LOG = "_delta_log"
_COMMIT = re.compile(r"(\d{20})\.json")
_RUN_PREFIX = "assignor-"
_STREAMING = re.compile(
    rf"(?:{_RUN_PREFIX})?([0-9a-f]{{8}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{12}})"
)
#: The table holds no batch of the query.
NEVER = -1


def writer_name(query_id: str) -> str:
    """Give the name under which `assignor run` notes a query's batches."""
    return f"{_RUN_PREFIX}{query_id}"


@dataclass(frozen=True, slots=True)
class TableLog:
    """What a table's log tells of one query."""

    #: The newest batch of the query; `NEVER` for none, None when that cannot be told.
    batch: int | None
    #: The version to which `RESTORE` set the table back after that batch, and its own version; None
    #: when none did, or a later one undid it.
    restored: tuple[int | None, int] | None


def last_batch(table: str, query_id: str) -> int | None:
    """Give the newest batch of a query; `NEVER` for none, None when that cannot be told.

    Raises
    ------
    OptionError
        When there is no Delta table, or it cannot be read.
    """
    return _reading(table, lambda: _log_of(open_folder(table), table, query_id)).batch


def log_of(folder: Folder, query_id: str) -> TableLog:
    """Tell of a query what a table's log has.

    Raises
    ------
    OptionError
        When there is no Delta table, or it cannot be read.
    """
    return _reading(folder.name, lambda: _log_of(folder, folder.name, query_id))


def streaming_writers(folder: Folder) -> set[str]:
    """Give the ids of all streaming queries that the table's commits name.

    Raises
    ------
    OptionError
        When there is no Delta table, or it cannot be read.
    """

    def read() -> set[str]:
        found = set()
        for name in _commits(folder, folder.name):
            for transaction in _actions(folder, name, "txn"):
                match = _STREAMING.fullmatch(str(transaction.get("appId")))
                if match is not None:
                    found.add(match[1])
        return found

    return _reading(folder.name, read)


def _log_of(folder: Folder, table: str, query_id: str) -> TableLog:
    names = {query_id, writer_name(query_id)}
    restores: list[tuple[int | None, int]] = []
    commits = _commits(folder, table)
    for name in commits:
        for transaction in _actions(folder, name, "txn"):
            if transaction.get("appId") in names:
                batch = int(transaction["version"])
                return TableLog(batch, _set_back(restores, _version(name)))
        for info in _actions(folder, name, "commitInfo"):
            if info.get("operation") == "RESTORE":
                restores.append((_restored_to(info), _version(name)))
    from_the_first_on = len(commits) == _version(commits[0]) + 1
    return TableLog(NEVER if from_the_first_on else None, None)


def _set_back(restores: list[tuple[int | None, int]], wanted: int) -> tuple[int | None, int] | None:
    """Give the restore that took a version's rows away; None when the table has them.

    A restore may itself have been undone by a later one, to a version between the two.

    Parameters
    ----------
    restores
        To which version, and its own version; the newest first.
    wanted
        The version whose rows should be there.
    """
    up_to: float = math.inf
    for to, version in restores:
        if version > up_to:
            continue
        if to is None or to < wanted:
            return to, version
        up_to = to
    return None


def _restored_to(info: dict[str, Any]) -> int | None:
    parameters = info.get("operationParameters")
    version = parameters.get("version") if isinstance(parameters, dict) else None
    return int(version) if version is not None else None


def _reading(table: str, read: Callable[[], _T]) -> _T:
    try:
        return read()
    except CheckpointError as error:
        raise OptionError(str(error).replace("checkpoint", "Delta table", 1)) from error
    except (OSError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, OptionError):
            raise
        why = getattr(error, "strerror", None) or f"its log is damaged ({type(error).__name__})"
        raise OptionError(f"Delta table {table!r} cannot be read: {why}") from error


def _commits(folder: Folder, table: str) -> list[str]:
    """Name the commits, the newest first."""
    commits = sorted((n for n in folder.names(_LOG) if _COMMIT.fullmatch(n)), reverse=True)
    if not commits:
        raise OptionError(f"{table!r} is not a Delta table: it has no commits in {_LOG!r}")
    return commits


def _version(commit: str) -> int:
    return int(commit.partition(".")[0])


def _actions(folder: Folder, name: str, kind: str) -> Iterator[dict[str, Any]]:
    for line in (folder.read(f"{_LOG}/{name}") or b"").splitlines():
        action = json.loads(line) if line.strip() else {}
        found = action.get(kind) if isinstance(action, dict) else None
        if isinstance(found, dict):
            yield found
