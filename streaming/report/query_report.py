"""The report of one query as a page: batches, lag, load, moves, cost, before and after.

Each section is drawn from what there is. What is not known is said, with the input that would tell.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import fmean, median
from typing import TYPE_CHECKING

from assignor_bridge.options import FLAGSHIP
from streaming.observe.figures import BatchFigures, RunFigures, over_mean
from streaming.observe.words import counted, seconds_text
from streaming.replay.player import SPARK, answer
from streaming.report import charts, page, query_costs, query_lag, query_moves, replays

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    parts.append(page.heading("Where it is from"))
    parts.append(page.table(["", ""], facts.origins, ends_in_words=True))
    parts.append(
        page.note(
            "Colours: orange for Spark's mapping, blue for ours, of Okabe and Ito's palette, which "
            "colour-blind readers tell apart; heat maps are shades of one blue."
        )
    )
    return page.page(facts.title, parts)


def _lead(facts: QueryFacts) -> list[str]:
    words = [f"{answer(replay)}." for replay in facts.replays]
    seconds, what = _seconds(facts)
    if seconds:
        last = max(seconds)
        words.append(
            f"{counted(len(seconds), 'batch', 'batches')} took {median(seconds.values()):.2f} s "
            f"each (median); the last, {last}, {seconds[last]:.2f} s ({what})."
        )
    return words


def _seconds(facts: QueryFacts) -> tuple[Mapping[int, float], str]:
    """Return the seconds of batches from whoever knows best, if any does, and what they are."""
    if facts.progress:
        return {p.batch: p.seconds for p in facts.progress}, "from trigger to commit"
    if facts.ui and facts.ui.batches:
        known = {b.batch: b.seconds for b in facts.ui.batches if b.seconds is not None}
        return known, "from the first job's start to the last one's end"
    return facts.log.seconds if facts.log else {}, "from plan to commit, by the checkpoint's files"


def _batches(facts: QueryFacts) -> list[str]:
    seconds, what = _seconds(facts)
    if not seconds:
        why = ": the times of this checkpoint's files are those of a copy" if facts.log else ""
        return [
            page.note(
                f"How long batches took is not known{why}. Give the address of Spark's UI or the "
                "log of metrics too."
            )
        ]
    shown = sorted(seconds)[-_SHOWN_BATCHES:]
    columns = tuple(BatchFigures(n, seconds[n], 0, (), {}) for n in shown)
    longest = max(shown, key=lambda n: seconds[n])
    picture = charts.batch_columns([RunFigures("this query", (), columns)], ["b"])
    rows = [
        ["median", f"{median(seconds[n] for n in shown):.2f} s"],
        ["longest", f"{seconds[longest]:.2f} s (batch {longest})"],
        ["last", f"{seconds[shown[-1]]:.2f} s (batch {shown[-1]})"],
    ]
    for record, key in (("newest", "freshnessSeconds"), ("oldest", "freshnessSecondsMax")):
        told = (source.number(key) for p in facts.progress for source in p.sources)
        ages = [age for age in told if age is not None]
        if ages:
            age = f"{median(ages):,.2f} s, at most {max(ages):,.2f} s"
            rows.append([f"age of the {record} record when it was done", age])
    figure = page.figure("Seconds of each batch", picture, f"{what.capitalize()}.")
    return [page.side_by_side([figure, page.table(["batches", f"{len(shown):,}"], rows)])]


def _loads(ui: UiRun | None) -> list[str]:
    if ui is None:
        return [
            page.note(
                "Which slot ran what is not known: only Spark's UI tells. Give its address too, "
                "such as http://localhost:4040, or a history server's."
            )
        ]
    batches = [
        (figures, ui.slots_in(batch))
        for batch, figures in zip(ui.batches, ui.figures, strict=True)
        if figures.tasks
    ]
    if not batches:
        return [page.note("No task of a finished batch read a record.")]
    uneven = fmean(over_mean(figures.slot_seconds(slots)) for figures, slots in batches)
    last = batches[-_GANTTS:]
    scale_s = max(t.start_s + t.seconds for figures, _ in last for t in figures.tasks)
    timelines = [
        page.figure(
            f"When each slot worked, batch {figures.batch}",
            charts.timeline(figures, slots, "b", scale_s),
            f"{len(figures.tasks)} reading tasks, one box each; an empty track is an idle slot.",
        )
        for figures, slots in reversed(last)
    ]
    run = RunFigures("last batches", ui.slots, ui.figures)
    many = f"the last {counted(len(ui.figures), 'batch', 'batches')}"
    bars = page.figure("Records read by each slot", charts.slot_bars(run, "b"), f"Of {many}.")
    return [
        page.paragraph(
            f"Over {many} the busiest slot worked {uneven:.2f} times as long as the mean "
            f"slot; {run.hit_rate or 0:.0%} of reading tasks ran on the executor they preferred. "
            "Tasks that read records are shown, of any input of the query."
        ),
        page.side_by_side([bars, _slot_table(run)]),
        page.side_by_side(timelines),
    ]


def _slot_table(run: RunFigures) -> str:
    seconds = dict.fromkeys(run.slots, 0.0)
    tasks = Counter(task.slot for batch in run.batches for task in batch.tasks)
    for task in (task for batch in run.batches for task in batch.tasks):
        seconds[task.slot] = seconds.get(task.slot, 0.0) + task.seconds
    records, mean = run.slot_totals(), fmean(seconds.values())
    ranked = sorted(seconds, key=lambda slot: -seconds[slot])
    between = len(ranked) - _SLOT_ROWS
    if between > 0:
        ranked = [*ranked[: _SLOT_ROWS - 2], *ranked[-2:]]
    rows = [
        [slot, f"{tasks[slot]:,}", f"{records[slot]:,}", f"{seconds[slot]:.1f} s",
         f"{seconds[slot] / mean:.2f}" if mean else ""]
        for slot in ranked
    ]  # fmt: skip
    table = page.table(["slot, busiest first", "tasks", "records", "worked", "times mean"], rows)
    more = page.note(f"{between} slots between are left out.") if between > 0 else ""
    return f"<div>{table}{more}</div>"


def _before_and_after(facts: QueryFacts) -> list[str]:
    if facts.log is None:
        return [
            page.note(
                "What Spark's mapping and ours would make of these batches is not known: the "
                "offsets are in the checkpoint. Give its folder too."
            )
        ]
    parts: list[str] = []
    for replay, logged in zip(facts.replays, facts.log.sources.values(), strict=True):
        if len(facts.replays) > 1:
            parts.append(page.paragraph(f"{replay.title}:", "lead"))
        if not replay.batches:
            parts.append(page.note(f"{answer(replay)}."))
            continue
        first, last = replay.batches[0].batch, replay.batches[-1].batch
        if first > logged[0].batch:
            parts.append(
                page.note(
                    f"Batches {first} to {last}, played again; assignor replay plays the whole log."
                )
            )
        parts += [*replays.details(replay), page.side_by_side(_executor_loads(replay))]
    return parts


def _executor_loads(replay: Replay) -> list[str]:
    """Draw what each executor would have worked under Spark's mapping and ours."""
    both = [("Spark's mapping", "a", replay.find(SPARK)), (FLAGSHIP, "b", replay.find(FLAGSHIP))]
    busy = [(title, css, _busy(mapping)) for title, css, mapping in both if mapping is not None]
    most = max((max(seconds.values()) for _, _, seconds in busy), default=1.0)
    many = counted(len(replay.batches), "batch", "batches")
    return [
        page.figure(
            f"Work of each executor, {title}",
            charts.value_bars(f"predicted seconds of each executor, {title}", seconds, seconds_text,
                        css=css, scale=most),
            f"Seconds of reading over {many}, predicted.", css,
        )
        for title, css, seconds in busy
    ]  # fmt: skip


def _busy(mapping: Replayed) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for executor, seconds in (item for played in mapping.played for item in played.busy.items()):
        total[executor] += seconds
    return dict(sorted(total.items(), key=lambda item: (len(item[0]), item[0])))
