"""All kinds of audit findings, with what to do about each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

#: `wrong`: a fault is proved, such as rows that are missing, doubled, or not from a batch.
#: `unproved`: nothing is known to be wrong, but evidence for the proof is missing.
Verdict = Literal["wrong", "unproved"]


class FindingKind(NamedTuple):
    """One kind of finding."""

    verdict: Verdict
    meaning: str
    #: What the user should do.
    cure: str


_APPEND = (
    "read exactly these offsets with `spark.read` (startingOffsets, endingOffsets) and append "
    "them, or merge them into an upsert table; do not use a new checkpoint, because it would read "
    "all later records again"
)
_DELETE = (
    "check whether rows exist twice (use --columns, or count them), and delete only the duplicates"
)
_DOUBLES = "compare these rows, and delete all but one of those that are equal"
_RESTORE = "restore the file from a backup, or RESTORE the table to a version without it"
_WRITER = "find the writer (DESCRIBE HISTORY); if this was intended, set --since to a later version"
_ROWS = "find the writer (DESCRIBE HISTORY), and correct the rows if this was not intended"
_LOG_FILE = "restore the log's file from a backup"

#: All kinds, by name. docs/audit.md has the same table.
KINDS = {
    "gap": FindingKind("wrong", "no commit has offsets that the query must have read", _APPEND),
    "overlap": FindingKind("wrong", "two batches have the same offsets", _DELETE),
    "range-reversed": FindingKind(
        "wrong",
        "a batch's range ends before it begins: the topic was re-created, or lost its last records",
        "give the query a new checkpoint; see `assignor doctor --checkpoint`",
    ),
    "batch-missing": FindingKind("wrong", "no commit has the batch or its offsets", _APPEND),
    "batch-unknown": FindingKind(
        "unproved",
        "no commit has the batch, and it is unknown whether the batch read anything",
        "audit with the query's checkpoint while it has the batch; otherwise use --columns",
    ),
    "batch-twice": FindingKind("wrong", "two commits have the same batch", _DELETE),
    "batch-order": FindingKind(
        "wrong",
        "a batch was committed after one with a higher number",
        "check whether two drivers ran the query at once, or an older checkpoint was restored",
    ),
    "batch-mismatch": FindingKind(
        "wrong", "a commit's metadata and transaction name different queries or batches", _WRITER
    ),
    "ranges-mismatch": FindingKind(
        "wrong",
        "a commit and the checkpoint's offset log have different offsets for the same batch",
        "pass the checkpoint of the table's query; if you did, it or the table was modified",
    ),
    "query-overlap": FindingKind(
        "wrong", "two queries wrote the same offsets", f"if this was not intended, {_DELETE}"
    ),
    "checkpoint-behind": FindingKind(
        "wrong",
        "the table has later batches than the checkpoint: an older checkpoint was restored",
        "restore the newer checkpoint, or give the query a new one and set startingOffsets to the "
        "end of the table's ranges; otherwise Delta skips batches up to the table's last one",
    ),
    "table-behind": FindingKind(
        "wrong",
        "the table does not have batches that the query has completed",
        f"restore the table; or {_APPEND}",
    ),
    "other-query": FindingKind(
        "wrong",
        "only other queries have written to the table, not the checkpoint's query",
        "pass the checkpoint of the query that writes the table",
    ),
    "restored": FindingKind(
        "wrong",
        "a RESTORE removed batches, which the query does not read again",
        f"RESTORE the table to the version before that RESTORE; or {_APPEND}",
    ),
    "restored-unknown": FindingKind("unproved", "a RESTORE went to an unknown version", _WRITER),
    "foreign-rows": FindingKind("wrong", "a non-batch commit appended rows", _WRITER),
    "rows-changed": FindingKind("wrong", "a non-batch commit deleted or changed rows", _WRITER),
    "rows-outside": FindingKind("wrong", "a file has offsets that no batch had read", _WRITER),
    "file-lost": FindingKind("wrong", "a data file of the table does not exist", _RESTORE),
    "file-changed": FindingKind("wrong", "a data file's size differs from the log", _RESTORE),
    "file-doubled": FindingKind(
        "wrong",
        "a data file is in the log twice, or two files have the same content",
        "for equal files, delete the rows and append one copy; else restore the log's file",
    ),
    "count-mismatch": FindingKind(
        "wrong", "a commit's metrics do not match the files or rows that it adds", _LOG_FILE
    ),
    "state-mismatch": FindingKind(
        "wrong", "the files in the log do not match the count or size in the .crc file", _LOG_FILE
    ),
    "compaction-rows": FindingKind(
        "wrong",
        "a compaction changed the number of rows",
        "RESTORE the table to the version before it",
    ),
    "records-mismatch": FindingKind(
        "wrong",
        "the records that Spark read for a batch do not match its offsets",
        "write the batch's records into a new table, and report this as a bug",
    ),
    "records-unproved": FindingKind(
        "unproved",
        "a batch's records do not match its offsets: Spark either read wrong records, or counted "
        "one record twice for each offset without a record",
        "compare the rows (--columns), or write the batch's records into a new table",
    ),
    "commit-damaged": FindingKind("wrong", "a commit cannot be read", _LOG_FILE),
    "commit-missing": FindingKind("wrong", "a version is missing from the log", _LOG_FILE),
    "rows-doubled": FindingKind("wrong", "several rows have the same offset", _DOUBLES),
    "rows-missing": FindingKind("wrong", "the table has no row for a record of the topic", _APPEND),
    "rows-invented": FindingKind("wrong", "a row's offset is in no batch or has no record", _ROWS),
    "rows-differ": FindingKind("wrong", "a row's key or value differs from its record", _ROWS),
    "rows-unproved": FindingKind(
        "unproved",
        "some offsets have no row: transaction markers, compaction, a filter, or a loss",
        "set --bootstrap-server to compare the rows with the topic",
    ),
    "records-gone": FindingKind(
        "unproved",
        "the topic no longer has the records of these offsets, due to retention or compaction",
        "audit sooner, or raise the topic's retention (if compacted, min.compaction.lag.ms)",
    ),
    "no-ranges": FindingKind(
        "unproved",
        "neither the commit of a batch nor a given checkpoint has the batch's offsets",
        "pass the query's checkpoint, or set --since to a version from which commits have offsets",
    ),
    "log-begins-late": FindingKind(
        "unproved",
        "Delta has cleaned up the log, so earlier commits cannot be proved",
        "audit from the first remaining version (--since); raise delta.logRetentionDuration",
    ),
    "no-batch": FindingKind(
        "unproved",
        "the audited versions have no batch of a streaming query",
        "pass the table that the query writes, lower --since, or audit the rows (--columns)",
    ),
}


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """A fault of the table, or evidence that is missing; `kind` is a key of `KINDS`."""

    kind: str
    #: The affected batches, versions, files, or offsets.
    details: str

    @property
    def verdict(self) -> Verdict:
        """Whether the table is wrong or only unproved."""
        return KINDS[self.kind].verdict

    @property
    def cure(self) -> str:
        """Advice for this kind of finding."""
        return KINDS[self.kind].cure


def sort_by_severity(findings: Iterable[AuditFinding]) -> list[AuditFinding]:
    """Sort findings that are wrong before those that are unproved; the sort is stable."""
    return sorted(findings, key=lambda finding: finding.verdict == "unproved")
