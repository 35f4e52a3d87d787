"""Write the log of a Delta table as Delta 4 writes it, without Spark.

tests/integration/test_audit.py compares `files_written` with what Delta writes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from streaming.delta.user_metadata import encode_metadata

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Action = dict[str, Any]


def list_written_files(
    rows_of_tasks: Sequence[int], *, has_statistics: bool = True, is_partitioned: bool = False
) -> tuple[int, list[int]]:
    """Return `numFiles` of a write, and the rows of each file that its commit adds.

    Spark's first task writes a file even without rows, unless the table has partitions. Delta
    counts that file, but omits it from the commit if statistics show that it is empty.
    """
    files = [
        rows
        for task, rows in enumerate(rows_of_tasks)
        if rows or (task == 0 and not is_partitioned)
    ]
    return len(files), [rows for rows in files if rows or not has_statistics]


@dataclass
class DeltaLog:
    """A table written by one query that reads partition `t-0` from offset 0."""

    folder: Path
    query: str
    has_statistics: bool = True
    is_partitioned: bool = False
    mode: str = "append"
    version: int = -1
    batch: int = -1
    offset: int = 0
    #: End of the partition after each batch.
    ends: list[int] = field(default_factory=list)
    #: The table's files, by path.
    files: dict[str, Action] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "_delta_log").mkdir(parents=True)
        properties = {"assignor.mode": self.mode}
        self.commit(
            "CREATE TABLE", {"metaData": {"schemaString": "{}", "configuration": properties}}
        )

    def commit(self, operation: str, *actions: Action, **info: Any) -> None:
        """Append a commit and its checksum, and apply its actions to `files`."""
        self.version += 1
        for action in actions:
            if "remove" in action:
                del self.files[action["remove"]["path"]]
            if "add" in action:
                self.files[action["add"]["path"]] = action["add"]
        lines = [{"commitInfo": {"timestamp": 1, "operation": operation, **info}}, *actions]
        log = self.folder / "_delta_log"
        text = "\n".join(map(json.dumps, lines))
        (log / f"{self.version:020}.json").write_text(text)
        size = sum(add["size"] for add in self.files.values())
        checksum = {"numFiles": len(self.files), "tableSizeBytes": size}
        (log / f"{self.version:020}.crc").write_text(json.dumps(checksum))

    def add(self, rows: int, *, is_new: bool = True) -> Action:
        """Write a data file, and return the action that adds it."""
        path = f"part-{len(list(self.folder.iterdir())):05}.parquet"
        size = 300 + rows
        (self.folder / path).write_bytes(f"{path:>{size}}".encode())
        add = {"path": path, "partitionValues": {}, "size": size, "dataChange": is_new}
        if self.has_statistics:
            add["stats"] = json.dumps({"numRecords": rows})
        return {"add": add}

    def append(self, rows_of_tasks: Sequence[int], offsets: int = 5) -> None:
        """Append a batch as `assignor run` does."""
        written, rows = list_written_files(
            rows_of_tasks, has_statistics=self.has_statistics, is_partitioned=self.is_partitioned
        )
        metrics = {"numFiles": str(written), "numOutputRows": str(sum(rows_of_tasks))}
        self._batch("WRITE", "assignor-", map(self.add, rows), metrics, offsets)

    def stream(self, rows_of_tasks: Sequence[int], offsets: int = 5) -> None:
        """Append a batch as Delta's own sink does, which counts only the files it adds."""
        _, rows = list_written_files(
            rows_of_tasks, has_statistics=self.has_statistics, is_partitioned=self.is_partitioned
        )
        metrics = {
            "numRemovedFiles": "0",
            "numAddedFiles": str(len(rows)),
            "numOutputRows": str(sum(rows_of_tasks)),
        }
        self._batch("STREAMING UPDATE", "", map(self.add, rows), metrics, offsets)

    def merge(self, rows: int, *, rewritten: int, offsets: int = 5) -> None:
        """Merge a batch, and rewrite this number of the table's files."""
        removes = self._removes(rewritten, data_change=True)
        adds = [self.add(rows)] if rows else []
        metrics = {"numTargetFilesAdded": str(len(adds)), "numOutputRows": str(rows)}
        self._batch("MERGE", "assignor-", [*removes, *adds], metrics, offsets)

    def optimize(self) -> None:
        rows = sum(json.loads(add.get("stats", "{}")).get("numRecords", 0)
                   for add in self.files.values())  # fmt: skip
        if self.files:
            removes = self._removes(len(self.files), data_change=False)
            self.commit("OPTIMIZE", *removes, self.add(rows, is_new=False))

    def backfill(self) -> None:
        """Add each file again with a row id, as row tracking does."""
        adds = [
            {"add": {**add, "dataChange": False, "baseRowId": 0}} for add in self.files.values()
        ]
        self.commit("ROW TRACKING BACKFILL", *adds)

    def commit_maintenance(self, operation: str) -> None:
        actions = {
            "SET TBLPROPERTIES": {
                "metaData": {"schemaString": "{}", "configuration": {"assignor.mode": self.mode}}
            },
            "UPGRADE PROTOCOL": {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}},
        }
        self.commit(operation, *([actions[operation]] if operation in actions else []))

    def restore(self) -> None:
        self.commit("RESTORE", operationParameters={"version": self.version, "timestamp": None})

    def _batch(
        self, operation: str, prefix: str, actions: Any, metrics: dict[str, str], offsets: int
    ) -> None:
        self.batch += 1
        begin, self.offset = self.offset, self.offset + offsets
        self.ends.append(self.offset)
        ranges = {"0": {"t": {0: (begin, self.offset)}}} if offsets else {}
        txn = {"txn": {"appId": f"{prefix}{self.query}", "version": self.batch}}
        text = encode_metadata(self.query, self.batch, ranges)
        metadata = {"userMetadata": text} if prefix else {}
        self.commit(operation, txn, *actions, operationMetrics=metrics, **metadata)

    def _removes(self, number: int, *, data_change: bool) -> list[Action]:
        return [
            {"remove": {"path": path, "dataChange": data_change, "deletionTimestamp": 1}}
            for path in list(self.files)[:number]
        ]
