"""The run of Spark's own suites fails when the bridge was not on, or other tests fail than listed.

It once passed with an assignor that does not exist: nothing had loaded the bridge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.compat.__main__ import counted
from tests.lab.sparksuite import __main__ as spark_suite
from tests.lab.sparksuite.__main__ import ADMISSIONS, NEEDS, SUITES
from tests.lab.sparksuite.results import (
    Expectation,
    Suite,
    complaints,
    expected_failures,
    read_suite,
    report,
)

if TYPE_CHECKING:
    from pathlib import Path

REPORT = """<?xml version="1.0"?><testsuite>
<testcase name="good" time="1"></testcase>
<testcase name="listed"><failure message="no" type="T">why</failure></testcase>
<testcase name="ignored"><skipped/></testcase>
</testsuite>"""
PLAN = "10:00:00,000 INFO BatchPlanner [stream]: assignor '{}' planned tasks: 2, {{tasks=2}}\n"
ADMISSION = "10:00:01,000 INFO BatchPlanner [stream]: admitted a batch: {heldBackBy=nothing}\n"
EXPECTED = {("S", "listed"): Expectation("inherent")}


def suite(tmp_path: Path, log: str = PLAN.format("mine"), report: str = REPORT) -> Suite:
    (tmp_path / "TEST-S.xml").write_text(report)
    return read_suite("S", tmp_path, log, "mine")


def test_results_are_read_by_test_and_plans_by_strategy(tmp_path: Path) -> None:
    read = suite(tmp_path, PLAN.format("mine") * 2 + PLAN.format("other"))
    assert read == Suite("S", frozenset({"good"}), frozenset({"listed"}), plans=2)
    assert complaints(read, EXPECTED, plans_are_due=True) == []


@pytest.mark.parametrize(
    ("log", "report", "complaint"),
    [
        pytest.param("", REPORT, "no batch was planned by the bridge", id="never loaded"),
        pytest.param(PLAN.format("other"), REPORT, "no batch was planned", id="another strategy"),
        pytest.param(
            PLAN.format("mine"), REPORT.replace('"good" time="1">', '"good"><error/>'),
            "S: failed: good", id="another failure",
        ),
        pytest.param(
            PLAN.format("mine"),
            REPORT.replace('<failure message="no" type="T">why</failure>', ""),
            "passed, but is listed as an expected failure: listed", id="a listed one passes",
        ),
        pytest.param(
            PLAN.format("mine"), REPORT.replace("listed", "renamed"),
            "did not run, but is listed", id="a listed one is gone",
        ),
        pytest.param(PLAN.format("mine"), "<testsuite/>", "no test ran", id="nothing ran"),
    ],
)  # fmt: skip
def test_what_is_not_as_expected_fails_the_run(
    tmp_path: Path, log: str, report: str, complaint: str
) -> None:
    lines = complaints(suite(tmp_path, log, report), EXPECTED, plans_are_due=True)
    assert any(complaint in line for line in lines), lines


def test_one_that_fails_by_chance_may_pass(tmp_path: Path) -> None:
    passed = REPORT.replace('<failure message="no" type="T">why</failure>', "")
    by_chance = {("S", "listed"): Expectation("inherent", by_chance=True)}
    for each in (REPORT, passed):
        ran = suite(tmp_path, PLAN.format("mine"), each)
        assert complaints(ran, by_chance, plans_are_due=True) == []


def test_a_run_that_is_to_limit_batches_fails_when_none_was(tmp_path: Path) -> None:
    limited = suite(tmp_path, PLAN.format("mine") + ADMISSION * 2)
    assert limited.admissions == 2
    assert complaints(limited, EXPECTED, True, admissions_are_due=True) == []
    [line] = complaints(suite(tmp_path), EXPECTED, True, admissions_are_due=True)
    assert "no batch was limited by the bridge" in line


@pytest.mark.parametrize("line", NEEDS)
@pytest.mark.parametrize("admission", ADMISSIONS)
def test_each_expected_failure_is_of_a_suite_that_is_run_and_has_a_reason(
    admission: str, line: str
) -> None:
    expected = expected_failures(line, admission=admission)
    assert {name for name, _ in expected} <= set(SUITES)
    assert all(each.reason for each in expected.values())
    assert set(expected_failures(line)) < set(expected), "some are of limited batches only"


@pytest.mark.parametrize("line", NEEDS)
def test_whole_partitions_excuse_no_failure_about_the_order_of_rows(line: str) -> None:
    whole, split = (expected_failures(line, split=each) for each in ("false", "true"))
    assert {test for _, test in split.keys() - whole.keys()} == {"async progress tracking"}
    assert {test for _, test in whole.keys() - split.keys()} == {"SPARK-30656: minPartitions"}
    assert not any(each.by_chance for each in whole.values())


def test_only_a_failed_test_that_passes_by_itself_is_forgiven(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs: list[str] = []

    def run_again(name: str, strategy: str, settings: list[str], test: str) -> Suite:
        runs.append(test)
        passed = {test} if test == "races" and runs.count(test) == 2 else set()
        return Suite(name, frozenset(passed), frozenset({test} - passed), 1)

    monkeypatch.setattr(spark_suite, "run", run_again)
    first = Suite("S", frozenset({"good"}), frozenset({"races", "broken", "listed"}), 1)

    result = spark_suite.without_races(first, EXPECTED, "mine", [])

    assert result.failed == {"broken", "listed"}
    assert result.passed == {"good", "races"}
    assert runs == ["broken"] * spark_suite.RERUNS + ["races"] * 2
    assert "passed when run again: races" in capsys.readouterr().out


def test_the_matrix_counts_expected_failures_as_skipped_and_each_complaint_as_failed(
    tmp_path: Path,
) -> None:
    ran = Suite("S", frozenset({"good"}), frozenset({"listed", "broken"}), 1)
    wrong = complaints(ran, EXPECTED, plans_are_due=True)
    (tmp_path / "report.xml").write_text(report([ran], EXPECTED, wrong))
    assert counted(tmp_path / "report.xml") == (1, 1, ["tests.lab.sparksuite: S: failed: broken"])
