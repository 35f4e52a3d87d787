"""A stand-in for `promtool test rules`, which no Python package provides.

It runs promtool's test files. `promql-parser` parses PromQL; only the features that our rules use
are evaluated, in the same way as Prometheus does: instant vectors look back 5 minutes, `increase`
is extrapolated to its window, and an alert fires when its expression has held for its `for`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import promql_parser as promql

Labels = frozenset[tuple[str, str]]
#: An instant vector: the value of each set of labels.
Vector = dict[Labels, float]
_LOOK_BACK_S = 300.0
_UNITS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True)
class Series:
    """Samples of one series, each with its time in seconds."""

    name: str
    labels: Labels
    samples: Sequence[tuple[float, float]]


def parse_seconds(text: str) -> float:
    """Return the seconds of a duration, such as 15m."""
    return float(text[:-1]) * _UNITS[text[-1]]


def read_series(definition: Mapping[str, str], interval_s: float) -> Series:
    """Parse promtool's notation: `1+2x3` is 1 3 5 7, `4x2` is 4 4 4, and `_x2` is two gaps."""
    values: list[float | None] = []
    for item in str(definition["values"]).split():
        match = re.fullmatch(r"(_|-?[\d.]+)(?:([+-][\d.]+)?x(\d+))?", item)
        assert match, f"values {item!r}"
        first, step, times = match.groups()
        if first == "_":
            values += [None] * int(times or 1)
        else:
            count = int(times or 0) + 1
            values += [float(first) + float(step or 0) * n for n in range(count)]
    selector = promql.parse(definition["series"])
    labels = {m.name: m.value for m in selector.matchers.matchers}
    samples = [(n * interval_s, v) for n, v in enumerate(values) if v is not None]
    return Series(selector.name, frozenset(labels.items()), samples)


def evaluate(expression: Any, now_s: float, series: Sequence[Series]) -> Vector | float:
    match expression:
        case promql.ParenExpr():
            return evaluate(expression.expr, now_s, series)
        case promql.NumberLiteral():
            return float(expression.val)
        case promql.VectorSelector():
            if expression.offset is not None:
                now_s -= expression.offset.total_seconds()
            selected = _select_samples(expression, series, now_s - _LOOK_BACK_S, now_s)
            return {labels: values[-1][1] for labels, values in selected.items()}
        case promql.Call() if expression.func.name == "time":
            return now_s
        case promql.Call():
            [window] = expression.args
            length_s = window.range.total_seconds()
            selected = _select_samples(window.vector_selector, series, now_s - length_s, now_s)
            function = _FUNCTIONS[expression.func.name]
            values = {
                labels: function(samples, length_s, now_s) for labels, samples in selected.items()
            }
            return {labels: value for labels, value in values.items() if value is not None}
        case promql.BinaryExpr():
            left = evaluate(expression.lhs, now_s, series)
            right = evaluate(expression.rhs, now_s, series)
            return _combine(expression, left, right)
        case _:
            raise NotImplementedError(type(expression).__name__)


def _select_samples(
    selector: Any, series: Sequence[Series], after_s: float, until_s: float
) -> dict[Labels, list[tuple[float, float]]]:
    selected = {}
    for candidate in series:
        labels = dict(candidate.labels)
        if candidate.name == selector.name and all(
            _matches(matcher, labels.get(matcher.name, ""))
            for matcher in selector.matchers.matchers
        ):
            samples = [(t, v) for t, v in candidate.samples if after_s < t <= until_s]
            if samples:
                selected[candidate.labels] = samples
    return selected


def _matches(matcher: Any, value: str) -> bool:
    kind = str(matcher.op).partition(".")[2]
    same = value == matcher.value
    if kind in ("Re", "NotRe"):
        same = re.fullmatch(matcher.value, value) is not None
    return same if kind in ("Equal", "Re") else not same


def _combine(expression: Any, left: Vector | float, right: Vector | float) -> Vector:
    operator = str(expression.op)
    if operator == "-":
        assert isinstance(left, float)
        assert isinstance(right, dict)
        return {labels: left - value for labels, value in right.items()}
    assert isinstance(left, dict)
    if operator == "or":
        assert isinstance(right, dict)
        return left | {labels: value for labels, value in right.items() if labels not in left}
    if operator in ("and", "unless"):
        assert isinstance(right, dict)
        matching = expression.modifier and expression.modifier.matching
        keys = {_keep_labels(labels, matching) for labels in right}
        must_match = operator == "and"
        return {
            labels: value
            for labels, value in left.items()
            if (_keep_labels(labels, matching) in keys) is must_match
        }
    assert isinstance(right, float)
    compare = _COMPARISONS[operator]
    return {labels: value for labels, value in left.items() if compare(value, right)}


def _keep_labels(labels: Labels, matching: Any) -> Labels:
    if matching is None:
        return labels
    return frozenset((name, value) for name, value in labels if name in matching.labels)


def _compute_deriv(
    samples: list[tuple[float, float]], _length_s: float, now_s: float
) -> float | None:
    if len(samples) < 2:
        return None
    times, values = np.array(samples).T
    return float(np.polyfit(times - now_s, values, 1)[0].round(9))


def _compute_increase(
    samples: list[tuple[float, float]], length_s: float, now_s: float
) -> float | None:
    """Compute Prometheus' `extrapolatedRate` of a counter that is never reset."""
    if len(samples) < 2:
        return None
    (first_s, first), (last_s, last) = samples[0], samples[-1]
    covered = last_s - first_s
    mean = covered / (len(samples) - 1)
    to_start, to_end = first_s - (now_s - length_s), now_s - last_s
    if last > first > 0:
        to_start = min(to_start, covered * first / (last - first))
    to_start, to_end = (gap if gap < 1.1 * mean else mean / 2 for gap in (to_start, to_end))
    return (last - first) * (covered + to_start + to_end) / covered


_FUNCTIONS: Mapping[str, Callable[[list[tuple[float, float]], float, float], float | None]] = {
    "deriv": _compute_deriv,
    "increase": _compute_increase,
    "max_over_time": lambda samples, *_: max(value for _, value in samples),
    "avg_over_time": lambda samples, *_: float(np.mean([value for _, value in samples])),
}
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
}


def find_firing_alerts(
    rule: Mapping[str, Any], at_s: float, interval_s: float, series: Sequence[Series]
) -> list[tuple[dict[str, str], dict[str, str]]]:
    """Return the labels and annotations of a rule's alerts that fire at a time."""
    expression = promql.parse(rule["expr"])
    for_s = parse_seconds(rule.get("for", "0s"))
    began_by_labels: dict[Labels, float] = {}
    for now_s in np.arange(0, at_s + interval_s / 2, interval_s).tolist():
        values = evaluate(expression, now_s, series)
        assert isinstance(values, dict)
        began_by_labels = {labels: began_by_labels.get(labels, now_s) for labels in values}
    alerts = [
        dict(labels) for labels, began_s in began_by_labels.items() if at_s - began_s >= for_s
    ]
    return [
        (
            {**labels, **rule.get("labels", {})},
            {name: _fill_template(text, labels) for name, text in rule["annotations"].items()},
        )
        for labels in alerts
    ]


def _fill_template(text: str, labels: Mapping[str, str]) -> str:
    filled = re.sub(r"{{ \$labels\.(\w+) }}", lambda m: labels.get(m[1], ""), text)
    assert "{{" not in filled
    return filled
