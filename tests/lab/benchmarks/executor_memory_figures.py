"""Executors' memory by kind, from the looks of one run: how much, and how fast it grows."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.lab.benchmarks.native_memory import KINDS, NativeMemory, parse_look
from tests.lab.benchmarks.soak_figures import slope

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class JobMemory:
    """The looks at one job's executors, each executor's in order."""

    name: str
    executors: list[list[NativeMemory]]

    def values(self, part: str) -> list[float]:
        """Return MB of one part at each look, of all executors together."""
        by_look = zip(*self.executors, strict=False)
        return [sum(one.mb[part] for one in looks) for looks in by_look]

    def cell(self, part: str) -> str:
        """Return MB at the end, and MB an hour over the second half of the run."""
        values = self.values(part)
        rise = slope(values[len(values) // 2 :], self.lasts_s / (len(values) - 1))
        return f"{values[-1]:.0f}; {rise.per_hour:+.0f} ({rise.low:+.0f} to {rise.high:+.0f})"

    def by_quarter(self, part: str) -> list[float]:
        """Return by how many MB a part grew in each quarter of the run."""
        values = self.values(part)
        ends = [values[(len(values) - 1) * quarter // 4] for quarter in range(5)]
        return [round(end - start, 1) for start, end in pairwise(ends)]

    @property
    def lasts_s(self) -> float:
        """Seconds from the first look to the last."""
        looks = self.executors[0]
        return looks[-1].time_s - looks[0].time_s


def read_job(folder: Path) -> JobMemory:
    """Read what a run wrote of one job: `PID-NUMBER.gz` of each look at an executor."""
    pids = sorted({path.name.split("-")[0] for path in folder.glob("*-*.gz")})
    executors = [
        [parse_look(gzip.decompress(path.read_bytes()).decode()) for path in paths]
        for paths in (sorted(folder.glob(f"{pid}-*.gz")) for pid in pids)
    ]
    return JobMemory(folder.name, executors)


def rows_of(jobs: Sequence[JobMemory]) -> list[dict[str, str]]:
    """Return a row for each part, with a cell for each job."""
    return [
        {"part": part} | {job.name: job.cell(part) for job in jobs}
        for part in jobs[0].executors[0][0].mb
    ]


def growth_by_quarter(jobs: Iterable[JobMemory]) -> dict[str, list[float]]:
    """Return MB that each job's kinds of memory grew by in each quarter of the run."""
    parts = ("resident", *KINDS)
    return {f"{job.name}: {part}": job.by_quarter(part) for job in jobs for part in parts}
