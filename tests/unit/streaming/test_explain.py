"""`assignor report --batch`: why each partition of a batch is where it is, from kept files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from streaming.cli import main
from tests.unit.streaming.kept_query import KeptQuery, kept_query

#: Ten batches: one of six partitions has half of the records.
SIZES = [{0: 1000, 1: 200, 2: 200, 3: 200, 4: 200, 5: 200}] * 10


@pytest.fixture(scope="module")
def query(tmp_path_factory: pytest.TempPathFactory) -> KeptQuery:
    return kept_query(tmp_path_factory.mktemp("q"), SIZES, costly={5: 4.0})


def explained(query: KeptQuery, capsys: Any, *words: str) -> dict[str, Any]:
    call = ["report", str(query.checkpoint), "--json", *words]
    assert main.run(call) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def pieces(query: KeptQuery, batch: int, partition: int) -> list[dict[str, Any]]:
    """What the plan of then gave away."""
    outcome = query.outcomes[batch]
    found = outcome.tasks.pieces
    rows = [
        {
            "executor": outcome.batch.executors[int(outcome.batch.slot_executor[slot])].id,
            "slot": int(outcome.batch.slot_number[slot]),
            "start": start, "end": end,
        }
        for row, slot, start, end in zip(
            found.row.tolist(), found.slot.tolist(), found.start.tolist(), found.end.tolist(),
            strict=True,
        )
        if outcome.batch.partition[row] == partition
    ]  # fmt: skip
    return sorted(rows, key=lambda piece: int(str(piece["start"])))


@pytest.mark.parametrize("batch", [8, 9])
def test_the_states_in_the_checkpoint_are_enough_for_the_last_batches(
    query: KeptQuery, batch: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same plan as then, to the offset, though options and reports are not in a state."""
    found = explained(query, capsys, "--batch", str(batch))
    assert (found["batch"], found["assignor"]) == (batch, "lag-aware-sticky")
    assert found["origin"].startswith("the states in the checkpoint")
    assert (found["readersNamed"], found["readersAgree"]) == (6, 6)
    assert len(found["partitions"]) == 6
    for story in found["partitions"]:
        number = int(story["partition"].removeprefix("orders-"))
        assert story["pieces"] == pieces(query, batch, number)
        predicted = query.took[batch][number]  # learned by then
        assert story["predicted"] == pytest.approx(predicted, rel=0.1)
        assert story["tookSeconds"] is None  # reports are in the plan log alone


def test_a_plan_log_has_everything_of_every_batch(
    query: KeptQuery, capsys: pytest.CaptureFixture[str]
) -> None:
    for batch in (0, 3, 9):
        words = ("--batch", str(batch), str(query.plan_log))
        found = explained(query, capsys, *words)
        assert "the plan is the same as then" in found["origin"]
        for story in found["partitions"]:
            number = int(story["partition"].removeprefix("orders-"))
            assert story["pieces"] == pieces(query, batch, number)
            took = story["tookSeconds"]
            assert took is None if batch == 9 else took == pytest.approx(query.took[batch][number])


def story_of(found: dict[str, Any], partition: int) -> dict[str, Any]:
    [story] = [s for s in found["partitions"] if s["partition"] == f"orders-{partition}"]
    return story


def test_why_a_partition_is_new_stays_moves_is_cut_or_orphaned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    even = {0: 100, 1: 100, 2: 100, 3: 100}
    sizes = [even, even, {0: 400, 1: 10, 2: 400, 3: 10}, {0: 900, 1: 100, 2: 100, 3: 100}, even]
    gone = kept_query(tmp_path, sizes, executors=[("1", "2")] * 4 + [("1", "3")])
    log = [str(gone.plan_log)]
    first = explained(gone, capsys, "--batch", "0", *log)
    assert {s["change"] for s in first["partitions"]} == {"new"}
    assert "no executor had read it" in story_of(first, 0)["why"]
    second = explained(gone, capsys, "--batch", "1", *log)
    assert {s["change"] for s in second["partitions"]} == {"stays"}
    assert "its executor read it last" in story_of(second, 0)["why"]
    owners = {s["partition"]: s["before"] for s in second["partitions"]}
    third = explained(gone, capsys, "--batch", "2", *log)
    together = owners["orders-0"] == owners["orders-2"]
    changes = {s["partition"]: s["change"] for s in third["partitions"]}
    if together:
        assert {changes["orders-0"], changes["orders-2"]} & {"moved", "cut"}
    fourth = explained(gone, capsys, "--batch", "3", *log)
    assert story_of(fourth, 0)["change"] == "cut"
    assert "more than one slot may take" in story_of(fourth, 0)["why"]
    fifth = explained(gone, capsys, "--batch", "4", *log)
    orphans = [s for s in fifth["partitions"] if s["change"] == "orphaned"]
    assert orphans
    assert all(s["before"] is None and "is gone" in s["why"] for s in orphans)


def test_a_slot_that_had_too_much_gives_partitions_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Six alike, three on each slot; then those of one slot have four times the records."""
    alike = dict.fromkeys(range(6), 100)
    first = kept_query(tmp_path / "a", [alike, alike])
    mine = [p for p in alike if pieces(first, 1, p)[0]["executor"] == "1"]
    skewed = {p: 400 if p in mine else 100 for p in alike}
    query = kept_query(tmp_path / "b", [alike, alike, skewed])
    found = explained(query, capsys, "--batch", "2")
    changed = [s for s in found["partitions"] if s["change"] != "stays"]
    assert {s["change"] for s in changed} <= {"moved", "cut"}
    assert changed
    assert all("left in place its slot would take" in s["why"] for s in changed)
    assert {int(s["partition"][-1]) for s in changed} <= set(mine)


@pytest.mark.parametrize("name", ["sticky", "range", "lag-aware"])
def test_another_assignor_is_found_by_its_readers(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = kept_query(tmp_path, SIZES[:5], options={"assignor": name})
    by_state = explained(query, capsys, "--batch", "4")
    assert by_state["readersAgree"] == by_state["readersNamed"] == 6
    assert "own rule" in by_state["partitions"][0]["why"]
    by_log = explained(query, capsys, "--batch", "4", str(query.plan_log))
    assert by_log["assignor"] == name
    both = [{s["partition"]: s["pieces"] for s in f["partitions"]} for f in (by_state, by_log)]
    assert both[0] == both[1]


def test_a_plan_with_other_options_is_not_taken_for_the_one_of_then(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eight slots of which the stream had but two: nobody knows that from a state."""
    eight = [tuple("12345678")] * 5
    query = kept_query(tmp_path, SIZES[:5], executors=eight, options={"assignor.slots": "2"})
    assert main.run(["report", str(query.checkpoint), "--batch", "4"]) == 0
    out, err = capsys.readouterr()
    agree = "6 of 6 partitions have the same executor" in " ".join(out.split())
    assert agree or "this plan differs from the original one" in err


def test_local_mode_has_one_executor_and_is_kept_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = kept_query(tmp_path, SIZES[:5], local=True)
    for words in ((), (str(query.plan_log),)):
        found = explained(query, capsys, "--batch", "4", *words)
        for story in found["partitions"]:
            number = int(story["partition"].removeprefix("orders-"))
            then = [{**p, "executor": "driver"} for p in pieces(query, 4, number)]
            assert story["pieces"] == then


def test_a_partition_that_may_not_be_cut_is_explained_by_the_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of four has 77% of the records: its slot is above the limit, and the header says so."""
    sizes = [{0: 1000, 1: 100, 2: 100, 3: 100}] * 5
    query = kept_query(tmp_path, sizes, options={"assignor.split": "false"})
    assert query.outcomes[4].metrics["imbalance"] == pytest.approx(1000 / 650 - 1, abs=0.02)
    found = explained(query, capsys, "--batch", "4", str(query.plan_log))
    assert "over; partitions cannot be cut: assignor.split=false" in found["reasons"][0]
    large, small = (story_of(found, number)["why"] for number in (0, 1))
    assert "its executor read it last; it cannot be cut: assignor.split=false; a slot's" in large
    assert "cannot be cut" not in small


def test_the_text_says_first_what_is_asked(
    query: KeptQuery, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["report", str(query.checkpoint), "--batch", "8"]
    assert main.run([*call, "--partition", "orders-0"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for words in (
        "batch 8 of ", "lag-aware-sticky: 2,000 offsets of 6 partitions in 2 tasks",
        "6 of 6 partitions have the same executor as in the checkpoint.", "orders-0: ",
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
        pytest.param(["--batch", "77"], "has no such batch that read something; it has 0 to 9",
                     id="batch"),
        pytest.param(["--batch", "4"], "batch 4: the checkpoint has states of the last planned "
                     "batches only (7, 8, 9): give the plan log", id="an older batch"),
        pytest.param(["--partition", "orders-77"], "was not read by this batch, which read "
                     "orders-0", id="partition"),
        pytest.param(["--partition", "orders"], "expected a topic and a number", id="name"),
        pytest.param(["--batch", "9", "--source", "3"], "Kafka sources are 0", id="source"),
        pytest.param(["--batch", "9", "no.jsonl"], "no.jsonl", id="plan log"),
        pytest.param(["--batch", "9", "--assignors", ","], "at least one name", id="assignors"),
        pytest.param(["--batch", "9", "--assignors", "spark,rnge"], "unknown assignor 'rnge'",
                     id="a misspelt one"),
        pytest.param(["--batch", "9", "--assignors", "no_such:Thing"],
                     "'no_such:Thing' could not be loaded", id="no such module"),
    ],
)  # fmt: skip
def test_misuse_is_one_line(
    query: KeptQuery, words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["report", str(query.checkpoint), *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert problem in err
    assert len(err.splitlines()) == 1


def test_a_batch_that_the_plan_log_has_no_more_is_explained_by_the_checkpoint(
    query: KeptQuery, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log that was rotated: its last lines are of the first batches."""
    rotated = tmp_path / "plans.jsonl"
    rotated.write_text("\n".join(query.plan_log.read_text().splitlines()[:2]))
    found = explained(query, capsys, "--batch", "9", str(rotated))
    assert found["origin"].startswith("the states")
    assert found["origin"].endswith(f"plan log {rotated} does not have this batch")
    call = ["report", str(query.checkpoint), "--batch", "4"]
    assert main.run([*call, str(rotated)]) == 2
    assert f"plan log {rotated} does not have it, and the checkpoint" in capsys.readouterr().err


def test_damaged_states_are_told(
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


def test_states_of_other_topics_are_of_no_batch(
    query: KeptQuery, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All that the last batches read is new: nothing vouches that a state is theirs."""
    folder = shutil.copytree(query.checkpoint, tmp_path / "c")
    for file in (folder / "offsets").iterdir():
        if int(file.name) > 6:
            file.write_text(file.read_text().replace("orders", "fresh"))
    assert main.run(["report", str(folder), "--batch", "9", "--json"]) == 2
    assert "batch 9: the checkpoint has states of the last planned batches only (none)" in (
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
