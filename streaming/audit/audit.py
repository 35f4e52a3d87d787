"""The recipe of an audit: what is looked at, in order, and what is proved when nothing is found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from assignor_bridge.errors import elide
from streaming.audit.files import (
    check_counts,
    check_files,
    check_state,
    check_statistics,
    check_writers,
)
from streaming.audit.findings import Finding, by_severity
from streaming.audit.history import replay
from streaming.audit.intervals import flat, held_by, joined, left_of, named, without
from streaming.audit.offsets import (
    check_checkpoint,
    check_overlaps_of_queries,
    check_query,
    total,
)
from streaming.audit.records import check_records
from streaming.audit.rows import spans_of
from streaming.delta.transactions import ACCEPTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from assignor_bridge.model import Partition
    from streaming.audit.evidence import Evidence
    from streaming.audit.history import Batch, History
    from streaming.audit.intervals import Intervals
    from streaming.audit.rows import RowAudit


#: What a proof covers: offsets and numbers of rows by commit, or the rows themselves.
Scope = Literal["commits", "sampled rows", "rows"]

#: Findings about batches, of which a table that others wrote has none.
_OF_BATCHES = {"no-batch", "foreign-rows", "rows-changed", "log-begins-late"}
#: With one of these, batches may have read more than is known.
_INCOMPLETE = {"no-ranges", "log-begins-late", "commit-missing", "commit-damaged", "batch-unknown"}


@dataclass
class Query:
    """What is known of one query's batches, from the audited version on."""

    id: str
    batches: list[Batch]
    #: Offsets that its commits hold, and partitions.
    offsets: int
    partitions: int
    #: Batches whose records were counted, and are those of all their offsets.
    counted: int = 0
    #: Offsets without a record, in batches that were counted: a lower bound, because a record that
    #: Spark counted again hides one of them.
    without_record: int = 0
    #: Batches whose counters have more records than offsets: Spark ran a stage of them again.
    recounted: int = 0


@dataclass
class Audit:
    """What an audit found."""

    #: First and last version that were looked at.
    first: int
    last: int
    files: int
    rows: int | None
    queries: list[Query]
    findings: list[Finding] = field(default_factory=list)
    #: Whether the table keeps the newest row of each key.
    is_upsert: bool = False
    #: Rows that were read, and records of the topics that they were compared with; None for none.
    rows_read: int | None = None
    records_compared: int | None = None
    scope: Scope = "commits"

    @property
    def holds(self) -> bool:
        """Whether each offset of the batches is in the table's commits exactly once."""
        return not self.findings

    @property
    def spans(self) -> dict[Partition, tuple[int, int]]:
        """From where to where the batches have read each partition; none where some are unknown."""
        if any(finding.kind in _INCOMPLETE for finding in self.findings) or self.first > 0:
            return {}
        return spans_of(batch for query in self.queries for batch in query.batches)

    def add_rows(
        self, rows: RowAudit, findings: Iterable[Finding], *, are_sampled: bool = False
    ) -> None:
        """Add an audit of the rows; if the log has no batch, it replaces findings about batches."""
        self.scope = "sampled rows" if are_sampled else "rows"
        others = [f for f in self.findings if self.queries or f.kind not in _OF_BATCHES]
        self.findings = by_severity([*others, *findings])
        self.rows_read, self.records_compared = rows.rows, rows.compared


def audit(evidence: Evidence, since: int | None = None) -> Audit:
    """Look at a table; `since` is the first version that is asked for."""
    history = replay(evidence.commits)
    every = history.batches(evidence.checkpoint)
    since = since or 0
    history.commits = {v: c for v, c in history.commits.items() if v >= since}
    history.restores = [r for r in history.restores if r.version >= since]
    history.doubled = [d for d in history.doubled if d[2] >= since]
    history.counts = {v: count for v, count in history.counts.items() if v >= since}
    history.is_whole = history.is_whole and since == 0
    by_query: dict[str, list[Batch]] = {}
    for batch in every:
        if batch.version in history.commits:
            by_query.setdefault(batch.query, []).append(batch)
    queries = [_query(name, batches, history) for name, batches in by_query.items()]
    findings = by_severity(
        _findings(evidence, history, by_query, queries, every=every, since=since)
    )
    rows = [add.rows for add, _ in history.files.values()]
    looked_at = [v for v in (*history.commits, *evidence.damaged) if v >= since]
    return Audit(
        first=min(looked_at, default=since),
        last=evidence.last,
        files=len(history.files),
        rows=None if None in rows or not history.is_whole else sum(n for n in rows if n),
        queries=queries,
        findings=findings,
        is_upsert=history.is_upsert,
    )


def _findings(
    evidence: Evidence,
    history: History,
    by_query: dict[str, list[Batch]],
    queries: list[Query],
    *,
    every: list[Batch],
    since: int,
) -> Iterator[Finding]:
    """Look at the batches from `since` on (`by_query`); `every` has those before as well."""
    yield from _log(evidence, since)
    held = {
        query: held_by(batch for batch in batches if batch.version in history.live)
        for query, batches in by_query.items()
    }
    others = {query: _others(query, held) for query in by_query}
    yield from _restores(history, by_query, others)
    checkpoint = evidence.checkpoint
    for query, batches in by_query.items():
        own = checkpoint if checkpoint is not None and checkpoint.query_id == query else None
        yield from check_query(batches, history, own, others[query])
        yield from _mismatches(batches)
        yield from check_statistics(batches, history)
    # A merge of the same records by another query changes nothing.
    if not history.is_upsert:
        yield from check_overlaps_of_queries(held)
    behind: list[Finding] = []
    if checkpoint is not None:
        filled = others.get(checkpoint.query_id or "", {})
        behind += check_checkpoint(
            checkpoint,
            evidence.completed,
            every,
            is_whole=history.is_whole,
            others=filled,
            since=since,
        )
    yield from behind
    if not by_query and not behind:
        before = f"; the last batch of a query is in version {every[-1].version}" if every else ""
        yield Finding("no-batch", f"{len(history.commits):,} commits{before}")
    of_batches = {batch.version for batches in by_query.values() for batch in batches}
    yield from check_writers(history, of_batches)
    topics = {p.topic for q in queries for b in q.batches for (_, p), _, _ in flat(b.ranges or {})}
    yield from check_files(history, evidence.files, topics)
    yield from check_counts(history)
    # What was there before the log begins may be removed later, and is not known.
    if not evidence.damaged and evidence.commits[0].version == 0 and not _holes(evidence):
        yield from check_state(history, evidence.checksums)
    for each in queries:
        yield from check_records(each)


def _log(evidence: Evidence, since: int) -> Iterator[Finding]:
    """Check that the log has all versions from the one asked for on."""
    numbers = [*(commit.version for commit in evidence.commits), *evidence.damaged]
    first = min(numbers)
    if first > since:
        yield Finding("log-begins-late", f"its first version is {first}, {since} is asked for")
    if holes := _holes(evidence, since):
        yield Finding("commit-missing", named("version", holes))
    damaged = [f"version {v}: {why}" for v, why in evidence.damaged.items() if v >= since]
    if damaged:
        yield Finding("commit-damaged", elide(damaged))


def _holes(evidence: Evidence, since: int = 0) -> list[range]:
    numbers = sorted({*(commit.version for commit in evidence.commits), *evidence.damaged})
    return without(numbers, max(numbers[0], since), numbers[-1])


def _others(query: str, held: dict[str, Intervals]) -> Intervals:
    """Return what all queries but one hold."""
    ranges: Intervals = {}
    for intervals in (intervals for other, intervals in held.items() if other != query):
        for partition, of_partition in intervals.items():
            ranges[partition] = joined([*ranges.get(partition, []), *of_partition])
    return ranges


def _restores(
    history: History, by_query: dict[str, list[Batch]], others: dict[str, Intervals]
) -> Iterator[Finding]:
    """Name the batches that a `RESTORE` took away, and that nothing later brought back."""
    for restore in history.restores:
        if restore.version not in history.live:
            continue
        if restore.to is None:
            yield Finding("restored-unknown", f"RESTORE at version {restore.version}")
            continue
        again = {
            (b.query, b.number) for bs in by_query.values() for b in bs if b.version in history.live
        }
        gone = [
            batch
            for batches in by_query.values()
            for batch in batches
            if restore.to < batch.version < restore.version
            and batch.version not in history.live
            and (batch.query, batch.number) not in again
        ]
        # What is not known may be anything.
        left = {
            str(batch): [
                high - low
                for (_, partition), begin, end in flat(batch.ranges or {})
                for low, high in left_of(partition, begin, end, others[batch.query])
            ]
            for batch in gone
        }
        gone = [batch for batch in gone if batch.ranges is None or left[str(batch)]]
        if gone:
            accepted = history.properties.get(ACCEPTED) == str(restore.version)
            word = f"; the property {ACCEPTED} accepts that" if accepted else ""
            yield Finding(
                "restored",
                f"version {restore.version} went back to version {restore.to}, without "
                f"{elide([str(b) for b in gone])}: {sum(map(sum, left.values())):,} offsets{word}",
            )


def _mismatches(batches: Iterable[Batch]) -> Iterator[Finding]:
    for batch in batches:
        said = batch.metadata
        if said is not None and (said.query, said.batch) != (batch.query, batch.number):
            yield Finding(
                "batch-mismatch",
                f"{batch} of query {batch.query} has the ranges of batch {said.batch} of query "
                f"{said.query}",
            )


def _query(name: str, batches: list[Batch], history: History) -> Query:
    live = {batch.number: batch for batch in batches if batch.version in history.live}.values()
    partitions = {partition for batch in live for partition, _, _ in flat(batch.ranges or {})}
    return Query(name, batches, total(live), len(partitions))
