"""The pictures: lag by partition, load of the slots, timelines, seconds of batches.

Pure functions of figures. `css` is the colour of a run: `a` for Spark's default assignment, `b` for
the option. A picture has at most 40 rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.observe.words import short
from streaming.report.svg import WIDTH, line, picture, rect, text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from streaming.observe.figures import BatchFigures, RunFigures

_ROW = 20.0
_MAX_ROWS = 40
_LABEL = 62.0
#: Characters that fit into a label.
_NAME = 8
_RIGHT = 46.0
#: Relative positions of the labels of an axis.
_PARTS = (0.0, 0.5, 1.0)


def heat_map(
    title: str, partitions: Sequence[str], batches: Sequence[tuple[int, Mapping[str, int]]]
) -> str:
    """Draw a number of records by partition (rows) and batch (columns), stronger for more."""
    names = partitions[:_MAX_ROWS]
    top, largest = 18.0, max((n for _, lag in batches for n in lag.values()), default=0)
    step = (WIDTH - _LABEL - 4) / max(1, len(batches))
    shapes = _batch_axis([number for number, _ in batches], _LABEL, step, 12)
    shapes += _labels(row_names(names), _LABEL, top, _ROW)
    for index, name in enumerate(names):
        y = top + index * _ROW
        for column, (number, lags) in enumerate(batches):
            lag = lags.get(name, 0)
            x = _LABEL + column * step
            shade = 0.1 + 0.9 * (lag / largest) ** 0.5 if lag else 0.04
            hint = f"{name}, batch {number}: {lag:,} records"
            width = step - 1 if step > 3 else step
            shapes.append(rect(x, y, width, _ROW - 1, "heat", opacity=shade, hint=hint))
            if step >= 26 and lag:
                middle = _middle(y, _ROW)
                shapes.append(text(x + step / 2, middle, short(lag), anchor="middle", css="s"))
    return picture(top + len(names) * _ROW + 2, title, shapes)


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
    shown = {name: values[name] for name in _largest(values)}
    names = row_names(list(shown)) if label == _LABEL else list(shown)
    colours = dict(zip(values, [css] * len(values) if isinstance(css, str) else css, strict=True))
    full, width = scale or max(shown.values(), default=0) or 1, WIDTH - label - _RIGHT
    top, tall = 16.0 if mark else 6.0, _ROW - 4.0
    bottom = top + len(shown) * _ROW
    shapes = _labels(names, label, top, tall)
    shapes += _labels([show(value) for value in shown.values()], WIDTH + 6, top, tall)
    for index, (name, value) in enumerate(shown.items()):
        hint = f"{name}: {show(value)}"
        length = width * value / full
        shapes.append(rect(label, top + index * _ROW, length, tall, colours[name], hint=hint))
    if mark is not None:
        x = label + width * mark[0] / full
        shapes.append(line(x, top - 3, x, bottom, "mean"))
        shapes.append(text(min(x, WIDTH - 40), top - 5, mark[1], anchor="middle", css="m"))
    shapes += _omission(len(values), label, bottom + 12)
    return picture(bottom + (18 if len(values) > _MAX_ROWS else 4), title, shapes)


def timeline(batch: BatchFigures, css: str, scale_s: float) -> str:
    """Draw when each slot worked in one batch, one box a task."""
    slots, width, top = _largest(batch.slot_seconds()), WIDTH - _LABEL - 8, 4.0
    bottom, scale_s = top + len(slots) * _ROW, scale_s or 1.0
    shapes = _labels(slots, _LABEL, top, _ROW - 3)
    for index, slot in enumerate(slots):
        y = top + index * _ROW
        shapes.append(rect(_LABEL, y, width, _ROW - 3, "track"))
        for task in batch.tasks:
            if task.slot == slot:
                hint = f"slot {slot}: {task.records:,} records in {task.seconds:.2f} s"
                x = _LABEL + width * task.start_s / scale_s
                length = max(1.0, width * task.seconds / scale_s - 0.8)
                shapes.append(rect(x, y, length, _ROW - 3, css, hint=hint))
    for part, anchor in zip(_PARTS, ("start", "middle", "end"), strict=True):
        label = f"{scale_s * part:.1f} s"
        shapes.append(text(_LABEL + width * part, bottom + 13, label, anchor=anchor, css="m"))
    shapes += _omission(len(batch.slots), _LABEL, bottom + 27)
    height = bottom + (32 if len(batch.slots) > _MAX_ROWS else 18)
    return picture(height, f"when each slot worked, batch {batch.batch}", shapes)


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


def _largest(values: Mapping[str, float]) -> list[str]:
    """Return the names of as many values as there are rows, the largest ones, in their order."""
    ranked = sorted(values, key=lambda name: -values[name])[:_MAX_ROWS]
    return [name for name in values if name in ranked]


def _omission(count: int, x: float, y: float) -> list[str]:
    """Write how many of the values have no row."""
    if count <= _MAX_ROWS:
        return []
    return [text(x, y, f"{count - _MAX_ROWS:,} smaller ones are left out", css="m")]


def _labels(names: Sequence[str], x: float, top: float, tall: float) -> list[str]:
    """Write a name for each row, left of `x`."""
    return [
        text(x - 6, _middle(top + index * _ROW, tall), name, anchor="end")
        for index, name in enumerate(names)
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
