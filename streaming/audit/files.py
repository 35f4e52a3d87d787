"""Check that each of the table's files exists once and matches the commit that wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assignor_bridge.errors import elide, pluralize
from assignor_bridge.model import MAX_OFFSET
from streaming.audit.findings import AuditFinding
from streaming.audit.intervals import iter_ranges
from streaming.delta.delta_log import parse_whole_number
from streaming.delta.transactions import parse_query_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from assignor_bridge.model import Partition
    from streaming.audit.audited_files import DataFiles
    from streaming.audit.history import BatchCommit, History
    from streaming.delta.delta_log import AddedFile, Commit, FileKey, TableChecksum

#: Names of the commit metrics that count new files and rows ("" if none), by operation.
_COUNT_METRICS = {
    "WRITE": ("numFiles", "numOutputRows"),
    "STREAMING UPDATE": ("numAddedFiles", "numOutputRows"),
    "MERGE": ("numTargetFilesAdded", ""),
}
#: Column of an upsert table that stores the partition and offset of each row's record.
_UPSERT_COLUMN = "_sequence"


def check_files(
    history: History, files: DataFiles | None, topics: Collection[str]
) -> Iterator[AuditFinding]:
    """Find lost, changed, and doubled local files; without `files`, only doubles in the log."""
    doubled_text_by_path: dict[str, str] = {}
    for add, first_version, version in history.double_adds:
        doubled_text_by_path[add.path] = f"{add.path} (versions {first_version} and {version})"
    if files is not None:
        lost_files, changed_files = [], []
        for add, version in history.files.values():
            if files.is_remote(add.path):
                continue
            size = files.read_size(add.path)
            if size is None:
                lost_files.append(f"{add.path} (version {version}{_format_rows(add)})")
            elif size != add.size:
                size_text = f"{pluralize(size, 'byte')}, but version {version} lists {add.size:,}"
                changed_files.append(f"{add.path}: {size_text}")
        if lost_files:
            yield AuditFinding("file-lost", elide(lost_files))
        if changed_files:
            yield AuditFinding("file-changed", elide(changed_files))
        for first, other in _find_equal_files(history, files, topics):
            copy, original = (f"{add.path} (version {version})" for add, version in (other, first))
            doubled_text_by_path.setdefault(other[0].path, f"{copy} has the content of {original}")
    if doubled_text_by_path:
        yield AuditFinding("file-doubled", elide(list(doubled_text_by_path.values())))


def _find_equal_files(
    history: History, files: DataFiles, topics: Collection[str]
) -> Iterator[tuple[tuple[AddedFile, int], tuple[AddedFile, int]]]:
    """Yield pairs of files with the same content and known rows, one of which must be a copy.

    Two batches cannot write equal files if each row identifies its record, as in an upsert table or
    by Kafka's columns. Other files, and files of one batch (`UNION ALL` may repeat records), are
    compared only if one of their commits contradicts its metrics or `is_foreign`.
    """
    commits = history.commits.items()
    suspects = {v for v, commit in commits if is_foreign(commit) or _describe_miscount(commit)}
    groups: dict[Any, list[tuple[AddedFile, int]]] = {}
    for add, version in history.files.values():
        if add.rows:
            values = tuple(sorted((add.partition_values or {}).items(), key=str))
            groups.setdefault((add.size, add.stats, values, add.key[1]), []).append((add, version))
    for group in groups.values():
        first, *others = group
        bounds = _parse_bounds(first[0], topics, history.is_upsert)
        identifies_records = history.is_upsert or bounds is not None
        for other in others:
            may_repeat = not identifies_records or first[1] == other[1]
            if may_repeat and not {first[1], other[1]} & suspects:
                continue
            sizes = files.read_size(first[0].path), files.read_size(other[0].path)
            if None in sizes or first[0].path == other[0].path:
                continue
            if files.compute_digest(first[0].path) == files.compute_digest(other[0].path):
                yield first, other


def is_foreign(commit: Commit) -> bool:
    """Return whether a commit changes rows and is neither a batch nor a `RESTORE`."""
    is_batch = any(parse_query_id(transaction.app_id) for transaction in commit.transactions)
    return commit.changes_data and not is_batch and not commit.is_restore


def check_writers(history: History, batch_versions: Collection[int]) -> Iterator[AuditFinding]:
    """Report live commits that change rows but are neither a batch nor a `RESTORE`."""
    append_texts, removal_texts = [], []
    for version, commit in history.commits.items():
        if version in batch_versions or commit.is_restore or version not in history.live_versions:
            continue
        removed_files = [file for file in commit.removes if file.data_change]
        added_files = [file for file in commit.adds if file.data_change]
        operation = f"{commit.info.operation or 'a commit'} at version {version}"
        if removed_files:
            removed_text = f"{pluralize(len(removed_files), 'file')} removed"
            removal_texts.append(f"{operation} ({removed_text}, {len(added_files):,} added)")
        elif added_files:
            counts = [file.rows for file in added_files]
            row_text = "" if None in counts else f", {pluralize(sum(filter(None, counts)), 'row')}"
            append_texts.append(f"{operation} ({pluralize(len(counts), 'file')}{row_text})")
    if append_texts:
        yield AuditFinding("foreign-rows", elide(append_texts))
    if removal_texts:
        yield AuditFinding("rows-changed", elide(removal_texts))


def check_counts(history: History) -> Iterator[AuditFinding]:
    """Check that commits match their metrics, and that compactions keep the number of rows."""
    miscounts = [text for text in map(_describe_miscount, history.commits.values()) if text]
    if miscounts:
        yield AuditFinding("count-mismatch", elide(miscounts))
    row_count_by_file: dict[FileKey, int | None] = {}
    compaction_texts = []
    for version, commit in history.commits.items():
        row_count_by_file |= {file.key: file.rows for file in commit.adds}
        if commit.adds and commit.removes and not commit.changes_data:
            old_counts = [row_count_by_file.get(file.key) for file in commit.removes]
            new_counts = [file.rows for file in commit.adds]
            old_rows, new_rows = (sum(filter(None, counts)) for counts in (old_counts, new_counts))
            if None not in [*old_counts, *new_counts] and old_rows != new_rows:
                operation = commit.info.operation or "a compaction"
                count_text = f"{pluralize(old_rows, 'row')} became {new_rows:,}"
                compaction_texts.append(f"{operation} at version {version}: {count_text}")
    if compaction_texts:
        yield AuditFinding("compaction-rows", elide(compaction_texts))


def check_state(history: History, checksums: Mapping[int, TableChecksum]) -> Iterator[AuditFinding]:
    """Compare the table's number of files and bytes with each commit's checksum file (`.crc`).

    Each difference is reported once, at its first version. If the audit begins after version 0, the
    last checksum is the reference, so that earlier differences are not reported.
    """
    known_difference = (0, 0) if history.is_whole else None
    mismatches = []
    for version, (file_count, byte_count) in history.size_by_version.items():
        checksum = checksums.get(version)
        if checksum is None or checksum.num_files is None or checksum.table_size_bytes is None:
            continue
        difference = (checksum.num_files - file_count, checksum.table_size_bytes - byte_count)
        was_corrected = history.is_whole and difference == (0, 0)
        if known_difference is not None and difference != known_difference and not was_corrected:
            known_files, known_bytes = (0, 0) if history.is_whole else known_difference
            mismatches.append(
                f"version {version} has {pluralize(file_count + known_files, 'file')} "
                f"({byte_count + known_bytes:,} bytes) according to the log, "
                f"but {checksum.num_files:,} ({checksum.table_size_bytes:,} bytes) in its .crc"
            )
        known_difference = difference
    if mismatches:
        yield AuditFinding("state-mismatch", elide(mismatches))


def _describe_miscount(commit: Commit) -> str | None:
    """Describe how a commit's files or rows contradict its metrics; None if no conflict is known.

    Spark's first task writes a file even if it has no rows (`FileFormatWriter`). If Delta collects
    statistics, it counts that file in `numFiles` but omits it from the commit
    (`TransactionalWrite.writeFiles`).
    """
    metrics = commit.info.operation_metrics or {}
    files_metric, rows_metric = _COUNT_METRICS.get(commit.info.operation, ("", ""))
    if any(f.deletion_vector for f in (*commit.adds, *commit.removes)):
        return None
    metric_file_count = parse_whole_number(metrics.get(files_metric))
    file_count = len(commit.adds)
    row_counts = [file.rows for file in commit.adds if file.rows is not None]
    max_file_count = file_count + int(files_metric == "numFiles" and len(row_counts) == file_count)
    if metric_file_count is not None and not file_count <= metric_file_count <= max_file_count:
        metric_text = f"reports {pluralize(metric_file_count, 'file')} in its metrics"
        return f"version {commit.version} {metric_text}, but adds {file_count:,}"
    metric_row_count = parse_whole_number(metrics.get(rows_metric))
    row_count = sum(row_counts)
    if metric_row_count in {None, row_count} or len(row_counts) < file_count or commit.removes:
        return None
    metric_text = f"reports {pluralize(metric_row_count, 'row')} in its metrics"
    return f"version {commit.version} {metric_text}, but its files have {row_count:,}"


def check_statistics(batches: list[BatchCommit], history: History) -> Iterator[AuditFinding]:
    """Check that each file's offsets lie between the lowest and highest that its query had read.

    Earlier batches are included, because a stateful query may emit rows for their records later. If
    an earlier range is unknown, only the highest offset is checked. Not checked are files without
    statistics or with unknown partitions, and files of a batch without ranges or with a merge.
    """
    files_outside = []
    spans: dict[Partition, tuple[int, int]] = {}
    topics: set[str] = set()
    knows_all_ranges = history.is_whole
    for batch in batches:
        commit = history.commits[batch.version]
        knows_all_ranges = knows_all_ranges and batch.ranges is not None
        for (_, partition), begin, end in iter_ranges(batch.ranges or {}):
            low, high = spans.get(partition, (begin, end))
            spans[partition] = min(low, begin), max(high, end)
            topics.add(partition.topic)
        if batch.ranges is None or commit.removes:  # a merge also rewrites other batches' rows
            continue
        for add in commit.adds:
            bounds = _parse_bounds(add, topics, history.is_upsert)
            if bounds is None:
                continue
            (first, last), (min_offset, max_offset) = bounds
            file_spans = {p: span for p, span in spans.items() if first <= p.number <= last}
            if not knows_all_ranges and len({p.number for p in file_spans}) <= last - first:
                continue
            begins = [begin for begin, _ in file_spans.values()] if knows_all_ranges else []
            min_begin = min(begins, default=0)
            max_end = max((end for _, end in file_spans.values()), default=0)
            if min_offset < min_begin or max_offset >= max_end:
                read_text = f"only {_format_span('offset', min_begin, max_end - 1)}"
                if not knows_all_ranges:
                    read_text = f"only offsets up to {max_end - 1}"
                files_outside.append(
                    f"{add.path} has {_format_span('offset', min_offset, max_offset)} in "
                    f"{_format_span('partition', first, last)}, but by {batch}, the query had read "
                    f"{read_text if file_spans else 'nothing'} there"
                )
    if files_outside:
        yield AuditFinding("rows-outside", elide(files_outside))


def _parse_bounds(
    add: AddedFile, topics: Collection[str], is_upsert: bool
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return a file's (minimum, maximum) partition and (minimum, maximum) offset; None if unknown.

    They come from statistics of Kafka's columns or, in an upsert table, of `_UPSERT_COLUMN`. Other
    columns named like Kafka's are ignored: their minimum topic is not in `topics`.
    """
    stats = add.statistics
    low, high = stats.get("minValues"), stats.get("maxValues")
    if is_upsert:
        low, high = (v.get(_UPSERT_COLUMN) if isinstance(v, dict) else None for v in (low, high))
    if not isinstance(low, dict) or not isinstance(high, dict):
        return None
    # Delta truncates long strings in statistics.
    if not is_upsert and not any(t.startswith(str(low.get("topic"))) for t in topics):
        return None
    pairs = [(low.get(name), high.get(name)) for name in ("partition", "offset")]
    numbers = [bound for pair in pairs for bound in pair if isinstance(bound, int)]
    bounds = [bound for bound in numbers if abs(bound) <= MAX_OFFSET]
    return ((bounds[0], bounds[1]), (bounds[2], bounds[3])) if len(bounds) == 4 else None


def _format_rows(add: AddedFile) -> str:
    return f", {pluralize(add.rows, 'row')}" if add.rows is not None else ""


def _format_span(noun: str, first: int, last: int) -> str:
    return f"{noun} {first}" if first == last else f"{noun}s {first} to {last}"
