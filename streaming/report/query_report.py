"""Write the report of one query as an HTML page: first screen, lag, load by slot, moves, costs.

Each section uses the available inputs. If a figure is missing, the page names the input to give.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from statistics import fmean
from typing import TYPE_CHECKING

from assignor_bridge.version import read_version
from streaming.observe.figures import max_over_mean
from streaming.replay.traffic import PRICE_PER_GB
from streaming.report import charts, page, query_costs, query_lag, query_moves
from streaming.report.query_facts import gather_facts
from streaming.report.query_summary import summarize_query
from streaming.report.svg import escape_html
from streaming.report.terms import FIGURES

if TYPE_CHECKING:
    from streaming.report.query_facts import QueryFacts

#: Number of latest batches that get a timeline of their tasks.
_TIMELINE_BATCHES = 2
_DATETIME_FORMAT = "%Y-%m-%d %H:%M:%S"
#: End of the year 9999; Python has no later dates.
_LAST_DATE_S = 253_402_300_800


@dataclass(frozen=True)
class Report:
    """A report on one query; a notebook displays its page."""

    #: The title, the problem, the suggested action, and the gain over Spark's default.
    lines: tuple[str, ...]
    #: The page, which loads no other files.
    html: str = field(repr=False)
    #: Problems found while reading the checkpoint.
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return `lines`, joined with newlines."""
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        style = "width: 100%; height: 40em; border: 0"
        return f'<iframe srcdoc="{escape_html(self.html)}" style="{style}"></iframe>'


def make_report(
    *inputs: str,
    query: str | None = None,
    batches: int | None = None,
    price_per_gb: float = PRICE_PER_GB,
) -> Report:
    """Report on a query as `assignor report` does; see `gather_facts` for parameters and errors."""
    facts = gather_facts(inputs, query, batches, price_per_gb)
    summary = summarize_query(facts)
    warnings = facts.checkpoint_log.checkpoint.warnings if facts.checkpoint_log else ()
    page_text = _write_page(facts, summary.write_section())
    return Report((facts.title, *summary.format_lines()), page_text, tuple(warnings))


def _write_page(facts: QueryFacts, parts: list[str]) -> str:
    now, version = datetime.now(timezone.utc).strftime(_DATETIME_FORMAT), read_version()
    creation_text = f"Created {now} UTC by assignor-bridge {version}. {_describe_span(facts)}"
    parts.insert(1, page.note(creation_text))
    for title, section in (
        ("Lag per partition", query_lag.write_section(facts)),
        ("Load per executor slot", _draw_slots(facts)),
        ("Moves", query_moves.write_section(facts)),
        ("Cost per record", query_costs.write_section(facts)),
    ):
        parts += [page.section_heading(title), *section]
    parts.append(page.section_heading("Inputs"))
    parts.append(page.table(["", ""], facts.origins, ends_in_words=True))
    return page.page(facts.title, [*parts, *page.definitions(FIGURES)])


def _describe_span(facts: QueryFacts) -> str:
    """Name the first and last batch with their start times; return "" if no time is known."""
    times = _format_start_times(facts)
    if len(times) < 2:
        return "".join(f"Batch {number}, started {time} UTC." for number, time in times.items())
    first, last = min(times), max(times)
    return f"Batches {first} to {last}, started from {times[first]} to {times[last]} UTC."


def _format_start_times(facts: QueryFacts) -> dict[int, str]:
    """Return the UTC date and time at which each batch started, by batch; omit unknown times."""
    batches = facts.checkpoint_log.checkpoint.batches if facts.checkpoint_log else ()
    times = {b.batch_id: b.timestamp_ms / 1000 for b in batches if b.timestamp_ms}
    times |= {p.batch: p.timestamp_s for p in facts.progress}
    return {
        number: datetime.fromtimestamp(at_s, timezone.utc).strftime(_DATETIME_FORMAT)
        for number, at_s in times.items()
        if 0 <= at_s < _LAST_DATE_S
    }


def _draw_slots(facts: QueryFacts) -> list[str]:
    """Draw the records read by each slot, and timelines of the last batches."""
    run = facts.ui_run
    if run is None:
        return [page.note("Slot load is unknown: also give the address of Spark's UI.")]
    batches = [batch for batch in run.batches if batch.tasks]
    if not batches:
        return [page.note("No task of a finished batch read any records.")]
    mean_busiest_ratio = fmean(max_over_mean(batch.sum_seconds_by_slot()) for batch in batches)
    last_batches = batches[-_TIMELINE_BATCHES:]
    scale_s = max(t.start_s + t.seconds for batch in last_batches for t in batch.tasks)
    timelines = [
        page.figure(
            f"When each slot worked, batch {batch.batch}",
            charts.draw_timeline(batch, "b", scale_s),
            f"One box for each reading task ({len(batch.tasks)}). An empty row is an idle slot.",
        )
        for batch in reversed(last_batches)
    ]
    span = f"the last {len(run.batches):,} batches" if len(run.batches) > 1 else "the last batch"
    bars = page.figure("Records read by each slot", charts.draw_slot_bars(run, "b"), f"In {span}.")
    return [
        page.paragraph(
            f"In {span} (median duration {run.median_batch_seconds:.2f} s), the busiest slot "
            f"worked {mean_busiest_ratio:.2f} times as long as the mean slot, and "
            f"{run.hit_rate or 0:.0%} of reading tasks ran on a preferred executor (a tail task "
            "has several). A reading task is one that reads records from any input of the query."
        ),
        page.side_by_side([bars, *timelines]),
    ]
