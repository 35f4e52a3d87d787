"""What an audit can find, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

#: `wrong`: offsets or rows are missing, are there twice, or were not written by a batch.
#: `unproved`: nothing speaks against the table, and something that would prove it is not there.
Verdict = Literal["wrong", "unproved"]


class Kind(NamedTuple):
    """One kind of finding."""

    verdict: Verdict
    meaning: str
    #: What to do.
    cure: str


_ONCE_MORE = (
    "append exactly these offsets (an upsert: merge them) by a batch read, `spark.read`, with "
    "startingOffsets and endingOffsets around them; no new checkpoint, which would read all that "
    "follows again"
)
_DELETE = (
    "look first whether rows are there twice (by --columns, or count them), and delete only those"
)
_FILES = "put the file back from a copy, or RESTORE the table to a version that did not have it"
_WHO = "find out who did it; audit from a later version on by --since if it was meant"
_LOG = "put the log's file back from a copy"

#: All kinds, by name. docs/audit.md has the same table.
KINDS = {
    "gap": Kind("wrong", "offsets between two batches are in no commit", _ONCE_MORE),
    "overlap": Kind("wrong", "offsets are in two batches", _DELETE),
    "range-reversed": Kind(
        "wrong",
        "a batch ends before it begins: the topic was deleted and re-created",
        "give the query a new checkpoint; see `assignor doctor --checkpoint`",
    ),
    "batch-missing": Kind("wrong", "a batch is in no commit, and its offsets are not", _ONCE_MORE),
    "batch-unknown": Kind(
        "unproved",
        "a batch is in no commit, and nothing tells whether it read anything",
        "audit with the checkpoint of the query, while it keeps the batch; else --columns",
    ),
    "batch-twice": Kind("wrong", "a batch is in two commits", _DELETE),
    "batch-order": Kind(
        "wrong",
        "a batch was committed after a later one",
        "find out whether two drivers ran the query at once, or its checkpoint was set back",
    ),
    "batch-mismatch": Kind(
        "wrong", "a commit's ranges are of another query or batch than its transaction", _WHO
    ),
    "ranges-mismatch": Kind(
        "wrong",
        "a commit holds other offsets than the checkpoint's offset log has for that batch",
        "give the checkpoint that wrote the table; if it is, one of the two was changed",
    ),
    "query-overlap": Kind(
        "wrong", "the table has the same offsets of two queries", f"if it was not meant, {_DELETE}"
    ),
    "checkpoint-behind": Kind(
        "wrong",
        "the table holds later batches than the checkpoint: the checkpoint was set back",
        "put the newer checkpoint back, or give the query a new one with startingOffsets where the "
        "table's ranges end; Delta would skip batches",
    ),
    "table-behind": Kind(
        "wrong",
        "the checkpoint has completed batches that the table does not hold",
        f"put the table back; or {_ONCE_MORE}",
    ),
    "other-query": Kind(
        "wrong",
        "the checkpoint's query has written nothing to the table, others have",
        "give the checkpoint of the query that writes the table",
    ),
    "restored": Kind(
        "wrong",
        "a RESTORE took batches away, which are not read again",
        f"RESTORE the table to the version before it; or {_ONCE_MORE}",
    ),
    "restored-unknown": Kind(
        "unproved", "it is not known to which version a RESTORE went back", _WHO
    ),
    "foreign-rows": Kind("wrong", "another writer appended rows, without ranges", _WHO),
    "rows-changed": Kind("wrong", "another writer deleted, changed or replaced rows", _WHO),
    "rows-outside": Kind(
        "wrong", "a file has offsets that no batch had read by then, by its statistics", _WHO
    ),
    "file-lost": Kind("wrong", "a data file of the table is not there", _FILES),
    "file-changed": Kind("wrong", "a data file has another size than the log says", _FILES),
    "file-doubled": Kind(
        "wrong",
        "a data file is in the log, or its content in the table, twice",
        "remove one of the two from the table",
    ),
    "count-mismatch": Kind(
        "wrong", "a commit adds other files or rows than it says it wrote", _LOG
    ),
    "state-mismatch": Kind(
        "wrong", "the log gives other files than Delta counted beside the commit (.crc)", _LOG
    ),
    "compaction-rows": Kind(
        "wrong",
        "a compaction changed the number of rows",
        "RESTORE the table to the version before it",
    ),
    "records-mismatch": Kind(
        "wrong",
        "a batch was made of other records than those of its offsets",
        "write the batch's offsets again into a new table, and report it",
    ),
    "records-unproved": Kind(
        "unproved",
        "the records of a batch do not match its offsets: Spark counted records again, as many as "
        "there are offsets without one, or other records were read",
        "compare the rows by --columns, or write the batch's offsets again into a new table",
    ),
    "commit-damaged": Kind("wrong", "a commit cannot be read", _LOG),
    "commit-missing": Kind("wrong", "a version is missing in the log", _LOG),
    "rows-doubled": Kind("wrong", "an offset is in several rows", _DELETE),
    "rows-missing": Kind("wrong", "a record of the topic is in no row", _ONCE_MORE),
    "rows-invented": Kind("wrong", "a row has an offset that no batch or no record has", _WHO),
    "rows-differ": Kind("wrong", "a row has another key or value than its record", _WHO),
    "rows-unproved": Kind(
        "unproved",
        "offsets are in no row: markers of transactions, compaction, a filter, or a loss",
        "compare with the topic by --bootstrap-server",
    ),
    "records-gone": Kind(
        "unproved",
        "the topic no longer has records of these offsets: retention, or compaction",
        "audit sooner, or keep records longer",
    ),
    "no-ranges": Kind(
        "unproved",
        "a batch says nothing of its offsets, and the offset log does not keep it any more",
        "audit from a later version on by --since; newer commits have them",
    ),
    "log-begins-late": Kind(
        "unproved",
        "the log was cleaned up: what was committed before cannot be proved",
        "accept it by --since, and raise delta.logRetentionDuration",
    ),
    "no-batch": Kind(
        "unproved",
        "no batch of a streaming query is in the log",
        "name the table that the query writes, or audit its rows by --columns",
    ),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with a table, or cannot be proved."""

    kind: str
    #: In figures: which batch, version, partition and offsets.
    details: str

    @property
    def verdict(self) -> Verdict:
        """How bad it is."""
        return KINDS[self.kind].verdict

    @property
    def cure(self) -> str:
        """What to do."""
        return KINDS[self.kind].cure


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Sort what is wrong before what is not proved; else they stay in their order."""
    return sorted(findings, key=lambda finding: finding.verdict == "unproved")
