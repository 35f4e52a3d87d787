"""Read the files that an audit checks: the table's log and data, and the query's checkpoint."""

from __future__ import annotations

import hashlib
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from assignor_bridge.errors import AssignorError, OptionError
from checkpoints.folders import CheckpointError, LocalFolder, NoCheckpointError, open_folder
from checkpoints.offset_log import read_checkpoint_folder
from streaming.delta import delta_log

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from checkpoints.offset_log import Checkpoint
    from streaming.delta.delta_log import Commit, TableChecksum

_BLOCK_BYTES = 1 << 20


class UnreadableTableError(AssignorError):
    """The table's log or the checkpoint's files cannot be read."""


@dataclass(frozen=True)
class Evidence:
    """A table's log, its data files, and a query's checkpoint."""

    #: Sorted by version.
    commits: tuple[Commit, ...]
    #: Reason why a commit cannot be read, by version.
    damage: dict[int, str] = field(default_factory=dict)
    #: Content of the `.crc` files, by version; unreadable ones are omitted.
    checksums: dict[int, TableChecksum] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    #: Number of the query's last completed batch, or None. It is read before the table, and
    #: `checkpoint` after the table, because the query may run during the audit.
    last_completed: int | None = None
    #: None if only the log is audited.
    files: DataFiles | None = None

    @property
    def last_version(self) -> int:
        """The last version in the log, even if its commit is damaged."""
        return max([*(commit.version for commit in self.commits), *self.damage])


@dataclass(frozen=True)
class DataFiles:
    """The data files of a table in a local folder."""

    root: Path

    def read_size(self, path: str) -> int | None:
        """Return the size in bytes of a file in the log; None if it is not a regular file."""
        try:
            status = self._resolve(path).stat()
        except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: an invalid path
            return None
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def compute_digest(self, path: str) -> bytes:
        """Return the SHA-256 digest of an existing file's content."""
        digest = hashlib.sha256()
        with self._resolve(path).open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
        return digest.digest()

    @staticmethod
    def is_remote(path: str) -> bool:
        """Return whether a file is in remote storage, which is possible in a shallow clone."""
        try:
            return urlsplit(path).scheme not in {"", "file"}
        except ValueError:  # an invalid URL; `read_size` returns None for it
            return False

    def _resolve(self, path: str) -> Path:
        # Paths in the log are URL-encoded: relative, or absolute in a shallow clone.
        parts = urlsplit(path)
        return self.root / unquote(parts.path if parts.scheme == "file" else path)


def read_evidence(table: str, checkpoint: str | None) -> Evidence:
    """Read the table's log, and the checkpoint unless it is None.

    Raises OptionError if `table` is not a Delta table or `checkpoint` is not a Kafka query's
    checkpoint, and UnreadableTableError if one of their files cannot be read.
    """
    folder = _open_table(table)
    try:
        versions = delta_log.list_versions(folder)
        if not versions:
            raise OptionError(f"--table {table!r} is not a Delta table: it has no commits")
        first_read = None if checkpoint is None else read_checkpoint_folder(open_folder(checkpoint))
        commits, damage = _read_commits(folder, delta_log.list_versions(folder))
        if not commits and not damage:
            raise UnreadableTableError(f"{table}: its log was deleted during the audit; try again")
        next_read = None if checkpoint is None else read_checkpoint_folder(open_folder(checkpoint))
        crc_by_version = {
            v: delta_log.read_checksum(folder, v) for v in delta_log.list_checksum_versions(folder)
        }
    except CheckpointError as error:
        error_class = OptionError if isinstance(error, NoCheckpointError) else UnreadableTableError
        raise error_class(str(error)) from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UnreadableTableError(f"{error.filename or table}: {reason}") from error
    checksums = {version: crc for version, crc in crc_by_version.items() if crc is not None}
    last_batch = first_read.last_committed if first_read else None
    last_completed = last_batch.batch_id if last_batch else None
    files = DataFiles(folder.root)
    return Evidence(commits, damage, checksums, next_read, last_completed, files)


def _open_table(table: str) -> LocalFolder:
    try:
        return open_folder(table)
    except CheckpointError as error:
        raise OptionError(str(error).replace("checkpoint", "--table", 1)) from error


def _read_commits(
    folder: LocalFolder, versions: Iterable[int]
) -> tuple[tuple[Commit, ...], dict[int, str]]:
    commits, damage = [], {}
    for version in versions:
        try:
            commits.append(delta_log.read_commit(folder, version))
        except delta_log.CommitGoneError:
            continue  # Delta has just deleted this commit to clean up the log
        except delta_log.DamagedCommitError as error:
            damage[version] = str(error)
    return tuple(commits), damage
