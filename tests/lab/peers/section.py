"""`python -m tests.lab.peers.section`: write the tables of `docs/alternatives.md` from the JSON.

Everything between the two markers is generated from `docs/benchmarks/peers.json`, so that no figure
on the page is copied by hand. `make peers` does it after each measurement that is written to docs.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.lab.benchmarks.report import DOCS
from tests.lab.peers.ladder import AS_FAST_AS_IT_GOES, FELL_BEHIND, NOT_TRIED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    Row = dict[str, Any]

PAGE = DOCS.parent / "alternatives.md"
START, END = "<!-- peers: generated -->", "<!-- peers: end -->"
_SOURCE = DOCS / "peers.json"
#: Costs are those at this rate.
_COST_LOAD = 20_000
_NONE = "n/a"


def write_section(page: Path = PAGE, source: Path = _SOURCE) -> None:
    """Replace what is between the markers of a page by the tables of a JSON file."""
    rows = json.loads(source.read_text(encoding="utf-8"))["rows"]
    before, _, rest = page.read_text(encoding="utf-8").partition(START)
    _, found, after = rest.partition(END)
    assert found, f"{page} lacks {START} or {END}"
    page.write_text(f"{before}{START}\n\n{make_tables(rows)}\n\n{END}{after}", encoding="utf-8")


def make_tables(rows: Sequence[Row]) -> str:
    """Return the tables of ages and of costs, for each way in the order of the rows."""
    laws = list(dict.fromkeys(row["volumes"] for row in rows if row["load"] != "kills"))
    ways = list(dict.fromkeys(row["way"] for row in rows))
    parts = []
    for law in laws:
        inside = [row for row in rows if row["volumes"] == law]
        loads = sorted({row["load"] for row in inside if isinstance(row["load"], int)})
        header = ["way", *(f"{load:,} records/s" for load in loads)]
        header.append(f"{AS_FAST_AS_IT_GOES}, rows/s")
        lines = [
            [way, *(describe_age(find(inside, way, load)) for load in loads),
             describe_rate(find(inside, way, AS_FAST_AS_IT_GOES))]
            for way in ways
        ]  # fmt: skip
        title = f"Age of a row when it is visible, p50 and p99 in seconds ({law} volumes):"
        parts += [title, format_table(header, lines)]
    header = ["way", "CPU s per million rows", "memory, MB", "files a minute", "lost", "doubled"]
    lines = [[way, *describe_costs(rows, laws[-1], way)] for way in ways]
    title = f"Costs at {_COST_LOAD:,} records a second ({laws[-1]} volumes), and rows after kills:"
    parts += [title, format_table(header, lines)]
    parts.append("Spread, method, and versions are in the [results](benchmark-results.md#peers).")
    return "\n\n".join(parts)


def find(rows: Sequence[Row], way: str, load: object) -> Row | None:
    """Return the row of a way and load."""
    return next((row for row in rows if (row["way"], row["load"]) == (way, load)), None)


def describe_age(row: Row | None) -> str:
    """Return both ages; of a way that fell behind its rate, because its ages grow with time."""
    if row is None:
        return _NONE
    if row["verdict"].startswith(NOT_TRIED):
        return NOT_TRIED
    if row["verdict"].startswith(FELL_BEHIND):
        return f"{FELL_BEHIND} ({row['rate']:,.0f}/s)" if "rate" in row else FELL_BEHIND
    return f"{row['age_p50_s']:.1f}, {row['age_p99_s']:.1f}"


def describe_rate(row: Row | None) -> str:
    """Return the rate of a row; nothing if it was not measured."""
    return f"{row['rate']:,.0f}" if row and row.get("rate") else _NONE


def describe_costs(rows: Sequence[Row], law: str, way: str) -> list[str]:
    """Return processor time, memory, and files at one rate, and rows lost and doubled by kills."""
    inside = [row for row in rows if row["volumes"] == law]
    costs = find(inside, way, _COST_LOAD) or {}
    kills = find(rows, way, "kills") or {}
    figures = [costs.get(name) for name in ("cpu_s_per_million", "rss_mb", "files_per_minute")]
    shown = [
        _NONE if figure is None else f"{figure:,.{decimals}f}"
        for figure, decimals in zip(figures, (1, 0, 0), strict=True)
    ]
    return [*shown, *(str(kills.get(name, _NONE)) for name in ("lost", "doubled"))]


def format_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    rule = ["---"] * len(header)
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *lines))


if __name__ == "__main__":
    write_section()
