"""An audit of logs that are made by hand: what it must find in them, and what not."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from assignor_bridge.errors import OptionError
from assignor_bridge.model import Partition
from streaming.audit import row_sources
from streaming.audit.audit import audit
from streaming.audit.evidence import UnreadableTableError, read_evidence
from streaming.audit.rows import RowAudit
from streaming.delta import log
from streaming.delta.user_metadata import encode_metadata
from tests.unit.streaming.checkpoints import write_checkpoint

if TYPE_CHECKING:
    from pathlib import Path

    from streaming.audit.audit import Audit

ONE, TWO, THREE = (f"d9a5a3a1-0000-4000-8000-00000000000{n}" for n in (1, 2, 3))
CREATED: list[dict[str, Any]] = [{"commitInfo": {"operation": "CREATE TABLE"}}]


def batch(
    number: int, ranges: dict[int, tuple[int, int]] | None, query: str = ONE, **stats: Any
) -> list[dict[str, Any]]:
    """Return a batch of the topic `t`, with a file of as many rows."""
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


def audited(folder: Path, *commits: list[dict[str, Any]], checkpoint: Path | None = None) -> Audit:
    table = folder / "table"
    (table / "_delta_log").mkdir(parents=True)
    for version, actions in enumerate([CREATED, *commits]):
        for add in (action["add"] for action in actions if "add" in action):
            (table / add["path"]).write_bytes(bytes(add["size"]))
        text = "\n".join(json.dumps(action) for action in actions)
        (table / "_delta_log" / f"{version:020}.json").write_text(text)
    return audit(read_evidence(str(table), str(checkpoint) if checkpoint else None))


def found(result: Audit) -> dict[str, str]:
    return {finding.kind: finding.details for finding in result.findings}


def checkpoint_of(folder: Path, *ends: dict[int, int], query: str = ONE, begin: Any = None) -> Path:
    place = write_checkpoint(folder, [{"t": end} for end in ends], begin={"t": begin or {}})
    (place / "metadata").write_text(json.dumps({"id": query}))
    return place


#: Of three batches the second is lost; nothing later reads its partition.
LOST = (batch(0, {0: (0, 10), 1: (0, 10)}), batch(2, {0: (10, 30)}))
ENDS = ({0: 10, 1: 10}, {0: 10, 1: 50}, {0: 30, 1: 50})


def test_a_lost_batch_is_missing_though_no_later_one_reads_its_partition(tmp_path: Path):
    checkpoint = checkpoint_of(tmp_path / "c", *ENDS, begin={0: 0, 1: 0})
    result = audited(tmp_path, *LOST, checkpoint=checkpoint)
    assert found(result) == {
        "batch-missing": "batch 1 between batch 0 (version 1) and batch 2 (version 2): "
        "t-1 offsets 10 to 49"
    }


def test_where_partitions_stand_at_last_names_what_the_offset_log_has_forgotten(tmp_path: Path):
    checkpoint = checkpoint_of(tmp_path / "c", *ENDS, begin={0: 0, 1: 0})
    for number in (0, 1):
        (checkpoint / "offsets" / str(number)).unlink()
    result = audited(tmp_path, *LOST, checkpoint=checkpoint)
    words = "t-1 offsets 10 to 49, up to batch 2 (version 2) by the checkpoint"
    assert found(result) == {"gap": words}


def test_without_a_checkpoint_a_lost_batch_is_unproved(tmp_path: Path):
    result = audited(tmp_path, *LOST)
    assert found(result) == {"batch-unknown": f"query {ONE}: batch 1"}
    assert [finding.verdict for finding in result.findings] == ["unproved"]


@pytest.mark.parametrize("keeps_all", [True, False])
def test_a_number_that_read_nothing_is_not_missed(tmp_path: Path, keeps_all: bool):
    ends = ({0: 10}, {0: 10}, {0: 30})
    checkpoint = checkpoint_of(tmp_path / "c", *ends, begin={0: 0})
    if not keeps_all:
        (checkpoint / "offsets" / "1").unlink()
    commits = batch(0, {0: (0, 10)}), batch(2, {0: (10, 30)})
    assert found(audited(tmp_path, *commits, checkpoint=checkpoint)) == {}


def restore(to: int, *paths: str) -> list[dict[str, Any]]:
    removes = [{"remove": {"path": path, "dataChange": True}} for path in paths]
    info = {"operation": "RESTORE", "operationParameters": {"version": to}}
    return [{"commitInfo": info}, *removes]


def test_what_another_query_holds_fills_a_gap(tmp_path: Path):
    commits = batch(0, {0: (0, 10)}), batch(1, {0: (20, 30)}), batch(0, {0: (10, 20)}, TWO)
    assert found(audited(tmp_path, *commits)) == {}


def test_a_gap_that_is_filled_in_part_is_named_for_the_rest(tmp_path: Path):
    commits = batch(0, {0: (0, 10)}), batch(1, {0: (20, 30)}), batch(0, {0: (12, 18)}, TWO)
    assert found(audited(tmp_path, *commits)) == {
        "gap": "t-0 offsets 10 to 11, t-0 offsets 18 to 19, between batch 0 (version 1) and "
        "batch 1 (version 2)"
    }


def test_a_new_query_goes_on_where_a_restore_went_back_to(tmp_path: Path):
    """Batches that the `RESTORE` undid overlap with nothing, and are not missing any more."""
    commits = [batch(n, {0: (10 * n, 10 * n + 10)}) for n in range(4)]
    commits += [restore(2, "1-2", "1-3"), batch(0, {0: (20, 60)}, TWO)]
    checkpoint = checkpoint_of(tmp_path / "c", {0: 60}, query=TWO, begin={0: 20})
    assert found(audited(tmp_path / "whole", *commits, checkpoint=checkpoint)) == {}
    commits[-1] = batch(0, {0: (25, 60)}, TWO)
    assert "5 offsets" in found(audited(tmp_path / "part", *commits))["restored"]


def test_overlaps_of_queries_are_their_own_intervals(tmp_path: Path):
    """Three nested: the first reaches over both others, which do not meet."""
    commits = [
        batch(0, {0: (0, 100)}),
        batch(0, {0: (10, 20)}, TWO),
        batch(0, {0: (50, 60)}, THREE),
    ]
    result = audited(tmp_path, *commits)
    assert [finding.details for finding in result.findings] == [
        f"queries {ONE} and {TWO}: t-0 offsets 10 to 19",
        f"queries {ONE} and {THREE}: t-0 offsets 50 to 59",
    ]
    assert "look first" in result.findings[0].cure


def bounds(low: int, high: int, partition: int = 0) -> dict[str, Any]:
    """Return a file's statistics of rows with Kafka's columns."""
    return {
        "minValues": {"topic": "t", "partition": partition, "offset": low},
        "maxValues": {"topic": "t", "partition": partition, "offset": high},
    }


def test_a_query_with_state_may_emit_rows_of_earlier_batches(tmp_path: Path):
    commits = [
        batch(0, {0: (0, 10), 1: (0, 5)}, **bounds(0, 4)),
        batch(1, {0: (10, 20)}, **bounds(5, 12)),
        batch(2, {0: (20, 30)}, **bounds(0, 4, partition=1)),
    ]
    assert found(audited(tmp_path, *commits)) == {}


@pytest.mark.parametrize("stats", [bounds(15, 20), bounds(0, 5, partition=1), bounds(0, 0, 2)])
def test_a_row_beyond_all_that_was_read_is_outside(tmp_path: Path, stats: dict[str, Any]):
    commits = batch(0, {0: (0, 10), 1: (0, 5)}), batch(1, {0: (10, 20)}, **stats)
    assert found(audited(tmp_path, *commits)).keys() == {"rows-outside"}


def test_what_other_engines_and_faults_write_is_no_traceback(tmp_path: Path):
    other = {"operation": "WRITE", "operationMetrics": {"numFiles": "1.5", "numOutputRows": "x"}}
    exact = {"operation": "WRITE", "operationMetrics": {"numFiles": "2.0"}}
    back = {"operation": "RESTORE", "operationParameters": {"version": "x"}}
    commits = [[{"commitInfo": info}] for info in (other, exact, back)]
    assert found(audited(tmp_path, *commits)) == {
        "count-mismatch": "version 2 says 2 files, it adds 0",
        "no-batch": "4 commits",
    }


@pytest.mark.parametrize("checksum", ["zz", "0123456789abcdef", ""])
def test_another_checksum_is_a_mismatch(tmp_path: Path, checksum: str):
    actions = batch(0, {0: (0, 10)})
    text = actions[0]["commitInfo"]["userMetadata"]
    counted = json.dumps({"records": 10, "checksum": checksum})
    actions[0]["commitInfo"]["userMetadata"] = text.replace("{}", counted)
    assert found(audited(tmp_path, actions)).keys() == {"records-mismatch"}


def test_a_commit_that_is_cleaned_up_meanwhile_is_gone_and_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    commits = batch(0, {0: (0, 10)}), batch(1, {0: (10, 20)})
    versions = log.list_versions
    monkeypatch.setattr(log, "list_versions", lambda folder: [*versions(folder), 3])
    assert found(audited(tmp_path / "last", *commits)) == {}
    monkeypatch.setattr(log, "list_versions", lambda _: [7])
    with pytest.raises(UnreadableTableError, match="vanished while it was read"):
        audited(tmp_path / "all", *commits)


def test_a_row_whose_record_was_compacted_away_is_unproved():
    partition = Partition("t", 0)
    rows = [(n, ()) for n in range(10)]
    for compacted, kind in (({"t"}, "records-gone"), ({"other"}, "rows-invented")):
        result = RowAudit(compacted)
        result.merge((partition, 0, 10), rows, iter(rows[:2] + rows[4:]))
        [finding] = result.findings
        assert (finding.kind, finding.details) == (kind, "2 offsets: t-0 offsets 2 to 3")


class Frame:
    """As much of a table's rows as an audit asks."""

    def __init__(self, *rows: tuple[Any, ...]) -> None:
        self._rows = rows

    def orderBy(self, *_: str) -> Frame:
        return self

    def toLocalIterator(self) -> Any:
        return iter(self._rows)


def test_a_row_with_null_in_its_columns_is_one_line(monkeypatch: pytest.MonkeyPatch):
    columns = row_sources.Columns("topic", "partition", "at.offset")
    frame = Frame(("t", 0, 1), ("t", 0, None))
    monkeypatch.setattr(row_sources, "_frame", lambda *_: (frame, ()))
    spark: Any = None
    with pytest.raises(OptionError, match=r"topic,partition,at\.offset: a row has NULL"):
        row_sources.audit_rows(spark, "t", columns, {Partition("t", 0): (0, 2)})


def test_rows_are_read_at_the_version_that_the_log_was():
    """A query that goes on meanwhile adds rows that the log's batches do not have."""
    asked = []

    class Reader:
        def format(self, _: str) -> Reader:
            return self

        def option(self, name: str, value: int) -> Reader:
            asked.append((name, value))
            return self

        def load(self, _: str) -> Any:
            raise LookupError

    spark: Any = SimpleNamespace(read=Reader())
    columns = row_sources.Columns("topic", "partition", "offset")
    with pytest.raises(LookupError):
        row_sources.audit_rows(spark, "t", columns, {}, version=7)
    assert asked == [("versionAsOf", 7)]


def test_a_gap_of_any_width_between_batches_is_named_at_once(tmp_path: Path):
    far = 2**62
    result = audited(tmp_path, batch(0, {0: (0, 10)}), batch(far, {0: (10, 30)}))
    details = found(result)["batch-unknown"]
    assert details == f"query {ONE}: batch 1, batch 2, batch 3 and {far - 4:,} more"


def test_and_so_is_one_up_to_the_checkpoint(tmp_path: Path):
    checkpoint = checkpoint_of(tmp_path / "c", {0: 10}, begin={0: 0})
    far = 2**62
    for log_of, text in (("offsets", '{"t":{"0":90}}'), ("commits", "{}")):
        (checkpoint / log_of / str(far)).write_text(f"v1\n{{}}\n{text}")
    result = audited(tmp_path, batch(0, {0: (0, 10)}), checkpoint=checkpoint)
    assert f"batches 1 to {far} missing" in found(result)["table-behind"]


def test_a_gap_of_any_width_between_versions_is_named_at_once(tmp_path: Path):
    audited(tmp_path, batch(0, {0: (0, 10)}))
    place = tmp_path / "table" / "_delta_log"
    (place / f"{1:020}.json").rename(place / f"{2**62:020}.json")
    (place / f"{10**19:020}.json").write_text("no version of Delta's")
    result = audit(read_evidence(str(tmp_path / "table"), None))
    assert found(result)["commit-missing"] == (
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
    audited(tmp_path, actions)
    text = "\n".join(json.dumps(action) for action in actions)
    assert written in text
    text = text.replace(written, damaged)
    (tmp_path / "table" / "_delta_log" / f"{1:020}.json").write_text(text)
    result = audit(read_evidence(str(tmp_path / "table"), None))
    assert found(result)["commit-damaged"].startswith("version 1: ")


def test_nor_are_ranges_beyond_64_bits_ranges(tmp_path: Path):
    for number, given in enumerate(((0, 2**63), (-(10**30), 4), (0, 10**30))):
        result = audited(tmp_path / str(number), batch(0, {0: given}))
        assert "no-ranges" in found(result)
    assert "no-ranges" not in found(audited(tmp_path / "good", batch(0, {0: (0, 2**63 - 1)})))


def test_what_is_nested_too_deeply_is_damaged(tmp_path: Path):
    audited(tmp_path, batch(0, {0: (0, 10)}))
    text = '{"add":' + "[" * 100_000
    (tmp_path / "table" / "_delta_log" / f"{1:020}.json").write_text(text)
    result = audit(read_evidence(str(tmp_path / "table"), None))
    assert "not JSON" in found(result)["commit-damaged"]
    actions = batch(0, {0: (0, 10)})
    actions[2]["add"]["stats"] = "[" * 100_000
    actions[0]["commitInfo"]["userMetadata"] = '{"assignor":' + "[" * 100_000
    assert "no-ranges" in found(audited(tmp_path / "other", actions))


def test_numbers_of_texts_are_read_or_nothing(tmp_path: Path):
    actions = batch(0, {0: (0, 10)})
    metrics = {"numFiles": "9" * 5000, "numOutputRows": "9" * 5000}
    actions[0]["commitInfo"]["operationMetrics"] = metrics
    restore = {"operation": "RESTORE", "operationParameters": {"version": "9" * 5000}}
    assert found(audited(tmp_path, actions, [{"commitInfo": restore}])) == {}


def test_no_checksum_is_made_of_more_offsets_than_a_batch_has(tmp_path: Path):
    actions = batch(0, {0: (0, 2**62)})
    text = json.loads(actions[0]["commitInfo"]["userMetadata"])
    text["assignor"]["counted"] = {"records": 2**62, "checksum": "0" * 16}
    actions[0]["commitInfo"]["userMetadata"] = json.dumps(text)
    assert audited(tmp_path, actions).queries[0].counted == 0
