"""Alerting rules: each fires when it should, and all that is queried is what a real run exports."""

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
from streaming.observe.query_progress import read_progress
from tests.support.alert_rules import Series, evaluate, firing, read_series, seconds
from tests.support.metric_queries import DOCS, RULES, check, queries
from tests.unit.metrics.samples import QUERY, progress

RECORDED = Path(__file__).with_name("recorded_progress.jsonl")
#: Debian has it in its package `prometheus`; no Python package brings it.
PROMTOOL = shutil.which("promtool")
CASES = yaml.safe_load((DOCS / "prometheus" / "alerts_test.yaml").read_text())
#: What the recorded query had no occasion for; `secondsToLoss` and the others need options of ours.
LIMITED = {
    "secondsToLoss": "1800", "admittedRecords": "30", "heldBackRecords": "70",
    "heldBackBy": "seconds", "receivedBytes": "10", "crossZoneBytes": "1",
    "crossZoneShare": "0.1", "commitFailures": "0", "offsetsLost": "0",
}  # fmt: skip


def fires(rule: dict[str, Any], test: dict[str, Any], at: str) -> list[Any]:
    every_s = seconds(CASES["evaluation_interval"])
    series = [read_series(given, seconds(test["interval"])) for given in test["input_series"]]
    return firing(rule, seconds(at), every_s, series)


@pytest.mark.parametrize(
    ("test", "case"),
    [
        pytest.param(test, case, id=f"{case['alertname']} at {case['eval_time']}")
        for test in CASES["tests"]
        for case in test["alert_rule_test"]
    ],
)
def test_an_alert_fires_when_it_should(test: dict[str, Any], case: dict[str, Any]) -> None:
    [rule] = [rule for rule in RULES if rule["alert"] == case["alertname"]]
    expected = [(a["exp_labels"], a["exp_annotations"]) for a in case["exp_alerts"]]
    assert fires(rule, test, case["eval_time"]) == expected


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool on PATH: only the stand-in has run")
def test_promtool_says_so_too() -> None:
    assert PROMTOOL is not None
    folder = DOCS / "prometheus"
    for words in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]):
        done = subprocess.run(
            [PROMTOOL, *words], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_seen_to_fire_and_to_be_silent() -> None:
    cases = [case for test in CASES["tests"] for case in test["alert_rule_test"]]
    for outcome in (True, False):
        tested = {case["alertname"] for case in cases if bool(case["exp_alerts"]) is outcome}
        assert tested == {rule["alert"] for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_threshold_that_is_never_reached_is_found(rule: dict[str, Any]) -> None:
    """The tests can fail: with every comparison the other way round, what fired is silent."""
    turned = rule["expr"].translate(str.maketrans("<>", "><")).replace("unless", "and")
    [(test, case)] = [
        (test, case)
        for test in CASES["tests"]
        for case in test["alert_rule_test"]
        if case["alertname"] == rule["alert"] and case["exp_alerts"]
    ]
    expected = [(a["exp_labels"], a["exp_annotations"]) for a in case["exp_alerts"]]
    assert fires({**rule, "expr": turned}, test, case["eval_time"]) != expected


def test_a_query_that_is_too_slow_fires_the_alert_on_lag() -> None:
    """It reads all that there is when a batch is planned, in batches that take ever longer."""
    board, registry = Board("c"), CollectorRegistry()
    registry.register(board)
    samples: dict[tuple[str, Any], list[tuple[float, float]]] = {}
    planned_s = end = number = 0
    for minute in range(60):
        now_s = 60 * minute
        if now_s >= 2 * planned_s:  # a batch is done when as much time again has passed
            event = progress(number, start={"0": end}, end={"0": 10 * planned_s})
            assert event["sources"][0]["latestOffset"] == event["sources"][0]["endOffset"]
            board.update(read_progress(event))
            end, planned_s, number = 10 * planned_s, now_s, number + 1
        board.measure({QUERY: {"0": {"t": {"0": 10 * now_s}}}}, float(now_s))
        text = generate_latest(registry).decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items())
                samples.setdefault(key, []).append((now_s, sample.value))
    series = [Series(name, labels, points) for (name, labels), points in samples.items()]
    [rule] = [rule for rule in RULES if rule["alert"] == "StreamLagGrows"]
    assert firing(rule, 240, 60, series) == []
    [(labels, _)] = firing(rule, 59 * 60, 60, series)
    assert labels["group"] == "orders"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_each_alert_names_a_heading_of_the_docs(rule: dict[str, Any]) -> None:
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    heads = re.findall(r"^#+ (.*)$", (DOCS.parent / page).read_text("utf-8"), flags=re.MULTILINE)
    assert anchor in {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}


def exported() -> dict[str, set[str]]:
    """Label names of each metric in the text that a real query's progress becomes."""
    board, registry = Board("c"), CollectorRegistry()
    lines = RECORDED.read_text(encoding="utf-8").splitlines()
    for second, event in enumerate(map(json.loads, [*lines, lines[-1]])):
        event["timestamp"] = f"2026-11-21T12:00:{10 * second:02}.000Z"
        for source in event["sources"]:
            source["metrics"] |= {f"assignor.{name}": value for name, value in LIMITED.items()}
        board.update(read_progress(event))
    for time_s in (1e10, 1e10 + 10):
        [(topic, offsets)] = event["sources"][0]["endOffset"].items()
        ends = {partition: end + int(time_s - 1e10) for partition, end in offsets.items()}
        board.measure({event["id"]: {"0": {topic: ends}}}, time_s)
    registry.register(board)
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.mark.parametrize("query", [q for _, q in queries()], ids=[name for name, _ in queries()])
def test_what_is_queried_is_exported_with_these_labels(query: str) -> None:
    """Rules and the Grafana board: each metric, and each label it is chosen or grouped by."""
    check(query, exported())


def test_the_stand_in_reckons_as_prometheus_does() -> None:
    """By hand: the documentation of `increase` and `deriv`, and the look-back of 5 minutes."""
    given = [read_series({"series": 'a{b="c"}', "values": "0+2x10"}, 60)]
    [[_, grown]] = evaluate(promql.parse("increase(a[5m])"), 600, given).items()
    assert grown == pytest.approx(10)  # 8 in the 4 minutes between samples, extrapolated to 5
    [[_, slope]] = evaluate(promql.parse("deriv(a[5m])"), 600, given).items()
    assert slope == pytest.approx(2 / 60)
    assert evaluate(promql.parse("a"), 899, given)
    assert not evaluate(promql.parse("a"), 901, given)
    assert not evaluate(promql.parse('a{b!="c"}'), 600, given)
    with pytest.raises(NotImplementedError):
        evaluate(promql.parse("sum(a)"), 600, given)
