"""The report of one query as a page: causes, lag, load, moves, cost, before and after, batches.

Each section is drawn from what there is. What is not known is said, with the input that would tell.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timezone
from statistics import fmean, median
from typing import TYPE_CHECKING

from assignor_bridge.version import read_version
from streaming.observe.figures import BatchFigures, RunFigures, over_mean
from streaming.observe.words import counted, seconds_text
from streaming.replay.answers import answer
from streaming.report import (
    charts,
    definitions,
    page,
    query_costs,
    query_lag,
    query_moves,
    query_summary,
    query_zones,
    replays,
)
from streaming.report.query_sources import sources_of
from streaming.report.terms import FIGURES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streaming.report.query_facts import QueryFacts

#: Batches whose tasks are drawn in time, and rows of a table of slots.
_GANTTS = 4
_SLOT_ROWS = 12
_SHOWN_BATCHES = 120
_CLOCK = "%Y-%m-%d %H:%M:%S"
#: The end of the year 9999, after which Python has no dates.
_MOST_S = 253_402_300_800


def report_page(facts: QueryFacts, made: datetime | None = None) -> str:
    """Write the whole page, as of the time when it is made."""
    now = (made or datetime.now(timezone.utc)).strftime(_CLOCK)
    parts = query_summary.section(facts)
    parts.insert(
        1, page.note(f"Made {now} UTC by assignor-bridge {read_version()}. {_span(facts)}")
    )
    for title, section in (
        ("Lag per partition", query_lag.section(facts)),
        ("Load per executor slot", _loads(facts)),
        ("What moved, and why", query_moves.section(facts)),
        ("Cost per record", query_costs.section(facts)),
        ("Before and after", _before_and_after(facts)),
        ("Across zones", query_zones.section(facts)),
        ("Batches", _batches(facts)),
    ):
        parts += [page.heading(title), *section] if section else []
    parts.append(page.heading("Sources"))
    parts.append(page.table(["", ""], facts.origins, ends_in_words=True))
    parts.append(
        page.note(
            "Colours: orange for Spark's mapping, blue for ours, of Okabe and Ito's palette, which "
            "colour-blind readers can distinguish; heat maps are shades of one blue."
        )
    )
    return page.page(facts.title, [*parts, *definitions.section(FIGURES)])


def _span(facts: QueryFacts) -> str:
    """Return which batches the page is of, with clock times, to find them on other boards."""
    times = _began(facts)
    if not times:
        return ""
    first, last = min(times), max(times)
    return f"Batches {first} to {last}, {times[first]} to {times[last]} UTC."


def _began(facts: QueryFacts) -> dict[int, str]:
    """Return when each batch began, in UTC."""
    kept = facts.log.checkpoint.batches if facts.log else ()
    times = {b.batch_id: b.timestamp_ms / 1000 for b in kept if b.timestamp_ms}
    times |= {p.batch: p.timestamp_s for p in facts.progress}
    return {
        number: datetime.fromtimestamp(at_s, timezone.utc).strftime(_CLOCK)
        for number, at_s in times.items()
        if 0 <= at_s < _MOST_S
    }


def _seconds(facts: QueryFacts) -> tuple[Mapping[int, float], str]:
    """Return the seconds of batches from whoever knows best, if any does, and what they are."""
    if facts.progress:
        return {p.batch: p.seconds for p in facts.progress}, "from trigger to commit"
    if facts.ui and facts.ui.batches:
        known = {b.batch: b.seconds for b in facts.ui.batches}
        return known, "from the first job's start to the last one's end"
    return facts.log.seconds if facts.log else {}, "from plan to commit, by the checkpoint's files"


def _batches(facts: QueryFacts) -> list[str]:
    seconds, what = _seconds(facts)
    if not seconds:
        why = ": the times of this checkpoint's files are those of a copy" if facts.log else ""
        return [
            page.note(
                f"How long batches took is unknown{why}. Give the address of Spark's UI or the "
                "log of metrics, too."
            )
        ]
    shown = sorted(seconds)[-_SHOWN_BATCHES:]
    columns = tuple(BatchFigures(n, seconds[n]) for n in shown)
    longest, began = max(shown, key=lambda n: seconds[n]), _began(facts)
    picture = charts.batch_columns([RunFigures("this query", columns)], ["b"])
    rows = [
        ["median", f"{median(seconds[n] for n in shown):.2f} s"],
        *(
            [name, f"{seconds[n]:.2f} s (batch {n}{f', {began[n]}' if n in began else ''})"]
            for name, n in (("longest", longest), ("last", shown[-1]))
        ),
    ]
    for record, key in (("newest", "freshnessSeconds"), ("oldest", "freshnessSecondsMax")):
        told = (source.number(key) for p in facts.progress for source in p.sources)
        ages = [age for age in told if age is not None]
        if ages:
            age = f"{median(ages):,.2f} s, at most {max(ages):,.2f} s"
            rows.append([f"age of the {record} record when it was done", age])
    rows += _admission(facts)
    figure = page.figure("Seconds of each batch", picture, f"{what.capitalize()}.")
    return [page.side_by_side([figure, page.table(["batches", f"{len(shown):,}"], rows)])]


def _admission(facts: QueryFacts) -> list[list[str]]:
    """Say what held batches back, where our options limit them."""
    sources = [source for p in facts.progress if p.has_data for source in p.sources]
    reasons = Counter(source.metrics.get("assignor.heldBackBy") for source in sources)
    reasons.pop(None, None)
    if not reasons:
        return []
    words = ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common())
    left = [held for s in sources if (held := s.number("heldBackRecords")) is not None]
    rows = [["held back by (batches)", words]]
    if left:
        rows.append(["records held back", f"{median(left):,.0f}, at most {max(left):,.0f}"])
    return rows


def _loads(facts: QueryFacts) -> list[str]:
    run = facts.ui
    if run is None:
        return _loads_by_reports(facts)
    batches = [batch for batch in run.batches if batch.tasks]
    if not batches:
        return [page.note("No task of a finished batch read a record.")]
    uneven = fmean(over_mean(batch.slot_seconds()) for batch in batches)
    last = batches[-_GANTTS:]
    scale_s = max(t.start_s + t.seconds for batch in last for t in batch.tasks)
    timelines = [
        page.figure(
            f"When each slot worked, batch {batch.batch}",
            charts.timeline(batch, "b", scale_s),
            f"{len(batch.tasks)} reading tasks, one box each; an empty track is an idle slot.",
        )
        for batch in reversed(last)
    ]
    many = f"the last {counted(len(run.batches), 'batch', 'batches')}"
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


def _loads_by_reports(facts: QueryFacts) -> list[str]:
    """Draw how long each slot read, by what the plan log has of the readers' reports."""
    ui = (
        "Spark's UI has it: also give its address, such as http://localhost:4040, or a history "
        "server's."
    )
    parts: list[str] = []
    sources = sources_of(facts)
    for name, source in sources.items():
        seconds = {slot: sum(of.values()) for slot, of in source.slot_parts.items()}
        if not any(seconds.values()):
            continue
        title = f"Seconds of reading by each slot{f', source {name}' if len(sources) > 1 else ''}"
        bars = charts.value_bars(
            title,
            {slot: seconds[slot] for slot in sorted(seconds, key=lambda s: (len(s), s))},
            seconds_text,
        )
        many = counted(sum(1 for b in source.batches if b.worked), "batch", "batches")
        what = f"Of {many}, as readers reported; shared over an executor's slots as planned."
        parts.append(page.side_by_side([page.figure(title, bars, what)]))
    if not parts:
        return [page.note(f"Which slot ran what is unknown. {ui}")]
    return [*parts, page.note(f"When each task ran is unknown. {ui}")]


def _slot_table(run: RunFigures) -> str:
    records, seconds = run.slot_records(), run.slot_seconds()
    tasks, mean = Counter(task.slot for task in run.measured_tasks), fmean(seconds.values())
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
    more = page.note(f"{between} slots in between are left out.") if between > 0 else ""
    return f"<div>{table}{more}</div>"


def _before_and_after(facts: QueryFacts) -> list[str]:
    if facts.log is None:
        return [
            page.note(
                "How Spark's mapping and ours would read these batches is unknown: the "
                "offsets are in the checkpoint. Also give its folder."
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
        parts += replays.details(replay)
    return parts
