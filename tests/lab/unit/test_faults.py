"""The instruments of `make chaos KIND=…`: what they name is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.lab.faults import report, without
from tests.lab.faults.harm import WITH
from tests.lab.faults.kinds import KINDS, NOTHING_DONE, named, nothing_as_in, nothing_done
from tests.lab.faults.protections import NOT_TAKEN_OUT, PLAN_ORDER, PROTECTIONS
from tests.lab.faults.report import protections, table
from tests.lab.faults.run import raised_in
from tests.lab.faults.without import Seen, run_without, seen_of
from tests.support.spark_tools import wait_until

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", PROTECTIONS)
def test_a_protection_can_be_taken_out(name: str) -> None:
    one = PROTECTIONS[name]
    assert set(one.kinds) <= set(KINDS)
    assert one.new in one.without(ROOT)


def test_the_order_of_rows_can_be_taken_out() -> None:
    assert PLAN_ORDER.new in PLAN_ORDER.without(ROOT)


def test_each_fault_has_a_protection_or_a_reason_why_none_is_taken_out() -> None:
    tried = {kind for one in PROTECTIONS.values() for kind in one.kinds}
    assert tried.isdisjoint(NOT_TAKEN_OUT)
    assert tried | {*NOT_TAKEN_OUT} == {*KINDS} - {NOTHING_DONE}


def test_the_table_has_each_kind_and_what_was_run_with_options() -> None:
    run = {
        "kind": "broker killed", "options": "zones", "seconds": 60, "batches": 5, "rows": 7,
        "lost": 1, "fallbacks": 0, "sparks_lost": 3, "errors": {"ours": "x", "sparks": "x"},
    }  # fmt: skip
    skipped = {"kind": "state disk full", "options": "", "seed": 1, "skipped": "needs root"}
    failed = {"kind": "broker stopped", "options": "", "seed": 1, "failed": "no"}
    written = table([run, skipped, failed], ["abc"])
    lines = [line for line in written.splitlines() if line.startswith("|")][2:]
    assert len(lines) == len(KINDS) + 1
    assert "zones" in WITH
    [line] = [line for line in lines if "broker killed, with zones" in line]
    beside = "lost 3, ended with an error as ours did (1 of 1)"
    assert line.endswith(f"| 1 | 5 | 8 | 1 (gone from the topic) | 0 | {beside} |")
    assert "| needs root |" in next(line for line in lines if "state disk full" in line)
    assert "1 that FAILED" in next(line for line in lines if "broker stopped" in line)
    assert "1 runs in 1 minutes at commit abc" in written


PARTS = ("table", "second table")
ONE = PROTECTIONS["Kafka's client connects again"]
SCENES = list({KINDS[name].scene: nothing_as_in(name) for name in reversed(ONE.kinds)}.values())


def test_a_name_that_is_no_protection_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert without.main("typo") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("WITHOUT is 'typo': all, or one of: ")


@pytest.mark.parametrize(
    ("nothing", "runs", "words"),
    [
        (("passed", ""), [*SCENES, *ONE.kinds], "| check_table: rows came twice |"),
        (("failed", "no"), SCENES, "| fails always, with nothing done too: no |"),
        (("broken", "no broker"), SCENES, "| not seen: no broker |"),
    ],
)
def test_what_fails_with_nothing_done_says_nothing_of_a_fault(
    nothing: Seen, runs: list[str], words: str
) -> None:
    asked = []

    def run(kind: str) -> Seen:
        asked.append(kind)
        return nothing if kind in SCENES else ("failed", "check_table: rows came twice")

    lines = list(run_without(ONE, run))
    assert sorted(asked) == sorted(runs)
    assert [line["kind"] for line in lines] == list(ONE.kinds)
    text = protections([{**line} for line in lines])
    assert text.count(words) == len(ONE.kinds)
    assert (ONE.kinds[0] in text.rpartition("not run: ")[2]) == ("broken" in lines[0])
    assert ("with nothing done, too, so" in text) == ("always" in lines[0])


def test_a_run_has_failed_only_where_its_check_is_named() -> None:
    note = {"kind": "slow network", "seed": 7}
    assert seen_of("slow network", [note | {"failed": "catch_up:\n no"}], "") == (
        "failed", "catch_up: no",
    )  # fmt: skip
    assert seen_of("slow network", [note | {"seconds": 3}], "") == ("passed", "")
    assert seen_of("slow network", [note | {"skipped": "root"}], "") == ("skipped", "root")
    assert seen_of("slow network", [], "E   brokers {1}: no\n") == ("broken", "brokers {1}: no")
    assert seen_of("slow network", [], "") == ("broken", "it said nothing")


def test_the_check_that_failed_is_named() -> None:
    def check_something() -> None:
        wait_until(lambda: False, "something", 0)

    with pytest.raises(AssertionError) as raised:
        check_something()
    assert raised_in(raised.value) == "check_something"


def test_what_another_machine_has_run_is_kept_for_the_next_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, kept, folder = tmp_path / "page.md", tmp_path / "faults.json", tmp_path / "runs"
    ends = "\n".join(f"{report._BEGIN.format(p)}\n{report._END.format(p)}" for p in PARTS)
    page.write_text(ends)
    monkeypatch.setattr(report, "_KEPT", kept)
    monkeypatch.setattr(report, "_FOLDER", folder)
    seen = {"without": ONE.name, "kind": ONE.kinds[0], "failed": "not within 60 s"}
    folder.mkdir()
    (folder / "without-abc.jsonl").write_text(json.dumps(seen))
    report.main(page, ["abc"])
    first = page.read_text()
    assert "| not within 60 s |" in first
    (folder / "without-abc.jsonl").unlink()
    page.write_text(ends)
    report.main(page, ["abc"])
    assert page.read_text() == first


def test_nothing_is_done_where_a_fault_is_made() -> None:
    """It once ran on three brokers with the default options, whatever the fault's were."""
    assert len(SCENES) == 2  # behind a proxy, and three brokers
    for name, kind in KINDS.items():
        nothing = named(nothing_as_in(name))
        assert nothing.scene == kind.scene
        assert (nothing.make, nothing.fallbacks) == (nothing_done, (0, 0))
        assert named(name) is kind
    with pytest.raises(KeyError):
        named("typo")


def test_a_row_says_what_was_done_then() -> None:
    """The words of today once stood beside figures of a fault that was made otherwise."""
    run = {"kind": "slow network", "seconds": 60, "batches": 5, "rows": 7, "lost": 0,
           "fallbacks": 0, "what": "Delay it by an hour."}  # fmt: skip
    [row] = [line for line in table([run], ["abc"]).splitlines() if "| slow network |" in line]
    assert "| Delay it by an hour. |" in row


def test_runs_of_other_commits_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of one commit once threw away what was known of all others."""
    page, kept = tmp_path / "page.md", tmp_path / "faults.json"
    page.write_text("\n".join(f"{report._BEGIN.format(p)}\n{report._END.format(p)}" for p in PARTS))
    kept.write_text(json.dumps({"old": [], "abc": []}))
    monkeypatch.setattr(report, "_KEPT", kept)
    monkeypatch.setattr(report, "_FOLDER", tmp_path)
    (tmp_path / "abc.jsonl").write_text(json.dumps({"kind": "slow network", "failed": "no"}))
    report.main(page, ["abc"])
    assert json.loads(kept.read_text()) == {
        "old": [], "abc": [{"kind": "slow network", "failed": "no"}],
    }  # fmt: skip


def test_a_fault_that_is_in_the_topic_is_compared_with_a_usual_one() -> None:
    """With nothing done on such a topic it was done: each of its protections "failed always"."""
    asked = []

    def run(kind: str) -> Seen:
        asked.append(kind)
        return "passed", ""

    kind = "compaction ahead of the reader"
    list(run_without(PROTECTIONS["an offset without a record is no loss"], run))
    assert asked == [NOTHING_DONE, kind]
