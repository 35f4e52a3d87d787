"""`python -m tests.benchmarks.summary`: all targets in one table, from the benchmarks' JSON files.

Written anew with each benchmark's report; a test compares the page with the files.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.benchmarks.targets import TARGETS, Target

if TYPE_CHECKING:
    from pathlib import Path

_HEAD = """# All targets in one table

What this project set out to reach, and what was measured. Each line leads to its page, which has
the method, all rows and how far they scatter. {counts}
"Missed" says by how much of what was asked, and why as far as it is known. Nobody edits this page:
every benchmark writes it anew from the JSON files, and a test compares.{one_run}

All figures of a page come from one run, on the day and commit at the end.

| | asked | measured | | why |
|---|---|---|---|---|
"""
_NOT_MEASURED = "not measured yet"


def page(folder: Path) -> str:
    """Return the page for the JSON files of a folder."""
    lines, runs, results = [], {}, []
    for target in TARGETS:
        path = folder / f"{target.page}.json"
        document = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
        figure = figure_of(target, document)
        results.append(None if figure is None else target.met(figure))
        lines.append(line_of(target, figure))
        if document is not None:
            runs[target.page] = document["run"]
    counts = (
        f"Of {len(results)} targets {results.count(True)} are met, {results.count(False)} missed "
        f"and {results.count(None)} not measured yet."
    )
    measured = [
        f"- [{name}]({name}.md): {run['date']}, commit {run['commit']}, {run['cores']} cores, "
        f"Python {run['python']}"
        for name, run in sorted(runs.items())
    ]
    one_run = " [One run](one_run.md) has what targets rest on, at one commit."
    head = _HEAD.format(counts=counts, one_run=one_run if (folder / "one_run.md").is_file() else "")
    return head + "\n".join([*lines, "", "## Runs", "", *measured]) + "\n"


def figure_of(target: Target, document: dict[str, Any] | None) -> float | None:
    """Return the figure, None where the benchmark has not measured it."""
    if document is None:
        return None
    try:
        return target.figure(document["rows"])
    except (IndexError, KeyError, StopIteration, ValueError):  # a page from before that row
        return None


def line_of(target: Target, figure: float | None) -> str:
    """Return a row: asked, measured, met or missed by how much, and why."""
    asked = f"{'at least' if target.at_least else 'at most'} {_number(target.limit)}"
    if figure is None:
        name = f"{target.area}: {target.what}"
        return f"| {name} | {asked} | | {_NOT_MEASURED} | |"
    name = f"[{target.area}]({target.page}.md): {target.what}"
    verdict, why = "met", ""
    if not target.met(figure):
        by = abs(figure - target.limit) / (target.limit or 1)
        verdict = f"**missed by {by:.{0 if by >= 0.01 else 1}%}**"
        why = target.why or "not known"
    return f"| {name} | {asked} | {_number(figure)} | {verdict} | {why} |"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def write(folder: Path) -> None:
    """Write the page beside its files."""
    (folder / "summary.md").write_text(page(folder), encoding="utf-8")


if __name__ == "__main__":
    from tests.benchmarks.report import DOCS

    write(DOCS)
