"""Checkpoints below a folder: a job keeps one for each of its queries.

Given the job's folder, a reader cannot know which query is meant, so it names them and takes none,
not even a single one: with a second sink tomorrow the same words would mean something else.
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
    found: list[str] = []
    left = _FOLDERS
    level = [""]
    for _ in range(_DEPTH):
        below: list[str] = []
        for above in level:
            for path in _entries(folder, above)[:left]:
                left -= 1
                (found if _is_checkpoint(folder, path) else below).append(path)
        level = below
    return sorted(found)


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
        return f"{said}, but holds that of one query: give {named}"
    more = ", …" if len(found) > _SHOWN else ""
    return f"{said}, but holds those of {len(found)} queries: give one of them: {named}{more}"


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
