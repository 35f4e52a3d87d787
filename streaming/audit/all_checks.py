"""Run all audit checks in order. Without findings, the table is proved correct."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from assignor_bridge.errors import elide, pluralize
from streaming.audit.files import (
    check_counts,
    check_files,
    check_state,
    check_statistics,
    check_writers,
)
from streaming.audit.findings import AuditFinding, sort_by_severity
from streaming.audit.history import replay_commits
from streaming.audit.intervals import (
    collect_read_offsets,
    count_offsets,
    find_gaps,
    format_numbers,
    iter_ranges,
    merge_intervals,
    subtract_intervals,
)
from streaming.audit.offsets import check_checkpoint, check_overlaps_of_queries, check_query
from streaming.audit.record_checksums import check_records
from streaming.audit.rows import compute_read_spans
from streaming.delta.transactions import ACCEPTED_RESTORE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from assignor_bridge.model import Partition
    from streaming.audit.audited_files import Evidence
    from streaming.audit.history import BatchCommit, History
    from streaming.audit.intervals import Intervals
    from streaming.audit.rows import RowAudit

#: Scope of a proof: each commit's offsets and number of rows, or some or all of the rows.
Scope = Literal["commits", "sampled rows", "rows"]
#: Kinds of findings about batches; a row audit drops them if no audited version has a batch.
_BATCH_KINDS = {"no-batch", "foreign-rows", "rows-changed", "log-begins-late"}
#: Kinds of findings after which some of the offsets read by batches are unknown.
_UNKNOWN_OFFSET_KINDS = {"no-ranges", "log-begins-late", "batch-unknown"}
_UNKNOWN_OFFSET_KINDS |= {"commit-missing", "commit-damaged"}


@dataclass
class AuditedQuery:
    """Batches of one query, from the first audited version on."""

    id: str
    batches: list[BatchCommit]
    #: Number of known offsets, and of their partitions, in the query's live commits.
    offsets: int
    partitions: int
    #: Number of batches in which Spark counted one record per offset.
    batches_counted: int = 0
    #: Lower bound on the number of offsets without a record. Each record that Spark counted twice
    #: hides one of them.
    offsets_without_record: int = 0
    #: Number of batches with more counted records than offsets, because Spark reran tasks.
    batches_recounted: int = 0


@dataclass
class Audit:
    """Result of an audit of the table's versions `first_version` to `last_version`."""

    first_version: int
    last_version: int
    files: int  # number of files in the table
    #: Number of rows in `files`; None if a statistic is missing or version 0 is not audited.
    rows: int | None
    queries: list[AuditedQuery]
    findings: list[AuditFinding] = field(default_factory=list)
    #: Whether the table keeps the newest row of each key.
    is_upsert: bool = False
    #: Number of rows read; None if rows were not audited.
    rows_read: int | None = None
    #: Number of topic records compared with the rows; None if no records were read.
    records_compared: int | None = None
    scope: Scope = "commits"

    @property
    def holds(self) -> bool:
        """Whether the audit proves that the table has each of the batches' offsets exactly once."""
        return not self.findings

    @property
    def spans(self) -> dict[Partition, tuple[int, int]]:
        """Offsets `[begin, end)` that were read, by partition; empty if not all are known."""
        if any(f.kind in _UNKNOWN_OFFSET_KINDS for f in self.findings) or self.first_version > 0:
            return {}
        return compute_read_spans(batch for query in self.queries for batch in query.batches)

    def add_rows(
        self, row_audit: RowAudit, findings: Iterable[AuditFinding], *, are_sampled: bool = False
    ) -> None:
        """Add the result of a row audit; drop `_BATCH_KINDS` if no batch was audited."""
        self.scope = "sampled rows" if are_sampled else "rows"
        log_findings = [f for f in self.findings if self.queries or f.kind not in _BATCH_KINDS]
        self.findings = sort_by_severity([*log_findings, *findings])
        self.rows_read, self.records_compared = row_audit.rows_read, row_audit.records_compared


def audit(evidence: Evidence, since: int | None = None) -> Audit:
    """Audit a table from version `since` on; None starts at version 0."""
    history = replay_commits(evidence.commits)
    all_batches = history.list_batches(evidence.checkpoint)
    since = since or 0
    history.commits = {v: c for v, c in history.commits.items() if v >= since}
    history.restores = [r for r in history.restores if r.version >= since]
    history.double_adds = [d for d in history.double_adds if d[2] >= since]
    history.size_by_version = {v: n for v, n in history.size_by_version.items() if v >= since}
    history.is_whole = history.is_whole and since == 0
    batches_by_query: dict[str, list[BatchCommit]] = {}
    for batch in all_batches:
        if batch.version in history.commits:
            batches_by_query.setdefault(batch.query, []).append(batch)
    queries = [_summarize_query(q, bs, history) for q, bs in batches_by_query.items()]
    findings = _run_checks(
        evidence, history, batches_by_query, queries, all_batches=all_batches, since=since
    )
    rows = [add.rows for add, _ in history.files.values()]
    versions = [v for v in (*history.commits, *evidence.damage) if v >= since]
    return Audit(
        first_version=min(versions, default=since),
        last_version=evidence.last_version,
        files=len(history.files),
        rows=None if None in rows or not history.is_whole else sum(n for n in rows if n),
        queries=queries,
        findings=sort_by_severity(findings),
        is_upsert=history.is_upsert,
    )


def _run_checks(
    evidence: Evidence,
    history: History,
    batches_by_query: dict[str, list[BatchCommit]],
    queries: list[AuditedQuery],
    *,
    all_batches: list[BatchCommit],
    since: int,
) -> Iterator[AuditFinding]:
    """Yield each check's findings. `batches_by_query` omits batches before version `since`."""
    yield from _check_log(evidence, since)
    offsets_by_query = {
        query: collect_read_offsets(b for b in batches if b.version in history.live_versions)
        for query, batches in batches_by_query.items()
    }
    other_offsets_by_query = {
        q: _collect_other_offsets(q, offsets_by_query) for q in batches_by_query
    }
    audited_batches = [batch for batches in batches_by_query.values() for batch in batches]
    yield from _check_restores(history, audited_batches, other_offsets_by_query)
    checkpoint = evidence.checkpoint
    for query, batches in batches_by_query.items():
        own_checkpoint = checkpoint if checkpoint and checkpoint.query_id == query else None
        yield from check_query(batches, history, own_checkpoint, other_offsets_by_query[query])
        yield from _check_metadata(batches)
        yield from check_statistics(batches, history)
    # Several queries may merge the same records into an upsert table without changing its rows.
    if not history.is_upsert:
        yield from check_overlaps_of_queries(offsets_by_query)
    checkpoint_findings: list[AuditFinding] = []
    if checkpoint is not None:
        checkpoint_findings += check_checkpoint(
            checkpoint,
            evidence.last_completed,
            all_batches,
            is_whole=history.is_whole,
            other_offsets=other_offsets_by_query.get(checkpoint.query_id or "", {}),
            since=since,
        )
    yield from checkpoint_findings
    if not batches_by_query and not checkpoint_findings:
        details = f"no batch in {pluralize(len(history.commits), 'audited commit')}"
        details += f"; the last is in version {all_batches[-1].version}" if all_batches else ""
        yield AuditFinding("no-batch", details)
    yield from check_writers(history, {batch.version for batch in audited_batches})
    topics = {
        p.topic for q in queries for b in q.batches for (_, p), _, _ in iter_ranges(b.ranges or {})
    }
    yield from check_files(history, evidence.files, topics)
    yield from check_counts(history)
    # A removed file can be subtracted only if the log still has the commit that added it.
    if not evidence.damage and evidence.commits[0].version == 0 and not _find_log_gaps(evidence):
        yield from check_state(history, evidence.checksums)
    for audited_query in queries:
        yield from check_records(audited_query)


def _check_log(evidence: Evidence, since: int) -> Iterator[AuditFinding]:
    """Check that the log has every version from `since` on, and that each can be read."""
    versions = [*(commit.version for commit in evidence.commits), *evidence.damage]
    if (first := min(versions)) > since:
        yield AuditFinding("log-begins-late", f"the log begins at version {first}, not {since}")
    if gaps := _find_log_gaps(evidence, since):
        yield AuditFinding("commit-missing", format_numbers("version", gaps))
    damage_texts = [f"version {v}: {reason}" for v, reason in evidence.damage.items() if v >= since]
    if damage_texts:
        yield AuditFinding("commit-damaged", elide(damage_texts))


def _find_log_gaps(evidence: Evidence, since: int = 0) -> list[range]:
    versions = sorted({*(commit.version for commit in evidence.commits), *evidence.damage})
    return find_gaps(versions, max(versions[0], since), versions[-1])


def _collect_other_offsets(query: str, offsets_by_query: dict[str, Intervals]) -> Intervals:
    """Return the merged offsets that the queries other than `query` read."""
    result: Intervals = {}
    for intervals in (offsets for other, offsets in offsets_by_query.items() if other != query):
        for partition, partition_intervals in intervals.items():
            result[partition] = merge_intervals([*result.get(partition, []), *partition_intervals])
    return result


def _check_restores(
    history: History, batches: Sequence[BatchCommit], other_offsets_by_query: dict[str, Intervals]
) -> Iterator[AuditFinding]:
    """Report each live `RESTORE` that lost batches, or whose target is unknown.

    A batch is not lost if a live commit has its number, or if other queries read all its offsets.
    """
    for restore in history.restores:
        if restore.version not in history.live_versions:
            continue
        if restore.target is None:
            details = f"version {restore.version} is a RESTORE to a version that it does not record"
            yield AuditFinding("restored-unknown", details)
            continue
        live_batches = {(b.query, b.number) for b in batches if b.version in history.live_versions}
        removed_batches = [
            batch
            for batch in batches
            if restore.target < batch.version < restore.version
            and batch.version not in history.live_versions
            and (batch.query, batch.number) not in live_batches
        ]
        loss_by_batch = {
            str(b): sum(
                high - low
                for (_, p), begin, end in iter_ranges(b.ranges or {})
                for low, high in subtract_intervals(p, begin, end, other_offsets_by_query[b.query])
            )
            for b in removed_batches
        }
        # Keep a batch with unknown ranges, because it may have read any offset.
        lost_batches = [b for b in removed_batches if b.ranges is None or loss_by_batch[str(b)]]
        if lost_batches:
            is_accepted = history.properties.get(ACCEPTED_RESTORE) == str(restore.version)
            acceptance = (
                f"; the table property {ACCEPTED_RESTORE} accepts this" if is_accepted else ""
            )
            bound = "at least " if any(batch.ranges is None for batch in lost_batches) else ""
            lost_count = sum(loss_by_batch.values())
            lost_text = bound + pluralize(lost_count, "offset") if lost_count else "unknown offsets"
            batches_text = elide(list(map(str, lost_batches)))
            details = f"RESTORE in version {restore.version} to version {restore.target} removed "
            yield AuditFinding("restored", f"{details}{batches_text}: {lost_text}{acceptance}")


def _check_metadata(batches: Iterable[BatchCommit]) -> Iterator[AuditFinding]:
    for batch in batches:
        metadata = batch.metadata
        if metadata is not None and (metadata.query, metadata.batch) != (batch.query, batch.number):
            details = f"{batch} of query {batch.query} has the metadata of batch {metadata.batch}"
            yield AuditFinding("batch-mismatch", f"{details} of query {metadata.query}")


def _summarize_query(query_id: str, batches: list[BatchCommit], history: History) -> AuditedQuery:
    live_batches = {b.number: b for b in batches if b.version in history.live_versions}.values()
    partitions = {p for batch in live_batches for p, _, _ in iter_ranges(batch.ranges or {})}
    return AuditedQuery(query_id, batches, count_offsets(live_batches), len(partitions))
