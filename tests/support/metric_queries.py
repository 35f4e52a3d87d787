"""List and check the Prometheus queries of the alerting rules and the Grafana dashboard."""

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
#: Values for Grafana's variables in queries.
_VARIABLES = {"$__rate_interval": "5m", "$__interval": "1m", "$__range": "1h"}


def list_queries() -> list[tuple[str, str]]:
    queries = [(rule["alert"], rule["expr"]) for rule in RULES]
    dashboard = json.loads((DOCS / "grafana" / "assignor-bridge.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            text = target["expr"]
            for variable, value in _VARIABLES.items():
                text = text.replace(variable, value)
            queries.append((f"{panel['title']} {target.get('refId', '')}", text))
    return queries


def list_selectors(query: str) -> list[Any]:
    """Return the selectors of a query; each names a metric."""
    selectors: list[Any] = []

    def visit(node: Any) -> bool:
        if isinstance(node, promql.VectorSelector):
            selectors.append(node)
        return True

    promql.walk(promql.parse(query), visit)
    assert selectors, query
    return selectors


def check_query(query: str, exported: Mapping[str, Set[str]]) -> None:
    """Check that each metric of a query is exported, with all labels that the query uses."""
    selectors = list_selectors(query)
    for selector in selectors:
        assert selector.name in exported, selector.name
        assert exported[selector.name] == set(METRICS[selector.name].labels), selector.name
        assert {m.name for m in selector.matchers.matchers} <= exported[selector.name]
    for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", query):
        labels = {name.strip() for name in group.split(",")}
        assert all(labels <= exported[selector.name] for selector in selectors)
