"""`assignor lab plan` and `assignor lab simulate`, run as a user does."""

from __future__ import annotations

import json

import pytest

from streaming.cli.main import run
from tests.support.packed import pack_snapshot, pack_task_rows, unpack_tasks
from tests.unit.streaming.kept_query import kept_query

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


def test_a_tail_task_has_no_slot(snapshots, capfd, tmp_path):
    options = {"assignor.tail": "auto"}
    sizes = [dict.fromkeys(range(8), 4000)] * 7
    query = kept_query(tmp_path, sizes, options=options, noise=0.4, slots=2)
    *_, last, _ = query.plan_log.read_text().splitlines()
    snapshot = json.loads(last)["snapshot"]
    assert run(["plan", snapshots(snapshot)]) == 0
    out = capfd.readouterr().out
    assert "any free slot of executors 1, 2 " in out
    assert "slot -1" not in out
    assert run(["plan", "--json", snapshots(snapshot)]) == 0
    answer = json.loads(capfd.readouterr().out)
    tail = [task for task in answer["tasks"] if task["executor"] is None]
    assert len(tail) == answer["metrics"]["tailTasks"]
    assert {(t["slot"], *t["tail"]["executors"]) for t in tail} == {(-1, "1", "2")}


def test_a_chain_passes_each_state_to_the_next_plan(snapshots, capfd):
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
    assert "not JSON" in bad["error"]
    assert good["tasks"]
    assert err.count("\n") == 1
    assert err.startswith("assignor: line 1: the request is not JSON")


def test_an_invalid_snapshot_and_an_empty_file_exit_with_2(snapshots, capfd):
    path = snapshots({**GOOD, "options": {"assignor": "nobody"}})
    assert run(["plan", "--json", path]) == 2
    out, err = capfd.readouterr()
    assert "unknown assignor 'nobody'" in json.loads(out)["error"]
    assert err.count("\n") == 1
    assert run(["plan", snapshots()]) == 2
    assert "the input is empty: JSON is expected" in capfd.readouterr().err


def planned(snapshots, capfd, request):
    assert run(["plan", "--json", snapshots(request)]) == 0
    return json.loads(capfd.readouterr().out)


def logged(number, snapshot, plan):
    return {"batchId": number, "snapshot": snapshot, "plan": plan}


@pytest.mark.parametrize("form", [lambda snapshot: snapshot, pack_snapshot], ids=["rows", "packed"])
def test_a_plan_log_explains_a_batch(snapshots, capfd, form):
    first = planned(snapshots, capfd, GOOD)
    request = form({**GOOD, "observed": [], "state": first["state"]})
    second = planned(snapshots, capfd, request)
    if form is pack_snapshot:
        first, second = ({**p, "tasks": pack_task_rows(p["tasks"])} for p in (first, second))
    path = snapshots(logged(16, form({**GOOD, "observed": []}), first), logged(17, request, second))
    assert run(["plan", "--batch", "17", path]) == 0
    out, err = capfd.readouterr()
    assert out.startswith("batch 17\nlag-aware-sticky: 400 offsets of 4 partitions in 2 tasks")
    assert "kept 4 of 4 partitions" in out
    assert err == ""
    assert run(["plan", "--json", path]) == 0
    answers = list(map(json.loads, capfd.readouterr().out.splitlines()))
    assert [answer["batchId"] for answer in answers] == [16, 17]
    tasks = second["tasks"]
    assert answers[1]["tasks"] == (unpack_tasks(tasks) if form is pack_snapshot else tasks)


def test_the_log_of_a_limited_batch_names_the_limit(snapshots, capfd):
    plan = planned(snapshots, capfd, GOOD)
    metrics = {"admittedRecords": 400, "heldBackRecords": 7000, "heldBackBy": "seconds"}
    admission = {"request": {"type": "admit"}, "answer": {"type": "admitted", "metrics": metrics}}
    of_another_version = {"answer": {"metrics": {"admitted": 1}}}
    path = snapshots(
        {**logged(3, GOOD, plan), "admission": admission},
        {**logged(4, GOOD, plan), "admission": of_another_version},
    )
    assert run(["plan", path]) == 0
    out, err = capfd.readouterr()
    assert out.startswith("batch 3\nlimited to 400 offsets; held back: 7000 (by: seconds)\n")
    assert out.count("limited to") == 1
    assert err == ""


def test_a_plan_that_differs_from_the_logged_one_is_reported(snapshots, capfd):
    plan = planned(snapshots, capfd, GOOD)
    then = {**plan, "tasks": plan["tasks"][:1], "reasons": ["as it was"]}
    path = snapshots(logged(3, GOOD, then), logged(4, GOOD, {"error": "no luck"}))
    assert run(["plan", path]) == 0
    assert capfd.readouterr().err.splitlines() == [
        "assignor: line 1: batch 3 was planned differently in the query: as it was",
        "assignor: line 2: batch 4 could not be planned in the query: no luck",
    ]


def test_a_batch_missing_from_the_log_is_a_usage_error(snapshots, capfd):
    torn = json.dumps(logged(6, GOOD, {}))[:50]
    assert run(["plan", "--batch", "9", snapshots(logged(3, GOOD, {}), GOOD, torn)]) == 2
    assert "its first batch is 3, its last 3\n" in capfd.readouterr().err
    assert run(["plan", "--batch", "3", snapshots(logged(3, GOOD, {}), torn)]) == 0
    assert run(["plan", "--batch", "9", snapshots(GOOD)]) == 2
    assert "its lines have no batch number" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (json.dumps({"snapshot": 3}), "snapshot is 3: a mapping is expected"),
        (
            json.dumps({"snapshot": GOOD, "batchId": "x"}),
            'batchId is "x": a whole number is expected',
        ),
        (json.dumps(GOOD).replace('"start"', '"end": 1, "start"'), 'the key "end" twice'),
        ('{"ranges": [], "state": "\\ud800"}', "not JSON"),
        ('{"ranges": [{"topic": "[/x]"}]}', "ranges[0]: 'partition' is missing"),
        ('{"ranges": [{"topic": "\\u001b[2J", "x": 1}]}', "ranges[0]: unknown key 'x'"),
    ],
)
def test_a_bad_line_affects_only_its_own_plan(snapshots, capfd, line, message):
    assert run(["plan", snapshots(line, GOOD)]) == 2
    out, err = capfd.readouterr()
    assert message in err
    assert err.count("\n") == 1
    assert "executor 1 slot 1" in out


def test_control_characters_in_a_topic_are_escaped(snapshots, capfd):
    ranges = [{**r, "topic": "\x1b[2J[red]t"} for r in GOOD["ranges"]]
    assert run(["plan", snapshots({**GOOD, "ranges": ranges})]) == 0
    out = capfd.readouterr().out
    assert "\\x1b[2J[red]t-0[0,100)" in out
    assert "\x1b" not in out


def test_a_custom_assignor_that_exits_fails_only_its_plan(snapshots, capfd, tmp_path, monkeypatch):
    (tmp_path / "leaver.py").write_text("def leaver(group):\n    raise SystemExit(5)\n")
    monkeypatch.chdir(tmp_path)
    exits = {**GOOD, "options": {"assignor": "leaver:leaver"}}
    assert run(["plan", "--own", "leaver:leaver", snapshots(exits, GOOD)]) == 1
    out, err = capfd.readouterr()
    assert err == "assignor: line 1: assignor 'leaver:leaver' raised SystemExit: 5\n"
    assert "executor 1 slot 1" in out


def test_a_missing_file_is_a_usage_error(capfd):
    assert run(["plan", "/nowhere/at/all"]) == 2
    assert "/nowhere/at/all" in capfd.readouterr().err


SMALL = ["simulate", "--partitions", "12", "--executors", "3", "--batches", "5", "--records", "900"]


def test_simulate_compares_mappings(capfd):
    assert run([*SMALL, "--slow", "1=2", "--slots", "1,2"]) == 0
    assert "lag-aware-sticky" in capfd.readouterr().out
    assert run([*SMALL, "--json", "--assignors", "spark,sticky"]) == 0
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [row["name"] for row in rows] == ["spark", "sticky"]


def test_a_tail_compensates_for_simulated_noise(capfd):
    def simulate(tail: str, noise: str) -> dict[str, float]:
        flags = ["--partitions", "64", "--executors", "8", "--batches", "25"]
        call = ["simulate", *flags, "--service-noise", noise, "--tail", tail, "--json"]
        assert run([*call, "--assignors", "lag-aware-sticky"]) == 0
        return json.loads(capfd.readouterr().out)

    off, auto = simulate("off", "0.4"), simulate("auto", "0.4")
    assert auto["meanOver"] < off["meanOver"] / 2
    assert off["tasks"] == 8 < auto["tasks"]
    assert off["brokenContinuities"] < auto["brokenContinuities"], "a head after a tail is cold"
    assert simulate("auto", "0")["tasks"] == 8


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--lags", "odd"], "'odd' is not one of 'uniform', 'zipf'"),
        (["--slots", "0"], "--slots is '0'"),
        (["--slow", "9=2"], "--slow is '9=2'"),
        (["--slots", "99999999"], "whole numbers from 1 to 333333"),
        (["--slow", "0=nan"], "--slow is '0=nan'"),
        (["--noise", "nan"], "--noise"),
        (["--noise", "inf"], "'--noise': at most 10"),
        (["--skew", "-1"], "--skew"),
        (["--churn", "5", "--executors", "1"], "--churn needs at least 2 --executors"),
        (["--assignors", "minPartitions=200000000"], "at most 1,000,000 tasks"),
        (["--assignors", "nobody"], "unknown assignor 'nobody'"),
        (["--assignors", " "], "--assignors is ' '"),
        (["--tail", "65"], "assignor.tail"),
        (["--cost-us", "1", "--cost-ms", "1"], "--cost-ms is the former --cost-us"),
    ],
)
def test_usage_errors_of_simulate(flags, message, capfd):
    assert run([*SMALL, *flags]) == 2
    err = capfd.readouterr().err.splitlines()[-1]
    assert err.startswith("assignor: ")
    assert message in err
