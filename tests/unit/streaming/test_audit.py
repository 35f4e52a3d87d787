"""Tests of an audit without Spark; integration/test_audit.py has those with Spark."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JError

from assignor_bridge.model import Partition
from checkpoints.folders import LocalFolder
from checkpoints.offset_log import BatchRangeReader
from streaming.audit import files, row_sources
from streaming.audit.all_checks import audit
from streaming.audit.audited_files import DataFiles, read_evidence
from streaming.audit.checksum import compute_range_checksum
from streaming.audit.findings import KINDS
from streaming.audit.history import History, replay_commits
from streaming.audit.record_checksums import compute_checksum
from streaming.audit.rows import BLOCK_OFFSETS, RowAudit, sample_blocks
from streaming.cli.audit import _print_audit as print_audit
from streaming.cli.main import run
from streaming.delta.delta_log import DamagedCommitError, TableChecksum, read_commit
from streaming.delta.user_metadata import decode_metadata, encode_metadata
from streaming.pipeline.delta import audit_trail
from streaming.pipeline.delta.audit_trail import NO_METADATA, USER_METADATA, AuditTrail
from streaming.pipeline.delta.once import OnceWriter
from streaming.pipeline.delta.sink_table import Table
from tests.support.audit_reference import format_rows
from tests.unit.streaming.checkpoints import write_checkpoint

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

QUERY = "d9a5a3a1-0000-4000-8000-000000000001"
T0, T1 = Partition("t", 0), Partition("t", 1)


@pytest.mark.parametrize(
    ("begin", "sparks"),
    [(0, 3966450064714244644), (100, 1828523610605221189), (200, -4103583799172957986)],
)
def test_a_range_checksum_equals_sparks(begin: int, sparks: int):
    """The expected values are Spark 4.0.4's `bit_xor(xxhash64('t', 0, offset))` of 100 offsets."""
    assert compute_range_checksum("t", 0, begin, begin + 100) == sparks % 2**64


def test_a_checksum_does_not_depend_on_how_ranges_are_split():
    whole = compute_checksum({"0": {"t": {0: (0, 100), 3: (5, 9)}}})
    assert whole == compute_checksum(
        {"0": {"t": {0: (0, 40)}}, "1": {"t": {0: (40, 100), 3: (5, 9)}}}
    )
    assert whole != compute_checksum({"0": {"t": {0: (0, 100), 3: (6, 10)}}})
    assert compute_checksum({}) == 0


@pytest.mark.parametrize(
    ("users", "users_part"),
    [
        pytest.param(None, {}, id="none"),
        pytest.param('{"team":"x"}', {"team": "x"}, id="an object is added to"),
    ],
)
def test_encode_keeps_the_users_json_object(users: str | None, users_part: dict[str, str]):
    ranges = {"0": {"t": {0: (5, 7)}}}
    text = encode_metadata(QUERY, 3, ranges, users)
    assert text is not None
    encoded = json.loads(text)
    assert encoded.pop("assignor")["query"] == QUERY
    assert encoded == users_part
    read = decode_metadata(text)
    assert read is not None
    assert (read.batch, read.ranges, read.counted.records) == (3, ranges, None)


@pytest.mark.parametrize("users", ["nightly", "[1]", '{"assignor": 1}'])
def test_encode_leaves_other_user_metadata_unchanged(users: str):
    assert encode_metadata(QUERY, 3, {}, users) is None


@pytest.mark.parametrize(
    "text",
    [
        None, "", "nightly", '{"assignor": 1}', '{"assignor": {"query": 1}}', '"assignor"',
        '{"assignor": {"query": "q", "batch": 1, "ranges": {}, "format": 99}}',
    ],
)  # fmt: skip
def test_decode_ignores_metadata_of_other_writers(text: str | None):
    assert decode_metadata(text) is None


def test_ranges_begin_at_the_previous_batch_or_the_querys_start(tmp_path: Path):
    ends: list[Any] = [{"t": {0: 5}}, {"t": {0: 5, 1: 3}}, {"t": {0: 9, 1: 3}}]
    folder = LocalFolder(write_checkpoint(tmp_path, ends, begin={"t": {0: 2}}))
    batches = BatchRangeReader(folder)
    assert batches.read(0) == {"0": {"t": {0: (2, 5)}}}
    assert batches.read(1) == {"0": {"t": {1: (0, 3)}}}
    assert batches.read(2) == {"0": {"t": {0: (5, 9)}}}
    assert batches.read(2) == {"0": {"t": {0: (5, 9)}}}
    assert batches.read(3) is None
    assert batches.read(1) == {"0": {"t": {1: (0, 3)}}}
    (tmp_path / "offsets" / "1").unlink()
    assert batches.read(2) == {"0": {"t": {0: (5, 9)}}}  # the ends of batch 1 are kept
    assert BatchRangeReader(folder).read(2) is None


def spark(users: str | None = None) -> Any:
    """Return a fake session with the configuration that a trail reads."""
    return SimpleNamespace(conf=SimpleNamespace(get=lambda *_: users))


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_trail, "qualify_path", lambda _, path: f"file:{path}")


@pytest.mark.usefixtures("local")
@pytest.mark.parametrize("name", ["c", "a%20b", "a#b", "a?b", "a b"])
def test_a_commit_records_the_ranges_of_its_batch(tmp_path: Path, name: str):
    """The session's setting is not used, because Spark copies it into each task."""
    checkpoint = write_checkpoint(tmp_path / name, [{"t": {0: 5}}, {"t": {0: 7}}])
    origin = AuditTrail("job: sink", str(checkpoint), str).build_metadata(spark(), QUERY, 1)
    text = origin.settings[USER_METADATA]
    placeholder = '"ranges":null,"counted":{}'  # as DeltaWrites.java looks for it
    assert text.count(placeholder) == 1
    filled = f'"ranges":{origin.ranges},"counted":{{}}'
    metadata = decode_metadata(text.replace(placeholder, filled))
    assert metadata is not None
    assert (metadata.batch, metadata.ranges) == (1, {"0": {"t": {0: (5, 7)}}})
    assert AuditTrail("job: sink", None, str).build_metadata(spark(), QUERY, 1) == NO_METADATA


@pytest.mark.usefixtures("local")
@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        pytest.param(lambda c: (c / "offsets" / "0").unlink(), "has no start or end", id="purged"),
        pytest.param(lambda c: (c / "offsets" / "1").write_text("v1"), "is truncated", id="cut"),
    ],
)
def test_a_failing_trail_logs_one_warning_and_omits_the_ranges(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: Any, why: str
):
    ends: list[Any] = [{"t": {0: 5}}, {"t": {0: 7}}, {"t": {0: 8}}, {"t": {0: 9}}]
    checkpoint = write_checkpoint(tmp_path, ends)
    spoil(checkpoint)
    trail = AuditTrail("job: sink", str(checkpoint), lambda text: text.replace("truncated", "***"))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert trail.build_metadata(spark(), QUERY, 1).ranges is None
        assert trail.build_metadata(spark(), QUERY, 3).ranges == '{"0":{"t":{"0":[8,9]}}}'
    [warning] = caplog.messages
    assert why.replace("truncated", "***") in warning
    assert "assignor audit" in warning


@pytest.mark.usefixtures("local")
def test_a_failing_trail_does_not_fail_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    trail = AuditTrail("job: sink", str(write_checkpoint(tmp_path, [{"t": {0: 5}}])), str)
    with caplog.at_level(logging.WARNING):
        assert trail.build_metadata(spark("nightly"), QUERY, 0) == NO_METADATA

        def broken(*_: Any) -> None:
            raise RuntimeError("no such luck")

        monkeypatch.setattr(audit_trail, "BatchRangeReader", broken)
        assert trail.build_metadata(spark(), QUERY, 0).ranges is None
        monkeypatch.setattr(audit_trail, "encode_metadata", broken)
        assert trail.build_metadata(spark(), QUERY, 0) == NO_METADATA
    [warning] = caplog.messages
    assert "not a JSON object" in warning


@pytest.mark.parametrize(
    ("text", "misfits"),
    [
        ("An error. Trace:\npy4j.Py4JException: Method append([class X, class Y]) does not exist\n",
         True),
        ("Answer from Java side is empty", False),
    ],
)  # fmt: skip
def test_an_older_jar_in_the_session_is_reported(text: str, misfits: bool):
    once = OnceWriter(Table("t", None), "sink")
    once._jar_writer = object()

    def write(_: Any) -> None:
        raise Py4JError(text)

    if misfits:
        assert once._try_jar(None, write) == "the session's jar has another version"
    else:
        with pytest.raises(Py4JError):
            once._try_jar(None, write)


def merge(rows: list[int], records: list[int] | None, end: int = 10) -> dict[str, Any]:
    result = RowAudit()
    items: Iterator[Any] | None = iter([(n, ()) for n in records]) if records is not None else None
    result.merge((T0, 0, end), [(n, ()) for n in rows], items)
    return {f.kind: f.details for f in result.findings}


@pytest.mark.parametrize(
    ("rows", "records", "expected"),
    [
        pytest.param(range(10), range(10), {}, id="all"),
        pytest.param([0, 1, 4], [0, 1, 4], {}, id="offsets without a record"),
        pytest.param([0, 2], [0, 1, 2], {"rows-missing": "1 offset: t-0 offset 1"}, id="missing"),
        pytest.param([0], [0, 1, 2], {"rows-missing": "2 offsets: t-0 offsets 1 to 2"}, id="end"),
        pytest.param([0, 0, 1], [0, 1], {"rows-doubled": "1 offset: t-0 offset 0"}, id="twice"),
        pytest.param([0] * 3, [0], {"rows-doubled": "1 offset: t-0 offset 0"}, id="three times"),
        pytest.param([0, 1], [0], {"rows-invented": "1 offset: t-0 offset 1"}, id="no record"),
        pytest.param([0, 12], [0], {"rows-invented": "1 offset: t-0 offset 12"}, id="beyond"),
        pytest.param([0, 3], None, {"rows-unproved": "8 offsets: t-0 offsets 1 to 2, t-0 offsets "
                     "4 to 9"}, id="no brokers"),
        pytest.param([], None, {"rows-unproved": "10 offsets: t-0 offsets 0 to 9"}, id="no rows"),
    ],
)  # fmt: skip
def test_rows_are_merged_with_records(rows, records, expected):
    assert merge(list(rows), None if records is None else list(records)) == expected


def test_a_row_with_other_bytes_than_its_record_differs():
    result = RowAudit()
    result.merge(
        (T0, 0, 2),
        [(0, (b"k", None)), (1, (None, b"v"))],
        iter([(0, (b"k", None)), (1, (None, b"w"))]),
    )
    assert [f.details for f in result.findings] == ["1 offset: t-0 offset 1"]
    assert result.records_compared == 2


class FakeBrokers:
    """Fake brokers with the records of one partition; they note each call and consumer."""

    limit_s = 1.0

    def __init__(self, records: list[int], aborted: Collection[int] = ()) -> None:
        self.records, self.aborted = records, aborted
        self.calls: list[tuple[int, float]] = []
        self.consumers: list[str] = []

    def make_consumer(self, _: str, **settings: Any) -> Any:
        isolation = settings["isolation_level"]
        self.consumers.append(isolation)
        hidden = self.aborted if isolation == "read_committed" else ()
        unread = [offset for offset in self.records if offset not in hidden]

        def assign(partitions: list[Any]) -> None:
            unread[:] = [offset for offset in unread if offset >= partitions[0].offset]

        def consume(count: int, wait_s: float) -> list[Any]:
            self.calls.append((count, wait_s))
            offsets, unread[:] = unread[:count], unread[count:]
            return [
                SimpleNamespace(error=lambda: None, offset=lambda offset=offset: offset,
                                key=lambda: None, value=lambda: b"v")
                for offset in offsets
            ]  # fmt: skip

        return SimpleNamespace(assign=assign, consume=consume, close=lambda: None)


def compare(brokers: FakeBrokers, begin: int, end: int, rows: list[int]) -> dict[str, str]:
    result = RowAudit()
    items = [(offset, ()) for offset in rows]
    row_sources._merge_span(result, (T0, begin, end), items, brokers, ())  # type: ignore[arg-type]
    return {f.kind: f.details for f in result.findings}


def test_many_spans_of_aborted_records_are_not_missing():
    offsets, rows = list(range(3000)), list(range(1, 3000, 2))
    brokers = FakeBrokers(offsets, aborted=set(offsets) - set(rows))
    assert compare(brokers, 0, 3000, rows) == {}
    assert brokers.consumers == ["read_uncommitted", "read_committed"]
    missing = compare(FakeBrokers(offsets, aborted={4}), 0, 3000, rows)
    assert missing["rows-missing"].startswith("1,499 offsets: t-0 offset 0, t-0 offset 2, ")


def test_calls_request_only_records_of_the_span():
    brokers = FakeBrokers(list(range(1000)))
    assert compare(brokers, 10, 13, [10, 11, 12]) == {}
    assert brokers.calls == [(3, row_sources._WAIT_S)]
    brokers = FakeBrokers([10, 11, 900])
    assert compare(brokers, 10, 13, [10, 11]) == {}
    assert {count for count, _ in brokers.calls} <= {1, 2, 3}
    assert row_sources._WAIT_S <= 1


def test_silent_brokers_are_an_error_after_the_timeout():
    brokers = FakeBrokers([10])
    with pytest.raises(row_sources.TopicUnreadableError, match="t-0: no answer within 1 s"):
        compare(brokers, 10, 13, [10])
    assert sum(wait_s for _, wait_s in brokers.calls[1:]) == pytest.approx(brokers.limit_s)


def test_a_sample_has_whole_blocks_in_order_and_is_reproducible():
    spans = {T0: (50, 50 + 20 * BLOCK_OFFSETS), T1: (7, 9)}
    chosen = sample_blocks(spans, 5 * BLOCK_OFFSETS)
    assert chosen == sample_blocks(dict(reversed(list(spans.items()))), 5 * BLOCK_OFFSETS)
    assert chosen == sorted(chosen)
    assert len(chosen) == 5
    for partition, begin, end in chosen:
        low, high = spans[partition]
        assert low <= begin < end <= high
        assert begin // BLOCK_OFFSETS == (end - 1) // BLOCK_OFFSETS
    everything = sample_blocks(spans, 10**9)
    assert sum(end - begin for _, begin, end in everything) == 20 * BLOCK_OFFSETS + 2


def test_the_docs_list_all_findings():
    page = Path(__file__).parents[3] / "docs" / "audit.md"
    assert format_rows() in page.read_text(encoding="utf-8")
    assert {kind.verdict for kind in KINDS.values()} == {"wrong", "unproved"}


def write_table(folder: Path, *commits: list[dict[str, Any]]) -> Path:
    (folder / "_delta_log").mkdir(parents=True)
    for version, actions in enumerate(commits):
        text = "\n".join(json.dumps(action) for action in actions)
        (folder / "_delta_log" / f"{version:020}.json").write_text(text)
    return folder


CREATED: list[dict[str, Any]] = [{"commitInfo": {"operation": "CREATE TABLE"}}]


def test_a_table_without_batches_is_not_proved(tmp_path: Path, capsys):
    table = write_table(tmp_path, CREATED)
    assert run(["audit", "--table", str(table), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [f["kind"] for f in report["findings"]] == ["no-batch"]
    assert (report["proved"], report["queries"]) == (False, [])


def test_a_query_whose_commits_have_no_ranges_is_proved_by_its_offset_log(tmp_path: Path, capsys):
    """Delta's own streaming sink writes such commits, under the query's id."""
    batches = [[{"txn": {"appId": QUERY, "version": n}}] for n in range(2)]
    table = write_table(tmp_path / "table", CREATED, *batches)
    checkpoint = write_checkpoint(tmp_path / "c", [{"t": {0: 5}}, {"t": {0: 7, 1: 1}}])
    command = ["audit", "--table", str(table), "--checkpoint", str(checkpoint)]
    assert run(command) == 0
    out = capsys.readouterr().out
    assert "PROVED" in out
    assert "8 offsets, each committed exactly once" in out
    assert "not which rows arrived after a shuffle; --columns compares rows" in out
    (checkpoint / "offsets" / "0").unlink()
    assert run(command) == 1
    out = capsys.readouterr().out
    assert "UNPROVED no-ranges" in out
    assert KINDS["no-ranges"].cure in out


def counted_batch(number: int, records: int, of: range | None = None) -> list[dict[str, Any]]:
    """Return a commit of a batch of ten offsets with the checksum of the records `of`."""
    begin = 10 * number
    metadata = json.loads(
        encode_metadata(QUERY, number, {"0": {"t": {0: (begin, begin + 10)}}}) or ""
    )
    read = of if of is not None else range(begin, begin + records)
    checksum = compute_checksum({"0": {"t": {0: (read.start, read.stop)}}})
    metadata["assignor"]["counted"] = {"records": records, "checksum": f"{checksum:016x}"}
    info = {"operation": "WRITE", "userMetadata": json.dumps(metadata)}
    return [{"commitInfo": info}, {"txn": {"appId": f"assignor-{QUERY}", "version": number}}]


@pytest.mark.parametrize(
    ("batches", "kinds", "text"),
    [
        pytest.param([counted_batch(0, 10), counted_batch(1, 10)], [], "each read once", id="all"),
        pytest.param(
            [counted_batch(0, 10), counted_batch(1, 15)], [],
            "after a shuffle (Spark ran tasks of 1 batch again)", id="tasks ran again",
        ),
        pytest.param(
            [counted_batch(0, 10), counted_batch(1, 10, range(12, 22))], ["records-mismatch"],
            "WRONG records-mismatch", id="other records",
        ),
        # Five of the ten offsets are markers, and all five records were counted twice.
        pytest.param(
            [counted_batch(0, 5), counted_batch(1, 10, range(0))], ["records-unproved"],
            "UNPROVED records-unproved", id="markers hide records counted twice",
        ),
    ],
)  # fmt: skip
def test_counted_records_decide_the_proof(
    tmp_path: Path, capsys, batches, kinds: list[str], text: str
):
    command = ["audit", "--table", str(write_table(tmp_path, CREATED, *batches))]
    assert run(command) == int(bool(kinds))
    assert text in capsys.readouterr().out
    assert run([*command, "--json"]) == int(bool(kinds))
    report = json.loads(capsys.readouterr().out)
    assert [f["kind"] for f in report["findings"]] == kinds
    assert report["scope"] == "commits"


@pytest.mark.parametrize(
    ("are_sampled", "scope", "limit"),
    [
        (True, "sampled rows", "  limit: of the rows, only the sampled ones are proved\n"),
        (False, "rows", ""),
    ],
)
def test_reading_rows_extends_the_proof(
    tmp_path: Path, capsys, *, are_sampled: bool, scope: str, limit: str
):
    table = str(write_table(tmp_path, CREATED, counted_batch(0, 10)))
    result = audit(read_evidence(table, None))
    result.add_rows(RowAudit(), [], are_sampled=are_sampled)
    print_audit(table, result)
    proved, rest = capsys.readouterr().out.split("each committed exactly once\n")
    assert "0 rows read" in proved
    assert (result.scope, rest) == (scope, limit)


def test_a_commit_with_a_lone_surrogate_is_damaged(tmp_path: Path):
    """`make fuzz` found that this once raised an unexpected exception."""
    write_table(tmp_path, [{"txn": {"appId": QUERY, "version": "\ud800"}}])
    with pytest.raises(DamagedCommitError, match="half of a surrogate pair"):
        read_commit(LocalFolder(tmp_path), 0)


def test_since_ignores_earlier_commits(tmp_path: Path, capsys):
    batches = [[{"txn": {"appId": QUERY, "version": n}}] for n in range(3)]
    foreign = [{"add": {"path": "x", "size": 1, "dataChange": True}}, {"remove": {"path": "x"}}]
    table = write_table(tmp_path / "table", CREATED, foreign, *batches)
    (table / "x").write_bytes(b"1")
    ends: list[Any] = [{"t": {0: 5}}, {"t": {0: 7}}, {"t": {0: 8}}]
    checkpoint = write_checkpoint(tmp_path / "c", ends)
    command = ["audit", "--table", str(table), "--checkpoint", str(checkpoint), "--json"]
    assert run(command) == 1
    capsys.readouterr()
    assert run([*command, "--since", "3"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["versions"] == [3, 4]
    assert report["queries"][0]["offsets"] == 3


@pytest.mark.parametrize("since", ["2", "3", "99"])
def test_a_wrong_table_is_not_proved_by_since(tmp_path: Path, capsys, since: str):
    """With no commits left to check, the audit once reported a proof."""
    other = "d9a5a3a1-0000-4000-8000-000000000002"
    batch = [{"txn": {"appId": f"assignor-{other}", "version": 0}}]
    batch.append(
        {
            "commitInfo": {
                "operation": "WRITE",
                "userMetadata": encode_metadata(other, 0, {"0": {"t": {}}}),
            }
        }
    )
    table = write_table(tmp_path / "table", CREATED, CREATED, batch, CREATED)
    checkpoint = write_checkpoint(tmp_path / "c", [{"t": {0: 5}}])
    command = ["audit", "--table", str(table), "--checkpoint", str(checkpoint), "--json"]
    assert run([*command, "--since", since]) == 1
    report = json.loads(capsys.readouterr().out)
    assert "other-query" in {f["kind"] for f in report["findings"]}
    assert not report["proved"]


def test_a_table_without_batches_is_not_proved_by_since_nor_by_a_short_log(tmp_path: Path, capsys):
    table = write_table(tmp_path / "table", *[CREATED] * 4)
    checkpoint = write_checkpoint(tmp_path / "c", [{"t": {0: 5}}])
    command = ["audit", "--table", str(table), "--checkpoint", str(checkpoint), "--json"]
    for version in (0, 1):
        assert run([*command, "--since", "2"]) == 1
        assert "no-batch" in capsys.readouterr().out
        (table / "_delta_log" / f"{version:020}.json").unlink()
    assert run([*command, "--since", "2"]) == 1
    assert "no-batch" in capsys.readouterr().out


def test_since_after_the_querys_batches_does_not_report_another_query(tmp_path: Path, capsys):
    other = [{"txn": {"appId": f"assignor-{QUERY[:-1]}2", "version": 0}}]
    own = [{"txn": {"appId": QUERY, "version": 0}}]
    table = write_table(tmp_path / "table", CREATED, own, other)
    checkpoint = write_checkpoint(tmp_path / "c", [{"t": {0: 5}}])
    command = ["audit", "--table", str(table), "--checkpoint", str(checkpoint), "--json"]
    assert run([*command, "--since", "2"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert {f["kind"] for f in report["findings"]} == {"no-ranges"}
    assert run([*command, "--since", "3"]) == 1
    [finding] = json.loads(capsys.readouterr().out)["findings"]
    assert finding["details"] == "no batch in 0 audited commits; the last is in version 2"


def test_merges_by_other_writers_do_not_make_an_upsert(tmp_path: Path):
    merged = [
        [{"commitInfo": {"operation": "MERGE"}}, {"txn": {"appId": name, "version": 0}}]
        for name in ("nightly", QUERY)
    ]
    table = write_table(tmp_path / "table", CREATED, *merged)
    assert not replay_commits(read_commit(LocalFolder(table), n) for n in (0, 1, 2)).is_upsert


def test_merges_identify_an_upsert_without_its_properties(tmp_path: Path, capsys):
    """Merges of the same records by a new query were once reported as overlaps."""
    batches = []
    for number, query in enumerate((QUERY, f"{QUERY[:-1]}2")):
        metadata = encode_metadata(query, 0, {"0": {"t": {0: (0, 5)}}})
        info = {"operation": "MERGE", "userMetadata": metadata}
        batches.append(
            [{"commitInfo": info}, {"txn": {"appId": f"assignor-{query}", "version": 0}}]
        )
        batches[-1][0]["commitInfo"]["number"] = number
    table = write_table(tmp_path / "table", CREATED, *batches)
    (table / "_delta_log" / f"{0:020}.json").unlink()
    assert run(["audit", "--table", str(table), "--since", "1"]) == 0
    out = capsys.readouterr().out
    assert "PROVED" in out
    assert "not which rows arrived after a shuffle\n" in out, "--columns is refused for an upsert"
    columns = ["--columns", "a,b,c", "--bootstrap-server", "127.0.0.1:1"]
    assert run(["audit", "--table", str(table), "--since", "1", *columns]) == 2


def test_merges_before_since_identify_an_upsert(tmp_path: Path, capsys):
    """Its replaced rows were once reported as missing."""
    merge = [
        {"commitInfo": {"operation": "MERGE"}},
        {"txn": {"appId": f"assignor-{QUERY}", "version": 0}},
    ]
    table = write_table(tmp_path / "table", CREATED, merge, [{"commitInfo": {}}])
    (table / "_delta_log" / f"{0:020}.json").unlink()
    columns = ["--columns", "a,b,c", "--bootstrap-server", "127.0.0.1:1"]
    assert run(["audit", "--table", str(table), "--since", "2", *columns]) == 2
    assert "keeps only each key's newest row" in capsys.readouterr().err


def test_a_damaged_commit_before_since_leaves_the_spans_unknown(tmp_path: Path):
    """Rows of earlier batches were once reported as invented."""
    batches = [[{"txn": {"appId": QUERY, "version": n}}] for n in range(3)]
    table = write_table(tmp_path / "table", CREATED, *batches)
    (table / "_delta_log" / f"{0:020}.json").write_text("{")
    ends: list[Any] = [{"t": {0: 5}}, {"t": {0: 7}}, {"t": {0: 8}}]
    checkpoint = write_checkpoint(tmp_path / "c", ends)
    result = audit(read_evidence(str(table), str(checkpoint)), 2)
    assert (result.first_version, result.last_version, result.spans) == (2, 3, {})


def test_the_topics_of_a_query_are_collected_once(tmp_path: Path, monkeypatch):
    adds: list[dict[str, Any]] = [
        {"add": {"path": f"{n}", "size": 1, "dataChange": True}} for n in range(3)
    ]
    batches = [[{"txn": {"appId": QUERY, "version": n}}, *adds] for n in range(2)]
    table = write_table(tmp_path / "table", CREATED, *batches)
    checkpoint = write_checkpoint(tmp_path / "c", [{"t": {0: 5}}, {"t": {0: 7}, "u": {0: 1}}])
    seen: list[Any] = []
    monkeypatch.setattr(files, "_parse_bounds", lambda _, topics, is_upsert: seen.append(topics))
    evidence = read_evidence(str(table), str(checkpoint))
    history = replay_commits(evidence.commits)
    assert not list(files.check_statistics(history.list_batches(evidence.checkpoint), history))
    assert len(seen) == 6
    assert all(topics is seen[0] for topics in seen)
    assert seen[0] == {"t", "u"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--table", "nowhere"], "not a Delta table", id="no table"),
        pytest.param(["--table", " "], "--table is empty", id="empty"),
        pytest.param(["--table", "s3a://b/t"], "not on a local file system", id="elsewhere"),
        pytest.param(["--table", "t", "--columns", "a,b"], "three names", id="columns"),
        pytest.param(["--table", "t", "--sample", "3"], "--columns", id="sample"),
        pytest.param(["--table", "t", "--checkpoint", "nowhere"], "checkpoint", id="checkpoint"),
    ],
)
def test_misuse_prints_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, words: list[str], message: str
):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "t", CREATED)
    assert run(["audit", *words]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_file_is_read_by_its_url(tmp_path: Path):
    (tmp_path / "a b").write_bytes(b"123")
    files = DataFiles(tmp_path)
    assert files.read_size("a%20b") == 3
    assert files.read_size(f"file:{tmp_path}/a%20b") == 3
    assert files.read_size("other") is None


def test_a_commit_of_another_engine_is_read(tmp_path: Path):
    """Its metrics are numbers instead of strings, under names that Delta does not use."""
    info = {"operation": "WRITE", "operationMetrics": {"num_added_files": 1}, "userMetadata": "x"}
    add = {"path": "x", "size": 1, "dataChange": True, "partitionValues": {"a": None}}
    table = write_table(tmp_path, CREATED, [{"commitInfo": info}, {"add": add}])
    (table / "x").write_bytes(b"1")
    result = audit(read_evidence(str(table), None))
    assert [f.kind for f in result.findings] == ["foreign-rows", "no-batch"]


@pytest.mark.parametrize(
    ("is_whole", "counts", "expected"),
    [
        pytest.param(True, [2, 4], [], id="equal"),
        pytest.param(True, [3, 4], ["version 1 has 2 files", "but 3 (30 bytes)"], id="corrected"),
        pytest.param(True, [2, 5], ["version 2 has 4 files", "but 5 (50 bytes)"], id="wrong"),
        pytest.param(False, [3, 5], [], id="the first one is the reference"),
        pytest.param(False, [3, 4], ["version 2 has 5 files", "but 4 (40 bytes)"], id="changed"),
    ],
)
def test_each_difference_from_a_checksum_is_reported_once(is_whole, counts, expected):
    history = History({}, is_whole, size_by_version={1: (2, 20), 2: (4, 40)})
    checksums = {v: TableChecksum(n, 10 * n) for v, n in enumerate(counts, 1)}
    text = "; ".join(found.details for found in files.check_state(history, checksums))
    assert bool(text) == bool(expected)
    assert [part for part in expected if part not in text] == []
    assert text.count("version") == bool(expected)
