"""The picture of the dynamic allocation benchmark: executors, and seconds a batch, over time."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from tests.lab.benchmarks.long_run_figures import Series, drawn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: What each panel shows, and the names of the runs in as few letters as there is room for.
PANELS = {"executors": "Executors", "batch_s": "Seconds of the newest batch"}
SHORT = {"Spark: default": "Spark", "lag-aware-sticky": "option"}


def picture(runs: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """Draw the runs, by their mappings: a value each second of each figure."""
    panels = [
        (heading, [Series(SHORT[name], run[figure], 1.0) for name, run in runs.items()])
        for figure, heading in PANELS.items()
    ]
    return drawn(panels, "executors and seconds a batch under dynamic allocation, over time")


def each_second(changes: Sequence[Sequence[float]], end: int) -> list[float]:
    """Return what holds at each second, of pairs of a time and a value; 0 before the first."""
    times = [time for time, _ in changes]
    found = [bisect_right(times, second) for second in range(end)]
    return [round(changes[index - 1][1], 2) if index else 0 for index in found]
