"""The figures of `make peers`: verdicts, spread, rates, and what counts as visible."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.peers import cells
from tests.lab.peers.__main__ import list_cells, parse_arguments
from tests.lab.peers.cells import Cell
from tests.lab.peers.page import make_kill_rows, make_rows, summarize
from tests.lab.peers.section import END, START, make_tables, write_section
from tests.lab.peers.watch import Commit, DeltaOutput, FileOutput, compute_rate
from tests.lab.peers.ways import WAYS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _cells_in_a_scratch_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "CELLS", tmp_path)


def make_rung(load: int, verdict: str = "kept up", **figures: float) -> dict[str, Any]:
    usual = {"rate": load, "age_p50_s": 0.5, "age_p99_s": 1.0, "cpu_s_per_million": 4.0}
    counted = {"rss_mb": 900.0, "files_per_minute": 60.0, "lost": 0, "doubled": 0}
    return {"load": load, "verdict": verdict, **usual, **counted, **figures}


def write_ladder(law: str, way: str, run: int, *rungs: dict[str, Any], lost: int = 0) -> Cell:
    cell = Cell(law, way, run, 10.0)
    cell.write({"rungs": list(rungs), "lost": lost, "doubled": 0, "commit": "abc"})
    return cell


def commit(visible_s: float, rows: int) -> Commit:
    return Commit(visible_s, (), rows)


def test_a_row_has_the_median_and_the_spread_of_its_runs():
    row = summarize([make_rung(5_000, age_p99_s=age) for age in (1.5, 0.9, 1.1)])
    assert (row["age_p99_s"], row["age_p99_s_min"], row["age_p99_s_max"]) == (1.1, 0.9, 1.5)
    assert (row["verdict"], row["runs"]) == ("kept up", 3)


def test_a_way_that_fell_behind_once_did_not_keep_up():
    behind = make_rung(60_000, "fell behind", rate=41_000)
    row = summarize([make_rung(60_000), behind, make_rung(60_000)])
    assert row["verdict"] == "fell behind in 1 of 3 runs"
    assert row["rate_min"] == 41_000


def test_a_rate_that_was_not_tried_has_no_figures():
    skipped = {"load": 180_000, "verdict": "not tried", "lost": 0, "doubled": 0}
    row = summarize([skipped, skipped])
    assert row == {"verdict": "not tried: fell behind at a lower rate", "runs": 2}


def test_lost_rows_of_a_run_are_in_each_of_its_rows_by_way_in_the_order_of_the_page():
    written = [
        write_ladder("zipf", "loop", 0, make_rung(5_000)),
        write_ladder("zipf", "default", 0, make_rung(5_000), make_rung(20_000), lost=2),
    ]
    rows = make_rows(written)
    titles = [WAYS[name].title for name in ("default", "default", "loop")]
    assert [row["way"] for row in rows] == titles
    assert [row["lost"] for row in rows] == [2, 2, 0]


def test_kills_have_a_row_of_their_own():
    cell = Cell("zipf", "loop", None, 0.0)
    figures = {"kills": 3, "produced": 90_000, "lost": 0, "doubled": 7}
    cell.write(figures | {"restart_s": [2.0, 9.0, 4.0], "commit": "abc"})
    [row] = make_kill_rows([cell])
    assert (row["doubled"], row["restart_s"], row["restart_s_max"]) == (7, 4.0, 9.0)


def test_a_cell_is_done_once_all_of_its_rates_are_measured():
    cell = Cell("equal", "loop", 0, 10.0, (5_000, 20_000))
    assert not cell.is_done()
    write_ladder("equal", "loop", 0, make_rung(5_000))
    assert not cell.is_done()
    write_ladder("equal", "loop", 0, make_rung(5_000), make_rung(20_000), make_rung(60_000))
    assert cell.is_done()


def test_the_page_has_the_cells_of_one_length_and_the_kills():
    write_ladder("equal", "loop", 0, make_rung(5_000))
    Cell("equal", "loop", 0, 60.0).write({"rungs": []})
    Cell("zipf", "loop", None, 0.0).write({"kills": 3})
    assert [cell.name for cell in cells.list_measured(10.0)] == [
        "equal-loop-10s-run1",
        "zipf-loop-kills",
    ]


def test_ways_alternate_in_each_run_and_are_killed_last():
    options = parse_arguments(["--ways", "loop,flink", "--laws", "zipf", "--runs", "2", "--kills"])
    listed = [(cell.way, cell.run) for cell in list_cells(options)]
    assert listed == [
        ("loop", 0), ("flink", 0), ("flink", 1), ("loop", 1), ("loop", None), ("flink", None),
    ]  # fmt: skip


def test_an_unknown_way_ends_the_program(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        parse_arguments(["--ways", "flink,storm"])
    assert "way 'storm' is not known" in capsys.readouterr().err


def test_a_rate_is_over_whole_commit_intervals():
    # The first commit in the window covers rows since the last one before it.
    commits = [commit(0.0, 9_000), commit(4.0, 20_000), commit(8.0, 20_000), commit(12.0, 99)]
    assert compute_rate(commits, 1_000 / 1000, 10.0)["rate"] == 5_000


def test_a_window_without_a_commit_has_no_rate():
    assert compute_rate([commit(0.0, 9_000)], 1.0, 10.0)["rate"] is None
    assert compute_rate([], 1.0, 10.0)["rate"] is None


def test_a_delta_table_has_the_rows_that_its_log_adds(tmp_path: Path):
    table, log = tmp_path / "table", tmp_path / "table" / "_delta_log"
    output = DeltaOutput(table)
    output.update()
    assert output.commits == []
    log.mkdir(parents=True)
    stats = json.dumps({"numRecords": 7})
    added = [
        {"commitInfo": {}},
        {"add": {"path": "a%20b.parquet", "dataChange": True, "stats": stats}},
        {"add": {"path": "compacted.parquet", "dataChange": False, "stats": stats}},
    ]
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, added)))
    output.update()
    output.update()
    [found] = output.commits
    assert (found.rows, found.files) == (7, (table / "a b.parquet",))


def test_a_file_is_visible_under_its_final_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tests.lab.peers.watch.count_rows", lambda _file: 5)
    output = FileOutput(tmp_path / "table")
    output.update()
    (tmp_path / "table").mkdir()
    for name in (".part-1.inprogress", "_metadata", "part-0"):
        (tmp_path / "table" / name).touch()
    output.update()
    output.update()
    assert [(each.rows, each.files[0].name) for each in output.commits] == [(5, "part-0")]


def test_tables_have_ages_rates_costs_and_kills():
    behind = make_rung(20_000, "fell behind", rate=12_345.6)
    written = [
        write_ladder("zipf", "loop", 0, make_rung(5_000), behind),
        write_ladder("zipf", "flink", 0, make_rung(5_000), make_rung(20_000)),
    ]
    kills = {"way": WAYS["flink"].title, "volumes": "zipf", "load": "kills", "lost": 0}
    text = make_tables([*make_rows(written), kills | {"doubled": 3}])
    flink, loop = WAYS["flink"].title, WAYS["loop"].title
    assert f"| {flink} | 0.5, 1.0 | 0.5, 1.0 | n/a |" in text
    assert f"| {loop} | 0.5, 1.0 | fell behind in 1 of 1 runs" not in text
    assert f"| {loop} | 0.5, 1.0 | fell behind (12,346/s) | n/a |" in text
    assert f"| {flink} | 4.0 | 900 | 60 | 0 | 3 |" in text


def test_the_section_replaces_only_what_is_between_its_markers(tmp_path: Path):
    page, source = tmp_path / "page.md", tmp_path / "peers.json"
    page.write_text(f"# Before\n\n{START}\n\nold\n\n{END}\n\n## After\n", encoding="utf-8")
    source.write_text(json.dumps({"rows": make_rows([
        write_ladder("zipf", "loop", 0, make_rung(5_000))
    ])}))  # fmt: skip
    write_section(page, source)
    once = page.read_text(encoding="utf-8")
    write_section(page, source)
    assert page.read_text(encoding="utf-8") == once
    assert once.startswith(f"# Before\n\n{START}\n\n")
    assert once.endswith(f"\n\n{END}\n\n## After\n")
    assert "| way | 5,000 records/s |" in once
