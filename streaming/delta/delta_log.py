"""Read a Delta table's log, without Spark: its JSON commits and checksum files.

Delta keeps these for 30 days by default. Parquet checkpoints are not read.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec

from assignor_bridge.model import MAX_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from checkpoints.folders import Folder

LOG = "_delta_log"
#: A number from 0 to the maximum Java long.
Natural = Annotated[int, msgspec.Meta(ge=0, le=MAX_OFFSET)]
#: A number in the range of a Java long.
Long = Annotated[int, msgspec.Meta(ge=-MAX_OFFSET - 1, le=MAX_OFFSET)]
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKSUM = re.compile(r"(\d{20})\.crc")


class DamagedCommitError(ValueError):
    """A commit file is not in Delta's format."""


class CommitGoneError(FileNotFoundError):
    """A commit file no longer exists."""


class DeletionVector(msgspec.Struct, frozen=True, rename="camel"):
    """The deleted rows of a data file."""

    cardinality: Natural = 0
    storage_type: str = ""
    path_or_inline_dv: str = ""
    offset: Long | None = None

    @property
    def key(self) -> str:
        """Identity among the deletion vectors of one file."""
        return f"{self.storage_type}{self.path_or_inline_dv}@{self.offset}"


#: Delta's key for a data file: its path, and its deletion vector's key ("" without one).
FileKey = tuple[str, str]


class _DataFile(msgspec.Struct, frozen=True, rename="camel"):
    path: str
    data_change: bool = True
    partition_values: dict[str, str | None] | None = None
    stats: str | None = None
    deletion_vector: DeletionVector | None = None

    @property
    def key(self) -> FileKey:
        """Path and deletion vector key, which identify the file."""
        return self.path, self.deletion_vector.key if self.deletion_vector else ""


class AddedFile(_DataFile, frozen=True, rename="camel"):
    """A data file that a commit adds."""

    #: In bytes.
    size: Natural = 0

    @property
    def statistics(self) -> dict[str, Any]:
        """Delta's statistics for the file; empty if they are missing or invalid."""
        try:
            statistics = json.loads(self.stats) if self.stats else {}
        except (ValueError, RecursionError):
            return {}
        return statistics if isinstance(statistics, dict) else {}

    @property
    def rows(self) -> int | None:
        """Number of rows that are not deleted; None if the statistics have no valid number."""
        row_count = self.statistics.get("numRecords")
        if not isinstance(row_count, int) or not 0 <= row_count <= MAX_OFFSET:
            return None
        return row_count - (self.deletion_vector.cardinality if self.deletion_vector else 0)


class RemovedFile(_DataFile, frozen=True, rename="camel"):
    """A data file that a commit removes."""


class SetTransaction(msgspec.Struct, frozen=True, rename="camel"):
    """A `txn` action: a writer's name, and the number of its last batch."""

    app_id: str
    version: Long


class CommitInfo(msgspec.Struct, frozen=True, rename="camel"):
    """A `commitInfo` action: the operation that made the commit."""

    operation: str = ""
    operation_parameters: dict[str, Any] | None = None
    operation_metrics: dict[str, Any] | None = None
    user_metadata: str | None = None


class TableRestore(NamedTuple):
    """A `RESTORE`: the version that it restored (None if unknown), and the commit's version."""

    target: int | None
    version: int


class TableMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """A `metaData` action: the table properties."""

    configuration: dict[str, str | None] = {}


class Commit(msgspec.Struct, frozen=True):
    """One version of a table, as read from its log."""

    version: int
    info: CommitInfo = CommitInfo()
    adds: tuple[AddedFile, ...] = ()
    removes: tuple[RemovedFile, ...] = ()
    transactions: tuple[SetTransaction, ...] = ()
    metadata: TableMetadata | None = None

    @property
    def changes_data(self) -> bool:
        """Whether the commit adds or removes rows. Compaction only moves them to other files."""
        return any(file.data_change for file in (*self.adds, *self.removes))

    @property
    def restored_to(self) -> int | None:
        """Version that this `RESTORE` names; None if it names a time, or for other operations."""
        version = (self.info.operation_parameters or {}).get("version")
        return parse_whole_number(version) if self.is_restore else None

    @property
    def is_restore(self) -> bool:
        """Whether the commit restores an earlier version of the table."""
        return self.info.operation == "RESTORE"


class TableChecksum(msgspec.Struct, frozen=True, rename="camel"):
    """The table's number of files and size, from a commit's checksum file."""

    num_files: Natural | None = None
    table_size_bytes: Natural | None = None


def parse_whole_number(value: object) -> int | None:
    """Parse a whole number from 0, which may be text in Delta's logs; None for other values."""
    text = str(value).removesuffix(".0") if isinstance(value, int | float | str) else ""
    return int(text) if text.isdecimal() and len(text) <= 19 else None


def list_versions(folder: Folder) -> list[int]:
    """Return the versions with a JSON commit, in ascending order."""
    return _list_versions(folder, _COMMIT)


def list_checksum_versions(folder: Folder) -> list[int]:
    """Return the versions with a checksum file, in ascending order."""
    return _list_versions(folder, _CHECKSUM)


def _iterate_actions(raw: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    for line in raw.splitlines():
        actions = json.loads(line) if line.strip() else {}
        for kind, action in actions.items() if isinstance(actions, dict) else ():
            if isinstance(action, dict):
                yield kind, action


def read_commit(folder: Folder, version: int) -> Commit:
    """Read one commit.

    Raises DamagedCommitError if it is not in Delta's format, CommitGoneError if it is missing.
    """
    raw = folder.read(f"{LOG}/{version:020}.json")
    if raw is None:
        raise CommitGoneError(f"version {version} is missing")
    actions: dict[str, list[dict[str, Any]]] = {}
    try:
        for kind, action in _iterate_actions(raw):
            actions.setdefault(kind, []).append(action)
    except (ValueError, RecursionError):
        raise DamagedCommitError("a line is not JSON in UTF-8, or is truncated") from None
    if not actions:
        raise DamagedCommitError("it has no actions")
    values = {
        "version": version,
        "info": (actions.get("commitInfo") or [{}])[-1],
        "adds": actions.get("add", []),
        "removes": actions.get("remove", []),
        "transactions": actions.get("txn", []),
        "metadata": actions["metaData"][-1] if "metaData" in actions else None,
    }
    try:
        return msgspec.convert(values, Commit, strict=False)
    except msgspec.ValidationError as error:
        raise DamagedCommitError(str(error)) from None
    except UnicodeEncodeError:
        raise DamagedCommitError("a string has half of a surrogate pair") from None


def read_checksum(folder: Folder, version: int) -> TableChecksum | None:
    """Read a version's checksum file; None if it does not exist or cannot be read."""
    try:
        raw = folder.read(f"{LOG}/{version:020}.crc")
        return msgspec.json.decode(raw, type=TableChecksum) if raw else None
    except (OSError, msgspec.MsgspecError):
        return None


def _list_versions(folder: Folder, pattern: re.Pattern[str]) -> list[int]:
    versions = (int(match[1]) for name in folder.names(LOG) if (match := pattern.fullmatch(name)))
    return sorted(version for version in versions if version <= MAX_OFFSET)
