"""Whether the table's files are there, once, and are what the commits say they wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assignor_bridge.errors import elide
from assignor_bridge.model import MAX_OFFSET
from streaming.audit.findings import Finding
from streaming.audit.intervals import flat
from streaming.delta.log import parse_whole_number
from streaming.delta.transactions import parse_query_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from assignor_bridge.model import Partition
    from streaming.audit.evidence import DataFiles
    from streaming.audit.history import Batch, History
    from streaming.delta.log import AddedFile, Commit, FileKey, TableChecksum

#: What a commit says it wrote: by operation, the metrics that count its new files and its rows.
_COUNTED = {
    "WRITE": ("numFiles", "numOutputRows"),
    "STREAMING UPDATE": ("numAddedFiles", "numOutputRows"),
    "MERGE": ("numTargetFilesAdded", ""),
}


#: Where an upsert's rows say which record they are.
_OF_UPSERT = "_sequence"


def check_files(
    history: History, files: DataFiles | None, topics: Collection[str]
) -> Iterator[Finding]:
    """Check that the files of the table are there, and are there once."""
    names: dict[str, str] = {}
    for add, before, version in history.doubled:
        names[add.path] = f"{add.path} (versions {before} and {version})"
    if files is not None:
        lost, changed = [], []
        for add, version in history.files.values():
            if files.is_elsewhere(add.path):
                continue
            size = files.size(add.path)
            if size is None:
                lost.append(f"{add.path} (version {version}{_rows(add)})")
            elif size != add.size:
                changed.append(f"{add.path} has {size} bytes, version {version} says {add.size}")
        if lost:
            yield Finding("file-lost", elide(lost))
        if changed:
            yield Finding("file-changed", elide(changed))
        for one, other in _equal(history, files, topics):
            names.setdefault(
                other[0].path,
                f"{other[0].path} (version {other[1]}) has the content of {one[0].path} "
                f"(version {one[1]})",
            )
    if names:
        yield Finding("file-doubled", elide(list(names.values())))


def _equal(
    history: History, files: DataFiles, topics: Collection[str]
) -> Iterator[tuple[tuple[AddedFile, int], tuple[AddedFile, int]]]:
    """Return pairs of files of equal content that two batches cannot both have written.

    Rows of an upsert, and rows with Kafka's columns, identify their record; any other equal files
    are compared only if a commit's metrics differ from its files. One batch may write equal files,
    by a `UNION ALL` of the same records.
    """
    suspects = {v for v in history.commits if _miscount(history.commits[v])}
    suspects |= {v for v, commit in history.commits.items() if is_foreign(commit)}
    alike: dict[Any, list[tuple[AddedFile, int]]] = {}
    for add, version in history.files.values():
        if add.rows:
            values = tuple(sorted((add.partition_values or {}).items(), key=str))
            alike.setdefault((add.size, add.stats, values, add.key[1]), []).append((add, version))
    for group in alike.values():
        first, *others = group
        unique = history.is_upsert or _offsets_of(first[0], topics, history.is_upsert) is not None
        for other in others:
            may_repeat = not unique or first[1] == other[1]
            if may_repeat and not {first[1], other[1]} & suspects:
                continue
            sizes = files.size(first[0].path), files.size(other[0].path)
            if None in sizes or first[0].path == other[0].path:
                continue
            if files.digest(first[0].path) == files.digest(other[0].path):
                yield first, other


def is_foreign(commit: Commit) -> bool:
    """Whether a commit changes rows and is no batch, no `RESTORE`."""
    is_batch = any(parse_query_id(transaction.app_id) for transaction in commit.transactions)
    return commit.changes_data and not is_batch and not commit.is_restore


def check_writers(history: History, ours: Collection[int]) -> Iterator[Finding]:
    """Check that rows come and go by batches alone; `ours` are the versions that are batches."""
    appends, changes = [], []
    for version, commit in history.commits.items():
        if version in ours or commit.is_restore or version not in history.live:
            continue
        removed = [file for file in commit.removes if file.data_change]
        added = [file for file in commit.adds if file.data_change]
        what = f"{commit.info.operation or 'a commit'} at version {version}"
        if removed:
            changes.append(f"{what} ({len(removed)} files out, {len(added)} in)")
        elif added:
            rows = sum(file.rows or 0 for file in added)
            appends.append(f"{what} ({len(added)} files, {rows:,} rows)")
    if appends:
        yield Finding("foreign-rows", elide(appends))
    if changes:
        yield Finding("rows-changed", elide(changes))


def check_counts(history: History) -> Iterator[Finding]:
    """Check that each commit adds what it says, and that a compaction keeps the rows."""
    wrong = [why for commit in history.commits.values() if (why := _miscount(commit))]
    if wrong:
        yield Finding("count-mismatch", elide(wrong))
    rows: dict[FileKey, int | None] = {}
    moved = []
    for version, commit in history.commits.items():
        rows |= {file.key: file.rows for file in commit.adds}
        if commit.adds and commit.removes and not commit.changes_data:
            before = [rows.get(file.key) for file in commit.removes]
            after = [file.rows for file in commit.adds]
            counts = [sum(n for n in side if n is not None) for side in (before, after)]
            if None not in [*before, *after] and counts[0] != counts[1]:
                what = commit.info.operation or "a compaction"
                moved.append(f"{what} at version {version}: {counts[0]:,} in, {counts[1]:,} out")
    if moved:
        yield Finding("compaction-rows", elide(moved))


def check_state(history: History, checksums: Mapping[int, TableChecksum]) -> Iterator[Finding]:
    """Check the table's files against what Delta counted beside each commit.

    Each difference is told once, where it begins; what was there before the log begins is unknown.
    """
    shift = None if not history.is_whole else (0, 0)
    differing = []
    for version, (number, size) in history.counts.items():
        checksum = checksums.get(version)
        if checksum is None or checksum.num_files is None or checksum.table_size_bytes is None:
            continue
        now = (checksum.num_files - number, checksum.table_size_bytes - size)
        if shift is not None and now != shift:
            differing.append(
                f"version {version} has {number + shift[0]:,} files of {size + shift[1]:,} bytes "
                f"by the log, {checksum.num_files:,} of {checksum.table_size_bytes:,} by Delta"
            )
        shift = now
    if differing:
        yield Finding("state-mismatch", elide(differing))


def _miscount(commit: Commit) -> str | None:
    """Return how a commit's files or rows differ from its metrics; None if they agree.

    Spark's first task writes a file even if it has no row (`FileFormatWriter`). Delta counts that
    file in `numFiles` and leaves it out of the commit, if it collects statistics
    (`TransactionalWrite.writeFiles`).
    """
    metrics = commit.info.operation_metrics or {}
    files_metric, rows_metric = _COUNTED.get(commit.info.operation, ("", ""))
    if any(f.deletion_vector for f in (*commit.adds, *commit.removes)):
        return None
    number, added = parse_whole_number(metrics.get(files_metric)), len(commit.adds)
    counts = [file.rows for file in commit.adds if file.rows is not None]
    empty_files = int(files_metric == "numFiles" and len(counts) == added)
    if number is not None and not added <= number <= added + empty_files:
        return f"version {commit.version} says {number} files, it adds {added}"
    number, rows = parse_whole_number(metrics.get(rows_metric)), sum(counts)
    if number in {None, rows} or len(counts) < added or commit.removes:
        return None
    return f"version {commit.version} says {number:,} rows, it adds {rows:,}"


def check_statistics(batches: list[Batch], history: History) -> Iterator[Finding]:
    """Check that the offsets in a file lie within those that batches have read so far.

    A query with state emits rows of records that earlier batches read.
    """
    outside = []
    spans: dict[Partition, tuple[int, int]] = {}
    topics: set[str] = set()
    knows_all = history.is_whole
    for batch in batches:
        commit = history.commits[batch.version]
        knows_all = knows_all and batch.ranges is not None
        for (_, partition), begin, end in flat(batch.ranges or {}):
            low, high = spans.get(partition, (begin, end))
            spans[partition] = min(low, begin), max(high, end)
            topics.add(partition.topic)
        if batch.ranges is None or commit.removes:  # a merge also rewrites rows of earlier batches
            continue
        for add in commit.adds:
            span = _offsets_of(add, topics, history.is_upsert)
            if span is None:
                continue
            (first, last), (low, high) = span
            of_file = {p: read for p, read in spans.items() if first <= p.number <= last}
            if not knows_all and len({p.number for p in of_file}) <= last - first:
                continue
            begins = min((begin for begin, _ in of_file.values()), default=0) if knows_all else 0
            ends = max((end for _, end in of_file.values()), default=0)
            if low < begins or high >= ends:
                outside.append(
                    f"{add.path}: offsets {low} to {high} of partitions {first} to {last}, up to "
                    f"{batch} were read {f'{begins} to {ends - 1}' if of_file else 'none'}"
                )
    if outside:
        yield Finding("rows-outside", elide(outside))


def _offsets_of(
    add: AddedFile, topics: Collection[str], is_upsert: bool
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return least and greatest partition, and offset, in a file; None where it has no such.

    Columns that are merely named like Kafka's are told by their topic: a column that holds others.
    """
    stats = add.statistics
    least, most = stats.get("minValues"), stats.get("maxValues")
    if is_upsert:
        least, most = (v.get(_OF_UPSERT) if isinstance(v, dict) else None for v in (least, most))
    if not isinstance(least, dict) or not isinstance(most, dict):
        return None
    # Delta cuts long text off.
    if not is_upsert and not any(t.startswith(str(least.get("topic"))) for t in topics):
        return None
    pairs = [(least.get(name), most.get(name)) for name in ("partition", "offset")]
    numbers = [bound for pair in pairs for bound in pair if isinstance(bound, int)]
    bounds = [bound for bound in numbers if abs(bound) <= MAX_OFFSET]
    return ((bounds[0], bounds[1]), (bounds[2], bounds[3])) if len(bounds) == 4 else None


def _rows(add: AddedFile) -> str:
    return f", {add.rows:,} rows" if add.rows is not None else ""
