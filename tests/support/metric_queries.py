"""What the alerting rules and the Grafana board ask Prometheus for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import promql_parser as promql
import yaml

from streaming.metrics.names import METRICS

DOCS = Path(__file__).parents[2] / "docs"
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((DOCS / "prometheus" / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
#: Grafana's variables, by what stands for them in a query that Prometheus gets.
_VARIABLES = {"$__rate_interval": "5m", "$__interval": "1m", "$__range": "1h"}


def queries() -> list[tuple[str, str]]:
    """Titles and texts of all."""
    found = [(rule["alert"], rule["expr"]) for rule in RULES]
    board = json.loads((DOCS / "grafana" / "assignor-bridge.json").read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            text = target["expr"]
            for variable, value in _VARIABLES.items():
                text = text.replace(variable, value)
            found.append((f"{panel['title']} {target.get('refId', '')}", text))
    return found


def selectors(query: str) -> list[Any]:
    """All places of a query that name a metric."""
    found: list[Any] = []

    def visit(node: Any) -> bool:
        if isinstance(node, promql.VectorSelector):
            found.append(node)
        return True

    promql.walk(promql.parse(query), visit)
    assert found, query
    return found


def check(query: str, exported: Mapping[str, Set[str]]) -> None:
    """Look for each metric of a query, and each label it is chosen or grouped by, in an export."""
    names = selectors(query)
    for selector in names:
        assert selector.name in exported, selector.name
        assert exported[selector.name] == set(METRICS[selector.name].labels), selector.name
        assert {m.name for m in selector.matchers.matchers} <= exported[selector.name]
    for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", query):
        labels = {name.strip() for name in group.split(",")}
        assert all(labels <= exported[selector.name] for selector in names)
