"""What `assignor doctor --checkpoint` says of files alone: the planner's state, Delta's log."""

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
from checkpoints.offset_log import read_checkpoint
from checkpoints.state_text import encode
from checkpoints.sticky_state import KnownExecutor, StickyState
from streaming.cli import main
from streaming.delta.transactions import read_log
from streaming.doctor import checkpoint as doctor_of_checkpoints
from streaming.doctor import delta_table
from streaming.lag.first_unread import FirstRecord
from tests.unit.lag.checkpoint_files import QUERY, write_query
from tests.unit.streaming.checkpoints import write_checkpoint


def state(topic: str = "t", position: int = 9) -> str:
    one, empty = np.array([0]), np.array([np.nan])
    return encode(
        replace(
            StickyState.empty(), generation=3, batches=1, readers=(KnownExecutor("7", "h", 1),),
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
    """Write a Delta log: commits, each with a transaction's version or without one."""
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


def test_a_sound_checkpoint_is_fine(tmp_path, capsys):
    query = write_query(tmp_path / "c", {"t": {0: 9}}, batch=4)
    code, lines = doctor(capsys, "--checkpoint", query)
    assert code == 0
    assert lines == [
        f"ok     query {QUERY} (Kafka sources 0): its last batch, 4, is completed"
    ]  # fmt: skip


def test_a_planned_batch_is_no_fault(tmp_path, capsys):
    query = write_query(tmp_path / "c", {"t": {0: 9}}, batch=4)
    (tmp_path / "c" / "commits" / "4").unlink()
    code, lines = doctor(capsys, "--checkpoint", query)
    assert code == 0
    assert "no batch was completed; batch 4 is planned and will run" in lines[0]


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        pytest.param(["offsets/4"], "or copy offsets/5 to offsets/4 (batch 5 is", id="done"),
        pytest.param(["offsets/4", "commits/5"], "without a backup, give the query a new",
                     id="planned"),
        # As asynchronous progress tracking leaves it.
        pytest.param(["offsets/4", "commits/4"], None, id="never logged"),
        pytest.param(["offsets/3"], None, id="an older one"),
    ],
)  # fmt: skip
def test_the_offsets_before_the_last_ones_must_be_there(gone, words, tmp_path, capsys):
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
        pytest.param(state(position=8), None, id="of an older batch"),
        pytest.param(state(position=10), "it is ahead of the checkpoint in t-0", id="ahead"),
        pytest.param(state("u"), "it is of u, but the source reads t", id="of another topic"),
        pytest.param(state()[:-8], "delete the file; partitions may change", id="cut off"),
        pytest.param("", "delete the file; partitions may change", id="emptied"),
        pytest.param(from_the_future(), "install that version, or delete the file", id="newer"),
    ],
)
def test_states(text, message, tmp_path, capsys):
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
            "batch 1, which is planned, goes back: t-0 to 4 from 9;",
            id="one goes back",
        ),
        pytest.param(
            {1: 5}, False, "goes back: t-0 to none from 9, t-1 to 5 from 7;", id="one is gone"
        ),
        pytest.param({0: 9, 1: 8}, False, None, id="forwards"),
        pytest.param({0: 4, 1: 7}, True, None, id="failOnDataLoss=false, it went on"),
    ],
)
def test_a_batch_that_goes_back_says_that_the_topic_was_made_again(
    then, completed, message, tmp_path, capsys
):
    """As Spark leaves it when it fails; the state of the topic before is no copy's."""
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
        pytest.param({0: None, 1: 4}, QUERY, 0, "it holds batch 4, the checkpoint's last is 4",
                     id="together"),
        pytest.param({0: 3, 1: None}, QUERY, 1, "it holds only batch 3 of the query, its",
                     id="put back from a copy"),
        pytest.param({7: 4, 8: 5}, QUERY, 1, "it holds batch 5 of the query, its checkpoint",
                     id="ahead"),
        pytest.param({0: 4}, f"assignor-{QUERY}", 0, "it holds batch 4", id="of assignor run"),
        pytest.param({0: 5}, f"assignor-{QUERY}", 1, "Delta would skip batches up to 5",
                     id="of assignor run, ahead"),
        pytest.param({0: 9}, "another", 1, "it holds no batch of the query, its checkpoint",
                     id="of another query"),
        pytest.param({7: 9}, "another", 0, "unknown: its JSON commits name no batch",
                     id="older commits are gone"),
        pytest.param({0: 9, 2: 9}, "another", 0, "unknown", id="a commit is missing"),
    ],
)  # fmt: skip
def test_deltas_transactions(versions, app, code, message, tmp_path, capsys):
    query = write_query(tmp_path / "c", {"t": {0: 9}}, batch=4)
    table = delta(tmp_path, versions, app)
    found, lines = doctor(capsys, "--checkpoint", query, "--delta-table", table)
    assert (found, len(lines)) == (code, 2)
    assert message in lines[1]


@pytest.mark.parametrize("accepted", ["", "1", "2"])
def test_a_table_that_was_set_back_is_told_until_that_is_accepted(accepted, tmp_path, capsys):
    """The newest batch in the log is as it was, its rows are not: it was told to be sound."""
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
    found, lines = doctor(capsys, "--checkpoint", query, "--delta-table", table)
    assert found == (accepted != "2")
    assert ("by RESTORE (version 2) after batch 4" in lines[1]) == (accepted != "2")


def test_properties_of_a_table_that_are_none_are_damage(tmp_path):
    """It was a traceback: a log may be another's."""
    table = delta(tmp_path, {0: 4})
    newer = Path(table) / "_delta_log" / f"{1:020}.json"
    newer.write_text(json.dumps({"metaData": {"configuration": ["assignor.acceptedRestore"]}}))
    with pytest.raises(OptionError, match="its log is damaged"):
        read_log(table, QUERY)


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        pytest.param({0: None}, "it has no batch of this query yet", id="not written yet"),
        pytest.param(
            {0: 4}, "it holds batch 4, the checkpoint's last is 4", id="not committed yet"
        ),
    ],
)
def test_a_table_is_no_fault_before_the_first_batch_is_completed(
    versions, message, tmp_path, capsys
):
    query = write_query(tmp_path / "c", {"t": {0: 9}}, batch=4)
    (tmp_path / "c" / "commits" / "4").unlink()
    table = delta(tmp_path, versions, f"assignor-{QUERY}")
    code, lines = doctor(capsys, "--checkpoint", query, "--delta-table", table)
    assert (code, len(lines)) == (0, 2)
    assert message in lines[1]


def plan_next(folder: Path, batch: int, end: int) -> None:
    """Plan a batch as a running query does; it is not completed."""
    (folder / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps({'t': {0: end}})}")


def test_a_batch_that_is_planned_while_the_table_is_read_is_no_sign_of_a_copy(
    tmp_path, monkeypatch, capsys
):
    query = write_query(tmp_path / "c", {"t": {0: 9}}, batch=4)
    table = delta(tmp_path, {0: 5})

    def later(*given):
        plan_next(tmp_path / "c", 5, 12)
        return read_log(*given)

    monkeypatch.setattr(delta_table, "read_log", later)
    code, lines = doctor(capsys, "--checkpoint", query, "--delta-table", table)
    assert code == 0
    assert "it holds batch 5, the checkpoint's last is 5" in lines[1]


class Running(LocalFolder):
    """A checkpoint whose query plans a batch as soon as the offsets are listed."""

    def names(self, path: str) -> list[str]:
        found = super().names(path)
        if path == "offsets":
            plan_next(self.root, 5, 12)
            (self.root / "sources/0/assignments/4.v1").write_text(state(position=12))
        return found


def test_a_state_of_a_batch_that_is_planned_meanwhile_is_not_ahead(tmp_path):
    write_query(tmp_path, {"t": {0: 9}}, batch=4)
    (tmp_path / "sources/0/assignments").mkdir()
    (tmp_path / "sources/0/assignments/3.v1").write_text(state(position=9))
    found = read_checkpoint(Running(tmp_path))
    checks = doctor_of_checkpoints.examine_checkpoint(found, None, None)
    assert [check.holds for check in checks] == [True, True], checks


def test_a_damaged_checkpoint_is_a_finding(tmp_path, capsys):
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
        pytest.param(["--table", "t"], "--table is for --checkpoint", id="no query"),
        pytest.param(["--checkpoint", "c", "--delta-table", "."], "is not a Delta table", id="dir"),
        pytest.param(["--checkpoint", "c", "--delta-table", "damaged"], "its log is damaged",
                     id="damaged log"),
        pytest.param(["--checkpoint", "c", "--delta-table", "s3a://b/t"],
                     "Delta table 's3a://b/t' is not on a local file system", id="elsewhere"),
        pytest.param(["--checkpoint", "c", "--command-config", "no"], "cannot be read",
                     id="no such config"),
    ],
)  # fmt: skip
def test_misuse_is_one_line(words, message, tmp_path, monkeypatch, capsys):
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


def test_partitions_whose_offsets_nobody_tells_are_a_fault():
    """A partition without a leader counted among those that "hold the offsets"."""
    there, silent = Partition("t", 0), Partition("t", 1)
    logs = doctor_of_checkpoints._TopicLogs({"t": frozenset((0, 1))}, {there: 0}, {there: 9}, {})
    ends = {there: 9, silent: 5}
    [fault] = doctor_of_checkpoints._find_faults("t", ends, ends, logs)
    assert fault.startswith(
        "the brokers do not report the offsets of t-1: check that each has a leader"
    )


def test_what_compaction_left_beyond_what_was_read_is_no_topic_made_anew(tmp_path, monkeypatch):
    """The first record that is left was written after the last batch, and was not read by it."""
    query = write_query(tmp_path, {"t": {0: 500}}, batch=4)
    found = read_checkpoint(LocalFolder(Path(query)))
    assert found.last_planned is not None
    later_s = (found.last_planned.timestamp_ms or 0) / 1000 + 600
    for offset, is_anew in ((700, False), (499, True)):
        first = {Partition("t", 0): FirstRecord(offset, later_s)}
        monkeypatch.setattr(doctor_of_checkpoints, "first_unread", lambda *_, first=first: first)
        monkeypatch.setattr("time.time", lambda: later_s + 60)
        ends = [found.ends_of(s, found.last_planned) for s in found.sources]
        starts, log_ends = {Partition("t", 0): 0}, {Partition("t", 0): 900}
        anew = doctor_of_checkpoints._find_recreation_times(
            found, MagicMock(), ends, starts, log_ends
        )
        assert bool(anew) == is_anew
