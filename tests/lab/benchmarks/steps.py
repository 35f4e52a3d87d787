"""The steps of `make bench TARGETS=1`: each a pytest process, for what the targets rest on."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True)
class Step:
    """One process, and the page that it writes."""

    name: str
    page: str
    #: How long it takes on two cores, as reckoned.
    minutes: float
    #: Which tests of `tests/lab/benchmarks/test_bench_<file>.py`, as for `pytest -k`; all without.
    only: str = ""
    file: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    #: Its rows are collected from several tests: where one fails, some are missing.
    by_rows: bool = False

    def folder(self, run: Path) -> Path:
        """Where its result, pages and pictures go."""
        return run / self.name.replace(":", "").replace(" ", "-")

    def result(self, run: Path) -> dict[str, Any] | None:
        """Return how it ended, and whether it has measured all of its rows; None if it has not.

        A benchmark looks at its figures once they are written: one that fails then has measured.
        """
        path = self.folder(run) / "result.json"
        if not path.is_file():
            return None
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        whole = found["code"] == 0 or not self.by_rows
        return found | {"measured": whole and self.written(run).is_file()}

    def is_done(self, run: Path) -> bool:
        """Whether it has measured all of its rows."""
        return (self.result(run) or {"measured": False})["measured"] is True

    def written(self, run: Path) -> Path:
        """Where its page's JSON is."""
        return self.folder(run) / "benchmarks" / f"{self.page}.json"

    @property
    def command(self) -> list[str]:
        path = f"tests/lab/benchmarks/test_bench_{self.file or self.page}.py"
        words = ["-m", "pytest", "-m", "benchmark", "-p", "no:randomly", "-s", "-q", path]
        return [sys.executable, *words, *(["-k", self.only] if self.only else [])]


_FEWER = {"ASSIGNOR_BENCH_REPEATS": "3"}
STEPS: tuple[Step, ...] = (
    Step("planner", "planner", 4, "planning_time"),
    Step("simulator", "simulator", 2, "side_by_side", file="planner"),
    Step("java side", "java_side", 2),
    Step("planner memory", "planner_memory", 3),
    Step("assignors", "assignors", 8),
    Step("lag", "lag", 3),
    Step("reader: many partitions", "reader", 12, "many_small", settings=_FEWER),
    Step("reader: one partition", "reader", 4, "one_partition", settings=_FEWER, by_rows=True),
    Step("reader: 10,000 partitions", "reader", 3, "ten_thousand"),
    Step("end to end", "end_to_end", 8),
    Step("losses: balanced", "losses", 11, "balanced", by_rows=True),
    Step("losses: few", "losses", 2, "few:", by_rows=True),
    Step("losses: chance", "losses", 8, "chance", by_rows=True),
    Step("losses: 1:50", "losses", 10, "1:50", by_rows=True),
    Step("dynamic allocation", "dynamic_allocation", 9),
    Step("freshness", "freshness", 20, by_rows=True),
    Step("fixed cost: noop", "fixed_cost", 3, "noop"),
    Step("fixed cost: Delta", "fixed_cost", 5, "delta"),
    Step("bursts", "bursts", 8),
    Step("starvation", "starvation", 7),
    Step("retention", "retention", 3),
    Step("alignment", "alignment", 6),
    Step("zones", "zones", 10),
    Step("audit", "audit", 7),
    Step("rebalance", "rebalance", 8),
)  # fmt: skip
#: Targets' pages that no step measures, and why.
ELSEWHERE = {
    "kills": "hours: `make chaos`",
    "regret": "half an hour of simulation: `pytest -m benchmark` on test_bench_regret.py",
    "before_after": "needs another checkout: `python -m tests.lab.benchmarks.before_after`",
}
