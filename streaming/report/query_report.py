"""The report of one query as a page: batches, lag, load, moves, cost, before and after.

Each section is drawn from what there is. What is not known is said, with the input that would tell.
"""

from __future__ import annotations

from statistics import fmean, median
from typing import TYPE_CHECKING

from assignor_bridge.options import FLAGSHIP
from streaming.observe.figures import BatchFigures, RunFigures, over_mean
from streaming.observe.words import counted, seconds_text
from streaming.replay.player import SPARK, answer
from streaming.report import charts, page, query_costs, query_lag, query_moves, replays

if TYPE_CHECKING:
    from streaming.observe.spark_ui import UiRun
    from streaming.replay.player import Replay, Replayed
    from streaming.report.query_facts import QueryFacts

#: Batches whose tasks are drawn in time, and rows of a table of slots.
_GANTTS = 4
_SLOT_ROWS = 12
_SHOWN_BATCHES = 120


def report_page(facts: QueryFacts) -> str:
    """Write the whole page."""
    parts = [page.paragraph(words, "lead") for words in _lead(facts)]
    for title, section in (
        ("Lag per partition", query_lag.section(facts)),
        ("Load per executor slot", _loads(facts.ui)),
        ("What moved, and why", query_moves.section(facts)),
        ("Cost per record", query_costs.section(facts)),
        ("Before and after", _before_and_after(facts)),
        ("Batches", _batches(facts)),
    ):
        parts += [page.heading(title), *section]
    rows = [[kind, place] for kind, place in facts.origins]
    parts += [page.heading("Where it is from"), page.table(["", ""], rows, ends_in_words=True)]
    parts.append(page.paragraph(page.PALETTE, "note"))
    return page.page(facts.title, parts)


def _lead(facts: QueryFacts) -> list[str]:
    words = [f"{answer(replay)}." for replay in facts.replays]
    timed = _seconds(facts)
    if timed:
        seconds, what = timed
        last = max(seconds)
        words.append(
            f"{counted(len(seconds), 'batch', 'batches')} took {median(seconds.values()):.2f} s "
            f"each (median); the last, {last}, {seconds[last]:.2f} s ({what})."
        )
    return words


def _seconds(facts: QueryFacts) -> tuple[dict[int, float], str] | None:
    """Give the seconds of batches from whoever knows best, and what they are."""
    if facts.progress:
        return {p.batch: p.seconds for p in facts.progress}, "from trigger to commit"
    if facts.ui and facts.ui.batches:
        known = {b.batch: b.seconds for b in facts.ui.batches if b.seconds is not None}
        return known, "from the first job's start to the last one's end"
    if facts.log and facts.log.seconds:
        return dict(facts.log.seconds), "from plan to commit, by the checkpoint's files"
    return None


def _batches(facts: QueryFacts) -> list[str]:
    timed = _seconds(facts)
    if timed is None:
        return [
            page.paragraph(
                "How long batches took is not known"
                + (
                    ": the times of this checkpoint's files are those of a copy"
                    if facts.log
                    else ""
                )
                + ". Give the address of Spark's UI or the log of metrics too.",
                "note",
            )
        ]
    seconds, what = timed
    shown = sorted(seconds)[-_SHOWN_BATCHES:]
    bars = tuple(BatchFigures(n, seconds[n], 0, (), {}) for n in shown)
    longest = max(shown, key=lambda n: seconds[n])
    picture = charts.batch_columns([RunFigures("this query", (), bars)], ["b"])
    return [
        page.side_by_side(
            [
                page.figure("Seconds of each batch", picture, f"{what.capitalize()}."),
                page.table(
                    ["batches", f"{len(shown):,}"],
                    [
                        ["median", f"{median(seconds[n] for n in shown):.2f} s"],
                        ["longest", f"{seconds[longest]:.2f} s (batch {longest})"],
                        ["last", f"{seconds[shown[-1]]:.2f} s (batch {shown[-1]})"],
                    ],
                ),
            ]
        )
    ]


def _loads(ui: UiRun | None) -> list[str]:
    if ui is None:
        return [
            page.paragraph(
                "Which slot ran what is not known: only Spark's UI tells. Give its address too, "
                "such as http://localhost:4040, or a history server's.",
                "note",
            )
        ]
    if not any(batch.tasks for batch in ui.figures):
        return [page.paragraph("No task of a finished batch read a record.", "note")]
    uneven = [
        over_mean(figures.slot_seconds(ui.slots_in(batch)))
        for batch, figures in zip(ui.batches, ui.figures, strict=True)
        if figures.tasks
    ]
    run = RunFigures("last batches", ui.slots, ui.figures)
    paired = zip(ui.batches, ui.figures, strict=True)
    last = [(figures, ui.slots_in(batch)) for batch, figures in paired if figures.tasks][-_GANTTS:]
    scale = max(t.start_s + t.seconds for figures, _ in last for t in figures.tasks)
    many = f"the last {counted(len(ui.figures), 'batch', 'batches')}"
    figures = [
        page.figure(
            f"When each slot worked, batch {batch.batch}",
            charts.timeline(batch, slots, "b", scale),
            f"{len(batch.tasks)} reading tasks, one box each; an empty track is an idle slot.",
        )
        for batch, slots in reversed(last)
    ]
    return [
        page.paragraph(
            f"Over {many} the busiest slot worked {fmean(uneven):.2f} times as long as the mean "
            f"slot; {run.hit_rate or 0:.0%} of reading tasks ran on the executor they preferred. "
            "Tasks that read records are shown, of any input of the query."
        ),
        page.side_by_side(
            [
                page.figure("Records read by each slot", charts.slot_bars(run, "b"), f"Of {many}."),
                _slot_table(run),
            ]
        ),
        page.side_by_side(figures),
    ]


def _slot_table(run: RunFigures) -> str:
    seconds = dict.fromkeys(run.slots, 0.0)
    tasks = dict.fromkeys(run.slots, 0)
    for batch in run.batches:
        for slot, busy in batch.slot_seconds(run.slots).items():
            seconds[slot] = seconds.get(slot, 0.0) + busy
        for task in batch.tasks:
            tasks[task.slot] = tasks.get(task.slot, 0) + 1
    records, mean = run.slot_totals(), fmean(seconds.values())
    ranked = sorted(seconds, key=lambda slot: -seconds[slot])
    left = len(ranked) - _SLOT_ROWS
    if left > 0:
        ranked = [*ranked[: _SLOT_ROWS - 2], *ranked[-2:]]
    rows = [
        [slot, f"{tasks[slot]:,}", f"{records[slot]:,}", f"{seconds[slot]:.1f} s",
         f"{seconds[slot] / mean:.2f}" if mean else ""]
        for slot in ranked
    ]  # fmt: skip
    table = page.table(["slot, busiest first", "tasks", "records", "worked", "times mean"], rows)
    more = f"{left} slots between are left out." if left > 0 else ""
    return f"<div>{table}{page.paragraph(more, 'note') if more else ''}</div>"


def _before_and_after(facts: QueryFacts) -> list[str]:
    if facts.log is None:
        return [
            page.paragraph(
                "What Spark's mapping and ours would make of these batches is not known: the "
                "offsets are in the checkpoint. Give its folder too.",
                "note",
            )
        ]
    parts: list[str] = []
    for replay, log in zip(facts.replays, facts.log.sources.values(), strict=True):
        if len(facts.replays) > 1:
            parts.append(page.paragraph(f"{replay.title}:", "lead"))
        if replay.batches:
            if replay.batches[0].batch > log[0].batch:
                parts.append(
                    page.paragraph(
                        f"Batches {replay.batches[0].batch} to {replay.batches[-1].batch}, played "
                        "again; assignor replay plays all of the log.",
                        "note",
                    )
                )
            parts += replays.details(replay)
            parts.append(page.side_by_side(_executor_loads(replay)))
        else:
            parts.append(page.paragraph(f"{answer(replay)}.", "note"))
    return parts


def _executor_loads(replay: Replay) -> list[str]:
    """Draw what each executor would have worked under Spark's mapping and ours."""
    figures = []
    busy = {
        name: _busy(found) for name in (SPARK, FLAGSHIP) if (found := replay.find(name)) is not None
    }
    most = max((max(seconds.values()) for seconds in busy.values()), default=1.0)
    for name, css in ((SPARK, "a"), (FLAGSHIP, "b")):
        if name in busy:
            title = "Spark's mapping" if name == SPARK else name
            bars = charts.value_bars(
                f"predicted seconds of each executor, {title}", busy[name], seconds_text, css, most
            )
            figures.append(
                page.figure(
                    f"Work of each executor, {title}", bars,
                    f"Seconds of reading over {counted(len(replay.batches), 'batch', 'batches')}, "
                    "predicted.", css,
                )
            )  # fmt: skip
    return figures


def _busy(mapping: Replayed) -> dict[str, float]:
    total: dict[str, float] = {}
    for played in mapping.played:
        for executor, seconds in played.busy.items():
            total[executor] = total.get(executor, 0.0) + seconds
    return dict(sorted(total.items(), key=lambda item: (len(item[0]), item[0])))
