"""The report's first screen: what is wrong, what to do, what was gained; then the causes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streaming.observe.words import seconds_text
from streaming.report import page
from streaming.report.diagnosis import diagnose
from streaming.report.gaps import describe_gain, gaps_of, with_uneven_slots
from streaming.report.query_facts import KINDS
from streaming.report.query_sources import sources_of
from streaming.report.source_facts import SourceFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streaming.report.diagnosis import Cause
    from streaming.report.gaps import Gap
    from streaming.report.query_facts import QueryFacts

#: Several words in parentheses: the first screen omits them from a remedy.
_EXAMPLES = re.compile(r" \([^)]* [^)]*\)")
#: Causes that a gap between slots measures, and those that lag does.
_OF_SLOTS = {"hot key", "few partitions", "slow executor", "uneven slots"}
_OF_LAG = {"too few slots", "overhead", "small batches"}


@dataclass(frozen=True)
class _Source:
    """One source, and what was found of it."""

    #: Its name before each cause; empty for the only one.
    where: str
    source: SourceFacts
    findings: Sequence[Cause]
    gaps: Sequence[Gap]
    #: What the option saves: title, amount, and unit.
    gained: tuple[str, str, str]

    @property
    def tiles(self) -> list[tuple[str, str, str]]:
        """What is wrong, what to do, and what was gained: a title, words, and a figure each."""
        gap = self.gaps[0] if self.gaps else None
        figure = str(gap) if gap is not None else "no input has times of slots"
        if not self.findings:
            first = f"{self.where}Nothing stands out"
            return [("Wrong", first, figure), ("Do", "Nothing", ""), self.gained]
        finding, growth = self.findings[0], self.source.growth
        saves = ""
        if finding.kind in _OF_LAG and growth is not None:
            figure = f"records arrive {growth:.1f} times as fast as they are read"
        elif finding.kind not in _OF_SLOTS:
            figure = f"costs {finding.cost:.0%}"
        elif gap is not None and gap.seconds:
            saves = f"saves {seconds_text(gap.seconds)} a batch"
        about = f": {finding.about}" if finding.about and finding.kind != "few partitions" else ""
        first = f"{self.where}{finding.kind.capitalize()}{about}"
        do = _EXAMPLES.sub("", finding.remedy.partition(";")[0])
        return [("Wrong", first, figure), ("Do", _capital(do), saves), self.gained]


@dataclass(frozen=True)
class Summary:
    """What was found of all sources of a query."""

    sources: Sequence[_Source]
    #: Kinds of inputs that were not given.
    missing: Sequence[str]

    @property
    def _worst(self) -> _Source:
        return max(self.sources, key=lambda each: max((f.cost for f in each.findings), default=0.0))

    def lines(self) -> list[str]:
        """Return the first screen as lines of text."""
        (_, wrong, figure), *others = self._worst.tiles
        shown = [(wrong, figure)] + [(f"{title}: {words}", each) for title, words, each in others]
        return [f"{words}{f' ({figure})' * bool(figure)}" for words, figure in shown]

    def section(self) -> list[str]:
        """Write the first screen, then the causes of all sources."""
        worst = self._worst
        parts = [page.tiles(worst.tiles, is_calm=not worst.findings), page.heading("Why")]
        causes = [
            page.finding(
                f"{each.where}{f.title}", f"{_capital(f.why)}.", f"Would help: {f.remedy}."
            )
            for each in self.sources
            for f in each.findings
        ]
        others = f" Other causes may show in: {', '.join(self.missing)}." if self.missing else ""
        parts += causes or [page.note(f"No cause was found.{others}")]
        return parts


def summarize(facts: QueryFacts) -> Summary:
    """Find what holds up each source of a query, and what the option saves."""
    known = sources_of(facts)
    replays = dict(zip(facts.log.sources, facts.replays, strict=False)) if facts.log else {}
    found = []
    for name, source in (known or {"": SourceFacts()}).items():
        gaps = gaps_of(source, replays.get(name), facts.ui)
        findings = with_uneven_slots(diagnose(source), gaps, source)
        where = f"Source {name}: " if len(known) > 1 else ""
        saved = describe_gain(source, replays.get(name), gaps)
        found.append(_Source(where, source, findings, gaps, saved))
    return Summary(found, [kind for kind in KINDS if kind not in dict(facts.origins)])


def _capital(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}"
