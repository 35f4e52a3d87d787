"""Tests of the alerting rules, and of the metrics that the rules and the dashboard query."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from streaming.metrics.board import Board
from streaming.observe.query_progress import parse_progress
from tests.support.alert_rules import (
    Series,
    evaluate,
    find_firing_alerts,
    parse_seconds,
    read_series,
)
from tests.support.metric_queries import DOCS, RULES, check_query, list_queries
from tests.unit.metrics.samples import QUERY, progress

RECORDED = Path(__file__).with_name("recorded_progress.jsonl")
#: Debian's package `prometheus` has it; no Python package does.
PROMTOOL = shutil.which("promtool")
CASES = yaml.safe_load((DOCS / "prometheus" / "alerts_test.yaml").read_text())
#: Metrics that the recorded query lacks, because they need options of the assignor.
LIMITED = {
    "secondsToLoss": "1800", "admittedRecords": "30", "heldBackRecords": "70",
    "heldBackBy": "seconds", "receivedBytes": "10", "crossZoneBytes": "1",
    "crossZoneShare": "0.1", "commitFailures": "0", "offsetsLost": "0",
    "tailShare": "0.2", "tailTasks": "4", "unpredictability": "0.3",
}  # fmt: skip


def evaluate_rule(rule: dict[str, Any], test: dict[str, Any], at: str) -> list[Any]:
    interval_s = parse_seconds(CASES["evaluation_interval"])
    series = [read_series(s, parse_seconds(test["interval"])) for s in test["input_series"]]
    return find_firing_alerts(rule, parse_seconds(at), interval_s, series)


@pytest.mark.parametrize(
    ("test", "case"),
    [
        pytest.param(test, case, id=f"{case['alertname']} at {case['eval_time']}")
        for test in CASES["tests"]
        for case in test["alert_rule_test"]
    ],
)
def test_alerts_fire_as_expected(test: dict[str, Any], case: dict[str, Any]) -> None:
    [rule] = [rule for rule in RULES if rule["alert"] == case["alertname"]]
    expected = [(a["exp_labels"], a["exp_annotations"]) for a in case["exp_alerts"]]
    assert evaluate_rule(rule, test, case["eval_time"]) == expected


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool on PATH: only the stand-in was run")
def test_promtool_agrees() -> None:
    assert PROMTOOL is not None
    folder = DOCS / "prometheus"
    for command in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]):
        completed = subprocess.run(
            [PROMTOOL, *command], cwd=folder, capture_output=True, text=True, check=False
        )
        assert completed.returncode == 0, completed.stdout + completed.stderr


def test_each_alert_has_cases_that_fire_and_that_do_not() -> None:
    cases = [case for test in CASES["tests"] for case in test["alert_rule_test"]]
    for outcome in (True, False):
        tested = {case["alertname"] for case in cases if bool(case["exp_alerts"]) is outcome}
        assert tested == {rule["alert"] for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_inverted_alert_fails_its_case(rule: dict[str, Any]) -> None:
    """With every comparison inverted, an alert that fires must become silent."""
    inverted = rule["expr"].translate(str.maketrans("<>", "><")).replace("unless", "and")
    [(test, case)] = [
        (test, case)
        for test in CASES["tests"]
        for case in test["alert_rule_test"]
        if case["alertname"] == rule["alert"] and case["exp_alerts"]
    ]
    expected = [(a["exp_labels"], a["exp_annotations"]) for a in case["exp_alerts"]]
    assert evaluate_rule({**rule, "expr": inverted}, test, case["eval_time"]) != expected


def test_a_slow_query_fires_the_alert_on_lag() -> None:
    """Each batch reads all unread records, so each batch takes longer than the one before."""
    board, registry = Board("c"), CollectorRegistry()
    registry.register(board)
    samples: dict[tuple[str, Any], list[tuple[float, float]]] = {}
    planned_s = end = number = 0
    for minute in range(60):
        now_s = 60 * minute
        if now_s >= 2 * planned_s:  # each batch takes twice as long as the one before
            event = progress(number, start={"0": end}, end={"0": 10 * planned_s})
            assert event["sources"][0]["latestOffset"] == event["sources"][0]["endOffset"]
            board.update(parse_progress(event))
            end, planned_s, number = 10 * planned_s, now_s, number + 1
        board.update_log_ends({QUERY: {"0": {"t": {"0": 10 * now_s}}}}, float(now_s))
        text = generate_latest(registry).decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items())
                samples.setdefault(key, []).append((now_s, sample.value))
    series = [Series(name, labels, points) for (name, labels), points in samples.items()]
    [rule] = [rule for rule in RULES if rule["alert"] == "StreamLagGrows"]
    assert find_firing_alerts(rule, 240, 60, series) == []
    [(labels, _)] = find_firing_alerts(rule, 59 * 60, 60, series)
    assert labels["group"] == "orders"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_each_runbook_url_is_a_heading_of_the_docs(rule: dict[str, Any]) -> None:
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    heads = re.findall(r"^#+ (.*)$", (DOCS.parent / page).read_text("utf-8"), flags=re.MULTILINE)
    assert anchor in {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}


def export_recorded_progress() -> dict[str, set[str]]:
    """Return the label names of each metric exported for a recorded query."""
    board, registry = Board("c"), CollectorRegistry()
    lines = RECORDED.read_text(encoding="utf-8").splitlines()
    for second, event in enumerate(map(json.loads, [*lines, lines[-1]])):
        event["timestamp"] = f"2026-11-21T12:00:{10 * second:02}.000Z"
        for source in event["sources"]:
            source["metrics"] |= {f"assignor.{name}": value for name, value in LIMITED.items()}
        board.update(parse_progress(event))
    for time_s in (1e10, 1e10 + 10):
        [(topic, offsets)] = event["sources"][0]["endOffset"].items()
        ends = {partition: end + int(time_s - 1e10) for partition, end in offsets.items()}
        board.update_log_ends({event["id"]: {"0": {topic: ends}}}, time_s)
    registry.register(board)
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


@pytest.mark.parametrize(
    "query", [q for _, q in list_queries()], ids=[n for n, _ in list_queries()]
)
def test_queried_metrics_and_labels_are_exported(query: str) -> None:
    """The queries are those of the rules and of the Grafana dashboard."""
    check_query(query, export_recorded_progress())


def test_the_stand_in_evaluates_like_prometheus() -> None:
    """Expected values follow the docs of `increase`, `deriv`, and the look-back of 5 minutes."""
    series = [read_series({"series": 'a{b="c"}', "values": "0+2x10"}, 60)]
    [[_, grown]] = evaluate(promql.parse("increase(a[5m])"), 600, series).items()
    assert grown == pytest.approx(10)  # 8 in the 4 minutes between samples, extrapolated to 5
    [[_, slope]] = evaluate(promql.parse("deriv(a[5m])"), 600, series).items()
    assert slope == pytest.approx(2 / 60)
    assert evaluate(promql.parse("a"), 899, series)
    assert not evaluate(promql.parse("a"), 901, series)
    assert not evaluate(promql.parse('a{b!="c"}'), 600, series)
    with pytest.raises(NotImplementedError):
        evaluate(promql.parse("sum(a)"), 600, series)
