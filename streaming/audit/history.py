"""What a log's commits make of a table: which of them count, which files it has, which batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streaming.delta.log import TableRestore
from streaming.delta.transactions import make_writer_name, parse_query_id
from streaming.delta.user_metadata import BatchMetadata, decode_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable

    from checkpoints.offset_log import Checkpoint, KafkaRanges
    from streaming.delta.log import AddedFile, Commit, FileKey


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of a query, as a commit has it."""

    query: str
    number: int
    version: int
    #: None where neither the commit nor the checkpoint says it.
    ranges: KafkaRanges | None
    metadata: BatchMetadata | None

    def __str__(self) -> str:
        return f"batch {self.number} (version {self.version})"


@dataclass
class History:
    """A table's past, from the first version that its log still has."""

    commits: dict[int, Commit]
    #: Whether the log begins with the table.
    is_whole: bool
    #: Versions whose content the table has, unless later ones changed it.
    live: frozenset[int] = frozenset()
    restores: list[TableRestore] = field(default_factory=list)
    #: The table's files with the version that added them, as far as the log tells.
    files: dict[FileKey, tuple[AddedFile, int]] = field(default_factory=dict)
    #: Files that were added while they were in the table already.
    doubled: list[tuple[AddedFile, int, int]] = field(default_factory=list)
    #: Files and bytes of the table by version.
    counts: dict[int, tuple[int, int]] = field(default_factory=dict)
    properties: dict[str, str | None] = field(default_factory=dict)
    #: Whether the table keeps the newest row of each key, as our sink's property says; once the log
    #: of that property is cleaned up, merges by jobs say it.
    is_upsert: bool = False

    def batches(self, checkpoint: Checkpoint | None) -> list[Batch]:
        """Return all batches of streaming queries, in the log's order."""
        kept = checkpoint.ranges if checkpoint is not None else {}
        found = []
        for version, commit in self.commits.items():
            metadata = decode_metadata(commit.info.user_metadata)
            for transaction in commit.transactions:
                query = parse_query_id(transaction.app_id)
                if query is None or transaction.version < 0:
                    continue
                ours = metadata if metadata and metadata.query == query else None
                ranges = ours.ranges if ours and ours.batch == transaction.version else None
                if ranges is None and checkpoint is not None and query == checkpoint.query_id:
                    ranges = kept.get(transaction.version)
                found.append(Batch(query, transaction.version, version, ranges, metadata))
        return found


def _is_merge(commit: Commit) -> bool:
    """Whether a job of ours has merged its batch; others' merges may leave every row in place."""
    names = {transaction.app_id for transaction in commit.transactions}
    ours = {make_writer_name(query) for query in map(parse_query_id, names) if query}
    return commit.info.operation == "MERGE" and not ours.isdisjoint(names)


def replay(commits: Iterable[Commit]) -> History:
    """Play a log from its first version on."""
    history = History({commit.version: commit for commit in commits}, False)
    if not history.commits:
        return history
    first = next(iter(history.commits))
    history.is_whole = first == 0
    #: The version that each one stands on, by a `RESTORE` an earlier one than the one before.
    base: dict[int, int | None] = {}
    #: The set of files at each version, as one number: a `RESTORE` by time names no version.
    states: dict[int, int] = {}
    state, size, previous = 0, 0, None
    for version, commit in history.commits.items():
        removed = {file.key for file in commit.removes}
        for key in removed:
            gone = history.files.pop(key, None)
            if gone is not None:
                state ^= hash(key)
                size -= gone[0].size
        for add in commit.adds:
            there = history.files.get(add.key)
            if there is not None and add.data_change:
                history.doubled.append((add, there[1], version))
            if there is None:
                state ^= hash(add.key)
                size += add.size
            history.files[add.key] = (add, there[1] if there else version)
        states[version] = state
        base[version] = previous
        if commit.is_restore:
            to = commit.restored_to
            if to is None:
                same = (v for v in reversed(states) if v != version and states[v] == state)
                to = next(same, None) if history.is_whole else None
            history.restores.append(TableRestore(to, version))
            base[version] = to
        history.counts[version] = (len(history.files), size)
        if commit.metadata is not None:
            history.properties = commit.metadata.configuration
        previous = version
    live = set()
    at: int | None = previous
    while at is not None and at not in live:
        live.add(at)
        at = base.get(at)
    history.live = frozenset(live)
    mode = history.properties.get("assignor.mode")
    history.is_upsert = mode == "upsert" if mode else any(map(_is_merge, history.commits.values()))
    return history
