"""Figures and pictures of runs: sums to check in the head, and HTML that is well formed."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from streaming.observe.check import Check
from streaming.observe.figures import RunFigures
from streaming.observe.words import short
from streaming.report import charts
from streaming.report.compare import comparison, comparison_page
from tests.unit.streaming.sample_runs import even_run, skewed_run

NO_RUN = RunFigures("nothing", ())


def test_the_table_says_what_was_measured_without_the_warm_up():
    rows = dict(comparison([skewed_run(), even_run()]))
    assert rows == {
        "batch seconds, median": ["3.25", "1.50"],
        "reading seconds, median": ["2.50", "0.75"],
        "busiest slot / mean, records": ["2.67", "1.00"],  # 4,000 of 6,000 on one of four slots
        "busiest slot / mean, seconds": ["2.86", "1.00"],  # 2.5 of 3.5 s
        "tasks per batch": ["4.0", "4.0"],
        "partitions split": ["\N{EN DASH}", "10"],
        "partitions moved": ["\N{EN DASH}", "5"],
        "locality hits": ["75%", "100%"],
    }


def test_an_idle_slot_counts_in_the_mean():
    assert skewed_run().batches[0].slot_records()["3/0"] == 0


def test_a_run_without_batches_is_drawn_as_nothing():
    assert dict(comparison([NO_RUN]))["locality hits"] == ["\N{EN DASH}"]
    assert "<svg" in charts.lag_heat_map(NO_RUN)


@pytest.mark.parametrize("partitions", [1, 12, 1_000])
def test_pictures_are_well_formed_and_stay_inside_their_frame(partitions):
    run = skewed_run(partitions)
    pictures = [
        charts.lag_heat_map(run),
        charts.value_bars("records", run.batches[0].lag, short),
        charts.slot_bars(run, "a"),
        charts.timeline(run.batches[0], "a", 2.5),
        charts.batch_columns([run, even_run()], ["a", "b"]),
    ]
    for picture in pictures:
        root = ElementTree.fromstring(picture)  # noqa: S314  (our own)
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        for box in root.iter("rect"):
            x, y, w, h = (float(box.attrib[name]) for name in ("x", "y", "width", "height"))
            assert -0.2 <= x <= x + w <= width + 0.2
            assert -0.2 <= y <= y + h <= height + 0.2


def test_the_heat_map_has_a_cell_for_each_partition_and_batch():
    assert charts.lag_heat_map(skewed_run(12, 6)).count("<rect") == 12 * 6


def test_the_page_opens_offline_and_escapes_what_it_is_given():
    checks = [Check("a<b", True, "yes"), Check("<script>", False, "no & no")]
    facts = [("Machine", "<Linux>")]
    text = comparison_page("T & C", ["x < y"], [skewed_run(), even_run()], checks, facts)
    assert not re.search(r"<script|<link|<img|src=|https?:|@import|url\(", text)
    for escaped in ("T &amp; C", "x &lt; y", "a&lt;b", "no &amp; no", "&lt;Linux&gt;", "FAILED"):
        assert escaped in text
    assert "prefers-color-scheme:dark" in text
    assert "@media print" in text
    assert text.count("<svg") == text.count("</svg>") == 8
