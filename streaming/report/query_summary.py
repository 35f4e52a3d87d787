"""Write the report's first screen (problem, action, gain) and its list of causes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streaming.observe.words import format_seconds
from streaming.report import page
from streaming.report.diagnosis import diagnose
from streaming.report.gaps import add_uneven_slots, compute_gaps, describe_gain
from streaming.report.query_facts import KINDS
from streaming.report.query_sources import collect_sources
from streaming.report.source_facts import SourceFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streaming.report.diagnosis import Cause
    from streaming.report.gaps import Gap
    from streaming.report.query_facts import QueryFacts

#: Matches several words in parentheses, which the first screen omits from a remedy.
_EXAMPLES = re.compile(r" \([^)]* [^)]*\)")
#: Causes whose evidence is the gap between the busiest slot and the ideal.
_SLOT_CAUSES = {"hot key", "few partitions", "slow executor", "uneven slots"}
#: Causes whose evidence is the growth of lag.
_LAG_CAUSES = {"too few slots", "overhead", "small batches"}


@dataclass(frozen=True)
class _SourceSummary:
    #: Prefix that names the source; empty if there is only one.
    prefix: str
    source: SourceFacts
    causes: Sequence[Cause]
    gaps: Sequence[Gap]
    #: Gain over Spark's default: title, amount, and explanation.
    gain: tuple[str, str, str]

    @property
    def tiles(self) -> list[tuple[str, str, str]]:
        """The problem, the action, and the gain, each with a title, a text, and a note."""
        gap = self.gaps[0] if self.gaps else None
        evidence = str(gap) if gap is not None else "the reading times of slots are unknown"
        if not self.causes:
            problem = f"{self.prefix}Nothing stands out"
            return [("Problem", problem, evidence), ("Action", "None", ""), self.gain]
        cause, arrival_ratio = self.causes[0], self.source.arrival_ratio
        saving = ""
        if cause.kind in _LAG_CAUSES and arrival_ratio is not None:
            evidence = f"records arrive {arrival_ratio:.2f} times as fast as they are read"
        elif cause.kind == "busy cluster":
            evidence = f"{cause.cost:.0%} of reads ran elsewhere"
        elif cause.kind not in _SLOT_CAUSES:
            evidence = f"got {1 - cause.cost:.0%} of its even share"
        elif gap is not None and gap.excess_s:
            saving = f"saves {format_seconds(gap.excess_s)} a batch"
        about = f": {cause.about}" if cause.about and cause.kind != "few partitions" else ""
        problem = f"{self.prefix}{cause.kind.capitalize()}{about}"
        action = _EXAMPLES.sub("", cause.remedy.partition(";")[0])
        return [("Problem", problem, evidence), ("Action", _capitalize(action), saving), self.gain]


@dataclass(frozen=True)
class Summary:
    """The diagnosis of all sources of a query."""

    sources: Sequence[_SourceSummary]
    #: Kinds of input that were not given.
    missing_inputs: Sequence[str]

    @property
    def _worst_source(self) -> _SourceSummary:
        return max(self.sources, key=lambda each: max((c.cost for c in each.causes), default=0.0))

    def format_lines(self) -> list[str]:
        """Return the first screen as lines of text."""
        (_, problem, evidence), *tiles = self._worst_source.tiles
        pairs = [(problem, evidence), *((f"{title}: {text}", note) for title, text, note in tiles)]
        return [f"{text}{f' ({note})' * bool(note)}" for text, note in pairs]

    def write_section(self) -> list[str]:
        """Write the first screen, then the causes of all sources."""
        worst = self._worst_source
        parts = [page.tiles(worst.tiles, is_calm=not worst.causes), page.section_heading("Causes")]
        pairs = [(f"{each.prefix}{c.title}", c) for each in self.sources for c in each.causes]
        causes = [
            page.cause(title, f"{_capitalize(c.why)}.", f"Suggestion: {c.remedy}.")
            for title, c in pairs
        ]
        inputs = ", ".join(self.missing_inputs)
        inputs_text = f" Other inputs may show causes: {inputs}." if inputs else ""
        parts += causes or [page.note(f"No cause was found.{inputs_text}")]
        return parts


def summarize_query(facts: QueryFacts) -> Summary:
    """Diagnose each source of a query, and estimate the gain over Spark's default."""
    sources = collect_sources(facts)
    source_names = list(facts.checkpoint_log.batches_by_source) if facts.checkpoint_log else []
    replays = dict(zip(source_names, facts.replays, strict=False))
    summaries = []
    for name, source in (sources or {"": SourceFacts()}).items():
        gaps = compute_gaps(source, replays.get(name), facts.ui_run)
        causes = add_uneven_slots(diagnose(source), gaps, source)
        prefix = f"Source {name}: " if len(sources) > 1 else ""
        gain = describe_gain(source, replays.get(name), gaps)
        summaries.append(_SourceSummary(prefix, source, causes, gaps, gain))
    return Summary(summaries, [kind for kind in KINDS if kind not in dict(facts.origins)])


def _capitalize(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}"
