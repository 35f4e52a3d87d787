"""The page of the peers: medians and spread of the runs, one row for each way, law, and rate.

| way | reads by | writes | settings |
|---|---|---|---|
| Spark: default | Spark's own assignment | Delta's own sink | none |
| Spark: tuned | the same, large fetches, fetch.max.wait.ms=1 | the same, coalesce(2) | local |
| the option in a user's own writeStream | the option | Delta's own sink | local |
| assignor run | the option | the product's job | its defaults |
| Flink SQL | Flink's source | Parquet files, exactly once | two slots, object reuse |
| loop | one process of Python | deltalake; offsets in the same commit | none |

Local settings are those that `assignor run` has on one machine, two shuffle partitions and one for
Delta's snapshot; without its own file system for local files.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from tests.lab.benchmarks.report import commit, machine, write_document, write_report
from tests.lab.peers.environments import BUILD, FLINK, FLINK_JARS, LOOP_PACKAGES
from tests.lab.peers.ladder import FELL_BEHIND, NOT_TRIED
from tests.lab.peers.section import write_section
from tests.lab.peers.ways import WAYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.lab.peers.cells import Cell

RUNS = 3
NAME, TITLE = "peers", "From a topic to files: Spark, the option, Flink, and a loop"
_METHOD = """
Each configuration copies the same topic (24 partitions; equal, or Zipf 1.1) of JSON records of 200
bytes to Parquet with four columns, and commits once a second: Spark's trigger, Flink's checkpoint
interval, and the loop's interval are one second. Broker, producer, and one configuration at a time
share two cores. Spark runs in local mode with two slots and a heap of 2 GB; so does Flink's
cluster, in one JVM.

The age of a row is the moment when it becomes visible minus its produce time. A row is visible when
Delta's log has its file; for Flink, when its file has its final name. Each run starts the process
once and warms it up at 20,000 records a second before the first rate. "As fast as it goes" is a
backlog that was produced while the process was frozen, so that no producer competes with it. A
configuration fell behind at a rate if its commits had less than 95% of the load and more than three
seconds of records were not visible at the end; higher rates were then not tried. Its ages grow with
the length of the run. Processor time and memory are those of the process and its descendants,
without broker and producer; the memory is the largest sum of their resident pages. Files a minute
are those that became visible. Lost and doubled rows are counted by the records' numbers, from the
files alone.

The rows "kills" are one run of each configuration at 5,000 records a second with three kills (kill
-9) of all its processes. It is started again at once; "restart_s" is the time until new rows are
visible.
"""
#: Figures of a rate; each has the median, the least, and the most of the runs.
_FIGURES = (
    "age_p50_s", "age_p99_s", "rate", "cpu_s_per_million", "rss_mb", "files_per_minute",
)  # fmt: skip
_SPREAD = ("age_p50_s", "age_p99_s", "rate", "cpu_s_per_million")


def write_page(cells: Sequence[Cell], command: str) -> str:
    """Write the page; return where it is. Fewer than three runs of a way write only to build."""
    ladders = [cell for cell in cells if cell.run is not None]
    rows = make_rows(ladders) + make_kill_rows(cell for cell in cells if cell.run is None)
    measured = sorted({cell.read()["commit"] for cell in cells})
    notes = "\n".join(
        [
            _METHOD.strip(),
            "",
            (__doc__ or "").partition("\n\n")[2].strip(),
            "",
            "Flink writes files, not a table: no Delta sink for Flink 2 was found for Delta 4.4.",
            f"Flink {FLINK} with {', '.join(FLINK_JARS)}. Loop: {', '.join(LOOP_PACKAGES)}.",
            f"Measured at {', '.join(measured)}, {_describe_lengths(ladders)}.",
        ]
    )
    runs = {(cell.law, cell.way): 0 for cell in ladders}
    for cell in ladders:
        runs[cell.law, cell.way] += 1
    if runs and min(runs.values()) >= RUNS:
        write_report(NAME, title=TITLE, command=command, rows=rows, notes=notes)
        write_section()
        return f"docs/benchmarks/{NAME}.json"
    run = machine() | {"commit": commit(), "command": command}
    write_document(BUILD, NAME, {"title": TITLE, "notes": notes, "run": run, "rows": rows})
    return f"build/peers/{NAME}.json (fewer than {RUNS} runs: docs are not changed)"


def make_rows(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return a row for each law, way, and load, with the figures of all its runs."""
    found: dict[tuple[str, str, int | str], list[dict[str, Any]]] = {}
    for cell in cells:
        figures = cell.read()
        for rung in figures["rungs"]:
            rung |= {"lost": figures["lost"], "doubled": figures["doubled"]}
            found.setdefault((cell.law, cell.way, rung["load"]), []).append(rung)
    ways, rows = list(WAYS), []
    for (law, way, load), rungs in sorted(found.items(), key=lambda each: ways.index(each[0][1])):
        row = {"way": WAYS[way].title, "volumes": law, "load": load, **summarize(rungs)}
        rows.append(row)
    return rows


def summarize(rungs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of one load: verdict, medians, spread, and rows lost and doubled."""
    verdicts = [rung["verdict"] for rung in rungs]
    measured = [rung for rung in rungs if rung["verdict"] != NOT_TRIED]
    behind = verdicts.count(FELL_BEHIND)
    if not measured:
        return {"verdict": f"{NOT_TRIED}: {FELL_BEHIND} at a lower rate", "runs": len(rungs)}
    row: dict[str, Any] = {
        "verdict": f"{FELL_BEHIND} in {behind} of {len(measured)} runs" if behind else verdicts[0],
        "runs": len(measured),
    }
    for name in _FIGURES:
        values = [rung[name] for rung in measured if rung.get(name) is not None]
        if not values:
            continue
        row[name] = statistics.median(values)
        if name in _SPREAD:
            row |= {f"{name}_min": min(values), f"{name}_max": max(values)}
    for name in ("lost", "doubled"):  # lost rows are unknown if a run ended with unread ones
        row[name] = sum(rung[name] for rung in measured if rung[name] is not None)
    row["producer_behind_s"] = max(rung.get("producer_behind_s", 0.0) for rung in measured)
    return row


def make_kill_rows(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """Return a row for the kills of each way."""
    rows = []
    for cell in cells:
        figures = cell.read()
        rows.append(
            {
                "way": WAYS[cell.way].title,
                "volumes": cell.law,
                "load": "kills",
                "kills": figures["kills"],
                "records": figures["produced"],
                "lost": figures["lost"],
                "doubled": figures["doubled"],
                "restart_s": statistics.median(figures["restart_s"]),
                "restart_s_max": max(figures["restart_s"]),
            }
        )
    return rows


def _describe_lengths(cells: Sequence[Cell]) -> str:
    lengths = sorted({cell.seconds for cell in cells})
    return f"{' and '.join(f'{each:g}' for each in lengths) or 'no'} seconds of each rate"
