"""Present a replay as table rows, an SVG file, or an HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignor_bridge.options import LAG_AWARE_STICKY
from streaming.observe.words import format_seconds
from streaming.replay import bill
from streaming.replay.answers import list_assumptions, write_summary, write_verdict
from streaming.replay.replayed import SPARK
from streaming.report import charts, page
from streaming.report.svg import standalone_picture
from streaming.report.terms import FIGURES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streaming.replay.replayed import Replay

HEAD = ("mapping", "saves a batch", "regret", "worst batch", "tasks", "moved")
_CSS_CLASSES = {SPARK: "a", LAG_AWARE_STICKY: "b"}
_NAMES_WIDTH = 188.0
#: Time differences below this are rounding errors.
_ROUNDING_S = 1e-9
_TITLE = "Reading time, relative to the ideal"


def build_rows(replay: Replay) -> list[list[str]]:
    """Return the table rows, fastest first; equal results share one, failed ones come last."""
    spark, batches = replay.find_result(SPARK), len(replay.batches) or 1
    rows: dict[tuple[str, ...], list[str]] = {}
    results = [m for m in replay.mappings if m.error is None]
    for m in sorted(results, key=lambda m: round(m.seconds, 9)):
        saved_s = (spark.seconds - m.seconds) / batches if spark else 0.0
        sign = "-" * (saved_s < 0)
        cells = (
            f"{sign}{format_seconds(abs(saved_s))}" if abs(saved_s) >= _ROUNDING_S else "",
            f"{m.times_ideal - 1:.1%}",
            f"{m.worst_regret_share:.1%}",
            f"{m.mean_tasks:,.0f}" if m.mean_tasks >= 10 else f"{m.mean_tasks:.1f}",
            f"{m.moved_share:.1%}",
        )
        rows.setdefault(cells, []).append(m.name)
    failed_rows = ([m.name, f"failed: {m.error}"] for m in replay.mappings if m.error is not None)
    return [*([", ".join(names), *cells] for cells, names in rows.items()), *failed_rows]


def draw_replay(replay: Replay) -> str:
    """Draw the replay as an SVG file."""
    return standalone_picture(f"{write_summary(replay)}.", [(_TITLE, _draw_bars(replay))], 1)


def write_replays(replays: Sequence[Replay]) -> str:
    """Write the replays of all sources as one HTML page that opens offline."""
    parts = []
    for replay in replays:
        parts += [page.section_heading(replay.title)] if len(replays) > 1 else []
        parts += [page.paragraph(f"{write_verdict(replay)}.", "lead"), *_write_details(replay)]
    title = f"Replay of {replays[0].title if len(replays) == 1 else 'a checkpoint'}"
    return page.page(title, [*parts, *page.definitions(FIGURES)])


def _write_details(replay: Replay) -> list[str]:
    rows = [row + [""] * (len(HEAD) - len(row)) for row in build_rows(replay)]
    bill_rows = bill.build_bill_rows(replay)
    caption = "Total of all batches. The dashed line is the ideal: all slots finish at once."
    return [
        page.table(HEAD, rows),
        page.figure(_TITLE, _draw_bars(replay), caption),
        *([page.table(bill.HEAD, bill_rows)] if bill_rows else []),
        page.note(f"{write_summary(replay)}."),
        page.note("Assumptions: " + "; ".join(list_assumptions(replay)) + "."),
    ]


def _draw_bars(replay: Replay) -> str:
    """Draw a bar for each mapping's time relative to the ideal, and a line at the ideal."""
    times_ideal = {m.name: m.times_ideal for m in replay.mappings if m.error is None}
    title = "reading time of each mapping, relative to the ideal"
    css = [_CSS_CLASSES.get(name, "m") for name in times_ideal]
    return charts.draw_value_bars(
        title, times_ideal, "{:.2f}".format, css=css, mark=(1.0, "ideal"), label_width=_NAMES_WIDTH
    )
