"""Where the two queries run, and how far each has come as told by its files."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

PARTITIONS = 40
QUERIES = APPEND, UPSERT = "append", "upsert"
TWO_EXECUTORS, LOCAL = "local-cluster[2,1,1024]", "local[2]"
#: Batches that end where the planner says: less than the feed brings while one runs.
LIMITED = {
    "assignor.targetBatchSeconds": "2",
    "assignor.fairness": "even",
    "maxOffsetsPerTrigger": "500",
}
#: The same by what retention deletes first and by the records' times, which Kafka is asked for.
ALIGNED = {
    "assignor.alignEventTime": "1 second",
    "assignor.fairness": "deadline",
    "maxOffsetsPerTrigger": "500",
}
#: The part of a job's checkpoint that belongs to its one sink.
_SINK = "sink"


@dataclass(frozen=True)
class Query:
    """One of the two queries."""

    name: str
    folder: Path
    bootstrap_servers: str
    topic: str
    #: Consumer group that its progress is committed to.
    group: str

    @property
    def job_checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def checkpoint(self) -> Path:
        return self.job_checkpoint / _SINK

    @property
    def table(self) -> Path:
        return self.folder / "table"


@dataclass(frozen=True)
class Place:
    """All that a driver is told."""

    bootstrap_servers: str
    topic: str
    #: The names of the consumer groups begin with it.
    group: str
    #: Everything is written below it.
    folder: str
    #: Spark's master: `TWO_EXECUTORS`, or `LOCAL`, where the driver is all there is to kill.
    master: str
    #: Options of both queries that limit their batches, until the last driver catches up.
    limits: dict[str, str] = field(default_factory=dict)

    def query(self, name: str) -> Query:
        folder = Path(self.folder) / name
        return Query(name, folder, self.bootstrap_servers, self.topic, f"{self.group}-{name}")

    @property
    def queries(self) -> tuple[Query, Query]:
        return self.query(APPEND), self.query(UPSERT)


def planned(query: Query) -> int:
    """Newest batch of the offset log."""
    return _newest(query.checkpoint / "offsets", r"(\d+)")


def done(query: Query) -> int:
    """Newest batch of the commit log."""
    return _newest(query.checkpoint / "commits", r"(\d+)")


def in_table(query: Query) -> int:
    """Newest version of the Delta table."""
    return _newest(query.table / "_delta_log", r"(\d{20})\.json")


def data_files(query: Query) -> int:
    """Number of data files, finished or not."""
    with contextlib.suppress(FileNotFoundError):
        return sum(entry.name.startswith(("part-", ".part-")) for entry in os.scandir(query.table))
    return 0


def _newest(folder: Path, pattern: str) -> int:
    with contextlib.suppress(FileNotFoundError):
        found = (re.fullmatch(pattern, entry.name) for entry in os.scandir(folder))
        return max((int(name.group(1)) for name in found if name), default=-1)
    return -1
