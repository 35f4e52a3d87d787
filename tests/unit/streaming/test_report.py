"""Test figures and charts of runs: sums that are easy to verify, and well-formed HTML."""

from __future__ import annotations

import dataclasses
import re
from html import escape
from xml.etree import ElementTree

import pytest

from streaming.demo.compare import build_figure_rows, render_page
from streaming.demo.demo_terms import TERMS
from streaming.demo.verdict import Act, describe_acts, write_headline
from streaming.observe.check_result import Check
from streaming.observe.figures import BatchFigures, RunFigures, TaskFigures
from streaming.observe.words import format_count
from streaming.report import charts
from tests.unit.streaming.sample_runs import even_run, skewed_run

NO_RUN = RunFigures("nothing", ())
TITLES = ("cheap records of equal cost", "records that cost 5 µs more each")
ACTS = [Act(title, skewed_run(), even_run()) for title in TITLES]
CHECKS = [
    Check("each flight is in Delta exactly once (ours)", True, "3 rows"),
    Check("nothing is left running", False, "2 had to be killed"),
]


def test_table_has_the_figures_without_the_warm_up():
    rows = dict(build_figure_rows([skewed_run(), even_run()]))
    assert rows == {
        "median batch": ["3.25 s", "1.50 s"],
        "median reading": ["2.50 s", "0.75 s"],
        "age of newest row": ["3.50 s", "1.75 s"],
        "age of oldest row": ["4.00 s", "2.25 s"],
        "busiest slot, records": ["2.67", "1.00"],  # 4,000 of 6,000 on one of four slots
        "busiest slot, seconds": ["2.86", "1.00"],  # 2.5 of 3.5 s
        "tasks per batch": ["4.0", "4.0"],
        "partitions split": ["\N{EN DASH}", "10"],
        "partitions moved": ["\N{EN DASH}", "5"],
        "offsets moved": ["\N{EN DASH}", "10%"],
        "prediction error": ["\N{EN DASH}", "4%"],
        "locality hits": ["75%", "100%"],
    }


def test_an_idle_slot_counts_in_the_mean():
    assert skewed_run().batches[0].sum_records_by_slot()["3/0"] == 0


def test_a_run_without_batches_has_empty_figures():
    assert {value for _, [value] in build_figure_rows([NO_RUN])} <= {
        "\N{EN DASH}",
        "0.00 s",
        "0.00",
        "0.0",
    }
    assert "<svg" in charts.draw_heat_map("nothing", [], [])


def make_run(name: str, seconds: list[float], busiest: int) -> RunFigures:
    """Return a run with these durations, in which one slot reads `busiest` of 100 records."""
    tasks = (
        TaskFigures("1/0", 0.0, 1.0, busiest, local=True),
        TaskFigures("2/0", 0.0, 1.0, 100 - busiest, local=True),
    )
    batches = (
        BatchFigures(n, s, 100, tasks, ("1/0", "2/0")) for n, s in enumerate([9.0, *seconds])
    )
    return RunFigures(name, tuple(batches), warm_up_batches=1)


@pytest.mark.parametrize(
    ("sparks", "ours", "words"),
    [
        pytest.param(
            [2] * 5, [1] * 5, "1.00 s instead of 2.00 s, faster in 5 of 5 rounds", id="less"
        ),
        pytest.param(
            [1, 2], [1, 3], "2.00 s instead of 1.50 s, faster in 0 of 2 rounds", id="more"
        ),
        pytest.param(
            [2], [1.9], "1.90 s instead of 2.00 s, faster in 1 of 1 round", id="one round"
        ),
    ],
)
def test_the_verdict_has_the_seconds_of_both_runs(sparks, ours, words):
    act = Act("dear records", make_run("theirs", sparks, 80), make_run("ours", ours, 50))
    reading = "(median reading: 1.00 s instead of 1.00 s)"
    assert describe_acts([act]) == f"With dear records, the median batch took {words} {reading}."


def test_headline_reports_failed_checks_before_the_gain():
    assert write_headline(ACTS, CHECKS[:1]) == describe_acts(ACTS)
    assert write_headline(ACTS, CHECKS) == (
        f"1 check failed, so these figures are not valid. {describe_acts(ACTS)}"
    )


def test_the_verdict_has_a_sentence_for_each_act():
    starts = [f"With {title}, the median batch took 1.50 s instead of 3.25 s" for title in TITLES]
    assert re.findall(r"With .*? instead of [\d.]+ s(?=,)", describe_acts(ACTS)) == starts


def test_the_page_defines_each_row_of_its_table():
    text = render_page("", ACTS, CHECKS, [])
    assert all(f"<dt>{escape(term)}</dt>" in text for term in TERMS)
    rows = [name for name, _ in build_figure_rows([NO_RUN])]
    assert [row for row in rows if not any(term in row for term in TERMS)] == []


@pytest.mark.parametrize("partitions", [1, 12, 1_000])
def test_pictures_are_well_formed_and_stay_inside_their_frame(partitions):
    run = skewed_run(partitions)
    lags = run.batches[0].lag
    pictures = [
        charts.draw_heat_map("lag", list(lags), [(b.batch, b.lag) for b in run.batches]),
        charts.draw_value_bars("records", lags, format_count),
        charts.draw_slot_bars(run, "a"),
        charts.draw_timeline(run.batches[0], "a", 2.5),
        charts.draw_batch_columns([run, even_run()], ["a", "b"]),
    ]
    for picture in pictures:
        root = ElementTree.fromstring(picture)  # noqa: S314  (our own)
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        for box in root.iter("rect"):
            x, y, w, h = (float(box.attrib[name]) for name in ("x", "y", "width", "height"))
            assert -0.2 <= x <= x + w <= width + 0.2
            assert -0.2 <= y <= y + h <= height + 0.2


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (999.4, "999"), (999.6, "1.0k"), (9_940, "9.9k"), (9_960, "10k"), (999_400, "999k"),
        (999_999, "1.0M"), (999_960_000, "1.0G"), (-999_999, "-1.0M"), (5e12, "5000G"),
    ],
)  # fmt: skip
def test_count_has_the_unit_of_its_rounded_value(number, expected):
    assert format_count(number) == expected


def test_the_heat_map_has_a_cell_for_each_partition_and_batch():
    batches = [(b.batch, b.lag) for b in skewed_run(12, 6).batches]
    assert charts.draw_heat_map("lag", list(batches[0][1]), batches).count("<rect") == 12 * 6


def test_the_page_opens_offline_and_escapes_what_it_is_given():
    checks = [Check("a<b", True, "yes"), Check("<script>", False, "no & no")]
    facts = [("Machine", "<Linux>")]
    act = dataclasses.replace(ACTS[0], title="<cheap>")
    text = render_page("x < y", [act], checks, facts)
    assert not re.search(r"<script|<link|<img|src=|https?:|@import|url\(", text)
    for escaped in ("x &lt; y", "a&lt;b", "no &amp; no", "&lt;Linux&gt;", "FAILED"):
        assert escaped in text
    assert "Act 1: &lt;cheap&gt;" in text
    assert "prefers-color-scheme:dark" in text
    assert "@media print" in text
    assert text.count("<svg") == text.count("</svg>") == 6
