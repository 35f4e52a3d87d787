"""`make bench QUICK=1`: a first look in five minutes, as one table.

Each line compares two figures of the same run: ours, and what stands beside it. The machine's own
speed goes out of a ratio, so ratios can be compared with those of docs/benchmarks, where figures of
other machines cannot. Nothing is written but build/bench-quick.json and build/bench-quick.md.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from assignor_bridge.assignors import ASSIGNORS
from assignor_bridge.options import LAG_AWARE_STICKY
from streaming.kafka.embedded import EmbeddedBroker
from streaming.simulator.play import SPARK_MAPPINGS, compare
from streaming.simulator.scenario import Scenario
from tests.java.oracle import KAFKA, Oracle
from tests.lab.benchmarks import test_bench_assignors as of_assignors
from tests.lab.benchmarks import test_bench_planner as of_planner
from tests.lab.benchmarks import test_bench_regret as of_regret
from tests.lab.benchmarks.luck import regime
from tests.lab.benchmarks.report import commit, machine
from tests.lab.benchmarks.turns import NO_WAIT, OURS, Work, cluster, take_turns
from tests.support.kafka_topics import Topic
from tests.support.strategies_snapshots import generate_lags

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BUILD = Path(__file__).parents[3] / "build"


@dataclass(frozen=True)
class Line:
    """Ours beside another figure of the same run, as medians, with the spread of ours."""

    part: str
    what: str
    unit: str
    ours: float
    least: float
    most: float
    beside: str
    other: float

    @property
    def ratio(self) -> float:
        """The other over ours: above 1 ours is the better one."""
        return self.other / self.ours if self.ours else 1.0

    @classmethod
    def of(
        cls, part: str, what: str, unit: str, ours: Sequence[float], beside: str, other: float
    ) -> Line:
        return cls(part, what, unit, statistics.median(ours), min(ours), max(ours), beside, other)


def planner() -> Iterator[Line]:
    """Time plans, and compare how even they are with Spark's mapping."""
    for partitions, executors, _ in of_planner.GRID[:2]:
        first, _ = of_planner.timed(of_planner.request(partitions, executors, None), 1)
        steady = of_planner.request(partitions, executors, first)
        plan, took = of_planner.timed(steady, 10)
        what = f"a plan over {partitions:,} partitions"
        loop = of_planner.plain_loop_ms()
        yield Line.of("planner", what, "ms", took, "a million additions in Python", loop)
        even = of_planner.busiest_over_ideal(plan)
        spark = of_planner.spark_over_ideal(steady)
        yield Line.of("planner", "busiest over an even share", "", [even], "Spark's mapping", spark)


def assignors() -> Iterator[Line]:
    """Time `sticky` beside Kafka's."""
    sticky = ASSIGNORS["sticky"].assign
    with Oracle(heap_mb=1_000) as kafka:
        for shape in (of_assignors.SHAPES[0], of_assignors.SHAPES[4]):
            theirs = kafka.ask(
                op="measure", assignor="sticky", members=shape.members, topics=shape.topics,
                partitions=shape.partitions, buckets=shape.buckets, runs=shape.kafka_runs,
            )  # fmt: skip
            for step, group in of_assignors.groups_of(shape, sticky).items():
                ours = [of_assignors.measured(group, sticky)[0]]
                what = f"sticky, {shape.members:,} x {shape.partitions:,}, {step}"
                yield Line.of("assignors", what, "ms", ours, f"Kafka {KAFKA}'s", theirs[step])


def simulator() -> Iterator[Line]:
    """Play two scenarios, and ten regimes of the regret's."""
    for what, scenario in (
        ("Zipf 1.2, 16 partitions", Scenario(partitions=16, records=16_000, cost=0.001)),
        ("equal, 200 partitions", Scenario(partitions=200, executors=20, lags="uniform")),
    ):
        results = {r.name: r for r in compare(scenario, (LAG_AWARE_STICKY, *SPARK_MAPPINGS))}
        ours = [p.seconds for p in results[LAG_AWARE_STICKY].batches]
        best = min(SPARK_MAPPINGS, key=lambda name: results[name].median_seconds)
        for name in dict.fromkeys(("spark", best)):
            other = results[name].median_seconds
            yield Line.of("simulator", what, "s", ours, f"simulated {name}", other)
    names = (LAG_AWARE_STICKY, *SPARK_MAPPINGS)
    played = [{r.name: r for r in compare(regime(s), names)} for s in range(1, 11)]
    ours = [of_regret.regret(results[LAG_AWARE_STICKY]) for results in played]
    for name in SPARK_MAPPINGS:
        other = statistics.median(of_regret.regret(results[name]) for results in played)
        yield Line.of("regret", "ten regimes, median", "", ours, name, other)


def lag(broker: EmbeddedBroker) -> Iterator[Line]:
    """Time the command, beside what any command takes to start."""
    topic = Topic(broker.bootstrap_servers, "quick-lag").create(1_000)
    topic.fill([5] * 1_000)
    topic.commit("quick", dict.fromkeys(range(1_000), 1))
    group = ["lag", "--group", "quick", "--bootstrap-server", broker.bootstrap_servers]
    took = {name: _seconds(words) for name, words in (("lag", group), ("start", ["--version"]))}
    start = statistics.median(took["start"])
    yield Line.of("lag", "1,000 partitions", "s", took["lag"], "`assignor --version`", start)


def _seconds(words: list[str]) -> list[float]:
    command = [sys.executable, "-m", "streaming.cli.main", *words]
    took = []
    for _ in range(4):
        begin = time.monotonic()
        subprocess.run(command, capture_output=True, check=True)
        took.append(time.monotonic() - begin)
    return took[1:]


def end_to_end(broker: EmbeddedBroker, folder: Path) -> Iterator[Line]:
    """Run a skewed and a balanced workload in Spark, on four executors of one slot."""
    sleep = "CASE WHEN offset % 10 = 9 THEN java_method('java.lang.Thread', 'sleep', 10L) END"
    spark = cluster(folder, 4)
    ways = {
        "Spark's default": {},
        "minPartitions=32, no wait": {"minPartitions": "32"} | NO_WAIT,
        LAG_AWARE_STICKY: OURS,
    }
    try:
        for what, counts in (
            ("Zipf 1.2, 4,000 records of 1 ms", generate_lags("zipf-1.2", 16, 4_000)),
            ("equal, 4,000 records of 1 ms", [250] * 16),
        ):
            work = Work.of(counts, sleep)
            took = take_turns(spark, broker.bootstrap_servers, work, ways, rounds=3, warm_up=1)
            ours = took.pop(LAG_AWARE_STICKY)
            for way, seconds in took.items():
                other = statistics.median(seconds)
                yield Line.of("end to end", what, "s", ours, way, other)
    finally:
        spark.stop()


def lines() -> Iterator[Line]:
    """Measure all, one part after the other."""
    yield from planner()
    yield from simulator()
    yield from assignors()
    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory(prefix="bench-quick-") as folder:
        yield from lag(broker)
        yield from end_to_end(broker, Path(folder))


def cells(line: Line) -> list[str]:
    """Return a line's cells: ours with its spread, the other, and how many times ours it is."""
    unit = f" {line.unit}" if line.unit else ""
    spread = f" ({line.least:.3g} to {line.most:.3g})" if line.least < line.most else ""
    ours = f"{line.ours:.3g}{spread}{unit}"
    return [line.part, line.what, ours, line.beside, f"{line.other:.3g}{unit}", f"{line.ratio:.2f}"]


COLUMNS = ("", "what", "ours", "beside", "that", "that / ours")


def main() -> None:
    """Measure, print the table, and keep it under build/."""
    begin = time.monotonic()
    measured = []
    for line in lines():
        measured.append(line)
        print(" | ".join(cells(line)), flush=True)
    where = {
        **machine(), "commit": commit(), "minutes": round((time.monotonic() - begin) / 60, 1),
    }  # fmt: skip
    title = ", ".join(f"{key} {value}" for key, value in where.items())
    table = Table(*COLUMNS, title=title)
    for line in measured:
        table.add_row(*cells(line))
    Console(width=150).print(table)
    BUILD.mkdir(exist_ok=True)
    document = {"run": where, "rows": [asdict(line) | {"ratio": line.ratio} for line in measured]}
    (BUILD / "bench-quick.json").write_text(json.dumps(document, indent=2) + "\n")
    rows = [COLUMNS, ["---"] * len(COLUMNS), *map(cells, measured)]
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    (BUILD / "bench-quick.md").write_text(f"{title}\n\n{text}\n")


if __name__ == "__main__":
    main()
