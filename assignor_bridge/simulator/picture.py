"""The comparison as one page that opens offline: batch times, and the load of each executor."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignor_bridge.simulator.compare import Row
    from assignor_bridge.simulator.scenario import Scenario

_STYLE = """
:root{--ink:#1b1f24;--paper:#fff;--soft:#6b7280;--bar:#0072b2;--ideal:#d55e00;--line:#d0d7de}
@media (prefers-color-scheme:dark){
:root{--ink:#e6edf3;--paper:#0d1117;--soft:#9aa4af;--bar:#56b4e9;--ideal:#e69f00;--line:#30363d}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);
max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .6rem;text-align:right;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}.scroll{overflow-x:auto}
svg{width:100%;height:auto}text{fill:var(--ink);font-size:13px}.bar{fill:var(--bar)}
.ideal{stroke:var(--ideal);stroke-width:2}figure{margin:2rem 0}figcaption{color:var(--soft)}
"""


def page(scenario: Scenario, rows: Sequence[Row]) -> str:
    """Make the page."""
    about = (
        f"{scenario.partitions:,} partitions ({scenario.lags} lags), {scenario.executors:,} "
        f"executors, {scenario.batches:,} batches of {scenario.records:,} records, seed "
        f"{scenario.seed}"
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>assignor simulate</title><style>{_STYLE}</style>"
        f"<h1>Who reads which offsets: mappings compared</h1><p>{escape(about)}</p>"
        f'<div class="scroll">{_table(rows)}</div>'
        f"<figure>{_times(rows)}<figcaption>Median time of a batch; the line is the ideal: all "
        "work spread evenly over the slots by their speed.</figcaption></figure>"
        f"<figure>{_loads(rows)}<figcaption>Busy seconds of each executor in the last batch, "
        "busiest first, one row a mapping on one scale.</figcaption></figure></html>"
    )


def _table(rows: Sequence[Row]) -> str:
    head = "".join(
        f"<th>{name}</th>"
        for name in ("mapping", "median s", "over ideal", "worst", "tasks", "cold partitions")
    )
    body = "".join(
        f"<tr><td>{escape(r.name)}</td><td>{r.median_seconds:.3g}</td><td>{r.mean_over:.0%}</td>"
        f"<td>{r.worst_over:.0%}</td><td>{r.tasks:,.0f}</td><td>{r.broken:.1%}</td></tr>"
        for r in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _times(rows: Sequence[Row]) -> str:
    top = max((r.median_seconds for r in rows), default=1.0) or 1.0
    ideal = max((p.bound_seconds for p in rows[0].late), default=0.0) if rows else 0.0
    parts = []
    for i, row in enumerate(rows):
        y, width = 30 * i, 480 * row.median_seconds / top
        parts.append(
            f'<text x="0" y="{y + 20}">{escape(row.name)}</text>'
            f'<rect class="bar" x="210" y="{y + 6}" width="{width:.1f}" height="20">'
            f"<title>{escape(row.name)}: {row.median_seconds:.3g} s</title></rect>"
            f'<text x="{215 + width:.1f}" y="{y + 20}">{row.median_seconds:.3g} s</text>'
        )
    x, height = 210 + 480 * ideal / top, 30 * len(rows)
    parts.append(f'<line class="ideal" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>')
    label = "Median batch time of each mapping"
    return f'<svg viewBox="0 0 780 {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _loads(rows: Sequence[Row]) -> str:
    top = max((max(r.played[-1].busy.values(), default=0) for r in rows if r.played), default=1)
    parts = []
    for i, row in enumerate(rows):
        base = 70 * i + 60
        busy = sorted(row.played[-1].busy.values(), reverse=True)[:400] if row.played else []
        step = 560 / max(1, len(busy))
        parts.append(f'<text x="0" y="{base}">{escape(row.name)}</text>')
        parts += [
            f'<rect class="bar" x="{210 + step * n:.1f}" y="{base - 50 * b / (top or 1):.1f}" '
            f'width="{max(0.5, step - 1):.1f}" height="{50 * b / (top or 1):.1f}"/>'
            for n, b in enumerate(busy)
        ]
    label = "Busy seconds of each executor"
    view = f"0 0 780 {70 * len(rows)}"
    return f'<svg viewBox="{view}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
