"""Folders that may contain a checkpoint: local, or any implementation of `Folder`."""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

#: Number of folder levels searched, so that a job's folder or its parent folder may be given.
_MAX_DEPTH = 2
#: Maximum number of entries examined, because a table next to the checkpoints may have many.
_MAX_ENTRIES = 500
_MAX_LISTED_PATHS = 5
#: Name prefix of the checkpoint folder of a job's dead-letter query.
DEAD_LETTER_PREFIX = "dead_letter_"
#: A URL's scheme. It has at least two characters: `c:/x` is a path on drive C, not a URL.
_URL_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
#: A `file:` URL without a host, or with the host `localhost`.
_LOCAL_URL = re.compile(r"file:(//(localhost)?(?=/)|(?!//))(?P<path>.*)", re.DOTALL)
#: Maximum size of a file to read, so that no file exhausts memory. Checkpoint files are smaller.
MAX_FILE_BYTES = 256 * 1024 * 1024


class CheckpointError(ValueError):
    """A folder is not a valid or readable checkpoint."""


class NoCheckpointError(CheckpointError):
    """A folder is not the checkpoint of a query with a Kafka source, or is inaccessible."""


class Folder(Protocol):
    """A folder on any file system."""

    @property
    def name(self) -> str:
        """Name for error messages."""

    def names(self, path: str) -> list[str]:
        """Return the names in a subfolder, [] if it does not exist; raise OSError if unreadable."""

    def read(self, path: str) -> bytes | None:
        """Return a file's content, or None if it does not exist; raise OSError if unreadable."""

    def below(self, path: str) -> Folder:
        """Return a subfolder."""


@dataclass(frozen=True)
class LocalFolder:
    """A local folder."""

    root: Path

    @property
    def name(self) -> str:
        """Path of the folder."""
        return str(self.root)

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a subfolder (see `Folder`)."""
        try:
            return sorted(entry.name for entry in (self.root / path).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, path: str) -> bytes | None:
        """Return a file's content, or None if it does not exist; raise OSError if unreadable."""
        file = self.root / path
        try:
            status = file.stat()
            if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
                raise OSError(errno.EINVAL, f"{path!r} is not a file")
            check_size(path, status.st_size)
            return file.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def below(self, path: str) -> LocalFolder:
        """Return a subfolder."""
        return LocalFolder(self.root / path)


def check_size(path: str, size_bytes: int) -> None:
    """Raise OSError if a file is larger than `MAX_FILE_BYTES`."""
    if size_bytes > MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, f"{path!r} has more than {MAX_FILE_BYTES:,} bytes")


def open_folder(location: str) -> LocalFolder:
    """Return the folder at a path or local `file:` URL; raise NoCheckpointError for other URLs."""
    path = local_path(location)
    if path is None:
        raise NoCheckpointError(
            f"checkpoint {location!r} is not on a local file system: "
            "it can be read only through Spark's file systems"
        )
    # A URL is percent-decoded only if this gives the path that exists.
    unquoted = unquote(str(path))
    is_quoted = not os.path.exists(path) and os.path.exists(unquoted)  # noqa: PTH110  (no error)
    return LocalFolder(Path(unquoted) if is_quoted and _URL_SCHEME.match(location) else path)


def local_path(location: str) -> Path | None:
    """Return a location's path, not percent-decoded (as in Hadoop); None if it is not local."""
    if not _URL_SCHEME.match(location):
        return Path(location)
    local_match = _LOCAL_URL.match(location)
    return Path("/" + local_match["path"].lstrip("/")) if local_match else None


def find_checkpoints(folder: Folder) -> tuple[list[str], bool]:
    """Return the checkpoints' paths relative to a folder, and whether the search was complete."""
    checkpoints: list[str] = []
    entries_left = _MAX_ENTRIES
    parents = [""]
    for _ in range(_MAX_DEPTH):
        other_folders: list[str] = []
        for path in (path for parent in parents for path in _list_entries(folder, parent)):
            if entries_left == 0:
                return sorted(checkpoints), False
            entries_left -= 1
            (checkpoints if _is_checkpoint(folder, path) else other_folders).append(path)
        parents = other_folders
    return sorted(checkpoints), True


def describe_missing_checkpoint(folder: Folder) -> str:
    """Return the error message for a folder that is no checkpoint; list the checkpoints in it."""
    problem = f"{folder.name!r} is not a streaming checkpoint"
    paths, is_complete_list = find_checkpoints(folder)
    if not paths:
        return (
            f"{problem}: it has neither 'metadata' nor a batch in 'offsets'; give the query's "
            "checkpointLocation"
        )
    parent = folder.name.rstrip("/")
    listed_paths = ", ".join(f"{parent}/{path}" for path in paths[:_MAX_LISTED_PATHS])
    if len(paths) == 1:
        return f"{problem}, but contains the checkpoint of a query: give {listed_paths}"
    listed_paths += ", …" if len(paths) > _MAX_LISTED_PATHS else ""
    count = f"{'' if is_complete_list else 'at least '}{len(paths)}"
    return f"{problem}, but contains {count} checkpoints: give one of {listed_paths}"


def _list_entries(folder: Folder, path: str) -> list[str]:
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
