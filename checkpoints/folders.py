"""Folders that a checkpoint may lie in: of this machine, or anything that lists and reads alike."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit


class CheckpointError(ValueError):
    """A folder that is no checkpoint, or one that cannot be read; in one line."""


class NoCheckpointError(CheckpointError):
    """A folder that is no checkpoint of a query with a Kafka source, or is out of reach."""


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
        """Give a folder below."""


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
        """Content of a file."""
        try:
            return (self.root / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def below(self, path: str) -> LocalFolder:
        """Give a folder below."""
        return LocalFolder(self.root / path)


def open_folder(location: str) -> LocalFolder:
    """Give the folder at a path or a `file:` URI.

    Raises
    ------
    CheckpointError
        For another scheme: those are read through a Spark session.
    """
    parts = urlsplit(location)
    if parts.scheme and len(parts.scheme) > 1 and "/" not in location.partition(":")[0]:
        if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
            raise NoCheckpointError(
                f"checkpoint {location!r} is not on a local file system: "
                f"{parts.scheme}: is read through Spark's file systems only"
            )
        return LocalFolder(Path(unquote(parts.path)))
    return LocalFolder(Path(location))
