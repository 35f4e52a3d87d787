"""Replay a table's log to list its live commits, files, and committed batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streaming.delta.delta_log import TableRestore
from streaming.delta.transactions import make_writer_name, parse_query_id
from streaming.delta.user_metadata import BatchMetadata, decode_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable

    from checkpoints.offset_log import Checkpoint, KafkaRanges
    from streaming.delta.delta_log import AddedFile, Commit, FileKey


@dataclass(frozen=True, slots=True)
class BatchCommit:
    """One batch of a query, as recorded in a commit."""

    query: str
    number: int
    version: int
    #: Offsets read; None if neither the commit nor the checkpoint records them.
    ranges: KafkaRanges | None
    metadata: BatchMetadata | None

    def __str__(self) -> str:
        return f"batch {self.number} (version {self.version})"


@dataclass
class History:
    """A table's history, from the first version still in its log."""

    commits: dict[int, Commit]
    #: Whether the log, and the audit, begin at version 0.
    is_whole: bool
    #: Versions that no later `RESTORE` undid.
    live_versions: frozenset[int] = frozenset()
    restores: list[TableRestore] = field(default_factory=list)
    #: The table's current files, each with the version that added it.
    files: dict[FileKey, tuple[AddedFile, int]] = field(default_factory=dict)
    #: Files added twice, each with the first and the second version that added it.
    double_adds: list[tuple[AddedFile, int, int]] = field(default_factory=list)
    #: The table's number of files and of bytes, by version.
    size_by_version: dict[int, tuple[int, int]] = field(default_factory=dict)
    properties: dict[str, str | None] = field(default_factory=dict)
    #: Whether the table keeps only the newest row of each key. `assignor run` sets a property for
    #: this; if the log no longer has the property, a merge by `assignor run` proves it.
    is_upsert: bool = False

    def list_batches(self, checkpoint: Checkpoint | None) -> list[BatchCommit]:
        """Return all streaming batches in the log's order; add missing ranges from `checkpoint`."""
        logged_ranges = checkpoint.ranges if checkpoint is not None else {}
        batches = []
        for version, commit in self.commits.items():
            metadata = decode_metadata(commit.info.user_metadata)
            for transaction in commit.transactions:
                query = parse_query_id(transaction.app_id)
                if query is None or transaction.version < 0:
                    continue
                query_and_batch = query, transaction.version
                is_own = metadata and (metadata.query, metadata.batch) == query_and_batch
                ranges = metadata.ranges if metadata and is_own else None
                if ranges is None and checkpoint is not None and query == checkpoint.query_id:
                    ranges = logged_ranges.get(transaction.version)
                batches.append(BatchCommit(query, transaction.version, version, ranges, metadata))
        return batches


def _is_merge(commit: Commit) -> bool:
    """Return whether the commit is a merge by `assignor run`, after which each key has one row."""
    app_ids = {transaction.app_id for transaction in commit.transactions}
    job_app_ids = {make_writer_name(query) for query in map(parse_query_id, app_ids) if query}
    return commit.info.operation == "MERGE" and not job_app_ids.isdisjoint(app_ids)


def replay_commits(commits: Iterable[Commit]) -> History:
    """Apply the commits of a table's log, which are in order, and return the table's history.

    1. Apply each commit's removes and adds, and note files that were added twice.
    2. Find the version that each commit is based on: the previous one, or a `RESTORE`'s target.
    3. Walk back from the last version; the versions on the way are live.
    """
    history = History({commit.version: commit for commit in commits}, False)
    if not history.commits:
        return history
    history.is_whole = next(iter(history.commits)) == 0
    #: The version that each version is based on.
    base_by_version: dict[int, int | None] = {}
    #: Hash of each version's set of files, to find the target of a `RESTORE` by time.
    hash_by_version: dict[int, int] = {}
    files_hash, byte_count, previous_version = 0, 0, None
    for version, commit in history.commits.items():
        removed_keys = {file.key for file in commit.removes}
        for key in removed_keys:  # 1.
            entry = history.files.pop(key, None)
            if entry is not None:
                files_hash ^= hash(key)
                byte_count -= entry[0].size
        for add in commit.adds:
            old_entry = history.files.get(add.key)
            if old_entry is not None and add.data_change:
                history.double_adds.append((add, old_entry[1], version))
            if old_entry is None:
                files_hash ^= hash(add.key)
                byte_count += add.size
            history.files[add.key] = (add, old_entry[1] if old_entry else version)
        hash_by_version[version] = files_hash
        base_by_version[version] = previous_version  # 2.
        if commit.is_restore:
            target = commit.restored_to
            if target is None:
                hashes = reversed(hash_by_version.items())
                targets = (v for v, files in hashes if v != version and files == files_hash)
                target = next(targets, None) if history.is_whole else None
            history.restores.append(TableRestore(target, version))
            base_by_version[version] = target
        history.size_by_version[version] = (len(history.files), byte_count)
        if commit.metadata is not None:
            history.properties = commit.metadata.configuration
        previous_version = version
    live_versions = set()  # 3.
    live_version: int | None = previous_version
    while live_version is not None and live_version not in live_versions:
        live_versions.add(live_version)
        live_version = base_by_version.get(live_version)
    history.live_versions = frozenset(live_versions)
    mode = history.properties.get("assignor.mode")
    history.is_upsert = mode == "upsert" if mode else any(map(_is_merge, history.commits.values()))
    return history
