"""Checkpoints below a folder: a job keeps one for each of its queries.

Given the job's folder, a reader takes its query when there is one, and else names them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from checkpoints.folders import Folder

#: A job's folder, or the one above it, beside its tables.
_DEPTH = 2
#: So many folders are looked into: a table beside the checkpoints may have many.
_FOLDERS = 500
_SHOWN = 5


def checkpoints_below(folder: Folder) -> list[str]:
    """Give the paths of the checkpoints that lie in a folder, sorted."""
    return _search(folder)[0]


def only_checkpoint_below(folder: Folder) -> str | None:
    """Give the path of the checkpoint that lies in a folder, when it is certain to be the only."""
    found, is_all = _search(folder)
    return found[0] if is_all and len(found) == 1 else None


def not_a_checkpoint(folder: Folder) -> str:
    """Say that a folder is no checkpoint, and which ones lie in it."""
    said = f"{folder.name!r} is not a streaming checkpoint"
    found = checkpoints_below(folder)
    if not found:
        return (
            f"{said}: it has neither 'metadata' nor 'offsets'; give the query's checkpointLocation"
        )
    root = folder.name.rstrip("/")
    named = ", ".join(f"{root}/{path}" for path in found[:_SHOWN])
    if len(found) == 1:
        return f"{said}, but holds that of a query, among much else: give {named}"
    more = ", …" if len(found) > _SHOWN else ""
    return f"{said}, but holds those of {len(found)} queries: give one of them: {named}{more}"


def _search(folder: Folder) -> tuple[list[str], bool]:
    """Look for checkpoints, and say whether all of the folder was looked at."""
    found: list[str] = []
    left = _FOLDERS
    level = [""]
    for _ in range(_DEPTH):
        below: list[str] = []
        for above in level:
            for path in _entries(folder, above):
                if left == 0:
                    return sorted(found), False
                left -= 1
                (found if _is_checkpoint(folder, path) else below).append(path)
        level = below
    return sorted(found), True


def _entries(folder: Folder, path: str) -> list[str]:
    try:
        names = folder.names(path)
    except OSError:
        return []
    return [f"{path}/{name}" if path else name for name in names if name[0] not in "._"]


def _is_checkpoint(folder: Folder, path: str) -> bool:
    try:
        return b'"id"' in (folder.read(f"{path}/metadata") or b"") or any(
            name.isascii() and name.isdigit() for name in folder.names(f"{path}/offsets")
        )
    except OSError:
        return False
