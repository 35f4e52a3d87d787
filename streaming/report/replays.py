"""A replay drawn: how far each mapping is from the ideal, over all batches and batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignor_bridge.options import LAG_AWARE_STICKY
from streaming.replay import bill
from streaming.replay.answers import answer, assumptions
from streaming.replay.replayed import SPARK
from streaming.report import charts, page
from streaming.report.svg import standalone

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streaming.replay.replayed import Replay

HEAD = ("mapping", "regret", "worst batch", "tasks", "moved per batch", "time vs Spark's")
_CSS = {SPARK: "a", LAG_AWARE_STICKY: "b"}
_NAMES_WIDTH = 188.0
#: The axis of times of the ideal reaches this far at least.
_LEAST_TIMES = 1.2


def table_rows(replay: Replay) -> list[list[str]]:
    """Return the rows of the table under `HEAD`; a mapping that could not be played says why."""
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
                f"{m.times_ideal - 1:.1%}",
                f"{m.worst_over:.1%}",
                f"{m.tasks:,.0f}" if m.tasks >= 10 else f"{m.tasks:.1f}",
                f"{m.moved_share:.1%}",
                f"{ratio:.0%}" if ratio is not None else "",
            ]
        )
    return rows


def replay_svg(replay: Replay) -> str:
    """Draw the replay as one file."""
    figures = [(title, picture) for title, picture, _ in _figures(replay)]
    return standalone(f"{answer(replay)}.", figures)


def replay_page(replays: Sequence[Replay]) -> str:
    """Write the replays of all sources as one page that opens offline."""
    parts = []
    for replay in replays:
        parts += [page.heading(replay.title)] if len(replays) > 1 else []
        parts += [page.paragraph(f"{answer(replay)}.", "lead"), *details(replay)]
    title = replays[0].title if len(replays) == 1 else "Replay of a checkpoint"
    return page.page(title, parts)


def details(replay: Replay) -> list[str]:
    """Write the table, the pictures and what they rest on."""
    rows = [row + [""] * (len(HEAD) - len(row)) for row in table_rows(replay)]
    of_bill = bill.bill_rows(replay)
    return [
        page.table(HEAD, rows),
        page.side_by_side([page.figure(*parts) for parts in _figures(replay)]),
        *([page.table(bill.HEAD, of_bill)] if of_bill else []),
        page.note("Assumed: " + "; ".join(assumptions(replay)) + "."),
    ]


def _figures(replay: Replay) -> list[tuple[str, str, str]]:
    """Draw both figures: title, picture and caption."""
    played = [m for m in replay.mappings if m.error is None]
    both = [m for m in played if m.name in _CSS]
    times = mapping_bars({m.name: m.times_ideal for m in played})
    by_batch = charts.batch_lines(
        "time of each batch, relative to its ideal",
        {m.name: [1 + p.over for p in m.played] for m in both},
        {name: f"l{css}" for name, css in _CSS.items()},
        [p.batch for m in both[:1] for p in m.played], _LEAST_TIMES,
    )  # fmt: skip
    return [
        ("Reading time, relative to the ideal", times,
         "Over all batches; at the dashed line all slots end at once."),
        ("The same, batch by batch", by_batch,
         f"Orange: Spark's mapping. Blue: {LAG_AWARE_STICKY}."),
    ]  # fmt: skip


def mapping_bars(times_ideal: Mapping[str, float]) -> str:
    """Draw a bar for each mapping's time relative to the ideal, and the ideal as a line."""
    return charts.value_bars(
        "reading time of each mapping, relative to the ideal", times_ideal, "{:.2f}".format,
        css=[_CSS.get(name, "m") for name in times_ideal], mark=(1.0, "ideal"), label=_NAMES_WIDTH,
    )  # fmt: skip
