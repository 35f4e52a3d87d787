"""A Delta table's log, read from its JSON commits without Spark.

Delta keeps them for 30 days by default; the Parquet checkpoints that stand for older ones are not
read.
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
#: What Java writes as a long.
Natural = Annotated[int, msgspec.Meta(ge=0, le=MAX_OFFSET)]
Long = Annotated[int, msgspec.Meta(ge=-MAX_OFFSET - 1, le=MAX_OFFSET)]
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKSUM = re.compile(r"(\d{20})\.crc")


class DamagedCommitError(ValueError):
    """A commit that is not what Delta writes."""


class CommitGoneError(FileNotFoundError):
    """A commit that is no longer there."""


class DeletionVector(msgspec.Struct, frozen=True, rename="camel"):
    """Which rows of a file do not count."""

    cardinality: Natural = 0
    storage_type: str = ""
    path_or_inline_dv: str = ""
    offset: Long | None = None

    @property
    def key(self) -> str:
        """What tells it from the file's other ones."""
        return f"{self.storage_type}{self.path_or_inline_dv}@{self.offset}"


#: A data file as Delta tells them apart: its path, and its deletion vector's key.
FileKey = tuple[str, str]


class _File(msgspec.Struct, frozen=True, rename="camel"):
    path: str
    data_change: bool = True
    partition_values: dict[str, str | None] | None = None
    stats: str | None = None
    deletion_vector: DeletionVector | None = None

    @property
    def key(self) -> FileKey:
        """The file and its deletion vector."""
        return self.path, self.deletion_vector.key if self.deletion_vector else ""


class Add(_File, frozen=True, rename="camel"):
    """A data file that a commit adds."""

    size: Natural = 0

    @property
    def statistics(self) -> dict[str, Any]:
        """Delta's statistics of the file; empty where it wrote none."""
        try:
            found = json.loads(self.stats) if self.stats else {}
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def rows(self) -> int | None:
        """Its rows that count; None where that is not written."""
        count = self.statistics.get("numRecords")
        if not isinstance(count, int) or not 0 <= count <= MAX_OFFSET:
            return None
        return count - (self.deletion_vector.cardinality if self.deletion_vector else 0)


class Remove(_File, frozen=True, rename="camel"):
    """A data file that a commit takes out."""


class Transaction(msgspec.Struct, frozen=True, rename="camel"):
    """The last batch of a writer."""

    app_id: str
    version: Long


class Info(msgspec.Struct, frozen=True, rename="camel"):
    """What a commit says of itself."""

    operation: str = ""
    operation_parameters: dict[str, Any] | None = None
    operation_metrics: dict[str, Any] | None = None
    user_metadata: str | None = None


class Restore(NamedTuple):
    """A `RESTORE`: the version it went back to, None if that is unknown, and its own version."""

    to: int | None
    version: int


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """Properties of a table."""

    configuration: dict[str, str | None] = {}


class Commit(msgspec.Struct, frozen=True):
    """One version of a table, as its log has it."""

    version: int
    info: Info = Info()
    adds: tuple[Add, ...] = ()
    removes: tuple[Remove, ...] = ()
    transactions: tuple[Transaction, ...] = ()
    metadata: Metadata | None = None

    @property
    def changes_data(self) -> bool:
        """Whether rows came or went; compaction only puts them elsewhere."""
        return any(file.data_change for file in (*self.adds, *self.removes))

    @property
    def restored_to(self) -> int | None:
        """The version that a `RESTORE` names; None for none, or where it names a time."""
        to = (self.info.operation_parameters or {}).get("version")
        return whole(to) if self.is_restore else None

    @property
    def is_restore(self) -> bool:
        """Whether it sets the table back."""
        return self.info.operation == "RESTORE"


class TableChecksum(msgspec.Struct, frozen=True, rename="camel"):
    """What Delta counts beside a commit."""

    num_files: Natural | None = None
    table_size_bytes: Natural | None = None


def whole(value: object) -> int | None:
    """Read a number as writers of Delta put it, also as text; None for anything else."""
    text = str(value).removesuffix(".0") if isinstance(value, int | float | str) else ""
    return int(text) if text.isdecimal() and len(text) <= 19 else None


def versions(folder: Folder) -> list[int]:
    """Return the versions that the log of a table has, ascending."""
    return _numbered(folder, _COMMIT)


def checksum_versions(folder: Folder) -> list[int]:
    """Return the versions beside which Delta wrote a checksum, ascending."""
    return _numbered(folder, _CHECKSUM)


def _actions(raw: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    for line in raw.splitlines():
        found = json.loads(line) if line.strip() else {}
        for kind, action in found.items() if isinstance(found, dict) else ():
            if isinstance(action, dict):
                yield kind, action


def read_commit(folder: Folder, version: int) -> Commit:
    """Read one commit.

    Raises DamagedCommitError when it is not one, CommitGoneError when it is not there.
    """
    raw = folder.read(f"{LOG}/{version:020}.json")
    if raw is None:
        raise CommitGoneError(f"version {version} is gone")
    parts: dict[str, list[dict[str, Any]]] = {}
    try:
        for kind, action in _actions(raw):
            parts.setdefault(kind, []).append(action)
    except (ValueError, RecursionError):
        raise DamagedCommitError("a line is no JSON, or is truncated") from None
    if not parts:
        raise DamagedCommitError("it is empty")
    try:
        return msgspec.convert(
            {
                "version": version,
                "info": (parts.get("commitInfo") or [{}])[-1],
                "adds": parts.get("add", []),
                "removes": parts.get("remove", []),
                "transactions": parts.get("txn", []),
                "metadata": parts["metaData"][-1] if "metaData" in parts else None,
            },
            Commit,
            strict=False,
        )
    except msgspec.ValidationError as error:
        raise DamagedCommitError(str(error)) from None
    except UnicodeEncodeError:
        raise DamagedCommitError("a string has half of a character") from None


def read_checksum(folder: Folder, version: int) -> TableChecksum | None:
    """Read what Delta counted at a version; None where it cannot be read: it is a help, no part."""
    try:
        raw = folder.read(f"{LOG}/{version:020}.crc")
        return msgspec.json.decode(raw, type=TableChecksum) if raw else None
    except (OSError, msgspec.MsgspecError):
        return None


def _numbered(folder: Folder, pattern: re.Pattern[str]) -> list[int]:
    found = (int(match[1]) for n in folder.names(LOG) if (match := pattern.fullmatch(n)))
    return sorted(number for number in found if number <= MAX_OFFSET)
