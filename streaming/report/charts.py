"""Draw charts as SVG: lag by partition, load by slot, timelines, and batch durations.

All functions are pure. `css` is the colour class of a run: `a` for Spark's default assignment, `b`
for an assignor. A chart has at most 40 rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignor_bridge.errors import pluralize
from streaming.observe.words import format_count
from streaming.report.svg import WIDTH, line, picture, rect, text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from streaming.observe.figures import BatchFigures, RunFigures

_ROW_HEIGHT = 20.0
_MAX_ROWS = 40
_LABEL_WIDTH = 62.0
#: Number of characters that fit into a row label.
_MAX_CHARS = 8
_VALUE_WIDTH = 46.0
#: Relative positions of the tick labels on an axis.
_TICKS = (0.0, 0.5, 1.0)


def draw_heat_map(
    title: str, partitions: Sequence[str], batches: Sequence[tuple[int, Mapping[str, int]]]
) -> str:
    """Draw offset counts by partition (rows) and batch (columns); stronger colours mean more."""
    names = partitions[:_MAX_ROWS]
    top, max_count = 18.0, max((n for _, counts in batches for n in counts.values()), default=0)
    column_width = (WIDTH - _LABEL_WIDTH - 4) / max(1, len(batches))
    shapes = _label_batches([number for number, _ in batches], _LABEL_WIDTH, column_width, 12)
    shapes += _draw_row_labels(shorten_names(names), _LABEL_WIDTH, top, _ROW_HEIGHT)
    for index, name in enumerate(names):
        y = top + index * _ROW_HEIGHT
        for column, (number, counts) in enumerate(batches):
            count = counts.get(name, 0)
            x = _LABEL_WIDTH + column * column_width
            shade = 0.1 + 0.9 * (count / max_count) ** 0.5 if count else 0.04
            hint = f"{name}, batch {number}: {pluralize(count, 'record')}"
            box = (x, y, column_width - 1 if column_width > 3 else column_width, _ROW_HEIGHT - 1)
            shapes.append(rect(box, "heat", opacity=shade, hint=hint))
            if column_width >= 26 and count:
                baseline_y = _compute_baseline(y, _ROW_HEIGHT)
                label, centre = format_count(count), x + column_width / 2
                shapes.append(text(centre, baseline_y, label, anchor="middle", css="s"))
    return picture(top + len(names) * _ROW_HEIGHT + 2, title, shapes)


def draw_slot_bars(run: RunFigures, css: str, scale: float | None = None) -> str:
    """Draw the number of records that each slot read, with a line at the mean."""
    totals = run.sum_records_by_slot()
    mean = sum(totals.values()) / len(totals) if totals else 0.0
    title = f"records read by each executor slot, {run.name}"
    return draw_value_bars(
        title, totals, format_count, css=css, scale=scale, mark=(mean, f"mean {format_count(mean)}")
    )


def draw_value_bars(
    title: str,
    values: Mapping[str, float],
    format_value: Callable[[float], str],
    *,
    css: str | Sequence[str] = "heat",
    scale: float | None = None,
    mark: tuple[float, str] | None = None,
    label_width: float = _LABEL_WIDTH,
) -> str:
    """Draw a horizontal bar for each of the largest values, formatted by `format_value`.

    `css` is the colour class of all bars, or one class per bar. `scale` is the value of a bar with
    full length, by default the largest value. `mark` draws a dashed line at a value, with a label.
    With the default `label_width`, the names are shortened as partition names.
    """
    shown_values = {name: values[name] for name in _select_largest(values)}
    names = shorten_names([*shown_values]) if label_width == _LABEL_WIDTH else [*shown_values]
    colours = dict(zip(values, [css] * len(values) if isinstance(css, str) else css, strict=True))
    scale = scale or max(shown_values.values(), default=0) or 1
    width = WIDTH - label_width - _VALUE_WIDTH
    top, bar_height = 16.0 if mark else 6.0, _ROW_HEIGHT - 4.0
    bottom = top + len(shown_values) * _ROW_HEIGHT
    shapes = _draw_row_labels(names, label_width, top, bar_height)
    value_texts = [*map(format_value, shown_values.values())]
    shapes += _draw_row_labels(value_texts, WIDTH + 6, top, bar_height)
    for index, (name, value) in enumerate(shown_values.items()):
        hint = f"{name}: {format_value(value)}"
        y, length = top + index * _ROW_HEIGHT, width * value / scale
        shapes.append(rect((label_width, y, length, bar_height), colours[name], hint=hint))
    if mark is not None:
        x = label_width + width * mark[0] / scale
        shapes.append(line(x, top - 3, x, bottom, "mean"))
        shapes.append(text(min(x, WIDTH - 40), top - 5, mark[1], anchor="middle", css="m"))
    shapes += _note_omission(len(values), label_width, bottom + 12)
    return picture(bottom + (18 if len(values) > _MAX_ROWS else 4), title, shapes)


def draw_timeline(batch: BatchFigures, css: str, scale_s: float) -> str:
    """Draw a row of task boxes for each slot in one batch; a full row is `scale_s` long."""
    slots, width, top = _select_largest(batch.sum_seconds_by_slot()), WIDTH - _LABEL_WIDTH - 8, 4.0
    bottom, scale_s = top + len(slots) * _ROW_HEIGHT, scale_s or 1.0
    shapes = _draw_row_labels(slots, _LABEL_WIDTH, top, _ROW_HEIGHT - 3)
    for index, slot in enumerate(slots):
        y = top + index * _ROW_HEIGHT
        shapes.append(rect((_LABEL_WIDTH, y, width, _ROW_HEIGHT - 3), "track"))
        for task in batch.tasks:
            if task.slot == slot:
                hint = f"slot {slot}: {pluralize(task.records, 'record')} in {task.seconds:.2f} s"
                x = _LABEL_WIDTH + width * task.start_s / scale_s
                length = max(1.0, width * task.seconds / scale_s - 0.8)
                shapes.append(rect((x, y, length, _ROW_HEIGHT - 3), css, hint=hint))
    for part, anchor in zip(_TICKS, ("start", "middle", "end"), strict=True):
        x, label = _LABEL_WIDTH + width * part, f"{scale_s * part:.1f} s"
        shapes.append(text(x, bottom + 13, label, anchor=anchor, css="m"))
    shapes += _note_omission(len(batch.slots), _LABEL_WIDTH, bottom + 27)
    height = bottom + (32 if len(batch.slots) > _MAX_ROWS else 18)
    return picture(height, f"when each slot worked, batch {batch.batch}", shapes)


def draw_batch_columns(runs: Sequence[RunFigures], css: Sequence[str]) -> str:
    """Draw the duration of each batch (pale during warm-up), with the runs side by side."""
    left, top, height = 42.0, 8.0, 150.0
    column_count = max((len(run.batches) for run in runs), default=0) or 1
    longest_s = max((batch.seconds for run in runs for batch in run.batches), default=0.0) or 1.0
    column_width = (WIDTH - left) / column_count
    bar_width = column_width * 0.8 / max(1, len(runs))
    shapes = _draw_value_axis(left, top, height, [f"{longest_s * part:.1f} s" for part in _TICKS])
    for run_index, run in enumerate(runs):
        for index, batch in enumerate(run.batches):
            bar_height = height * batch.seconds / longest_s
            x = left + index * column_width + column_width * 0.1 + run_index * bar_width
            hint = f"{run.name}, batch {batch.batch}: {batch.seconds:.2f} s"
            y, opacity = top + height - bar_height, 0.35 if index < run.warm_up_batches else None
            box = (x, y, bar_width - 1, bar_height)
            shapes.append(rect(box, css[run_index], opacity=opacity, hint=hint))
    most_batches = max((run.batches for run in runs), key=len, default=())
    shapes += _label_batches([b.batch for b in most_batches], left, column_width, top + height + 14)
    return picture(top + height + 18, "duration of each batch in seconds", shapes)


def _draw_value_axis(left: float, top: float, height: float, labels: Sequence[str]) -> list[str]:
    """Draw a horizontal grid line for each of `_TICKS`, with its label."""
    shapes = []
    for part, label in zip(_TICKS, labels, strict=True):
        y = top + height * (1 - part)
        shapes.append(line(left, y, WIDTH, y, "grid"))
        shapes.append(text(left - 4, y + 4, label, anchor="end", css="m"))
    return shapes


def _label_batches(numbers: Sequence[int], left: float, column_width: float, y: float) -> list[str]:
    """Write batch numbers centred on their columns, skipping some if there is no room for all."""
    batches_per_label = max(1, -(-len(numbers) * 26 // int(WIDTH - left)))
    shapes = [text(0, y, "batch", css="m")]
    for index in range(0, len(numbers), batches_per_label):
        x = left + (index + 0.5) * column_width
        shapes.append(text(x, y, f"{numbers[index]}", anchor="middle", css="m"))
    return shapes


def _select_largest(values: Mapping[str, float]) -> list[str]:
    """Return the names of the `_MAX_ROWS` largest values, in their original order."""
    largest_names = sorted(values, key=lambda name: -values[name])[:_MAX_ROWS]
    return [name for name in values if name in largest_names]


def _note_omission(total: int, x: float, y: float) -> list[str]:
    """Write the number of omitted values; return no shape if all values are drawn."""
    if total <= _MAX_ROWS:
        return []
    rows_text = pluralize(total - _MAX_ROWS, "row")
    return [text(x, y, f"omitted: {rows_text} with smaller values", css="m")]


def _draw_row_labels(names: Sequence[str], x: float, top: float, bar_height: float) -> list[str]:
    """Write the name of each row, right-aligned at `x`."""
    return [
        text(x - 6, _compute_baseline(top + index * _ROW_HEIGHT, bar_height), name, anchor="end")
        for index, name in enumerate(names)
    ]


def _compute_baseline(y: float, row_height: float) -> float:
    return y + row_height / 2 + 4


def shorten_names(partitions: Sequence[str]) -> list[str]:
    """Shorten partition names to their number, or if there are several topics, to their end.

    >>> shorten_names(["orders-0", "orders-1"])
    ['0', '1']
    >>> shorten_names(["orders-0", "payments-11"])
    ['orders-0', '…ents-11']
    """
    if len({name.rpartition("-")[0] for name in partitions}) <= 1:
        return [name.rpartition("-")[2] for name in partitions]
    return [
        name if len(name) <= _MAX_CHARS else f"…{name[1 - _MAX_CHARS :]}" for name in partitions
    ]
