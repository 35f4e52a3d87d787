"""The pictures: lag per partition, load per executor slot, who worked when, seconds per batch.

Pure functions of figures. `css` names the colour of a run: `a` for Spark's mapping, `b` for ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.report.svg import WIDTH, line, picture, rect, short, text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streaming.report.figures import BatchFigures, RunFigures

_ROW = 20.0
_LABEL = 62.0
_RIGHT = 46.0
#: More rows than this are drawn as thin lines, so that a thousand partitions fit.
_LABELLED_ROWS = 40
_THIN_HEIGHT = 560.0


def lag_heat_map(run: RunFigures) -> str:
    """Draw the lag of each partition at the start of each batch, darker for more."""
    batches = run.batches
    partitions = list(batches[0].lag) if batches else []
    top, most = 18.0, max((lag for batch in batches for lag in batch.lag.values()), default=0)
    row = _row_height(len(partitions))
    step = (WIDTH - _LABEL - 4) / max(1, len(batches))
    shapes = [text(0, 12, "batch", css="m")]
    numbered = max(1, -(-len(batches) * 26 // int(WIDTH - _LABEL)))
    for column, batch in enumerate(batches):
        if column % numbered == 0:
            shapes.append(
                text(_LABEL + (column + 0.5) * step, 12, f"{batch.batch}", anchor="middle", css="m")
            )
    for index, name in enumerate(partitions):
        y = top + index * row
        if _is_labelled(index, len(partitions), row):
            shapes.append(text(_LABEL - 6, _middle(y, row), _number(name), anchor="end"))
        for column, batch in enumerate(batches):
            lag = batch.lag.get(name, 0)
            shade = 0.06 + 0.94 * (lag / most) ** 0.5 if most and lag else 0.04
            gap = 1.0 if row >= 4 else 0.0
            x = _LABEL + column * step
            hint = f"{name}, batch {batch.batch}: {lag:,} records"
            shapes.append(
                rect(x, y, step - gap, row - gap, "heat", opacity=shade,
                     hint=hint if row >= 4 else "")
            )  # fmt: skip
            if row >= 12 and step >= 26 and lag:
                shapes.append(
                    text(x + step / 2, _middle(y, row), short(lag), anchor="middle", css="s")
                )
    return picture(top + len(partitions) * row + 2, f"lag per partition, {run.name}", shapes)


def slot_bars(run: RunFigures, css: str, scale: float | None = None) -> str:
    """Draw the records that each slot read, beside the line of the mean."""
    totals = run.slot_totals()
    most = scale or max(totals.values(), default=0) or 1
    mean = sum(totals.values()) / len(totals) if totals else 0.0
    row, width = _row_height(len(totals)), WIDTH - _LABEL - _RIGHT
    top = 16.0
    bottom = top + len(totals) * row
    shapes = []
    for index, (slot, records) in enumerate(totals.items()):
        y = top + index * row
        length = width * records / most
        hint = f"slot {slot}: {records:,} records"
        gap = 4.0 if row >= 12 else 0.0
        shapes.append(rect(_LABEL, y, length, row - gap, css, hint=hint))
        if _is_labelled(index, len(totals), row):
            shapes.append(text(_LABEL - 6, _middle(y, row - gap), slot, anchor="end"))
            if row >= 12:
                shapes.append(text(WIDTH, _middle(y, row - gap), short(records), anchor="end"))
    x = _LABEL + width * mean / most
    shapes.append(line(x, top - 3, x, bottom, "mean"))
    shapes.append(text(x, top - 5, f"mean {short(mean)}", anchor="middle", css="m"))
    shapes.append(text(0, top - 5, "slot", css="m"))
    shapes.append(text(WIDTH, top - 5, "records", anchor="end", css="m"))
    return picture(bottom + 4, f"records read by each executor slot, {run.name}", shapes)


def timeline(batch: BatchFigures, slots: tuple[str, ...], css: str, scale_s: float) -> str:
    """Draw when each slot worked in one batch, one box a task."""
    row, width, top = _row_height(len(slots)), WIDTH - _LABEL - 8, 4.0
    bottom = top + len(slots) * row
    scale_s = scale_s or 1.0
    shapes = []
    for index, slot in enumerate(slots):
        y = top + index * row
        shapes.append(rect(_LABEL, y, width, row - 3, "track"))
        if _is_labelled(index, len(slots), row):
            shapes.append(text(_LABEL - 6, _middle(y, row - 3), slot, anchor="end"))
        for task in batch.tasks:
            if task.slot == slot:
                hint = f"slot {slot}: {task.records:,} records in {task.seconds:.2f} s"
                x = _LABEL + width * task.start_s / scale_s
                length = max(1.0, width * task.seconds / scale_s - 0.8)
                shapes.append(rect(x, y, length, row - 3, css, hint=hint))
    shapes.extend(_seconds_axis(bottom, width, scale_s))
    return picture(bottom + 18, f"when each slot worked, batch {batch.batch}", shapes)


def batch_columns(runs: Sequence[RunFigures], css: Sequence[str]) -> str:
    """Draw the seconds of each batch, the runs side by side."""
    left, top, height = 42.0, 8.0, 150.0
    count = max((len(run.batches) for run in runs), default=0) or 1
    most = max((batch.seconds for run in runs for batch in run.batches), default=0.0) or 1.0
    step = (WIDTH - left) / count
    bar = step * 0.8 / max(1, len(runs))
    shapes = []
    for part in (0.0, 0.5, 1.0):
        y = top + height * (1 - part)
        shapes.append(line(left, y, WIDTH, y, "grid"))
        shapes.append(text(left - 4, y + 4, f"{most * part:.1f} s", anchor="end", css="m"))
    for number, run in enumerate(runs):
        for index, batch in enumerate(run.batches):
            tall = height * batch.seconds / most
            x = left + index * step + step * 0.1 + number * bar
            left_out = index < run.warm_up
            hint = f"{run.name}, batch {batch.batch}: {batch.seconds:.2f} s"
            shapes.append(
                rect(x, top + height - tall, bar - 1, tall, css[number],
                     opacity=0.35 if left_out else None, hint=hint)
            )  # fmt: skip
    numbered = max(1, -(-count * 24 // int(WIDTH - left)))
    for index in range(0, count, numbered):
        x = left + (index + 0.5) * step
        shapes.append(text(x, top + height + 14, f"{index}", anchor="middle", css="m"))
    shapes.append(text(0, top + height + 14, "batch", css="m"))
    return picture(top + height + 18, "seconds of each batch", shapes)


def partition_bars(lag: Mapping[str, int]) -> str:
    """Draw one lag per partition as bars: how skewed the topic is."""
    most = max(lag.values(), default=0) or 1
    row, width = _row_height(len(lag)), WIDTH - _LABEL - _RIGHT
    shapes = []
    for index, (name, records) in enumerate(lag.items()):
        y = 6 + index * row
        length = width * records / most
        gap = 4.0 if row >= 12 else 0.0
        shapes.append(rect(_LABEL, y, length, row - gap, "heat", hint=f"{name}: {records:,}"))
        if _is_labelled(index, len(lag), row):
            shapes.append(text(_LABEL - 6, _middle(y, row - gap), _number(name), anchor="end"))
            if row >= 12:
                shapes.append(text(WIDTH, _middle(y, row - gap), short(records), anchor="end"))
    return picture(10 + len(lag) * row, "records per partition", shapes)


def _seconds_axis(y: float, width: float, scale_s: float) -> list[str]:
    return [
        text(_LABEL + width * part, y + 13, f"{scale_s * part:.1f} s", css="m",
             anchor="end" if part == 1 else "start" if part == 0 else "middle")
        for part in (0.0, 0.5, 1.0)
    ]  # fmt: skip


def _row_height(rows: int) -> float:
    return _ROW if rows <= _LABELLED_ROWS else _THIN_HEIGHT / rows


def _is_labelled(index: int, rows: int, row: float) -> bool:
    """Whether there is room for this row's name: all names, or about one each 40 units."""
    return rows <= _LABELLED_ROWS or index % max(1, round(40 / row)) == 0


def _middle(y: float, row: float) -> float:
    return y + row / 2 + 4


def _number(partition: str) -> str:
    return partition.rpartition("-")[2]
