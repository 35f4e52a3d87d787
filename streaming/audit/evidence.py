"""What an audit looks at, read from the table's folder and the query's checkpoint."""

from __future__ import annotations

import hashlib
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from assignor_bridge.errors import AssignorError, OptionError
from checkpoints.folders import CheckpointError, LocalFolder, open_folder
from checkpoints.offset_log import read_checkpoint
from streaming.delta import log

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from checkpoints.offset_log import Checkpoint
    from streaming.delta.log import Commit, TableChecksum

_BLOCK = 1 << 20


class UnreadableTableError(AssignorError):
    """A table whose log, or a checkpoint whose files, cannot be read."""


@dataclass(frozen=True)
class Evidence:
    """A table's log, its files, and the checkpoint of a query."""

    #: Ascending by version.
    commits: tuple[Commit, ...]
    #: Why a commit cannot be read, by version.
    damaged: dict[int, str] = field(default_factory=dict)
    checksums: dict[int, TableChecksum] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    #: The query's newest batch that was done before the table was read; None for none. (What was
    #: planned is read after the table: a query may run meanwhile.)
    completed: int | None = None
    #: None for an audit of the log alone.
    files: DataFiles | None = None

    @property
    def last(self) -> int:
        """The last version that was read."""
        return max([*(commit.version for commit in self.commits), *self.damaged])


@dataclass(frozen=True)
class DataFiles:
    """The data files of a table on this machine."""

    root: Path

    def size(self, path: str) -> int | None:
        """Return the size of a file as the log names it; None when it is not there."""
        try:
            found = self._at(path).stat()
        except (FileNotFoundError, NotADirectoryError, ValueError):  # the last for what is no path
            return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def digest(self, path: str) -> bytes:
        """Return what two files of the same content have in common; `size` knows them."""
        digest = hashlib.sha256()
        with self._at(path).open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        return digest.digest()

    @staticmethod
    def is_elsewhere(path: str) -> bool:
        """Whether a file is not on this machine, as a shallow clone's may be."""
        try:
            return urlsplit(path).scheme not in {"", "file"}
        except ValueError:  # it is nowhere
            return False

    def _at(self, path: str) -> Path:
        # The log has URLs: below the table, or of files elsewhere (a shallow clone's).
        parts = urlsplit(path)
        return self.root / unquote(parts.path if parts.scheme == "file" else path)


def read_evidence(table: str, checkpoint: str | None) -> Evidence:
    """Read what there is.

    Raises
    ------
    OptionError
        When there is no Delta table, or no checkpoint of a query with a Kafka source.
    UnreadableTableError
        When there is one, and it cannot be read.
    """
    folder = _table_folder(table)
    try:
        versions = log.list_versions(folder)
        if not versions:
            raise OptionError(f"--table {table!r} is not a Delta table: it has no commits")
        before = read_checkpoint(open_folder(checkpoint)) if checkpoint is not None else None
        commits, damaged = _commits(folder, log.list_versions(folder))
        if not commits and not damaged:
            raise UnreadableTableError(f"{table}: its log vanished while it was read")
        query = read_checkpoint(open_folder(checkpoint)) if checkpoint is not None else None
        counted = {v: log.read_checksum(folder, v) for v in log.list_checksum_versions(folder)}
    except CheckpointError as error:
        raise OptionError(str(error)) from error
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise UnreadableTableError(f"{error.filename or table}: {why}") from error
    checksums = {version: found for version, found in counted.items() if found is not None}
    done = before.last_committed if before else None
    completed = done.batch_id if done else None
    return Evidence(commits, damaged, checksums, query, completed, DataFiles(folder.root))


def _table_folder(table: str) -> LocalFolder:
    try:
        return open_folder(table)
    except CheckpointError as error:
        raise OptionError(str(error).replace("checkpoint", "--table", 1)) from error


def _commits(
    folder: LocalFolder, versions: Iterable[int]
) -> tuple[tuple[Commit, ...], dict[int, str]]:
    commits, damaged = [], {}
    for version in versions:
        try:
            commits.append(log.read_commit(folder, version))
        except log.CommitGoneError:
            continue  # Delta has just cleaned it up: the log begins later
        except log.DamagedCommitError as error:
            damaged[version] = str(error)
    return tuple(commits), damaged
