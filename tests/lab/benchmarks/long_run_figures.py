"""What a long run was like: lag over time, thirds, slopes; as rows, tables and a picture."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from streaming.observe.words import format_count
from streaming.report.svg import WIDTH, line, picture, standalone_picture, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streaming.observe.query_progress import BatchProgress
    from tests.lab.benchmarks.long_run_load import Load

_LEFT, _TOP, _HEIGHT = 34.0, 8.0, 150.0
_NAMES_WIDTH = 66.0


@dataclass(frozen=True)
class Series:
    """One figure over the time of the run: evenly spaced values."""

    name: str
    values: Sequence[float]
    step_s: float

    @property
    def first_third(self) -> float:
        """Median of the first third."""
        return statistics.median(self.values[: max(1, len(self.values) // 3)])

    @property
    def last_third(self) -> float:
        """Median of the last third."""
        return statistics.median(self.values[-max(1, len(self.values) // 3) :])

    @property
    def per_minute(self) -> float:
        """Slope of the straight line that fits best."""
        if len(self.values) < 2:
            return 0.0
        minutes = [number * self.step_s / 60 for number in range(len(self.values))]
        return statistics.linear_regression(minutes, self.values).slope

    def between(self, from_s: float, to_s: float) -> Sequence[float]:
        """Values of a part of the run."""
        return self.values[round(from_s / self.step_s) : round(to_s / self.step_s)]

    def in_windows(self, window_s: float) -> Series:
        """Keep the highest value of each window."""
        size = max(1, round(window_s / self.step_s))
        kept = [max(self.values[i : i + size]) for i in range(0, len(self.values), size)]
        return Series(self.name, kept, size * self.step_s)


@dataclass(frozen=True)
class QueryRun:
    """One query of the job."""

    name: str
    #: Topics that it reads.
    topics: int
    batches: Sequence[BatchProgress]

    def seconds(self, from_s: float, to_s: float = float("inf")) -> list[float]:
        """Durations of the batches that began within a time."""
        return [b.seconds for b in self.batches if from_s <= b.timestamp_s < to_s]

    def lag(self, load: Load) -> Series:
        """Records that were written and not in the table, each second."""
        done = [(batch.timestamp_s + batch.seconds, _end(batch)) for batch in self.batches]
        values, at = [], 0
        for second in range(int(load.ended_s - load.began_s)):
            now = load.began_s + second
            while at < len(done) and done[at][0] <= now:
                at += 1
            read = done[at - 1][1] if at else 0
            values.append(max(0, self.topics * load.rounds_after(second) - read))
        return Series(self.name, values, 1.0)


def _end(batch: BatchProgress) -> int:
    return sum(sum(source.end.values()) for source in batch.sources)


def percentile(values: Sequence[float], percent: int) -> float:
    """Give the value that so many percent are not above; 0 when there are none."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, len(ranked) * percent // 100)] if ranked else 0.0


def thirds(series: Series) -> str:
    """Say how a figure went: `first third, last third, most`."""
    return f"{series.first_third:,.0f} | {series.last_third:,.0f} | {max(series.values):,.0f}"


def drawn(panels: Sequence[tuple[str, Sequence[Series]]], title: str) -> str:
    """Draw panels of up to three series each as one SVG file."""
    pictures = [(heading, _lines(heading, found)) for heading, found in panels]
    return standalone_picture(title, pictures)


def _lines(title: str, found: Sequence[Series]) -> str:
    width = WIDTH - _LEFT - _NAMES_WIDTH
    most = max((max(series.values) for series in found), default=0.0) or 1.0
    minutes = max((len(s.values) * s.step_s / 60 for s in found), default=1.0)
    bottom = _TOP + _HEIGHT
    shapes = []
    for part in (0.0, 0.5, 1.0):
        y = bottom - _HEIGHT * part
        shapes.append(line(_LEFT, y, _LEFT + width, y, "grid"))
        shapes.append(text(_LEFT - 4, y + 4, format_count(most * part), anchor="end", css="m"))
    named: list[float] = []
    for series, css in zip(found, ("a", "b", "heat"), strict=False):
        points = [
            (_LEFT + width * i / max(1, len(series.values) - 1), bottom - _HEIGHT * value / most)
            for i, value in enumerate(series.values)
        ]
        shapes += [line(x1, y1, x2, y2, f"l{css}") for (x1, y1), (x2, y2) in pairwise(points)]
        y = points[-1][1]
        while any(abs(y - other) < 12 for other in named):
            y -= 12
        named.append(y)
        shapes.append(text(_LEFT + width + 4, y + 4, series.name, css=css))
    shapes.append(text(_LEFT, bottom + 14, "0", css="m"))
    shapes.append(text(_LEFT + width, bottom + 14, f"{minutes:.0f} min", anchor="end", css="m"))
    return picture(bottom + 18, title, shapes)
