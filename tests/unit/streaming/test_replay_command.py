"""Test `assignor estimate`, from checkpoint files to the answer."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec import to_builtins

from assignor_bridge.model import Executor
from assignor_bridge.planner.plan import plan_batch
from assignor_bridge.protocol.columns import pack_tasks
from checkpoints.offset_log import Checkpoint
from checkpoints.state_text import encode
from checkpoints.sticky_state import StickyState, StoredExecutor
from streaming.cli import main
from streaming.human_json.snapshots import parse_snapshot
from streaming.replay.cluster import choose_cluster
from streaming.replay.log import CheckpointLog, list_executors, read_checkpoint_log
from streaming.replay.plan_log import read_tasks
from tests.unit.streaming.checkpoints import write_checkpoint
from tests.unit.streaming.kept_query import kept_query

HOT = [{"t": {0: 1000 * n, 1: 10 * n}} for n in (1, 2, 3)]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "c", HOT)


def sizes(log: CheckpointLog) -> dict[int, dict[str, int]]:
    return {b.batch: {str(r.tp): r.size for r in b.ranges} for b in log.batches_by_source["0"]}


def test_a_batch_reads_from_the_end_of_the_previous_one(checkpoint):
    log = read_checkpoint_log(str(checkpoint))
    assert sizes(log) == {n: {"t-0": 1000, "t-1": 10} for n in range(3)}
    assert log.seconds_by_batch == pytest.approx({0: 2.0, 1: 2.0})  # the last is unverifiable


def test_the_first_batch_starts_at_the_initial_offsets(tmp_path):
    folder = write_checkpoint(tmp_path / "c", HOT, begin={"t": {0: 900, 1: 10}})
    assert sizes(read_checkpoint_log(str(folder)))[0] == {"t-0": 100}


def test_the_first_stored_batch_has_no_known_start(tmp_path):
    assert list(
        sizes(read_checkpoint_log(str(write_checkpoint(tmp_path / "c", HOT, first=40))))
    ) == [41, 42]


def test_a_batch_after_a_gap_has_no_known_start(checkpoint):
    (checkpoint / "offsets" / "1").unlink()
    assert list(sizes(read_checkpoint_log(str(checkpoint)))) == [0]


def test_a_new_partition_starts_at_0(tmp_path):
    ends = [{"t": {0: 5}}, {"t": {0: 5, 1: 7}}]
    assert sizes(read_checkpoint_log(str(write_checkpoint(tmp_path / "c", ends))))[1] == {"t-1": 7}


def test_times_of_a_copied_checkpoint_are_ignored(checkpoint, tmp_path):
    copied = shutil.copytree(checkpoint, tmp_path / "d", copy_function=shutil.copyfile)
    log = read_checkpoint_log(str(copied))
    assert log.seconds_by_batch == {}
    cluster = choose_cluster(log, "0", log.batches_by_source["0"])
    assert (cluster.cost_s, len(cluster.executors)) == (0.0001, 4)
    assert cluster.origins["cost"].startswith("assumed")


def test_the_cost_is_bounded_by_the_duration_of_batches(checkpoint):
    log = read_checkpoint_log(str(checkpoint))
    cluster = choose_cluster(log, "0", log.batches_by_source["0"], executor_count=2, slots=2)
    assert cluster.cost_s == pytest.approx(2.0 * 4 / 1010)


def test_executors_come_from_the_state_if_there_is_one():
    empty = StickyState.empty()
    state = StickyState(**{
        **{name: getattr(empty, name) for name in StickyState.__dataclass_fields__},
        "readers": (StoredExecutor("1", "h1", 4), StoredExecutor("2", "h2", 4)),
    })  # fmt: skip
    assert list_executors(state) == (Executor("1", "h1", 4), Executor("2", "h2", 4))
    checkpoint = Checkpoint("c", None, (), {}, {"0": (state,)})
    log = CheckpointLog(checkpoint, {"0": []}, {})
    assert choose_cluster(log, "0", []).slots == 8
    assert choose_cluster(log, "0", [], executor_count=3).slots == 3


def test_local_mode_is_replayed_on_the_slots_of_the_driver(tmp_path, capsys):
    query = kept_query(tmp_path, [{0: 300, 1: 100}] * 4, local=True, slots=2)
    assert main.run(["estimate", "--checkpoint", str(query.checkpoint)]) == 0
    assert "- 1 executor with 4 slots" in capsys.readouterr().out


def test_the_earlier_name_works_with_its_options(checkpoint, capsys):
    answers = []
    for name in ("replay", "estimate"):
        assert main.run([name, "--checkpoint", str(checkpoint), "--executors", "2"]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]


def test_estimate_prints_the_answer_first(checkpoint, capsys):
    assert main.run(["estimate", "--checkpoint", str(checkpoint), "--executors", "2"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    saves = "lag-aware-sticky would save at most 1.9 s a batch, 49% of the reading time. ┏"
    assert out.startswith(saves)
    names = re.findall(r"│ ([\w,-]+) │", out)
    assert names[0].startswith("maxRecordsPerPartition"), "the fastest first"
    assert any(name.endswith(",") for name in names), "equal ones share a row"
    assert out.index("Over 3 batches, Spark's default would take 1.98") > out.rindex("│")
    assert "each record costs the same, 4 ms (at most, from batch durations)" in out
    for words in ("constrained-cooperative-sticky", "2 executors with 1 slot", "(as given)"):
        assert words in out


def test_json_and_pictures(checkpoint, tmp_path, capsys):
    names = "spark,lag-aware-sticky"
    call = ["estimate", "--checkpoint", str(checkpoint), "--hosts", "a=1,b=1", "--assignors", names]
    svg, html = tmp_path / "r.svg", tmp_path / "r.html"
    assert main.run([*call, "--json", "--output", str(svg), "--batches", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["batches"], found["slots"]) == (2, 2)
    assert [m["name"] for m in found["mappings"]] == names.split(",")
    ElementTree.parse(svg)  # noqa: S314  (our own)
    assert main.run([*call, "--output", str(html)]) == 0
    assert html.read_text().count("<svg") == 1
    assert f"<title>Replay of {checkpoint}</title>" in html.read_text()


def plan_log(path: Path, *sizes: dict[int, int], split: str = "true") -> Path:
    """Write a plan log for two executors, as `assignor.planLog` does."""
    state, at, lines = None, dict.fromkeys(sizes[0], 0), []
    for number, size in enumerate(sizes):
        ranges = [
            {"topic": "t", "partition": p, "start": at[p], "end": at[p] + n}
            for p, n in size.items()
        ]
        at = {p: at[p] + n for p, n in size.items()}
        executors = [{"id": e, "host": f"h{e}"} for e in "12"]
        options = {"assignor": "lag-aware-sticky", "assignor.split": split}
        snapshot = {"executors": executors, "ranges": ranges, "options": options, "state": state}
        outcome = plan_batch(*parse_snapshot(snapshot))
        tasks = to_builtins(pack_tasks(outcome), str_keys=True)
        state = encode(outcome.state)
        lines.append(
            json.dumps({"batchId": number, "snapshot": snapshot, "plan": {"tasks": tasks}})
        )
    path.write_text("\n".join([*lines, lines[-1][:50]]))
    return path


def test_the_logged_plans_of_a_query_are_compared_too(checkpoint, tmp_path, capsys):
    """The query does not split partitions, so its own plans take 1.98 times the ideal."""
    plans = plan_log(tmp_path / "plans.jsonl", *[{0: 1000, 1: 10}] * 2, split="false")
    call = ["estimate", "--checkpoint", str(checkpoint), "--json"]
    assert main.run([*call, "--plan-log", str(plans)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["batches"] == 2
    times = {m["name"]: m["timesIdeal"] for m in found["mappings"]}
    assert times["this query"] == pytest.approx(1000 / 505)
    assert times["lag-aware-sticky"] == pytest.approx(1.0, abs=0.06)
    assert "Regret of this query" in found["answer"]
    assert found["executors"] == 2  # of the plan log
    assert main.run(["report", str(checkpoint), str(plans), "-o", str(tmp_path / "r.html")]) == 0
    assert "1.98 times the ideal" in (tmp_path / "r.html").read_text()


def test_a_plan_is_replayed_on_the_executors_of_its_batch(tmp_path, capsys):
    """Even batches run on two executors, the last one on four; all plans are within 5%."""
    even = [dict.fromkeys(range(4), 1000)] * 6
    query = kept_query(tmp_path, even, executors=[("1", "2")] * 5 + [("1", "2", "3", "4")])
    call = ["estimate", "--checkpoint", str(query.checkpoint), "--json"]
    call += ["--plan-log", str(query.plan_log)]
    assert main.run(call) == 0
    found = json.loads(capsys.readouterr().out)
    itself = found["mappings"][0]
    assert itself["name"] == "this query"
    assert itself["regret"] == pytest.approx(0, abs=0.01)
    assert itself["worstTimesIdeal"] < 1.05
    assert found["executors"] == 4
    assert (
        "earlier batches use the executors they had (from the plan log)" in found["assumptions"][0]
    )
    racks = tmp_path / "racks.json"  # for two executors that only the last batch had
    where = {"executors": {"h3": "a", "h4": "b"}, "partitions": {"orders": {"0": ["a"]}}}
    racks.write_text(json.dumps(where))
    assert main.run([*call, "--racks", str(racks)]) == 0
    zoned = json.loads(capsys.readouterr().out)["mappings"][0]
    assert zoned["regret"] == pytest.approx(itself["regret"])
    assert main.run([*call, "--executors", "3"]) == 0
    out, err = capsys.readouterr()
    assert (
        "'this query' is omitted, because its plans were made for the query's own executors" in err
    )
    assert "this query" not in [mapping["name"] for mapping in json.loads(out)["mappings"]]


@pytest.mark.parametrize(
    ("local", "heads", "tail"),
    [
        pytest.param(False, {("1",), ("2",)}, {("1", "2")}, id="executors"),
        pytest.param(True, {("driver",)}, {()}, id="local mode: any slot of the driver"),
    ],
)
def test_a_logged_tail_is_replayed_on_any_free_slot(local, heads, tail, tmp_path):
    sizes = [dict.fromkeys(range(8), 4000)] * 8
    options = {"assignor.tail": "auto"}
    query = kept_query(tmp_path, sizes, options=options, noise=0.4, slots=2, local=local)
    log = read_checkpoint_log(str(query.checkpoint))
    tasks = read_tasks(query.plan_log, log.batches_by_source)["0"].tasks_by_batch[7]
    heads_of_plan = query.outcomes[7].tasks.head_count
    assert len(tasks) > heads_of_plan
    assert {task.preferred_executors for task in tasks[:heads_of_plan]} == heads
    assert {task.preferred_executors for task in tasks[heads_of_plan:]} == tail


def test_a_source_that_is_not_in_the_plan_log_is_reported(tmp_path, capsys):
    query = kept_query(tmp_path, [{0: 1000, 1: 10}] * 3)
    folder = query.checkpoint
    (folder / "sources" / "1").mkdir()
    (folder / "sources" / "1" / "0").write_text('\0v1\n{"other":{"0":0}}')
    for file in (folder / "offsets").iterdir():
        end = 10 * (int(file.name) + 1)
        file.write_text(f'{file.read_text()}\n{{"other":{{"0":{end}}}}}')
    call = ["estimate", "--checkpoint", str(folder), "--json", "--plan-log", str(query.plan_log)]
    assert main.run(call) == 0
    out, err = capsys.readouterr()
    first, second = (json.loads(line)["mappings"][0]["name"] for line in out.splitlines())
    assert (first, second) == ("this query", "spark")
    assert "has no plan for these batches of source 1" in err
    report = ["report", str(folder), str(query.plan_log), "-o", str(tmp_path / "r.html")]
    assert main.run(report) == 0
    assert main.run([*call, "--source", "1"]) == 2  # no plan of any chosen source
    assert "has no plan of the checkpoint's batches (0 to 2)" in capsys.readouterr().err


def test_sources_without_a_plan_are_reported_in_order(tmp_path, capsys):
    query = kept_query(tmp_path, [{0: 1000, 1: 10}] * 3)
    folder, without = query.checkpoint, [str(n) for n in range(1, 12)]
    for source in without:
        (folder / "sources" / source).mkdir()
        (folder / "sources" / source / "0").write_text('\0v1\n{"other":{"0":0}}')
    for file in (folder / "offsets").iterdir():
        end = f'\n{{"other":{{"0":{10 * (int(file.name) + 1)}}}}}'
        file.write_text(file.read_text() + end * len(without))
    call = ["estimate", "--checkpoint", str(folder), "--json", "--assignors", "spark"]
    assert main.run([*call, "--plan-log", str(query.plan_log)]) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if "has no plan for" in line]
    assert [line.rpartition(" ")[2] for line in notes] == without


def test_a_plan_log_of_another_query_is_refused(checkpoint, tmp_path, capsys):
    plans = plan_log(tmp_path / "plans.jsonl", {0: 999})
    call = ["estimate", "--checkpoint", str(checkpoint), "--plan-log"]
    assert main.run([*call, str(plans)]) == 2
    assert "has no plan of the checkpoint's batches (0 to 2)" in capsys.readouterr().err
    assert main.run([*call, "no.jsonl"]) == 2
    assert "No such file" in capsys.readouterr().err
    assert main.run(["report", str(plans), "-o", str(tmp_path / "r.html")]) == 2
    assert "also give the query's checkpoint" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param([], "CHECKPOINT", id="no checkpoint given"),
        pytest.param(["--checkpoint", "no/such"], "not a streaming checkpoint", id="not there"),
        pytest.param(["--checkpoint", "s3a://b/c"], "not on a local file system", id="elsewhere"),
        pytest.param(["--source", "7"], "of the checkpoint (0)", id="no such source"),
        pytest.param(["--hosts", "a=x"], "--hosts is 'a=x'", id="bad hosts"),
        pytest.param(["--hosts", "a=²"], "--hosts is 'a=²'", id="not a decimal digit"),
        pytest.param(["--hosts", "a=1,b=10000"], "--hosts is 'a=1,b=10000'", id="too many slots"),
        pytest.param(["--hosts", "a", "--executors", "2"], "cannot be used together", id="both"),
        pytest.param(["--assignors", ","], "at least one name", id="no assignor"),
        pytest.param(["--assignors", "minPartitions=x"], "a whole number from 1", id="no number"),
        pytest.param(["--assignors", "spark,rnge"], "unknown assignor 'rnge'", id="a misspelt one"),
        pytest.param(
            ["--assignors", "no_such:Thing"], "assignor 'no_such:Thing' could not be loaded",
            id="no such module",
        ),
        pytest.param(["--output", "r.png"], "ends in .svg or .html", id="neither svg nor html"),
        pytest.param(["--output", "/no/such/r.svg"], "its folder does not exist", id="no folder"),
    ],
)  # fmt: skip
def test_misuse_is_reported_in_one_line(arguments, message, checkpoint, monkeypatch, capsys):
    monkeypatch.chdir(checkpoint.parent)
    given = [] if "--checkpoint" in arguments or not arguments else ["--checkpoint", "c"]
    code = main.run(["estimate", *given, *arguments])
    out, err = capsys.readouterr()
    assert code == (1 if "folder" in message else 2)
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_query_without_a_kafka_source_is_refused(checkpoint, capsys):
    for offsets in (checkpoint / "offsets").iterdir():
        offsets.write_text("\n".join([*offsets.read_text().splitlines()[:2], "17"]))
    (checkpoint / "sources" / "0" / "0").unlink()
    assert main.run(["estimate", "--checkpoint", str(checkpoint)]) == 2
    assert "has no Kafka source" in capsys.readouterr().err


def test_a_tail_is_estimated_with_the_unpredictability_that_the_planner_measured(tmp_path, capsys):
    sizes = [dict.fromkeys(range(8), 4000)] * 30
    query = kept_query(tmp_path, sizes, noise=0.6, slots=2)
    call = ["estimate", str(query.checkpoint), "--json", "--assignors", "lag-aware-sticky"]

    def estimate(tail: str) -> dict[str, float]:
        assert main.run([*call, "--tail", tail]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["unpredictability"] == pytest.approx(0.5, abs=0.3)
        assert "time deviates unpredictably by" in " ".join(found["assumptions"])
        return found["mappings"][0]

    off, one, auto = map(estimate, ("off", "1", "auto"))
    assert off["tasks"] == 4
    assert off["tasks"] < one["tasks"] < auto["tasks"]
    assert auto["timesIdeal"] < one["timesIdeal"] < off["timesIdeal"]
    assert auto["movedShare"] <= off["movedShare"] + 0.1
    assert main.run([*call, "--tail", "some"]) == 2
    assert "assignor.tail" in capsys.readouterr().err
