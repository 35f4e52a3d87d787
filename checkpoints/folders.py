"""Folders that may hold a checkpoint: of this machine, or anything that lists and reads alike."""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

#: Checkpoints are looked for in a job's folder, or the one above it, next to its tables.
_DEPTH = 2
#: So many folders are looked into: a table beside the checkpoints may have many.
_MOST_FOLDERS = 500
_SHOWN = 5
#: What the folder of the query that writes a job's bad records begins with.
DEAD_LETTER = "dead_letter_"
#: Of a URL; a name with a colon in it may be a path's.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
#: Without a host, or this one.
_LOCAL = re.compile(r"file:(//(localhost)?(?=/)|(?!//))(?P<path>.*)", re.DOTALL)
#: No file of a checkpoint comes near; a foreign one must not fill the memory.
MAX_FILE_BYTES = 256 * 1024 * 1024


class CheckpointError(ValueError):
    """A folder that is not a checkpoint, or one that cannot be read; in one line."""


class NoCheckpointError(CheckpointError):
    """A folder that is not the checkpoint of a query with a Kafka source, or is out of reach."""


class Folder(Protocol):
    """A folder of some file system."""

    @property
    def name(self) -> str:
        """What an error calls it."""

    def names(self, path: str) -> list[str]:
        """Names of the entries of a folder below; empty when it is not there."""

    def read(self, path: str) -> bytes | None:
        """Content of a file below; None when it is not there."""

    def below(self, path: str) -> Folder:
        """Return a folder below."""


@dataclass(frozen=True)
class LocalFolder:
    """A folder of this machine."""

    root: Path

    @property
    def name(self) -> str:
        """Its path."""
        return str(self.root)

    def names(self, path: str) -> list[str]:
        """Names of the entries, sorted."""
        try:
            return sorted(entry.name for entry in (self.root / path).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, path: str) -> bytes | None:
        """Content of a file; one that is none, such as a pipe, could be waited for for ever."""
        place = self.root / path
        try:
            found = place.stat()
            if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
                raise OSError(errno.EINVAL, f"{path!r} is not a file")
            check_size(path, found.st_size)
            return place.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def below(self, path: str) -> LocalFolder:
        """Return a folder below."""
        return LocalFolder(self.root / path)


def check_size(path: str, size: int) -> None:
    """Raise OSError for a file that is larger than any of a checkpoint."""
    if size > MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, f"{path!r} has more than {MAX_FILE_BYTES:,} bytes")


def open_folder(location: str) -> LocalFolder:
    """Return the folder at a path or a `file:` URL, which may be quoted.

    Raises CheckpointError for another scheme: those are read through a Spark session.
    """
    folder = local_path(location)
    if folder is None:
        raise NoCheckpointError(
            f"checkpoint {location!r} is not on a local file system: "
            f"{location.partition(':')[0]}: is read only through Spark's file systems"
        )
    unquoted = unquote(str(folder))
    is_quoted = not os.path.exists(folder) and os.path.exists(unquoted)  # noqa: PTH110  (no error)
    return LocalFolder(Path(unquoted) if is_quoted and _SCHEME.match(location) else folder)


def local_path(location: str) -> Path | None:
    """Return the folder as Hadoop reads its name, nothing quoted; None on another file system."""
    if not _SCHEME.match(location):
        return Path(location)
    local = _LOCAL.match(location)
    return Path("/" + local["path"].lstrip("/")) if local else None


def find_checkpoints(folder: Folder) -> tuple[list[str], bool]:
    """Return the sorted paths of the checkpoints in a folder, and whether these are all for sure.

    A job keeps one for each of its queries.
    """
    checkpoints: list[str] = []
    budget = _MOST_FOLDERS
    level = [""]
    for _ in range(_DEPTH):
        others: list[str] = []
        for path in (path for above in level for path in _entries(folder, above)):
            if budget == 0:
                return sorted(checkpoints), False
            budget -= 1
            (checkpoints if _is_checkpoint(folder, path) else others).append(path)
        level = others
    return sorted(checkpoints), True


def describe_missing_checkpoint(folder: Folder) -> str:
    """Say that a folder is not a checkpoint, and which ones are in it."""
    problem = f"{folder.name!r} is not a streaming checkpoint"
    paths, _ = find_checkpoints(folder)
    if not paths:
        return (
            f"{problem}: it has neither 'metadata' nor 'offsets'; give the query's "
            "checkpointLocation"
        )
    root = folder.name.rstrip("/")
    named = ", ".join(f"{root}/{path}" for path in paths[:_SHOWN])
    if len(paths) == 1:
        return f"{problem}, but holds that of a query, among much else: give {named}"
    more = ", …" if len(paths) > _SHOWN else ""
    return f"{problem}, but holds those of {len(paths)} queries: give one of them: {named}{more}"


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
