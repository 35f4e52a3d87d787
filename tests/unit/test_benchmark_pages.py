"""The page of all targets says what the benchmarks' files say; a quick run has its ratios."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import quick, report, summary
from tests.benchmarks.targets import TARGETS, Target

FOLDER = Path(__file__).parents[2] / "docs" / "benchmarks"


def test_the_page_of_targets_is_that_of_the_files() -> None:
    """Write it anew: `python -m tests.benchmarks.summary`."""
    assert (FOLDER / "summary.md").read_text(encoding="utf-8") == summary.page(FOLDER)


def test_each_target_that_is_missed_says_why() -> None:
    for name in ("summary.md", "one_run.md"):
        lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
        missed = [line.split("|")[-2].strip() for line in lines if "**missed" in line]
        assert all(missed), name
        assert not {"not known", "not looked into"} & set(missed), name


def test_each_target_can_be_read_from_a_page_that_is_there() -> None:
    """A column that was renamed would be a target that is never measured again."""
    for target in TARGETS:
        path = FOLDER / f"{target.page}.json"
        if path.is_file():
            target.figure(json.loads(path.read_text(encoding="utf-8"))["rows"])


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    run = {"date": "2026-01-01", "commit": "abc", "cores": 2, "python": "3.11"}
    (folder / f"{name}.json").write_text(json.dumps({"run": run, "rows": rows}))


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
    monkeypatch.setattr(summary, "TARGETS", targets)
    write(tmp_path, "one", [{"s": 1.5}])
    lines = summary.page(tmp_path).splitlines()
    assert "| [a](one.md): fast | at most 2 | 1.5 | met |  |" in lines
    assert (
        "| [a](one.md): faster | at most 1 | 1.5 | **missed by 50%** | it is what it is |" in lines
    )
    assert "| [a](one.md): often | at least 3 | 1.5 | **missed by 50%** | not known |" in lines
    assert "| a: none | at most 1 | | not measured yet | |" in lines
    assert "| a: new column | at most 1 | | not measured yet | |" in lines
    assert "1 are met, 2 missed and 2 not measured yet" in " ".join(lines)
    assert "- [one](one.md): 2026-01-01, commit abc, 2 cores, Python 3.11" in lines


def test_a_line_of_a_quick_run_has_its_spread_and_its_ratio() -> None:
    line = quick.Line.of("end to end", "equal", "s", [2.0, 1.0, 4.0], "Spark's default", 5.0)
    assert quick.cells(line) == [
        "end to end", "equal", "2 (1 to 4) s", "Spark's default", "5 s", "2.50",
    ]  # fmt: skip


def test_a_table_has_three_digits_and_no_powers_of_ten(tmp_path: Path) -> None:
    values = (0.01234, 12.345, 999.4, 999.7, 1310.4, 62_345.6, 854_989, "none", None)
    document = {
        "title": "A page", "notes": "Notes.", "run": {"cores": 2},
        "rows": [{str(n): value for n, value in enumerate(values)}],
    }  # fmt: skip
    report.write_page(tmp_path, "page", document)
    row = (tmp_path / "page.md").read_text(encoding="utf-8").splitlines()[6]
    assert row == "| 0.0123 | 12.3 | 999 | 1000 | 1310 | 62346 | 854989 | none | None |"
