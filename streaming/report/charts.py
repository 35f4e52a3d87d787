"""The pictures: lag per partition, load per executor slot, who worked when, seconds per batch.

Pure functions of figures. `css` names the colour of a run: `a` for Spark's mapping, `b` for ours.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from streaming.observe.words import short
from streaming.report.svg import WIDTH, line, picture, rect, text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from streaming.observe.figures import BatchFigures, RunFigures

_ROW = 20.0
_LABEL = 62.0
#: Characters that fit there.
_NAME = 8
_RIGHT = 46.0
#: More rows than this are drawn as thin lines, so that a thousand partitions fit.
_LABELLED_ROWS = 40
_THIN_HEIGHT = 560.0
#: One row in so many has its name written then.
_ROUND = (2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000)
#: Cells less high than this have no hint.
_HINTED_HEIGHT = 4.0
#: Shades of cells without a hint.
_LEVELS = 12
#: Where an axis has labels.
_PARTS = (0.0, 0.5, 1.0)


def heat_map(
    title: str, partitions: Sequence[str], batches: Sequence[tuple[int, Mapping[str, int]]]
) -> str:
    """Draw a number of records by partition (rows) and batch (columns), stronger for more."""
    top, most = 18.0, max((n for _, lag in batches for n in lag.values()), default=0)
    row, step = _row_height(len(partitions)), (WIDTH - _LABEL - 4) / max(1, len(batches))
    shapes = _batch_axis([number for number, _ in batches], _LABEL, step, 12)
    shapes += _labels(row_names(partitions), _LABEL, top, row, row)
    for index, name in enumerate(partitions):
        y = top + index * row
        for column, (number, lags) in enumerate(batches) if row >= _HINTED_HEIGHT else ():
            lag = lags.get(name, 0)
            x = _LABEL + column * step
            hint = f"{name}, batch {number}: {lag:,} records"
            shapes.append(
                rect(x, y, step - 1 if step > 3 else step, row - 1, "heat",
                     opacity=_shade(lag, most), hint=hint)
            )  # fmt: skip
            if row >= 12 and step >= 26 and lag:
                shapes.append(
                    text(x + step / 2, _middle(y, row), short(lag), anchor="middle", css="s")
                )
    if row < _HINTED_HEIGHT:
        shapes += _thin_cells(partitions, [lags for _, lags in batches], top, row, step)
    return picture(top + len(partitions) * row + 2, title, shapes)


def _shade(lag: int, most: int) -> float:
    return 0.1 + 0.9 * (lag / most) ** 0.5 if most and lag else 0.04


def _thin_cells(
    partitions: Sequence[str], columns: Sequence[Mapping[str, int]],
    top: float, row: float, step: float,
) -> list[str]:  # fmt: skip
    """Draw cells too thin for hints: equal neighbours are one stroke, all of a shade one path.

    A thousand partitions over a hundred batches stay within a megabyte so. The one cell in a
    hundred that has most is drawn in full, so that a few giants do not leave all others pale.
    """
    lag = np.array([[lags.get(name, 0) for lags in columns] for name in partitions], np.float64)
    most = float(np.quantile(lag[lag > 0], 0.99)) if (lag > 0).any() else 1.0
    level = np.ceil(_LEVELS * np.sqrt(np.minimum(1, lag / most))).astype(np.int64)
    paths: dict[int, list[str]] = {}
    for index, cells in enumerate(level):
        starts = np.flatnonzero(np.diff(cells, prepend=-1))
        ends = np.append(starts[1:], len(cells))
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            paths.setdefault(int(cells[start]), []).append(f"M{start} {index}h{end - start}")
    lines = [
        f'<path class="lheat" stroke-opacity="{_shade(number**2, _LEVELS**2):.2f}" '
        f'd="{"".join(parts)}"/>'
        for number, parts in sorted(paths.items())
    ]
    place = f"translate({_LABEL:.0f} {top + row / 2:.3f}) scale({step:.4f} {row:.4f})"
    return [f'<g transform="{place}">', *lines, "</g>"]


def slot_bars(run: RunFigures, css: str, scale: float | None = None) -> str:
    """Draw the records that each slot read, and a line at the mean."""
    totals = run.slot_records()
    mean = sum(totals.values()) / len(totals) if totals else 0.0
    title = f"records read by each executor slot, {run.name}"
    return value_bars(
        title, totals, short, css=css, scale=scale, mark=(mean, f"mean {short(mean)}")
    )


def value_bars(
    title: str, values: Mapping[str, float], show: Callable[[float], str], *,
    css: str | Sequence[str] = "heat", scale: float | None = None,
    mark: tuple[float, str] | None = None, label: float = _LABEL,
) -> str:  # fmt: skip
    """Draw a bar for each name.

    Parameters
    ----------
    show
        Writes a value.
    css
        Colour class of the bars, or of each bar.
    scale
        The value of a bar of full length; by default the largest.
    mark
        A value that is drawn as a dashed line, and its word.
    label
        Width of the names; those of partitions are shortened to the default.
    """
    names = row_names(list(values)) if label == _LABEL else list(values)
    colours = [css] * len(values) if isinstance(css, str) else css
    most = scale or max(values.values(), default=0) or 1
    row, width = _row_height(len(values)), WIDTH - label - _RIGHT
    top, tall = 16.0 if mark else 6.0, row - (4.0 if row >= 12 else 0.0)
    bottom = top + len(values) * row
    shapes = _labels(names, label, top, row, tall)
    if row >= 12:
        shapes += _labels([show(value) for value in values.values()], WIDTH + 6, top, row, tall)
    for index, (name, value) in enumerate(values.items()):
        hint = f"{name}: {show(value)}"
        length = width * value / most
        shapes.append(rect(label, top + index * row, length, tall, colours[index], hint=hint))
    if mark is not None:
        x = label + width * mark[0] / most
        shapes.append(line(x, top - 3, x, bottom, "mean"))
        shapes.append(text(min(x, WIDTH - 40), top - 5, mark[1], anchor="middle", css="m"))
    return picture(bottom + 4, title, shapes)


def timeline(batch: BatchFigures, css: str, scale_s: float) -> str:
    """Draw when each slot worked in one batch, one box a task."""
    row, width, top = _row_height(len(batch.slots)), WIDTH - _LABEL - 8, 4.0
    bottom, scale_s = top + len(batch.slots) * row, scale_s or 1.0
    shapes = _labels(batch.slots, _LABEL, top, row, row - 3)
    for index, slot in enumerate(batch.slots):
        y = top + index * row
        shapes.append(rect(_LABEL, y, width, row - 3, "track"))
        for task in batch.tasks:
            if task.slot == slot:
                hint = f"slot {slot}: {task.records:,} records in {task.seconds:.2f} s"
                x = _LABEL + width * task.start_s / scale_s
                length = max(1.0, width * task.seconds / scale_s - 0.8)
                shapes.append(rect(x, y, length, row - 3, css, hint=hint))
    for part, anchor in zip(_PARTS, ("start", "middle", "end"), strict=True):
        label = f"{scale_s * part:.1f} s"
        shapes.append(text(_LABEL + width * part, bottom + 13, label, anchor=anchor, css="m"))
    return picture(bottom + 18, f"when each slot worked, batch {batch.batch}", shapes)


def batch_columns(runs: Sequence[RunFigures], css: Sequence[str]) -> str:
    """Draw the seconds of each batch, the runs side by side."""
    left, top, height = 42.0, 8.0, 150.0
    count = max((len(run.batches) for run in runs), default=0) or 1
    most = max((batch.seconds for run in runs for batch in run.batches), default=0.0) or 1.0
    step = (WIDTH - left) / count
    bar = step * 0.8 / max(1, len(runs))
    shapes = _value_axis(left, top, height, [f"{most * part:.1f} s" for part in _PARTS])
    for number, run in enumerate(runs):
        for index, batch in enumerate(run.batches):
            tall = height * batch.seconds / most
            x = left + index * step + step * 0.1 + number * bar
            hint = f"{run.name}, batch {batch.batch}: {batch.seconds:.2f} s"
            shapes.append(
                rect(x, top + height - tall, bar - 1, tall, css[number],
                     opacity=0.35 if index < run.warm_up else None, hint=hint)
            )  # fmt: skip
    longest = max((run.batches for run in runs), key=len, default=())
    shapes += _batch_axis([batch.batch for batch in longest], left, step, top + height + 14)
    return picture(top + height + 18, "seconds of each batch", shapes)


def batch_lines(
    title: str, lines: Mapping[str, Sequence[float]], css: Mapping[str, str],
    batches: Sequence[int], least: float,
) -> str:  # fmt: skip
    """Draw a figure of each batch that is at least 1, such as times of an ideal, as lines.

    `least` is the top of the axis when all values are below.
    """
    left, top, height = 30.0, 8.0, 190.0
    most = max(least, *(max(values, default=1.0) for values in lines.values()), 1.0)
    step = (WIDTH - left) / max(1, len(batches))

    def point(index: int, value: float) -> tuple[float, float]:
        return left + (index + 0.5) * step, top + height * (1 - (value - 1) / (most - 1))

    shapes = _value_axis(left, top, height, [f"{1 + (most - 1) * part:.1f}" for part in _PARTS])
    for name, values in lines.items():
        points = [point(i, value) for i, value in enumerate(values)]
        if len(points) == 1:
            points.append((WIDTH - 6.0, points[0][1]))
        shapes += [line(*start, *end, css[name]) for start, end in pairwise(points)]
    shapes += _batch_axis(batches, left, step, top + height + 15)
    return picture(top + height + 20, title, shapes)


def _value_axis(left: float, top: float, height: float, labels: Sequence[str]) -> list[str]:
    """Draw a line across for each of `_PARTS`, with its label."""
    shapes = []
    for part, label in zip(_PARTS, labels, strict=True):
        y = top + height * (1 - part)
        shapes += [
            line(left, y, WIDTH, y, "grid"),
            text(left - 4, y + 4, label, anchor="end", css="m"),
        ]
    return shapes


def _batch_axis(numbers: Sequence[int], left: float, step: float, y: float) -> list[str]:
    """Write numbers of batches at the middles of their columns, as many as there is room for."""
    every = max(1, -(-len(numbers) * 26 // int(WIDTH - left)))
    return [
        text(0, y, "batch", css="m"),
        *(
            text(left + (index + 0.5) * step, y, f"{numbers[index]}", anchor="middle", css="m")
            for index in range(0, len(numbers), every)
        ),
    ]


def _row_height(rows: int) -> float:
    return _ROW if rows <= _LABELLED_ROWS else _THIN_HEIGHT / rows


def _labels(names: Sequence[str], x: float, top: float, row: float, tall: float) -> list[str]:
    """Write names left of `x`: all, or one each 40 units or more, at round numbers of rows."""
    every = 1
    if len(names) > _LABELLED_ROWS:
        every = next((step for step in _ROUND if step * row >= 40), _ROUND[-1])
    return [
        text(x - 6, _middle(top + index * row, tall), names[index], anchor="end")
        for index in range(0, len(names), every)
    ]


def _middle(y: float, row: float) -> float:
    return y + row / 2 + 4


def row_names(partitions: Sequence[str]) -> list[str]:
    """Name partitions in few characters: by number, and by the end of the topic if there are more.

    >>> row_names(["orders-0", "orders-1"])
    ['0', '1']
    >>> row_names(["orders-0", "payments-11"])
    ['orders-0', '…ents-11']
    """
    if len({name.rpartition("-")[0] for name in partitions}) <= 1:
        return [name.rpartition("-")[2] for name in partitions]
    return [name if len(name) <= _NAME else f"…{name[1 - _NAME :]}" for name in partitions]
