"""Offsets for Spark's `startingOffsets` include every partition of each topic."""

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
    starting = build_starting_offsets(positions, {"t": {0, 1, 2}}, EARLIEST)
    assert starting.offsets == {"t": {0: 5, 1: -2, 2: -2}}
    assert starting.default_partitions == ("t-1", "t-2")
    assert build_starting_offsets(positions, {"t": {1}}, LATEST).offsets == {"t": {1: -1}}


def test_offset_0_is_an_offset():
    assert build_starting_offsets([read("t", 0, 0)], None, LATEST).offsets == {"t": {0: 0}}


def test_partitions_missing_on_the_broker_are_left_out():
    positions = [read("t", 0, 5), read("t", 9, 4), read("gone", 0, 1)]
    starting = build_starting_offsets(positions, {"t": {0}}, EARLIEST)
    assert starting.offsets == {"t": {0: 5}}
    assert starting.missing_partitions == ("gone-0", "t-9")


def test_sources_with_different_offsets_are_rejected():
    with pytest.raises(OptionError, match="t-0 has different offsets in several sources"):
        build_starting_offsets([read("t", 0, 5, "a"), read("t", 0, 6, "b")], None, EARLIEST)
    assert build_starting_offsets(
        [read("t", 0, 5, "a"), read("t", 0, 5, "b")], None, EARLIEST
    ).offsets


def test_offsets_of_a_query_without_brokers(tmp_path, capsys):
    query = write_query(tmp_path / "c", {"t": {0: 9, 1: 4}})
    assert main.run(["offsets", "--checkpoint", query]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {"t": {"0": 9, "1": 4}}
    assert "new partitions are unknown" in err


def test_a_planned_batch_that_may_be_in_the_table_is_noted(tmp_path, capsys):
    query = write_query(tmp_path / "c", {"t": {0: 9}})
    assert main.run(["offsets", "--checkpoint", query]) == 0
    assert "planned" not in capsys.readouterr().err
    (tmp_path / "c/commits/0").unlink()
    assert main.run(["offsets", "--checkpoint", query]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {"t": {"0": 0}}
    assert "batch 0 was planned but not completed: its rows may be in the table" in err
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
            "--source needs a checkpoint",
            id="source",
        ),
        pytest.param(
            ["--checkpoint", "c", "--source", "7"], "of the checkpoint (0)", id="no source"
        ),
        pytest.param(
            ["--checkpoint", "c", "--topic", "u"], "u: it is not in the checkpoint", id="topic"
        ),
        pytest.param(["--checkpoint", "x"], "is not a streaming checkpoint", id="none"),
        pytest.param(
            ["c", "--json"], "--json cannot be used with --as starting-offsets", id="JSON"
        ),
        pytest.param(["c", "--sort", "lag"], "--sort cannot be used with", id="order"),
        pytest.param(["c", "--seconds-limit", "0"], "--seconds-limit cannot be used", id="limit"),
    ],
)
def test_a_usage_error_is_one_line(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_query(tmp_path / "c", {"t": {0: 9}})
    assert main.run(["offsets", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


def test_an_option_of_starting_offsets_is_rejected_for_the_table(tmp_path, capsys):
    query = write_query(tmp_path / "c", {"t": {0: 9}})
    assert main.run(["lag", query, "--missing", "latest"]) == 2
    assert "--missing cannot be used with --as table" in capsys.readouterr().err
