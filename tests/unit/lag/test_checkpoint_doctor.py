"""`assignor doctor --checkpoint` without brokers: checks of the planner's state and Delta's log."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest

from assignor_bridge.errors import OptionError
from assignor_bridge.model import Partition
from checkpoints.folders import LocalFolder
from checkpoints.offset_log import read_checkpoint_folder
from checkpoints.state_text import encode
from checkpoints.sticky_state import StickyState, StoredExecutor
from streaming.cli import main
from streaming.delta.transactions import read_table_log
from streaming.doctor import checkpoint as doctor_of_checkpoints
from streaming.doctor import delta_table
from streaming.lag.first_unread import FirstRecord
from tests.unit.lag.checkpoint_files import QUERY, write_query
from tests.unit.streaming.checkpoints import write_checkpoint


def state(topic: str = "t", position: int = 9) -> str:
    one, empty = np.array([0]), np.array([np.nan])
    return encode(
        replace(
            StickyState.empty(), generation=3, batches=1, readers=(StoredExecutor("7", "h", 1),),
            topics=(topic,), topic=one, partition=one, member=one, position=np.array([position]),
            seen=one, cost=empty, last_cost=empty,
            evidence=empty, bytes=empty, density=empty,
        )
    )  # fmt: skip


def from_the_future() -> str:
    raw = bytearray(base64.b64decode(state()))
    raw[3] = 9
    return base64.b64encode(raw).decode()


def delta(folder: Path, versions: dict[int, int | None], app: str = QUERY) -> str:
    """Write a Delta log of commits, with or without the version of a transaction."""
    log = folder / "table" / "_delta_log"
    log.mkdir(parents=True)
    for number, version in versions.items():
        txn = {} if version is None else {"txn": {"appId": app, "version": version}}
        lines = [json.dumps({"commitInfo": {}}), json.dumps(txn)]
        (log / f"{number:020}.json").write_text("\n".join(lines))
    return str(log.parent)


def doctor(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str]]:
    code = main.run(["doctor", *words])
    return code, capsys.readouterr().out.splitlines()


def test_a_valid_checkpoint_passes(tmp_path, capsys):
    query = write_query(tmp_path / "c", {"t": {0: 9}}, batch=4)
    code, lines = doctor(capsys, "--checkpoint", query)
    assert code == 0
    assert lines == [
        f"ok     query {QUERY} (sources/0): its last batch, 4, is completed"
    ]  # fmt: skip


def test_a_planned_batch_passes(tmp_path, capsys):
    query = write_query(tmp_path / "c", {"t": {0: 9}}, batch=4)
    (tmp_path / "c" / "commits" / "4").unlink()
    code, lines = doctor(capsys, "--checkpoint", query)
    assert code == 0
    assert "no batch has been completed; batch 4 is running, or will run" in lines[0]


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        pytest.param(["offsets/4"], "or copy offsets/5 to offsets/4 (batch 5 is", id="done"),
        pytest.param(["offsets/4", "commits/5"], "without a backup, give the query a new",
                     id="planned"),
        # Asynchronous progress tracking leaves such files.
        pytest.param(["offsets/4", "commits/4"], None, id="never logged"),
        pytest.param(["offsets/3"], None, id="an older one"),
    ],
)  # fmt: skip
def test_the_offsets_before_the_last_ones_must_exist(gone, words, tmp_path, capsys):
    folder = write_checkpoint(tmp_path / "c", [{"t": {0: n}} for n in (3, 4, 5)], first=3)
    for name in gone:
        (folder / name).unlink()
    code, lines = doctor(capsys, "--checkpoint", str(folder))
    assert code == int(words is not None)
    if words is not None:
        assert "FAILED" in lines[0]
        assert 'offsets/4 is missing; Spark would stop with "batch 4' in lines[0]
        assert words in lines[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(state(), None, id="sound"),
        pytest.param(state(position=8), None, id="from an older batch"),
        pytest.param(state(position=10), "it is ahead of the checkpoint in t-0", id="ahead"),
        pytest.param(
            state("u"), "it has topics u, but the source reads t", id="from another topic"
        ),
        pytest.param(state()[:-8], "delete the file; partitions may change", id="cut off"),
        pytest.param("", "delete the file; partitions may change", id="emptied"),
        pytest.param(
            from_the_future(), "install the assignor-bridge that wrote it, or delete", id="newer"
        ),
    ],
)
def test_the_planner_state_is_checked(text, message, tmp_path, capsys):
    query = write_query(tmp_path / "c", {"t": {0: 9}})
    folder = tmp_path / "c/sources/0/assignments"
    folder.mkdir()
    (folder / "3.v1").write_text(text)
    code, lines = doctor(capsys, "--checkpoint", query)
    assert code == (message is not None)
    assert len(lines) == 2
    assert lines[1].startswith(
        "ok     state of sources/0: generation 3" if not message else "FAILED"
    )
    assert message is None or message in lines[1]


@pytest.mark.parametrize(
    ("then", "completed", "message"),
    [
        pytest.param(
            {0: 4, 1: 7},
            False,
            "the planned batch 1 goes backwards: t-0 to 4 (previous end offset: 9);",
            id="a lower offset",
        ),
        pytest.param(
            {1: 5},
            False,
            "goes backwards: t-0 is missing (previous end offset: 9), "
            "t-1 to 5 (previous end offset: 7);",
            id="a missing partition",
        ),
        pytest.param({0: 9, 1: 8}, False, None, id="forwards"),
        pytest.param({0: 4, 1: 7}, True, None, id="failOnDataLoss=false, it continued"),
    ],
)
def test_a_batch_with_lower_offsets_reports_a_recreated_topic(
    then, completed, message, tmp_path, capsys
):
    """Spark leaves such files when it fails; the planner's state is from before the re-creation."""
    folder = tmp_path / "c"
    query = write_query(folder, {"t": {0: 9, 1: 7}})
    (folder / "offsets/1").write_text(f"v1\n{{}}\n{json.dumps({'t': then})}")
    if completed:
        (folder / "commits/1").write_text("v1\n{}")
    else:
        (folder / "sources/0/assignments").mkdir()
        (folder / "sources/0/assignments/3.v1").write_text(state(position=9))
    code, lines = doctor(capsys, "--checkpoint", query)
    wrong = [line for line in lines if line.startswith("FAILED")]
    assert code == len(wrong) == (message is not None)
    if message is not None:
        assert wrong[0].startswith("FAILED topic 't' (sources/0): it was deleted and re-created: ")
        assert message in wrong[0]


@pytest.mark.parametrize(
    ("versions", "app", "code", "message"),
    [
        pytest.param({0: None, 1: 4}, QUERY, 0, "last batch: 4 in the table, 4 in the checkpoint",
                     id="same batch"),
        pytest.param({0: 3, 1: None}, QUERY, 1, "it has the query's batches only up to 3, but",
                     id="restored from a copy"),
        pytest.param({7: 4, 8: 5}, QUERY, 1, "it has batch 5 of the query, but the query",
                     id="ahead"),
        pytest.param({0: 4}, f"assignor-{QUERY}", 0, "last batch: 4 in the table",
                     id="of assignor run"),
        pytest.param({0: 5}, f"assignor-{QUERY}", 1, "Delta would skip batches up to 5",
                     id="of assignor run, ahead"),
        pytest.param({0: 9}, "another", 1, "it has no batch of the query, but according to",
                     id="of another query"),
        pytest.param({7: 9}, "another", 0, "unknown: the table's JSON commits have no batch",
                     id="older commits are gone"),
        pytest.param({0: 9, 2: 9}, "another", 0, "unknown", id="a commit is missing"),
    ],
)  # fmt: skip
def test_batches_in_the_delta_log_are_compared_with_the_checkpoint(
    versions, app, code, message, tmp_path, capsys
):
    query = write_query(tmp_path / "c", {"t": {0: 9}}, batch=4)
    table = delta(tmp_path, versions, app)
    exit_code, lines = doctor(capsys, "--checkpoint", query, "--delta-table", table)
    assert (exit_code, len(lines)) == (code, 2)
    assert message in lines[1]


@pytest.mark.parametrize("accepted", ["", "1", "2"])
def test_a_restored_table_fails_until_the_restore_is_accepted(accepted, tmp_path, capsys):
    """After RESTORE, the newest batch is still in the log, but its rows are not in the table."""
    query = write_query(tmp_path / "c", {"t": {0: 9}}, batch=4)
    table = delta(tmp_path, {0: 3, 1: 4})
    restore = {"operation": "RESTORE", "operationParameters": {"version": 0}}
    lines = [{"commitInfo": restore}]
    log = Path(table) / "_delta_log"
    (log / f"{2:020}.json").write_text("\n".join(map(json.dumps, lines)))
    if accepted:
        configuration = {"assignor.acceptedRestore": accepted}
        (log / f"{3:020}.json").write_text(
            json.dumps({"metaData": {"configuration": configuration}})
        )
    exit_code, lines = doctor(capsys, "--checkpoint", query, "--delta-table", table)
    assert exit_code == (accepted != "2")
    assert ("by RESTORE (version 2) after batch 4" in lines[1]) == (accepted != "2")


def test_invalid_table_properties_are_reported_as_damage(tmp_path):
    """The log may come from another writer, and must not cause a traceback."""
    table = delta(tmp_path, {0: 4})
    newer = Path(table) / "_delta_log" / f"{1:020}.json"
    newer.write_text(json.dumps({"metaData": {"configuration": ["assignor.acceptedRestore"]}}))
    with pytest.raises(OptionError, match="its log is damaged"):
        read_table_log(table, QUERY)


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        pytest.param({0: None}, "it has no batch of this query yet", id="not written yet"),
        pytest.param(
            {0: 4}, "last batch: 4 in the table, 4 in the checkpoint", id="not committed yet"
        ),
    ],
)
def test_a_table_passes_before_the_first_batch_is_completed(versions, message, tmp_path, capsys):
    query = write_query(tmp_path / "c", {"t": {0: 9}}, batch=4)
    (tmp_path / "c" / "commits" / "4").unlink()
    table = delta(tmp_path, versions, f"assignor-{QUERY}")
    code, lines = doctor(capsys, "--checkpoint", query, "--delta-table", table)
    assert (code, len(lines)) == (0, 2)
    assert message in lines[1]


def plan_next(folder: Path, batch: int, end: int) -> None:
    """Plan a batch as a running query does, without completing it."""
    (folder / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps({'t': {0: end}})}")


def test_a_batch_planned_while_the_table_is_read_passes(tmp_path, monkeypatch, capsys):
    query = write_query(tmp_path / "c", {"t": {0: 9}}, batch=4)
    table = delta(tmp_path, {0: 5})

    def plan_and_read_log(*arguments):
        plan_next(tmp_path / "c", 5, 12)
        return read_table_log(*arguments)

    monkeypatch.setattr(delta_table, "read_table_log", plan_and_read_log)
    code, lines = doctor(capsys, "--checkpoint", query, "--delta-table", table)
    assert code == 0
    assert "last batch: 5 in the table, 5 in the checkpoint" in lines[1]


class Running(LocalFolder):
    """A checkpoint whose query plans a batch as soon as the offsets are listed."""

    def names(self, path: str) -> list[str]:
        names = super().names(path)
        if path == "offsets":
            plan_next(self.root, 5, 12)
            (self.root / "sources/0/assignments/4.v1").write_text(state(position=12))
        return names


def test_a_state_written_during_the_check_is_not_ahead(tmp_path):
    write_query(tmp_path, {"t": {0: 9}}, batch=4)
    (tmp_path / "sources/0/assignments").mkdir()
    (tmp_path / "sources/0/assignments/3.v1").write_text(state(position=9))
    checkpoint = read_checkpoint_folder(Running(tmp_path))
    checks = doctor_of_checkpoints.examine_checkpoint(checkpoint, None, None)
    assert [check.holds for check in checks] == [True, True], checks


def test_a_damaged_checkpoint_fails(tmp_path, capsys):
    query = write_query(tmp_path / "c", {"t": {0: 9}})
    (tmp_path / "c/offsets/0").write_text("v1")
    code, lines = doctor(capsys, "--checkpoint", query)
    assert code == 1
    assert len(lines) == 1
    assert "'offsets/0' is truncated" in lines[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--checkpoint", "none"], "is not a streaming checkpoint", id="none"),
        pytest.param(["--table", "t"], "--table needs --checkpoint", id="no query"),
        pytest.param(["--checkpoint", "c", "--delta-table", "."], "is not a Delta table", id="dir"),
        pytest.param(["--checkpoint", "c", "--delta-table", "damaged"], "its log is damaged",
                     id="damaged log"),
        pytest.param(["--checkpoint", "c", "--delta-table", "s3a://b/t"],
                     "Delta table 's3a://b/t' is not on a local file system", id="elsewhere"),
        pytest.param(["--checkpoint", "c", "--command-config", "no"], "cannot be read",
                     id="no such config"),
    ],
)  # fmt: skip
def test_a_usage_error_is_one_line(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_query(tmp_path / "c", {"t": {0: 9}})
    log = tmp_path / "damaged/_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("{")
    assert main.run(["doctor", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


def test_partitions_without_reported_offsets_fail():
    """The broker does not report the offsets of a partition without a leader."""
    healthy, leaderless = Partition("t", 0), Partition("t", 1)
    topics = {"t": frozenset((0, 1))}
    logs = doctor_of_checkpoints._TopicLogs(topics, {healthy: 0}, {healthy: 9}, {})
    ends = {healthy: 9, leaderless: 5}
    [fault] = doctor_of_checkpoints._find_faults("t", ends, ends, logs)
    assert fault.startswith(
        "the brokers do not report the offsets of t-1: check that each has a leader"
    )


def test_records_left_by_compaction_do_not_look_like_a_recreated_topic(tmp_path, monkeypatch):
    """The first record that compaction left was written after the last batch, at a later offset."""
    query = write_query(tmp_path, {"t": {0: 500}}, batch=4)
    checkpoint = read_checkpoint_folder(LocalFolder(Path(query)))
    assert checkpoint.last_planned is not None
    later_s = (checkpoint.last_planned.timestamp_ms or 0) / 1000 + 600
    for offset, is_recreated in ((700, False), (499, True)):
        first = {Partition("t", 0): FirstRecord(offset, later_s)}
        monkeypatch.setattr(
            doctor_of_checkpoints, "find_first_unread", lambda *_, first=first: first
        )
        monkeypatch.setattr("time.time", lambda: later_s + 60)
        ends = [checkpoint.ends_of(s, checkpoint.last_planned) for s in checkpoint.sources]
        starts, log_ends = {Partition("t", 0): 0}, {Partition("t", 0): 900}
        later = doctor_of_checkpoints._find_recreation_times(
            checkpoint, MagicMock(), ends, starts, log_ends
        )
        assert bool(later) == is_recreated
