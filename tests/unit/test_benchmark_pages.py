"""The page of all results is that of the benchmarks' files; a quick run has its ratios."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.benchmarks import quick, results
from tests.lab.benchmarks.targets import TARGETS, Target

FOLDER = Path(__file__).parents[2] / "docs" / "benchmarks"


def test_the_page_of_results_is_that_of_the_files() -> None:
    """Write it again: `python -m tests.lab.benchmarks.results`."""
    page = (FOLDER.parent / "benchmark-results.md").read_text(encoding="utf-8")
    assert page == results.page(FOLDER)


def test_each_target_that_is_missed_has_a_reason() -> None:
    lines = results.page(FOLDER).splitlines()
    missed = [line.split("|")[-2].strip() for line in lines if "**missed" in line]
    assert missed
    assert not {"", "not known", "not looked into"} & set(missed)


def test_each_target_can_be_read_from_a_page_that_is_there() -> None:
    """A column that was renamed would be a target that is never measured again."""
    for target in TARGETS:
        path = FOLDER / f"{target.page}.json"
        if path.is_file():
            target.figure(json.loads(path.read_text(encoding="utf-8"))["rows"])


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    run = {"date": "2026-01-01", "commit": "abc", "cores": 2, "python": "3.11"}
    notes = "Two executors\nof [one](reader.md) slot.\n\n![seconds](../images/one.svg)"
    document = {"title": "A title", "notes": notes, "run": run, "rows": rows}
    (folder / f"{name}.json").write_text(json.dumps(document))


def test_a_target_is_met_or_missed_by_a_share_or_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def figure(rows: Any) -> float:
        return float(rows[0]["s"])

    targets = (
        Target("a", "fast", "one", figure, 2.0),
        Target("a", "faster", "one", figure, 1.0, why="it is what it is"),
        Target("a", "often", "one", figure, 3.0, at_least=True),
        Target("a", "none", "other", figure, 1.0),
        Target("a", "new column", "one", lambda rows: float(rows[0]["new"]), 1.0),
    )
    monkeypatch.setattr(results, "TARGETS", targets)
    write(tmp_path, "one", [{"s": 1.5}])
    write(tmp_path, "one_run", [{"page": "one", "what": "fast", "measured": 1.6}])
    lines = results.page(tmp_path).splitlines()
    assert "| fast | at most 2 | 1.5 | met | 1.6 |  |" in lines
    assert "| faster | at most 1 | 1.5 | **missed by 50%** |  | it is what it is |" in lines
    assert "| often | at least 3 | 1.5 | **missed by 50%** |  | not known |" in lines
    assert "| none | at most 1 |  | not measured yet |  |  |" in lines
    assert "| new column | at most 1 |  | not measured yet |  |  |" in lines
    assert "1 are met, 2 missed and 2 not measured yet" in " ".join(lines)
    where = "2026-01-01 · commit abc · 2 cores · Python 3.11"
    assert f"`one`: [all rows and the method](benchmarks/one.json) · {where}" in lines
    assert lines[lines.index("## A title") + 2] == "Two executors of one slot."
    assert "## other" in lines  # a target without a file yet
    assert "![one](images/one.svg)" in lines


def test_a_line_of_a_quick_run_has_its_spread_and_its_ratio() -> None:
    line = quick.Line.of("end to end", "equal", "s", [2.0, 1.0, 4.0], "Spark's default", 5.0)
    assert quick.cells(line) == [
        "end to end", "equal", "2 (1 to 4) s", "Spark's default", "5 s", "2.50",
    ]  # fmt: skip
