"""A stand-in for `promtool test rules`, which no Python package brings.

It runs the files that promtool runs. PromQL is parsed by `promql-parser`; what is evaluated is what
our rules use, by Prometheus' rules: instant vectors look 5 minutes back, `increase` is extrapolated
to its window, an alert fires once its expression has held for its `for`. Anything else is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import promql_parser as promql

Labels = frozenset[tuple[str, str]]
#: What a vector is: a value by labels.
Vector = dict[Labels, float]
_LOOK_BACK_S = 300.0
_UNITS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True)
class Series:
    """Samples of one series, by their times in seconds."""

    name: str
    labels: Labels
    samples: Sequence[tuple[float, float]]


def seconds(text: str) -> float:
    """A duration, such as 15m."""
    return float(text[:-1]) * _UNITS[text[-1]]


def read_series(given: Mapping[str, str], interval_s: float) -> Series:
    """A series in promtool's notation: `1+2x3` is 1 3 5 7, `4x2` is 4 4 4, `_x2` is two gaps."""
    values: list[float | None] = []
    for word in str(given["values"]).split():
        match = re.fullmatch(r"(_|-?[\d.]+)(?:([+-][\d.]+)?x(\d+))?", word)
        assert match, f"values {word!r}"
        first, step, times = match.groups()
        if first == "_":
            values += [None] * int(times or 1)
        else:
            count = int(times or 0) + 1
            values += [float(first) + float(step or 0) * n for n in range(count)]
    selector = promql.parse(given["series"])
    labels = {m.name: m.value for m in selector.matchers.matchers}
    samples = [(n * interval_s, v) for n, v in enumerate(values) if v is not None]
    return Series(selector.name, frozenset(labels.items()), samples)


def evaluate(expression: Any, now_s: float, series: Sequence[Series]) -> Vector | float:
    """The value of an expression at a time."""
    match expression:
        case promql.ParenExpr():
            return evaluate(expression.expr, now_s, series)
        case promql.NumberLiteral():
            return float(expression.val)
        case promql.VectorSelector():
            if expression.offset is not None:
                now_s -= expression.offset.total_seconds()
            found = _selected(expression, series, now_s - _LOOK_BACK_S, now_s)
            return {labels: values[-1][1] for labels, values in found.items()}
        case promql.Call() if expression.func.name == "time":
            return now_s
        case promql.Call():
            [window] = expression.args
            length_s = window.range.total_seconds()
            found = _selected(window.vector_selector, series, now_s - length_s, now_s)
            function = _FUNCTIONS[expression.func.name]
            values = {
                labels: function(samples, length_s, now_s) for labels, samples in found.items()
            }
            return {labels: value for labels, value in values.items() if value is not None}
        case promql.BinaryExpr():
            one = evaluate(expression.lhs, now_s, series)
            other = evaluate(expression.rhs, now_s, series)
            return _combined(expression, one, other)
        case _:
            raise NotImplementedError(type(expression).__name__)


def _selected(
    selector: Any, series: Sequence[Series], after_s: float, until_s: float
) -> dict[Labels, list[tuple[float, float]]]:
    found = {}
    for one in series:
        labels = dict(one.labels)
        if one.name == selector.name and all(
            _matches(matcher, labels.get(matcher.name, ""))
            for matcher in selector.matchers.matchers
        ):
            samples = [(t, v) for t, v in one.samples if after_s < t <= until_s]
            if samples:
                found[one.labels] = samples
    return found


def _matches(matcher: Any, value: str) -> bool:
    kind = str(matcher.op).partition(".")[2]
    same = value == matcher.value
    if kind in ("Re", "NotRe"):
        same = re.fullmatch(matcher.value, value) is not None
    return same if kind in ("Equal", "Re") else not same


def _combined(expression: Any, one: Vector | float, other: Vector | float) -> Vector:
    name = str(expression.op)
    if name == "-":
        assert isinstance(one, float)
        assert isinstance(other, dict)
        return {labels: one - value for labels, value in other.items()}
    assert isinstance(one, dict)
    if name == "or":
        assert isinstance(other, dict)
        return one | {labels: value for labels, value in other.items() if labels not in one}
    if name in ("and", "unless"):
        assert isinstance(other, dict)
        matching = expression.modifier and expression.modifier.matching
        keys = {_only(labels, matching) for labels in other}
        wanted = name == "and"
        return {
            labels: value
            for labels, value in one.items()
            if (_only(labels, matching) in keys) is wanted
        }
    assert isinstance(other, float)
    holds = _COMPARISONS[name]
    return {labels: value for labels, value in one.items() if holds(value, other)}


def _only(labels: Labels, matching: Any) -> Labels:
    if matching is None:
        return labels
    return frozenset((name, value) for name, value in labels if name in matching.labels)


def _deriv(samples: list[tuple[float, float]], _length_s: float, now_s: float) -> float | None:
    if len(samples) < 2:
        return None
    times, values = np.array(samples).T
    return float(np.polyfit(times - now_s, values, 1)[0].round(9))


def _increase(samples: list[tuple[float, float]], length_s: float, now_s: float) -> float | None:
    """Prometheus' `extrapolatedRate` of a counter that never begins anew."""
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
    "deriv": _deriv,
    "increase": _increase,
    "max_over_time": lambda samples, *_: max(value for _, value in samples),
    "avg_over_time": lambda samples, *_: float(np.mean([value for _, value in samples])),
}
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
}


def firing(
    rule: Mapping[str, Any], at_s: float, every_s: float, series: Sequence[Series]
) -> list[tuple[dict[str, str], dict[str, str]]]:
    """Labels and annotations of a rule's alerts that fire at a time."""
    expression = promql.parse(rule["expr"])
    needed_s = seconds(rule.get("for", "0s"))
    since: dict[Labels, float] = {}
    for now_s in np.arange(0, at_s + every_s / 2, every_s).tolist():
        holds = evaluate(expression, now_s, series)
        assert isinstance(holds, dict)
        since = {labels: since.get(labels, now_s) for labels in holds}
    alerts = [dict(labels) for labels, began in since.items() if at_s - began >= needed_s]
    return [
        (
            {**labels, **rule.get("labels", {})},
            {name: _filled(text, labels) for name, text in rule["annotations"].items()},
        )
        for labels in alerts
    ]


def _filled(text: str, labels: Mapping[str, str]) -> str:
    filled = re.sub(r"{{ \$labels\.(\w+) }}", lambda m: labels.get(m[1], ""), text)
    assert "{{" not in filled
    return filled
