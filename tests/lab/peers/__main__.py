"""`python -m tests.lab.peers`: measure the ways alternately; write `docs/benchmarks/peers.json`.

Each cell (one run of one way under one law, or its kills) is kept in `build/peers/cells` when it is
done. The same command continues after an interruption, and measures only what is missing: delete a
file to repeat it. The page has all cells of the same length, so that several commands can measure
parts of it. Without three runs of each way and law, nothing is written to docs.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from streaming.kafka.embedded import EmbeddedBroker
from tests.lab.benchmarks.report import commit
from tests.lab.benchmarks.turns import in_turn
from tests.lab.peers.cells import Cell, list_measured
from tests.lab.peers.kills import run_kills
from tests.lab.peers.ladder import Settings, run_ladder
from tests.lab.peers.page import write_page
from tests.lab.peers.scene import LAWS
from tests.lab.peers.ways import WAYS


def parse_arguments(words: list[str]) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.peers", description=__doc__)
    add = parser.add_argument
    add("--ways", default=",".join(WAYS), help="names, separated by commas")
    add("--laws", default="equal,zipf", help="how records are spread: equal, zipf")
    add("--rates", default="5000,20000,60000,180000", help="records a second")
    add("--seconds", type=float, default=60.0, help="measured time of each rate")
    add("--backlog", type=int, default=2_000_000, help='records for "as fast as it goes"; 0: none')
    add("--interval", type=int, default=1, help="seconds between two commits, for all ways")
    add("--runs", type=int, default=3, help="runs of each way; 0: only --kills")
    add("--kills", action="store_true", help="also kill each way three times, and count its rows")
    add("--page", action="store_true", help="measure nothing: only write the page from the cells")
    options = parser.parse_args(words)
    options.ways = choose("way", options.ways, WAYS, parser)
    options.laws = choose("law", options.laws, LAWS, parser)
    options.rates = [int(rate) for rate in options.rates.split(",")]
    return options


def choose(
    kind: str, names: str, known: Any, parser: argparse.ArgumentParser
) -> list[str]:  # fmt: skip
    """Return the names of a list; end the program if one is not known."""
    chosen = names.split(",")
    for name in chosen:
        if name not in known:
            parser.error(f"{kind} {name!r} is not known: use {', '.join(known)}")
    return chosen


def list_cells(options: argparse.Namespace) -> list[Cell]:
    """Return the cells in the order of measuring: in each run, all ways alternate."""
    cells = [
        Cell(law, name, number, options.seconds, tuple(options.rates))
        for number in range(options.runs)
        for law in options.laws
        for name in in_turn(options.ways, number)
    ]
    if options.kills:
        law = options.laws[-1]
        cells += [Cell(law, name, None, 0.0) for name in options.ways]
    return cells


def measure(cell: Cell, broker: EmbeddedBroker, options: argparse.Namespace, label: str) -> None:
    """Measure one cell, and keep its figures."""

    def say(line: str) -> None:
        print(f"{label} {cell.name}: {line}", flush=True)

    began = time.monotonic()
    way = WAYS[cell.way]
    if cell.run is None:
        figures = run_kills(broker, way, cell.law, options.interval, say)
    else:
        settings = Settings(
            options.rates, options.seconds, options.backlog, interval_s=options.interval
        )
        figures = run_ladder(broker, way, cell.law, settings, say)
    cell.write(figures | {"commit": commit(), "interval_s": options.interval})
    say(f"done in {time.monotonic() - began:.0f} s")


def main(words: list[str]) -> int:
    """Measure what is missing, then write the page; return 1 if a cell could not be measured."""
    options = parse_arguments(words)
    missing = [cell for cell in list_cells(options) if not cell.is_done()]
    failed = 0
    if missing and not options.page:
        with EmbeddedBroker() as broker:
            for number, cell in enumerate(missing, 1):
                label = f"[{number}/{len(missing)}]"
                try:
                    measure(cell, broker, options, label)
                except (AssertionError, OSError) as error:  # the other ways can still be measured
                    failed = 1
                    print(f"{label} {cell.name}: could not be measured: {error}", flush=True)
    command = f'make peers PEERS="{" ".join(words)}"' if words else "make peers"
    print(write_page(list_measured(options.seconds), command))
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
