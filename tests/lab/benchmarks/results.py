"""`python -m tests.lab.benchmarks.results`: one page of all results, from the JSON files.

It is written again with each benchmark's report; a test compares the page with the files.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.lab.benchmarks.targets import TARGETS, Target

if TYPE_CHECKING:
    from pathlib import Path

    Document = dict[str, Any]

#: The run of all targets at one commit; its figures are a column of the page.
ONE_RUN = "one_run"
_PAGE = "benchmark-results.md"
_HEAD = """# Benchmark results

Generated from the JSON files in `docs/benchmarks` by `python -m tests.lab.benchmarks.results`; do
not edit it. How to read a result, and how to measure it again, is in the [method](benchmarks.md).
{counts} "Missed" gives the share of the target and the reason. *In one run* is the same figure in
one run of all targets{one_run}.
"""
_COLUMNS = ("figure", "target", "measured", "result", "in one run", "why")
_NOT_MEASURED = "not measured yet"
#: Headings of results whose titles change with the run, or need words that only this project uses.
_HEADINGS = {
    "assignors": "Assignors compared with Kafka's",
    "audit": "What the figures for assignor audit cost",
    "before_after": "Before and after a change of the code",
    "delta_sink": "What a batch costs in Spark's Delta sink and in assignor run",
    "executor_memory": "Executors' memory outside the heap",
    "long_run": "One job that writes two tables",
    "losses": "Workloads with little to gain",
    "losses_search": "Search for workloads that lose",
    "reader": "The shared reader compared with Spark's",
    "regret": "Distance to the best time in hindsight",
    "simulator": "Spark's methods and the assignors in the simulator",
    "soak": "Memory of one job over hours",
    "starvation": "Live topics next to a large backlog",
}
_IMAGE = re.compile(r"^!\[.*\]\(\.\./(images/.*)\)$", re.MULTILINE)


def page(folder: Path) -> str:
    """Return the page for the JSON files of a folder."""
    documents = read_documents(folder)
    results = [
        None if figure is None else target.met(figure)
        for target in TARGETS
        for figure in [figure_of(target, documents.get(target.page))]
    ]
    one_run = documents.pop(ONE_RUN, None)
    counts = (
        f"Of {len(results)} targets {results.count(True)} are met, {results.count(False)} missed "
        f"and {results.count(None)} not measured yet."
    )
    at_commit = ""
    if one_run:
        run = one_run["run"]
        at_commit = f" ({run['date']}, commit {run['commit']}, "
        at_commit += f"[all figures and steps](benchmarks/{ONE_RUN}.json))"
    names = sorted(documents.keys() | {target.page for target in TARGETS})
    sections = [_section(name, documents.get(name), _figures(one_run)) for name in names]
    return "\n".join([_HEAD.format(counts=counts, one_run=at_commit), *sections])


def read_documents(folder: Path) -> dict[str, Document]:
    """Return the documents of benchmarks, by name; the folder has other JSON files, too."""
    found = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")
    }
    return {name: each for name, each in found.items() if isinstance(each, dict) and "run" in each}


def figure_of(target: Target, document: Document | None) -> float | None:
    """Return the figure, None if the benchmark has not measured it."""
    if document is None:
        return None
    try:
        return target.figure(document["rows"])
    except (IndexError, KeyError, StopIteration, ValueError):  # a file from before that row
        return None


def verdict_of(target: Target, figure: float) -> str:
    """Return `met`, or by which share of the target it was missed."""
    if target.met(figure):
        return "met"
    by = abs(figure - target.limit) / (target.limit or 1)
    return f"**missed by {by:.{0 if by >= 0.01 else 1}%}**"


def limit_of(target: Target) -> str:
    """Return what was asked of the figure, in words."""
    return f"{'at least' if target.at_least else 'at most'} {_number(target.limit)}"


def heading_of(name: str, document: Document | None) -> str:
    """Return the heading of a result: a title in plain words that stays from run to run."""
    return _HEADINGS.get(name) or (document["title"] if document else name)


def write(folder: Path) -> None:
    """Write the page next to the folder of its files."""
    (folder.parent / _PAGE).write_text(page(folder), encoding="utf-8")


def _figures(one_run: Document | None) -> dict[tuple[str, str], float]:
    """Return the figures of the one run by page and target."""
    rows = one_run["rows"] if one_run else []
    return {(row["page"], row["what"]): row["measured"] for row in rows}


def _section(name: str, document: Document | None, one_run: dict[tuple[str, str], float]) -> str:
    """Return what one benchmark measured: condition, targets, command, and where all rows are."""
    lines = [f"## {heading_of(name, document)}", ""]
    if document:
        lines += [_condition(name, document), ""]
    targets = [target for target in TARGETS if target.page == name]
    if targets:
        lines += [f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|"]
        lines += [_line(target, document, one_run.get((name, target.what))) for target in targets]
        lines.append("")
    if document:
        run = document["run"]
        lines += [f"![{name}]({image})\n" for image in _IMAGE.findall(document["notes"])]
        lines += [
            f"`{name}`: [all rows and the method](benchmarks/{name}.json) · {run['date']} · "
            f"commit {run['commit']} · {run['cores']} cores · Python {run['python']} · "
            f"{run.get('command', '')}".rstrip(" ·"),
            "",
        ]
    return "\n".join(lines)


def _condition(name: str, document: Document) -> str:
    """Return the first paragraph of a benchmark's notes on one line, without its links.

    The title comes first if it has figures of the run that the heading leaves out.

    >>> notes = 'Two executors\\nof [one](reader.md) slot.\\n\\nMore.'
    >>> _condition('one', {'title': 'A title', 'notes': notes})
    'Two executors of one slot.'
    >>> _condition('soak', {'title': 'Memory over 2 hours', 'notes': notes})
    '**Memory over 2 hours.** Two executors of one slot.'
    """
    title, notes = document["title"], document["notes"]
    has_figures = title != heading_of(name, document) and re.search(r"\d", title)
    first = " ".join(notes.strip().partition("\n\n")[0].split())
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", first)
    return f"**{title}.** {text}" if has_figures else text


def _line(target: Target, document: Document | None, in_one_run: float | None) -> str:
    figure = figure_of(target, document)
    again = "" if in_one_run is None else _number(in_one_run)
    if figure is None:
        cells = [target.what, limit_of(target), "", _NOT_MEASURED, again, ""]
    else:
        why = "" if target.met(figure) else target.why or "not known"
        verdict = verdict_of(target, figure)
        cells = [target.what, limit_of(target), _number(figure), verdict, again, why]
    return f"| {' | '.join(cells)} |"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    from tests.lab.benchmarks.report import DOCS

    write(DOCS)
