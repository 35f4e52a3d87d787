"""Test `assignor report --batch`: why each partition of a batch is read where it is."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assignor_bridge.assignors.registry import lookup
from streaming.cli import main
from streaming.replay.kept_batch import read_kept_batch
from streaming.replay.log import read_checkpoint_log
from streaming.replay.one_batch import explain_batch
from tests.unit.streaming.kept_query import KeptQuery, kept_query

#: Ten batches in which one of six partitions has half of the records.
SIZES = [{0: 1000, 1: 200, 2: 200, 3: 200, 4: 200, 5: 200}] * 10


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory) -> KeptQuery:
    return kept_query(tmp_path_factory.mktemp("q"), SIZES, costly={5: 4.0})


def explain(query: KeptQuery, capsys: Any, *words: str) -> dict[str, Any]:
    call = ["report", str(query.checkpoint), "--json", *words]
    assert main.run(call) == 0
    explanation: dict[str, Any] = json.loads(capsys.readouterr().out)
    return explanation


def pieces(query: KeptQuery, batch: int, partition: int) -> list[dict[str, Any]]:
    """Return the pieces of a partition in the original plan."""
    outcome = query.outcomes[batch]
    columns = outcome.tasks.pieces
    rows = [
        {
            "executor": outcome.batch.executors[int(outcome.batch.slot_executor[slot])].id,
            "slot": int(outcome.batch.slot_number[slot]),
            "start": start, "end": end,
        }
        for row, slot, start, end in zip(
            columns.row.tolist(), columns.slot.tolist(), columns.start.tolist(),
            columns.end.tolist(), strict=True,
        )
        if outcome.batch.partition[row] == partition
    ]  # fmt: skip
    return sorted(rows, key=lambda piece: int(str(piece["start"])))


@pytest.mark.parametrize("batch", [8, 9])
def test_states_in_the_checkpoint_reproduce_the_plans_of_the_last_batches(
    query: KeptQuery, batch: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pieces have the same offsets, although states lack options and reports."""
    found = explain(query, capsys, "--batch", str(batch))
    assert (found["batch"], found["assignor"]) == (batch, "lag-aware-sticky")
    assert found["origin"].startswith("the states in the checkpoint")
    assert (found["readersNamed"], found["readersAgree"]) == (6, 6)
    assert len(found["partitions"]) == 6
    for story in found["partitions"]:
        number = int(story["partition"].removeprefix("orders-"))
        assert story["pieces"] == pieces(query, batch, number)
        predicted = query.took[batch][number]  # learned by then
        assert story["predicted"] == pytest.approx(predicted, rel=0.1)
        assert story["tookSeconds"] is None  # reports are only in the plan log


def test_the_plan_log_reproduces_the_plan_of_every_batch(
    query: KeptQuery, capsys: pytest.CaptureFixture[str]
) -> None:
    for batch in (0, 3, 9):
        words = ("--batch", str(batch), str(query.plan_log))
        found = explain(query, capsys, *words)
        assert "replanning gives the same plan" in found["origin"]
        for story in found["partitions"]:
            number = int(story["partition"].removeprefix("orders-"))
            assert story["pieces"] == pieces(query, batch, number)
            took = story["tookSeconds"]
            assert took is None if batch == 9 else took == pytest.approx(query.took[batch][number])


def story_of(found: dict[str, Any], partition: int) -> dict[str, Any]:
    [story] = [s for s in found["partitions"] if s["partition"] == f"orders-{partition}"]
    return story


def test_each_change_of_a_partition_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    even = {0: 100, 1: 100, 2: 100, 3: 100}
    sizes = [even, even, {0: 400, 1: 10, 2: 400, 3: 10}, {0: 900, 1: 100, 2: 100, 3: 100}, even]
    gone = kept_query(tmp_path, sizes, executors=[("1", "2")] * 4 + [("1", "3")])
    log = [str(gone.plan_log)]
    first = explain(gone, capsys, "--batch", "0", *log)
    assert {s["change"] for s in first["partitions"]} == {"new"}
    assert "no executor had read it" in story_of(first, 0)["why"]
    second = explain(gone, capsys, "--batch", "1", *log)
    assert {s["change"] for s in second["partitions"]} == {"stays"}
    assert "the same executor read it last" in story_of(second, 0)["why"]
    owners = {s["partition"]: s["before"] for s in second["partitions"]}
    third = explain(gone, capsys, "--batch", "2", *log)
    together = owners["orders-0"] == owners["orders-2"]
    changes = {s["partition"]: s["change"] for s in third["partitions"]}
    if together:
        assert {changes["orders-0"], changes["orders-2"]} & {"moved", "cut"}
    fourth = explain(gone, capsys, "--batch", "3", *log)
    assert story_of(fourth, 0)["change"] == "cut"
    assert "more than one slot may take" in story_of(fourth, 0)["why"]
    fifth = explain(gone, capsys, "--batch", "4", *log)
    orphans = [s for s in fifth["partitions"] if s["change"] == "orphaned"]
    assert orphans
    assert all(s["before"] is None and "is gone" in s["why"] for s in orphans)


def test_an_overloaded_slot_explains_moves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each slot has three of six equal partitions; then those of one slot grow to four times."""
    alike = dict.fromkeys(range(6), 100)
    first = kept_query(tmp_path / "a", [alike, alike])
    mine = [p for p in alike if pieces(first, 1, p)[0]["executor"] == "1"]
    skewed = {p: 400 if p in mine else 100 for p in alike}
    query = kept_query(tmp_path / "b", [alike, alike, skewed])
    found = explain(query, capsys, "--batch", "2")
    changed = [s for s in found["partitions"] if s["change"] != "stays"]
    assert {s["change"] for s in changed} <= {"moved", "cut"}
    assert changed
    assert all("if it stayed, its slot would take" in s["why"] for s in changed)
    assert {int(s["partition"][-1]) for s in changed} <= set(mine)


#: Batches whose times deviate so much that later ones have a tail.
TAIL = {"options": {"assignor.tail": "auto"}, "noise": 0.4, "slots": 2}


@pytest.mark.parametrize(
    ("local", "readers", "words"),
    [
        pytest.param(False, ["1", "2"], "in the tail, by any free slot of executors 1, 2", id="2"),
        pytest.param(True, [], "in the tail, by any free slot", id="local mode"),
    ],
)
def test_a_tail_names_the_executors_that_may_take_it(
    local: bool, readers: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = kept_query(tmp_path, [dict.fromkeys(range(8), 4000)] * 9, local=local, **TAIL)
    assert query.outcomes[8].metrics["tailTasks"] > 0
    found = explain(query, capsys, "--batch", "8", str(query.plan_log))
    assert "replanning gives the same plan" in found["origin"]
    assert {s["change"] for s in found["partitions"]} == {"stays"}, "a tail moves no partition"
    [story, *_] = [s for s in found["partitions"] if s["pieces"][-1]["executor"] is None]
    piece = story["pieces"][-1]
    assert (piece["slot"], piece["tailExecutors"]) == (-1, readers)
    assert "of it is in the tail" in story["why"]
    call = ["report", str(query.checkpoint), "--batch", "8", str(query.plan_log)]
    assert main.run([*call, "--partition", story["partition"]]) == 0
    assert f") {words}\n" in capsys.readouterr().out


def test_a_plan_made_again_from_states_is_as_unpredictable(tmp_path: Path) -> None:
    query = kept_query(tmp_path, [dict.fromkeys(range(8), 4000)] * 9, **TAIL)
    kept = read_kept_batch(read_checkpoint_log(str(query.checkpoint)), "0", 8, None, lookup)
    assert kept.old_state.spreads == pytest.approx(query.outcomes[8].state.spreads, abs=1e-4)
    options = replace(kept.batch.options, tail="auto")
    kept = replace(kept, batch=replace(kept.batch, options=options))
    explanation = explain_batch(kept, (), lookup)
    assert explanation.outcome.metrics["tailTasks"] == query.outcomes[8].metrics["tailTasks"]
    assert explanation.matching_partitions == len(kept.readers) == 8, (
        "the owner is the slot of the head"
    )


@pytest.mark.parametrize("name", ["sticky", "range", "lag-aware"])
def test_another_assignor_is_recognised_by_its_readers(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = kept_query(tmp_path, SIZES[:5], options={"assignor": name})
    by_state = explain(query, capsys, "--batch", "4")
    assert by_state["readersAgree"] == by_state["readersNamed"] == 6
    assert "own rule" in by_state["partitions"][0]["why"]
    by_log = explain(query, capsys, "--batch", "4", str(query.plan_log))
    assert by_log["assignor"] == name
    both = [{s["partition"]: s["pieces"] for s in f["partitions"]} for f in (by_state, by_log)]
    assert both[0] == both[1]


def test_a_plan_with_other_options_is_not_reported_as_the_original(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stream was limited to two of eight slots, which is not in a state."""
    eight = [tuple("12345678")] * 5
    query = kept_query(tmp_path, SIZES[:5], executors=eight, options={"assignor.slots": "2"})
    assert main.run(["report", str(query.checkpoint), "--batch", "4"]) == 0
    out, err = capsys.readouterr()
    agree = "the same as in the checkpoint for 6 of 6 partitions." in " ".join(out.split())
    assert agree or "this plan differs from the original plan" in err


def test_local_mode_is_explained_with_the_driver_as_executor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = kept_query(tmp_path, SIZES[:5], local=True)
    for words in ((), (str(query.plan_log),)):
        found = explain(query, capsys, "--batch", "4", *words)
        for story in found["partitions"]:
            number = int(story["partition"].removeprefix("orders-"))
            then = [{**p, "executor": "driver"} for p in pieces(query, 4, number)]
            assert story["pieces"] == then


def test_a_partition_that_may_not_be_split_is_explained_by_the_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of four partitions has 77% of the records, so its slot is above the limit."""
    sizes = [{0: 1000, 1: 100, 2: 100, 3: 100}] * 5
    query = kept_query(tmp_path, sizes, options={"assignor.split": "false"})
    assert query.outcomes[4].metrics["imbalance"] == pytest.approx(1000 / 650 - 1, abs=0.02)
    found = explain(query, capsys, "--batch", "4", str(query.plan_log))
    assert "over; partitions cannot be cut: assignor.split=false" in found["reasons"][0]
    large, small = (story_of(found, number)["why"] for number in (0, 1))
    kept = (
        "the same executor read it last; its cost exceeds the limit, but assignor.split=false "
        "forbids a split; a slot's"
    )
    assert kept in large
    assert "forbids" not in small


def test_the_text_has_the_plan_the_partition_and_its_cost(
    query: KeptQuery, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["report", str(query.checkpoint), "--batch", "8"]
    assert main.run([*call, "--partition", "orders-0"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for words in (
        "batch 8 of ", "lag-aware-sticky: 2,000 offsets of 6 partitions in 2 tasks",
        "The executor is the same as in the checkpoint for 6 of 6 partitions.", "orders-0: ",
        " by executor ", "why ", "cost predicted 1 s",
    ):  # fmt: skip
        assert words in out
    assert main.run(call) == 0
    assert "kept 6 of 6" in capsys.readouterr().out
    assert main.run([*call, str(query.plan_log)]) == 0
    assert "cost predicted 1 s, took 1 s" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        pytest.param(["--batch", "77"], "has no batch with this number and data: choose one from "
                     "0 to 9", id="batch"),
        pytest.param(["--batch", "4"], "batch 4: the checkpoint has no state of it (batches "
                     "with a state: 7, 8, 9): give the plan log", id="an older batch"),
        pytest.param(["--partition", "orders-77"], "was not read by this batch, which read "
                     "orders-0", id="partition"),
        pytest.param(["--partition", "orders"], "expected a topic and a number", id="name"),
        pytest.param(["--batch", "9", "--source", "3"], "of the checkpoint (0)", id="source"),
        pytest.param(["--batch", "9", "no.jsonl"], "no.jsonl", id="plan log"),
        pytest.param(["--batch", "9", "--assignors", ","], "at least one name", id="assignors"),
        pytest.param(["--batch", "9", "--assignors", "spark,rnge"], "unknown assignor 'rnge'",
                     id="a misspelt one"),
        pytest.param(["--batch", "9", "--assignors", "no_such:Thing"],
                     "'no_such:Thing' could not be loaded", id="no such module"),
    ],
)  # fmt: skip
def test_misuse_is_reported_in_one_line(
    query: KeptQuery, words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["report", str(query.checkpoint), *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert problem in err
    assert len(err.splitlines()) == 1


def test_a_batch_missing_in_the_plan_log_is_explained_by_the_checkpoint(
    query: KeptQuery, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log was rotated and only has the first batches."""
    rotated = tmp_path / "plans.jsonl"
    rotated.write_text("\n".join(query.plan_log.read_text().splitlines()[:2]))
    found = explain(query, capsys, "--batch", "9", str(rotated))
    assert found["origin"].startswith("the states")
    assert found["origin"].endswith(f"plan log {rotated} does not have this batch")
    call = ["report", str(query.checkpoint), "--batch", "4"]
    assert main.run([*call, str(rotated)]) == 2
    assert f"plan log {rotated} does not have it, and the checkpoint" in capsys.readouterr().err


def test_damaged_states_are_reported(
    query: KeptQuery, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(query.checkpoint, tmp_path / "c")
    for file in (folder / "sources" / "0" / "assignments").iterdir():
        file.write_bytes(b"v2\nno state")
    for call, code in (
        (["report", str(folder), "--batch", "9"], 2),
        (["estimate", "--checkpoint", str(folder)], 0),
        (["report", str(folder), "-o", str(tmp_path / "r.html")], 0),
    ):
        assert main.run(call) == code
        assert "sources/0/assignments/49.v2: the state is not base64" in capsys.readouterr().err


def test_states_of_other_topics_match_no_batch(
    query: KeptQuery, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last batches only read new topics, so no state can be matched with them."""
    folder = shutil.copytree(query.checkpoint, tmp_path / "c")
    for file in (folder / "offsets").iterdir():
        if int(file.name) > 6:
            file.write_text(file.read_text().replace("orders", "fresh"))
    assert main.run(["report", str(folder), "--batch", "9", "--json"]) == 2
    assert "batch 9: the checkpoint has no state of it (batches with a state: none)" in (
        capsys.readouterr().err
    )


def test_explain_is_an_earlier_name_of_report_for_one_batch(
    query: KeptQuery, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = []
    for call in (
        ["report", str(query.checkpoint), str(query.plan_log), "--batch", "8", "--json"],
        ["explain", "--checkpoint", str(query.checkpoint), "--batch", "8", "--plan-log",
         str(query.plan_log), "--json"],
        ["report", str(query.checkpoint), "--batch", "9", "--json"],
        ["explain", f"--checkpoint={query.checkpoint}", "--json"],
    ):  # fmt: skip
        assert main.run(call) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0] == answers[1]
    assert answers[2] == answers[3]
