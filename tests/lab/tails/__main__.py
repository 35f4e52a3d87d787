"""Prove how Spark schedules heads and tails, and write docs/benchmarks/tail_placement.json.

`python -m tests.lab.tails` needs half an hour on two cores. Its stages and costs are kept as lines
of JSON in build/tails; `--from-files` writes the report from these without running Spark.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

import tests.lab.tails
from tests.lab.benchmarks.report import ROOT, write_report
from tests.lab.tails.capped import compare_caps
from tests.lab.tails.findings import find_contradictions, summarize_costs, summarize_stages
from tests.lab.tails.programs import SPARKS, run_program
from tests.lab.tails.table import write_table

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = ROOT / "build" / "tails"
ROUNDS = 3
CAPS, CAPPED_EXECUTORS, SEEDS = (2, 4, 8, 16, 32), (12, 100, 1_000), range(5)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.tails", description=__doc__)
    parser.add_argument("--from-files", action="store_true", help="only write the report")
    if not parser.parse_args().from_files:
        for spark in SPARKS:
            run_program(spark, "cluster_run", FOLDER / spark, str(ROUNDS), "one", "three")
        run_program(SPARKS[-1], "driver_cost", FOLDER / f"cost-{SPARKS[-1]}")
    stages = [row for spark in SPARKS for row in read_rows(FOLDER / f"{spark}.jsonl")]
    costs = read_rows(FOLDER / f"cost-{SPARKS[-1]}.jsonl")
    summaries = summarize_stages(stages)
    write_table(summaries)
    contradictions = find_contradictions(summaries)
    print(*contradictions, sep="\n", file=sys.stderr)
    rows = [
        *({"figure": "placement"} | row for row in summaries),
        *({"figure": "driver cost"} | row for row in summarize_costs(costs)),
        *({"figure": "cap"} | row for row in simulate_caps()),
    ]
    write_report(
        "tail_placement",
        title="How Spark schedules heads and tails",
        command="python -m tests.lab.tails",
        rows=rows,
        notes=tests.lab.tails.__doc__ or "",
    )
    return int(bool(contradictions))


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def simulate_caps() -> list[dict[str, Any]]:
    """Return a row per number of executors and limit of locations."""
    return [
        {"executors": executors, "max_locations": cap, "times_the_unlimited": round(times, 4)}
        for executors in CAPPED_EXECUTORS
        for cap, times in compare_caps(executors, CAPS, SEEDS).items()
    ]


if __name__ == "__main__":
    sys.exit(main())
