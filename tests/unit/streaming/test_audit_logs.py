"""Audit handmade logs, and check which findings are reported."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from assignor_bridge.errors import OptionError
from assignor_bridge.model import Partition
from streaming.audit import row_sources
from streaming.audit.all_checks import audit
from streaming.audit.audited_files import UnreadableTableError, read_evidence
from streaming.audit.rows import RowAudit
from streaming.delta import delta_log
from streaming.delta.user_metadata import encode_metadata
from tests.unit.streaming.checkpoints import write_checkpoint

if TYPE_CHECKING:
    from pathlib import Path

    from streaming.audit.all_checks import Audit

ONE, TWO, THREE = (f"d9a5a3a1-0000-4000-8000-00000000000{n}" for n in (1, 2, 3))
CREATED: list[dict[str, Any]] = [{"commitInfo": {"operation": "CREATE TABLE"}}]


def batch(
    number: int, ranges: dict[int, tuple[int, int]] | None, query: str = ONE, **stats: Any
) -> list[dict[str, Any]]:
    """Return the commit of a batch of topic `t`, with a file of one row per offset."""
    rows = sum(end - begin for begin, end in (ranges or {}).values())
    by_source = {"0": {"t": ranges}} if ranges else {}
    text = json.dumps({"numRecords": rows, **stats})
    size = 10 + number % 1000
    add = {"path": f"{query[-1]}-{number}", "size": size, "dataChange": True, "stats": text}
    return [
        {
            "commitInfo": {
                "operation": "WRITE",
                "userMetadata": encode_metadata(query, number, by_source),
            }
        },
        {"txn": {"appId": f"assignor-{query}", "version": number}},
        {"add": add},
    ]


def audit_commits(
    folder: Path, *commits: list[dict[str, Any]], checkpoint: Path | None = None
) -> Audit:
    table = folder / "table"
    (table / "_delta_log").mkdir(parents=True)
    for version, actions in enumerate([CREATED, *commits]):
        for add in (action["add"] for action in actions if "add" in action):
            (table / add["path"]).write_bytes(bytes(add["size"]))
        text = "\n".join(json.dumps(action) for action in actions)
        (table / "_delta_log" / f"{version:020}.json").write_text(text)
    return audit(read_evidence(str(table), str(checkpoint) if checkpoint else None))


def details_by_kind(result: Audit) -> dict[str, str]:
    return {finding.kind: finding.details for finding in result.findings}


def write_checkpoint_of(
    folder: Path, *ends: dict[int, int], query: str = ONE, begin: Any = None
) -> Path:
    checkpoint = write_checkpoint(folder, [{"t": end} for end in ends], begin={"t": begin or {}})
    (checkpoint / "metadata").write_text(json.dumps({"id": query}))
    return checkpoint


#: The second of three batches is lost, and the third does not read its partition.
LOST = (batch(0, {0: (0, 10), 1: (0, 10)}), batch(2, {0: (10, 30)}))
ENDS = ({0: 10, 1: 10}, {0: 10, 1: 50}, {0: 30, 1: 50})


def test_a_lost_batch_is_reported_if_no_later_batch_reads_its_partition(tmp_path: Path):
    checkpoint = write_checkpoint_of(tmp_path / "c", *ENDS, begin={0: 0, 1: 0})
    result = audit_commits(tmp_path, *LOST, checkpoint=checkpoint)
    assert details_by_kind(result) == {
        "batch-missing": "batch 1 between batch 0 (version 1) and batch 2 (version 2): "
        "t-1 offsets 10 to 49"
    }


def test_the_last_ends_show_offsets_that_the_offset_log_no_longer_has(tmp_path: Path):
    checkpoint = write_checkpoint_of(tmp_path / "c", *ENDS, begin={0: 0, 1: 0})
    for number in (0, 1):
        (checkpoint / "offsets" / str(number)).unlink()
    result = audit_commits(tmp_path, *LOST, checkpoint=checkpoint)
    details = "t-1 offsets 10 to 49, up to batch 2 (version 2) in the checkpoint"
    assert details_by_kind(result) == {"gap": details}


def test_without_a_checkpoint_a_lost_batch_is_unproved(tmp_path: Path):
    result = audit_commits(tmp_path, *LOST)
    assert details_by_kind(result) == {"batch-unknown": f"query {ONE}: batch 1"}
    assert [finding.verdict for finding in result.findings] == ["unproved"]


@pytest.mark.parametrize("keeps_all", [True, False])
def test_an_absent_batch_that_read_nothing_is_no_gap(tmp_path: Path, keeps_all: bool):
    ends = ({0: 10}, {0: 10}, {0: 30})
    checkpoint = write_checkpoint_of(tmp_path / "c", *ends, begin={0: 0})
    if not keeps_all:
        (checkpoint / "offsets" / "1").unlink()
    commits = batch(0, {0: (0, 10)}), batch(2, {0: (10, 30)})
    assert details_by_kind(audit_commits(tmp_path, *commits, checkpoint=checkpoint)) == {}


def restore(to: int, *paths: str) -> list[dict[str, Any]]:
    removes = [{"remove": {"path": path, "dataChange": True}} for path in paths]
    info = {"operation": "RESTORE", "operationParameters": {"version": to}}
    return [{"commitInfo": info}, *removes]


def test_offsets_of_another_query_fill_a_gap(tmp_path: Path):
    commits = batch(0, {0: (0, 10)}), batch(1, {0: (20, 30)}), batch(0, {0: (10, 20)}, TWO)
    assert details_by_kind(audit_commits(tmp_path, *commits)) == {}


def test_a_partly_filled_gap_lists_the_missing_offsets(tmp_path: Path):
    commits = batch(0, {0: (0, 10)}), batch(1, {0: (20, 30)}), batch(0, {0: (12, 18)}, TWO)
    assert details_by_kind(audit_commits(tmp_path, *commits)) == {
        "gap": "t-0 offsets 10 to 11, t-0 offsets 18 to 19, between batch 0 (version 1) and "
        "batch 1 (version 2)"
    }


def test_a_new_query_continues_after_a_restore(tmp_path: Path):
    """Batches that the `RESTORE` removed are neither overlaps nor missing."""
    commits = [batch(n, {0: (10 * n, 10 * n + 10)}) for n in range(4)]
    commits += [restore(2, "1-2", "1-3"), batch(0, {0: (20, 60)}, TWO)]
    checkpoint = write_checkpoint_of(tmp_path / "c", {0: 60}, query=TWO, begin={0: 20})
    assert details_by_kind(audit_commits(tmp_path / "whole", *commits, checkpoint=checkpoint)) == {}
    commits[-1] = batch(0, {0: (25, 60)}, TWO)
    assert "5 offsets" in details_by_kind(audit_commits(tmp_path / "part", *commits))["restored"]


def test_overlaps_are_reported_for_each_pair_of_queries(tmp_path: Path):
    """The first query's offsets contain those of both others, which do not overlap."""
    commits = [
        batch(0, {0: (0, 100)}),
        batch(0, {0: (10, 20)}, TWO),
        batch(0, {0: (50, 60)}, THREE),
    ]
    result = audit_commits(tmp_path, *commits)
    assert [finding.details for finding in result.findings] == [
        f"queries {ONE} and {TWO}: t-0 offsets 10 to 19",
        f"queries {ONE} and {THREE}: t-0 offsets 50 to 59",
    ]
    assert "check whether rows exist twice" in result.findings[0].cure


def bounds(low: int, high: int, partition: int = 0) -> dict[str, Any]:
    """Return the statistics of a file of rows with Kafka's columns."""
    return {
        "minValues": {"topic": "t", "partition": partition, "offset": low},
        "maxValues": {"topic": "t", "partition": partition, "offset": high},
    }


def test_a_stateful_query_may_emit_rows_of_earlier_batches(tmp_path: Path):
    commits = [
        batch(0, {0: (0, 10), 1: (0, 5)}, **bounds(0, 4)),
        batch(1, {0: (10, 20)}, **bounds(5, 12)),
        batch(2, {0: (20, 30)}, **bounds(0, 4, partition=1)),
    ]
    assert details_by_kind(audit_commits(tmp_path, *commits)) == {}


@pytest.mark.parametrize("stats", [bounds(15, 20), bounds(0, 5, partition=1), bounds(0, 0, 2)])
def test_a_row_beyond_the_offsets_read_is_outside(tmp_path: Path, stats: dict[str, Any]):
    commits = batch(0, {0: (0, 10), 1: (0, 5)}), batch(1, {0: (10, 20)}, **stats)
    assert details_by_kind(audit_commits(tmp_path, *commits)).keys() == {"rows-outside"}


def test_a_row_beyond_the_offsets_read_is_described(tmp_path: Path):
    commits = batch(0, {0: (5, 10)}), batch(1, {0: (10, 20)}, **bounds(15, 20))
    result = audit_commits(tmp_path, *commits)
    assert details_by_kind(result)["rows-outside"].endswith(
        "has offsets 15 to 20 in partition 0, but by batch 1 (version 2), the query had read "
        "only offsets 5 to 19 there"
    )
    (tmp_path / "table" / "_delta_log" / f"{0:020}.json").unlink()
    details = details_by_kind(audit(read_evidence(str(tmp_path / "table"), None)))["rows-outside"]
    assert "only offsets up to 19" in details, "the first begin is unknown"


def test_a_damaged_checkpoint_is_no_misuse(tmp_path: Path):
    checkpoint = write_checkpoint_of(tmp_path / "c", {0: 10})
    (checkpoint / "offsets" / "0").write_text("v1")
    with pytest.raises(UnreadableTableError, match="is truncated"):
        audit_commits(tmp_path, batch(0, {0: (0, 10)}), checkpoint=checkpoint)


def test_a_restore_of_a_batch_without_ranges_has_at_least_the_known_offsets(tmp_path: Path):
    commits = [batch(0, {0: (0, 10)}), batch(1, {0: (10, 20)}), batch(2, None)]
    del commits[2][0]["commitInfo"]["userMetadata"]
    commits.append(restore(1, "1-1", "1-2"))
    assert details_by_kind(audit_commits(tmp_path, *commits))["restored"].endswith(
        "batch 1 (version 2), batch 2 (version 3): at least 10 offsets"
    )


def test_malformed_commit_infos_raise_nothing(tmp_path: Path):
    other = {"operation": "WRITE", "operationMetrics": {"numFiles": "1.5", "numOutputRows": "x"}}
    exact = {"operation": "WRITE", "operationMetrics": {"numFiles": "2.0"}}
    back = {"operation": "RESTORE", "operationParameters": {"version": "x"}}
    commits = [[{"commitInfo": info}] for info in (other, exact, back)]
    assert details_by_kind(audit_commits(tmp_path, *commits)) == {
        "count-mismatch": "version 2 reports 2 files in its metrics, but adds 0",
        "no-batch": "no batch in 4 audited commits",
    }


@pytest.mark.parametrize("checksum", ["zz", "0123456789abcdef", ""])
def test_another_checksum_is_a_mismatch(tmp_path: Path, checksum: str):
    actions = batch(0, {0: (0, 10)})
    text = actions[0]["commitInfo"]["userMetadata"]
    counted = json.dumps({"records": 10, "checksum": checksum})
    actions[0]["commitInfo"]["userMetadata"] = text.replace("{}", counted)
    assert details_by_kind(audit_commits(tmp_path, actions)).keys() == {"records-mismatch"}


def test_a_commit_cleaned_up_during_the_audit_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    commits = batch(0, {0: (0, 10)}), batch(1, {0: (10, 20)})
    versions = delta_log.list_versions
    monkeypatch.setattr(delta_log, "list_versions", lambda folder: [*versions(folder), 3])
    assert details_by_kind(audit_commits(tmp_path / "last", *commits)) == {}
    monkeypatch.setattr(delta_log, "list_versions", lambda _: [7])
    with pytest.raises(UnreadableTableError, match="was deleted during the audit"):
        audit_commits(tmp_path / "all", *commits)


def test_a_row_with_a_compacted_record_is_unproved():
    partition = Partition("t", 0)
    rows = [(n, ()) for n in range(10)]
    for compacted, kind in (({"t"}, "records-gone"), ({"other"}, "rows-invented")):
        result = RowAudit(compacted)
        result.merge((partition, 0, 10), rows, iter(rows[:2] + rows[4:]))
        [finding] = result.findings
        assert (finding.kind, finding.details) == (kind, "2 offsets: t-0 offsets 2 to 3")


class Frame:
    """A fake frame with the methods that an audit calls."""

    def __init__(self, *rows: tuple[Any, ...]) -> None:
        self._rows = rows

    def orderBy(self, *_: str) -> Frame:
        return self

    def toLocalIterator(self) -> Any:
        return iter(self._rows)


def test_a_row_with_null_in_its_columns_is_an_option_error(monkeypatch: pytest.MonkeyPatch):
    columns = row_sources.Columns("topic", "partition", "at.offset")
    frame = Frame(("t", 0, 1), ("t", 0, None))
    monkeypatch.setattr(row_sources, "_load_columns", lambda *_: (frame, ()))
    spark: Any = None
    with pytest.raises(OptionError, match=r"topic,partition,at\.offset: a row has NULL"):
        row_sources.audit_rows(spark, "t", columns, {Partition("t", 0): (0, 2)})


def test_rows_are_read_at_the_audited_version():
    """A query that runs meanwhile adds rows of batches that the audit does not have."""
    options = []

    class Reader:
        def format(self, _: str) -> Reader:
            return self

        def option(self, name: str, value: int) -> Reader:
            options.append((name, value))
            return self

        def load(self, _: str) -> Any:
            raise LookupError

    spark: Any = SimpleNamespace(read=Reader())
    columns = row_sources.Columns("topic", "partition", "offset")
    with pytest.raises(LookupError):
        row_sources.audit_rows(spark, "t", columns, {}, version=7)
    assert options == [("versionAsOf", 7)]


def test_a_huge_gap_between_batches_is_reported_quickly(tmp_path: Path):
    far = 2**62
    result = audit_commits(tmp_path, batch(0, {0: (0, 10)}), batch(far, {0: (10, 30)}))
    details = details_by_kind(result)["batch-unknown"]
    assert details == f"query {ONE}: batch 1, batch 2, batch 3 and {far - 4:,} more"


def test_a_huge_gap_up_to_the_checkpoint_is_reported_quickly(tmp_path: Path):
    checkpoint = write_checkpoint_of(tmp_path / "c", {0: 10}, begin={0: 0})
    far = 2**62
    for folder, text in (("offsets", '{"t":{"0":90}}'), ("commits", "{}")):
        (checkpoint / folder / str(far)).write_text(f"v1\n{{}}\n{text}")
    result = audit_commits(tmp_path, batch(0, {0: (0, 10)}), checkpoint=checkpoint)
    assert f"the table lacks batches 1 to {far}" in details_by_kind(result)["table-behind"]


def test_a_huge_gap_between_versions_is_reported_quickly(tmp_path: Path):
    audit_commits(tmp_path, batch(0, {0: (0, 10)}))
    log_folder = tmp_path / "table" / "_delta_log"
    (log_folder / f"{1:020}.json").rename(log_folder / f"{2**62:020}.json")
    (log_folder / f"{10**19:020}.json").write_text("no version of Delta's")
    result = audit(read_evidence(str(tmp_path / "table"), None))
    assert details_by_kind(result)["commit-missing"] == (
        f"version 1, version 2, version 3 and {2**62 - 4:,} more"
    )


@pytest.mark.parametrize(
    ("written", "damaged"),
    [
        ('"version": 0}', f'"version": {2**63}}}'),
        ('"version": 0}', f'"version": 1{"0" * 5000}}}'),
        ('"size": 10,', f'"size": 1{"0" * 400},'),
        ('"size": 10,', '"size": -1,'),
    ],
    ids=["version", "long version", "size", "negative size"],
)
def test_a_number_beyond_64_bits_damages_a_commit(written: str, damaged: str, tmp_path: Path):
    actions = batch(0, {0: (0, 10)})
    audit_commits(tmp_path, actions)
    text = "\n".join(json.dumps(action) for action in actions)
    assert written in text
    text = text.replace(written, damaged)
    (tmp_path / "table" / "_delta_log" / f"{1:020}.json").write_text(text)
    result = audit(read_evidence(str(tmp_path / "table"), None))
    assert details_by_kind(result)["commit-damaged"].startswith("version 1: ")


def test_ranges_beyond_64_bits_are_ignored(tmp_path: Path):
    for number, offsets in enumerate(((0, 2**63), (-(10**30), 4), (0, 10**30))):
        result = audit_commits(tmp_path / str(number), batch(0, {0: offsets}))
        assert "no-ranges" in details_by_kind(result)
    assert "no-ranges" not in details_by_kind(
        audit_commits(tmp_path / "good", batch(0, {0: (0, 2**63 - 1)}))
    )


def test_json_that_is_nested_too_deeply_damages_a_commit(tmp_path: Path):
    audit_commits(tmp_path, batch(0, {0: (0, 10)}))
    text = '{"add":' + "[" * 100_000
    (tmp_path / "table" / "_delta_log" / f"{1:020}.json").write_text(text)
    result = audit(read_evidence(str(tmp_path / "table"), None))
    assert "not JSON" in details_by_kind(result)["commit-damaged"]
    actions = batch(0, {0: (0, 10)})
    actions[2]["add"]["stats"] = "[" * 100_000
    actions[0]["commitInfo"]["userMetadata"] = '{"assignor":' + "[" * 100_000
    assert "no-ranges" in details_by_kind(audit_commits(tmp_path / "other", actions))


def test_huge_numbers_in_texts_are_ignored(tmp_path: Path):
    actions = batch(0, {0: (0, 10)})
    metrics = {"numFiles": "9" * 5000, "numOutputRows": "9" * 5000}
    actions[0]["commitInfo"]["operationMetrics"] = metrics
    restore = {"operation": "RESTORE", "operationParameters": {"version": "9" * 5000}}
    assert details_by_kind(audit_commits(tmp_path, actions, [{"commitInfo": restore}])) == {}


def test_no_checksum_is_computed_for_huge_ranges(tmp_path: Path):
    actions = batch(0, {0: (0, 2**62)})
    text = json.loads(actions[0]["commitInfo"]["userMetadata"])
    text["assignor"]["counted"] = {"records": 2**62, "checksum": "0" * 16}
    actions[0]["commitInfo"]["userMetadata"] = json.dumps(text)
    assert audit_commits(tmp_path, actions).queries[0].batches_counted == 0
