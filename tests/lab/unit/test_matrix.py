"""The matrix of versions: what is run, what is kept of it, and the table in the docs."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from assignor_bridge.tested_spark import TESTED_SPARKS
from tests.lab.compat import __main__ as program
from tests.lab.compat import matrix
from tests.lab.compat.__main__ import BY_DEFAULT, counted, run, was_cut_short
from tests.lab.compat.matrix import (
    JAVAS,
    KINDS,
    PAGE,
    PYTHONS,
    ROOT,
    Cell,
    Result,
    cells,
    chosen,
    deselected,
    read_results,
    record,
    rows,
    with_table,
)

if TYPE_CHECKING:
    from pathlib import Path

QUERIES = Cell("4.2.0", "3.11", "17", "queries")


def result(cell: Cell = QUERIES, *failed: str, passed: int = 7) -> Result:
    return Result(cell, passed, list(failed), 1, 0, 0, 2.5, "abc1234", "2026-01-02")


def test_each_spark_has_all_kinds_and_each_python_and_java_has_each_spark() -> None:
    found = cells()
    assert len(set(found)) == len(found)
    for spark in TESTED_SPARKS:
        of_spark = [cell for cell in found if cell.spark == spark]
        usual = {cell.kind for cell in of_spark if (cell.python, cell.java) == ("3.11", "17")}
        assert usual == set(KINDS)
        assert {cell.python for cell in of_spark if cell.kind == "compat"} == set(PYTHONS)
        assert {cell.java for cell in of_spark if cell.kind == "compat"} == set(JAVAS)


def test_cells_are_chosen_by_name() -> None:
    assert chosen(["4.2.0/3.11/17/q*"]) == [QUERIES]
    assert {cell.spark for cell in chosen(BY_DEFAULT)} == set(TESTED_SPARKS)
    assert {cell.kind for cell in chosen(BY_DEFAULT)} == {"compat"}
    assert chosen(["4.2"]) == []


@pytest.mark.parametrize(
    ("became", "code"),
    [
        pytest.param([result()], 0, id="all passed"),
        pytest.param([result(QUERIES, "t::a")], 1, id="one failed"),
        pytest.param([replace(result(), not_reached=3)], 1, id="stopped before its end"),
        pytest.param([result(), "there is no Java 21 here"], 1, id="one could not be run"),
    ],
)
def test_the_run_ends_well_only_when_every_cell_was_run_to_its_end(
    monkeypatch: pytest.MonkeyPatch, became: list[Result | str], code: int
) -> None:
    results = iter(became)
    monkeypatch.setattr(program, "chosen", lambda patterns: [QUERIES] * len(became))
    monkeypatch.setattr(program, "run", lambda *of_cell: next(results))
    monkeypatch.setattr(program, "record", lambda each: None)
    monkeypatch.setattr("sys.argv", ["compat"])
    assert program.main() == code


def test_what_became_of_a_cell_replaces_what_was_known_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "RESULTS", tmp_path / "matrix.json")
    monkeypatch.setattr(matrix, "PAGE", tmp_path / "page.md")
    (tmp_path / "page.md").write_text(f"before\n{matrix._BEGIN}\n{matrix._END}\nafter\n")
    compat = Cell("4.0.4", "3.11", "17", "compat")
    for each in (result(QUERIES, "t::a"), result(compat), result()):
        record(each)
    assert read_results() == {compat: result(compat), QUERIES: result()}
    page = (tmp_path / "page.md").read_text()
    assert page.startswith("before\n")
    assert page.endswith("after\n")
    assert page.count("7 passed, 1 skipped (`abc1234`)") == 2
    assert "FAILED" not in page
    assert with_table(page, read_results()) == page


def test_a_cell_that_failed_or_was_not_run_says_so_in_the_table() -> None:
    table = {row[:3]: row[3:] for row in rows({QUERIES: result(QUERIES, "t::a", "t::b")})}
    assert table["4.2.0", "3.11", "17"] == (
        "not run", "FAILED: 2, 7 passed, 1 skipped (`abc1234`)", "not run", "not run", "not run",
    )  # fmt: skip
    assert table["4.2.0", "3.10", "17"] == ("not run", "", "", "", "")


REPORT = """<testsuites><testsuite name="pytest">
<testcase classname="tests.a" name="good"/>
<testcase classname="tests.a" name="bad"><failure message="no"/></testcase>
<testcase classname="tests.a" name="worse"><error message="no"/></testcase>
<testcase classname="tests.a" name="other"><skipped message="why"/></testcase>
</testsuite></testsuites>"""


def test_a_run_is_counted_by_its_report_and_has_failed_without_one(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    assert counted(report) == (0, 0, ["nothing was reported"])
    report.write_text(REPORT)
    assert counted(report) == (1, 1, ["tests.a: bad", "tests.a: worse"])


@pytest.mark.parametrize(
    ("code", "is_over", "cut_short"),
    [(0, False, False), (1, False, False), (1, True, True), (2, False, True), (3, True, False),
     (-9, True, False)],
)  # fmt: skip
def test_a_crash_is_not_an_end_of_the_time(code: int, is_over: bool, cut_short: bool) -> None:
    assert was_cut_short(code, is_over=is_over) == cut_short


PASSED = '<testcase classname="a" name="b"/>'
SKIPPED = '<testcase classname="a" name="c"><skipped message="why"/></testcase>'


@pytest.mark.parametrize(
    ("code", "cases", "expected"),
    [
        (0, PASSED + SKIPPED, (1, [])),
        (0, SKIPPED, "all skipped"),
        (3, PASSED, (1, ["ended with code 3"])),
        (2, PASSED, (1, ["ended with code 2"])),  # and cannot be collected either
    ],
)
def test_what_a_cell_ends_with(
    code: int, cases: str, expected: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(
        f"""#!/bin/sh
for word; do case $word in --junit-xml=*) echo '<t>{cases}</t>' > "${{word#*=}}";; esac; done
exit {code}
"""
    )
    python.chmod(0o755)
    monkeypatch.setattr("tests.lab.compat.__main__.interpreter", lambda *_: python)
    became = run(QUERIES, {"17": ""}, 30)
    assert (became if isinstance(became, str) else (became.passed, became.failed)) == expected


def test_the_table_of_the_page_is_that_of_the_results() -> None:
    """Any run of `python -m tests.lab.compat` writes both."""
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page, read_results()) == page


def test_each_test_that_is_left_out_exists_and_has_a_reason() -> None:
    left_out = {test: why for cell in cells() for test, why in deselected(cell).items()}
    assert all(left_out.values())
    for test in left_out:
        path, _, name = test.partition("::")
        name = re.sub(r"\[.*", "", name)
        assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), test
