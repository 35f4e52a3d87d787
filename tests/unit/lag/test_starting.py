"""Offsets for Spark's `startingOffsets`: every partition of each topic, from what is known."""

from __future__ import annotations

import json

import pytest

from assignor_bridge.errors import OptionError
from streaming.cli import main
from streaming.lag.positions import EARLIEST, LATEST, Position, build_starting_offsets
from tests.unit.lag.checkpoint_files import write_query


def read(topic: str, partition: int, offset: int | None, owner: str = "g") -> Position:
    return Position(owner, topic, partition, offset)


def test_partitions_without_an_offset_are_filled():
    positions = [read("t", 0, 5), read("t", 1, None)]
    found = build_starting_offsets(positions, {"t": {0, 1, 2}}, EARLIEST)
    assert found.offsets == {"t": {0: 5, 1: -2, 2: -2}}
    assert found.filled == ("t-1", "t-2")
    assert build_starting_offsets(positions, {"t": {1}}, LATEST).offsets == {"t": {1: -1}}


def test_offset_0_is_an_offset():
    assert build_starting_offsets([read("t", 0, 0)], None, LATEST).offsets == {"t": {0: 0}}


def test_what_is_not_on_the_broker_is_left_out():
    positions = [read("t", 0, 5), read("t", 9, 4), read("gone", 0, 1)]
    found = build_starting_offsets(positions, {"t": {0}}, EARLIEST)
    assert found.offsets == {"t": {0: 5}}
    assert found.left_out == ("gone-0", "t-9")


def test_sources_that_stand_apart_are_refused():
    with pytest.raises(OptionError, match="t-0 is read by several sources"):
        build_starting_offsets([read("t", 0, 5, "a"), read("t", 0, 6, "b")], None, EARLIEST)
    assert build_starting_offsets(
        [read("t", 0, 5, "a"), read("t", 0, 5, "b")], None, EARLIEST
    ).offsets


def test_a_querys_offsets_without_a_broker(tmp_path, capsys):
    query = write_query(tmp_path / "c", {"t": {0: 9, 1: 4}})
    assert main.run(["offsets", "--checkpoint", query]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {"t": {"0": 9, "1": 4}}
    assert "new partitions are unknown" in err


def test_a_batch_that_is_planned_and_not_completed_may_be_in_the_table(tmp_path, capsys):
    query = write_query(tmp_path / "c", {"t": {0: 9}})
    assert main.run(["offsets", "--checkpoint", query]) == 0
    assert "planned" not in capsys.readouterr().err
    (tmp_path / "c/commits/0").unlink()
    assert main.run(["offsets", "--checkpoint", query]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {"t": {"0": 0}}
    assert "batch 0 was planned and not completed: a table may hold its rows" in err
    assert main.run(["lag", "--checkpoint", query]) == 0
    assert "planned" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param([], "give a checkpoint or --group GROUP", id="neither"),
        pytest.param(["--group", "g", "--checkpoint", "c"], "--group, not both", id="both"),
        pytest.param(["--group", "g"], "needs the brokers", id="no broker"),
        pytest.param(
            ["--group", "g", "--source", "0", "--bootstrap-server", "127.0.0.1:1"],
            "--source is for a checkpoint",
            id="source",
        ),
        pytest.param(["--checkpoint", "c", "--source", "7"], "Kafka sources are 0", id="no source"),
        pytest.param(["--checkpoint", "c", "--topic", "u"], "the topic does not exist", id="topic"),
        pytest.param(["--checkpoint", "x"], "is not a streaming checkpoint", id="none"),
        pytest.param(
            ["c", "--json"], "--json has no meaning with --as starting-offsets", id="JSON"
        ),
        pytest.param(["c", "--sort", "lag"], "--sort has no meaning with", id="order"),
        pytest.param(["c", "--seconds-limit", "0"], "--seconds-limit has no", id="limit"),
    ],
)
def test_misuse_is_one_line(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_query(tmp_path / "c", {"t": {0: 9}})
    assert main.run(["offsets", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


def test_an_option_of_starting_offsets_is_refused_for_the_table(tmp_path, capsys):
    query = write_query(tmp_path / "c", {"t": {0: 9}})
    assert main.run(["lag", query, "--missing", "latest"]) == 2
    assert "--missing has no meaning with --as table" in capsys.readouterr().err
