"""A replay drawn: how far each mapping is from the ideal, over all batches and batch by batch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from assignor_bridge.options import FLAGSHIP
from streaming.replay.player import SPARK, answer, assumptions
from streaming.report import page
from streaming.report.svg import WIDTH, line, picture, rect, standalone, text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streaming.replay.player import Replay, Replayed

_NAMES = 188.0
_VALUES = 34.0
HEAD = ("mapping", "times the ideal", "worst batch", "tasks", "moved a batch", "time vs Spark's")


def table_rows(replay: Replay) -> list[list[str]]:
    """Give the rows of the table under `HEAD`; a mapping that could not be played says why."""
    spark = replay.find(SPARK)
    rows = []
    for m in replay.mappings:
        if m.error is not None:
            rows.append([m.name, f"not played: {m.error}"])
            continue
        ratio = m.seconds / spark.seconds if spark and spark.seconds else None
        rows.append(
            [
                m.name,
                f"{m.times_ideal:.2f}",
                f"{m.worst_times_ideal:.2f}",
                f"{m.tasks:,.0f}" if m.tasks >= 10 else f"{m.tasks:.1f}",
                f"{m.moved_share:.1%}",
                f"{ratio:.0%}" if ratio is not None else "",
            ]
        )
    return rows


def replay_svg(replay: Replay) -> str:
    """Draw the replay as one file."""
    return standalone(f"{answer(replay)}.", [(f.title, f.drawn) for f in _figures(replay)])


def replay_page(replays: Sequence[Replay]) -> str:
    """Write the replays of all sources as one page that opens offline."""
    parts = []
    for replay in replays:
        if len(replays) > 1:
            parts.append(page.heading(replay.title))
        parts += section(replay)
    title = replays[0].title if len(replays) == 1 else "Replay of a checkpoint"
    return page.page(title, parts)


def section(replay: Replay) -> list[str]:
    """Write the answer and the rest."""
    return [page.paragraph(f"{answer(replay)}.", "lead"), *details(replay)]


def details(replay: Replay) -> list[str]:
    """Write the table, the pictures and what they rest on."""
    rows = [row + [""] * (len(HEAD) - len(row)) for row in table_rows(replay)]
    return [
        page.table(HEAD, rows),
        page.side_by_side([page.figure(f.title, f.drawn, f.caption) for f in _figures(replay)]),
        page.paragraph("Assumed: " + "; ".join(assumptions(replay)) + ".", "note"),
    ]


@dataclass(frozen=True, slots=True)
class _Figure:
    title: str
    drawn: str
    caption: str


def _figures(replay: Replay) -> list[_Figure]:
    played = [m for m in replay.mappings if m.error is None]
    return [
        _Figure(
            "Reading time, in times of the ideal",
            mapping_bars({m.name: m.times_ideal for m in played}),
            "Over all batches; at the dashed line all slots end at once.",
        ),
        _Figure(
            "The same, batch by batch",
            batch_lines([m for m in played if m.name in (SPARK, FLAGSHIP)]),
            f"Orange: Spark's mapping. Blue: {FLAGSHIP}.",
        ),
    ]


def mapping_bars(times_ideal: Mapping[str, float]) -> str:
    """Draw a bar for each mapping's time in times of the ideal, and the ideal as a line."""
    row, top = 20.0, 6.0
    width = WIDTH - _NAMES - _VALUES
    most = max(times_ideal.values(), default=1.0)
    shapes = []
    for index, (name, times) in enumerate(times_ideal.items()):
        y = top + index * row
        hint = f"{name}: {times:.2f} times the ideal"
        shapes.append(text(_NAMES - 6, y + 12, name, anchor="end"))
        shapes.append(rect(_NAMES, y, width * times / most, row - 4, _css(name), hint=hint))
        shapes.append(text(WIDTH, y + 12, f"{times:.2f}", anchor="end"))
    x = _NAMES + width / most
    bottom = top + len(times_ideal) * row
    shapes.append(line(x, 2, x, bottom, "mean"))
    shapes.append(text(x, bottom + 11, "ideal", anchor="middle", css="m"))
    return picture(bottom + 16, "reading time of each mapping in times of the ideal", shapes)


def batch_lines(mappings: Sequence[Replayed]) -> str:
    """Draw each batch's time over its ideal, one line a mapping."""
    left, top, height = 30.0, 8.0, 190.0
    most = max((m.worst_times_ideal for m in mappings), default=1.0)
    most = max(most, 1.2)
    width = WIDTH - left - 6
    count = max((len(m.played) for m in mappings), default=0)

    def y_of(times: float) -> float:
        return top + height * (1 - (times - 1) / (most - 1))

    shapes = []
    for part in (0.0, 0.5, 1.0):
        times = 1 + (most - 1) * part
        shapes.append(line(left, y_of(times), WIDTH, y_of(times), "grid"))
        shapes.append(text(left - 4, y_of(times) + 4, f"{times:.1f}", anchor="end", css="m"))
    for m in mappings:
        stroke = f"l{_css(m.name)}"
        points = [
            (left + 4 + (width - 4) * (i / max(1, count - 1)), y_of(1 + p.over))
            for i, p in enumerate(m.played)
        ]
        if len(points) == 1:
            points.append((WIDTH - 6.0, points[0][1]))
        for (x1, y1), (x2, y2) in pairwise(points):
            shapes.append(line(x1, y1, x2, y2, stroke))
    if count:
        numbers = [p.batch for m in mappings[:1] for p in m.played]
        base = top + height + 15
        shapes.append(text(left, base, f"batch {numbers[0]}", css="m"))
        if count > 1:
            shapes.append(text(WIDTH, base, f"{numbers[-1]}", anchor="end", css="m"))
    return picture(top + height + 20, "time of each batch in times of its ideal", shapes)


def _css(name: str) -> str:
    return {SPARK: "a", FLAGSHIP: "b"}.get(name, "m")
