"""The last micro-batch that a Delta table holds of a query, from the table's log as JSON.

Delta's streaming sink writes a `txn` action with each batch: the query's id as `appId`, the batch's
number as `version`; a batch of that number or a lower one is skipped. Only the JSON commits are
read, which Delta keeps for 30 days by default: what an older Parquet checkpoint holds is unknown.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from assignor_bridge.errors import OptionError
from checkpoints.folders import CheckpointError, Folder, open_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOG = "_delta_log"
_COMMIT = re.compile(r"(\d{20})\.json")
#: A sink other than Delta's own names its transactions itself.
NEVER = -1


def last_batch(table: str, query_id: str) -> int | None:
    """Give the newest batch of a query; `NEVER` for none, None when that cannot be told.

    Raises
    ------
    OptionError
        When there is no Delta table, or it cannot be read.
    """
    try:
        folder = open_folder(table)
        commits = sorted(
            (name for name in folder.names(_LOG) if _COMMIT.fullmatch(name)), reverse=True
        )
        if not commits:
            raise OptionError(f"{table!r} is not a Delta table: it has no commits in {_LOG!r}")
        for name in commits:
            for action in _actions(folder, name):
                found = action.get("txn")
                if isinstance(found, dict) and found.get("appId") == query_id:
                    return int(found["version"])
    except CheckpointError as error:
        raise OptionError(str(error).replace("checkpoint", "Delta table", 1)) from error
    except (OSError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, OptionError):
            raise
        why = getattr(error, "strerror", None) or f"its log is damaged ({type(error).__name__})"
        raise OptionError(f"Delta table {table!r} cannot be read: {why}") from error
    from_the_first_on = len(commits) == int(commits[0].partition(".")[0]) + 1
    return NEVER if from_the_first_on else None


def _actions(folder: Folder, name: str) -> Iterator[dict[str, Any]]:
    for line in (folder.read(f"{_LOG}/{name}") or b"").splitlines():
        found = json.loads(line) if line.strip() else {}
        if isinstance(found, dict):
            yield found
