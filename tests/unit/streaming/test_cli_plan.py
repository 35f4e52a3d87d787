"""`assignor plan` and `assignor simulate` as a user runs them."""

from __future__ import annotations

import json

import pytest

from streaming.cli.main import run

GOOD = {
    "executors": [{"id": "1", "host": "h", "slots": 2}],
    "ranges": [{"topic": "t", "partition": p, "start": 0, "end": 100} for p in range(4)],
    "options": {},
}


@pytest.fixture
def snapshots(tmp_path):
    def write(*lines):
        path = tmp_path / "snapshots.jsonl"
        text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
        path.write_text(text + "\n\n", encoding="utf-8")
        return str(path)

    return write


def test_plans_are_described(snapshots, capfd):
    assert run(["plan", snapshots(GOOD)]) == 0
    out = capfd.readouterr().out
    assert "400 offsets of 4 partitions in 2 tasks on 1 executor" in out
    assert "executor 1 slot 1" in out


def test_json_lines_and_the_chain(snapshots, capfd):
    later = {**GOOD, "ranges": [{**r, "start": 100, "end": 200} for r in GOOD["ranges"]]}
    for flags, moved in ((["--chain"], True), ([], False)):
        assert run(["plan", "--json", *flags, snapshots(GOOD, later)]) == 0
        first, second = map(json.loads, capfd.readouterr().out.splitlines())
        assert (second["reasons"] != first["reasons"]) is moved
        assert first["state"]
        assert "tasks" in second


def test_a_bad_snapshot_is_one_line_and_the_others_are_still_planned(snapshots, capfd):
    assert run(["plan", "--json", snapshots("nonsense", GOOD)]) == 2
    out, err = capfd.readouterr()
    bad, good = map(json.loads, out.splitlines())
    assert bad["line"] == 1
    assert "no JSON" in bad["error"]
    assert good["tasks"]
    assert err.count("\n") == 1
    assert err.startswith("assignor: line 1: the request is no JSON")


def test_a_snapshot_that_cannot_be_planned_is_exit_code_one(snapshots, capfd):
    path = snapshots({**GOOD, "options": {"assignor": "nobody"}})
    assert run(["plan", "--json", path]) == 1
    out, err = capfd.readouterr()
    assert "unknown assignor 'nobody'" in json.loads(out)["error"]
    assert err.count("\n") == 1


def test_a_file_that_is_not_there(capfd):
    assert run(["plan", "/nowhere/at/all"]) == 2
    assert "/nowhere/at/all" in capfd.readouterr().err


SMALL = ["simulate", "--partitions", "12", "--executors", "3", "--batches", "5", "--records", "900"]


def test_simulate_compares(tmp_path, capfd):
    picture = tmp_path / "picture.html"
    assert run([*SMALL, "--slow", "1=2", "--slots", "1,2", "--html", str(picture)]) == 0
    out = capfd.readouterr().out
    assert "lag-aware-sticky" in out
    assert "<svg" in picture.read_text(encoding="utf-8")
    assert run([*SMALL, "--json", "--assignors", "spark,sticky"]) == 0
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [row["name"] for row in rows] == ["spark", "sticky"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--lags", "odd"], "--lags is 'odd'"),
        (["--slots", "0"], "--slots is '0'"),
        (["--slow", "9=2"], "--slow is '9=2'"),
        (["--assignors", "nobody"], "unknown assignor 'nobody'"),
        (["--assignors", " "], "--assignors is ' '"),
        (["--html", "/nowhere/x.html"], "cannot be written"),
    ],
)
def test_misuse_of_simulate(flags, message, capfd):
    assert run([*SMALL, *flags]) == 2
    err = capfd.readouterr().err.splitlines()[-1]
    assert err.startswith("assignor: ")
    assert message in err
