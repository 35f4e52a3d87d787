"""The report's first lines: what holds the query up and what would help, and four answers.

Which partition lags, and why; which slot was busiest, and why; what moved; how fresh.
"""

from __future__ import annotations

from statistics import fmean, median
from typing import TYPE_CHECKING

from streaming.observe.words import counted, seconds_text
from streaming.report import page, query_moves
from streaming.report.diagnosis import diagnose
from streaming.report.query_sources import of_source, sources_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assignor_bridge.model import Partition
    from streaming.report.diagnosis import Finding
    from streaming.report.query_facts import QueryFacts
    from streaming.report.source_facts import BatchFacts, SourceFacts

#: Slots are even up to so many times their mean.
_EVEN = 1.1
#: A partition that is the reason for its slot's load has so much of it.
_MOST = 0.4
#: A partition has an own reason to lag with so many times the mean of what arrives.
_MORE = 1.5
#: Further ahead than so many batches nothing is foretold.
_SOON = 100


def first_lines(facts: QueryFacts) -> list[str]:
    """Return the causes as lines of text; none where nothing stands out."""
    return [
        f"{where}{finding.title}: {finding.why}"
        for where, _, _, findings in _diagnosed(facts)
        for finding in findings
    ]


def section(facts: QueryFacts) -> list[str]:
    """Write the causes of all sources, then the answers."""
    diagnosed = _diagnosed(facts)
    parts = [
        page.finding(f"{where}{f.title}", _sentence(f.why), f"Would help: {f.remedy}.")
        for where, _, _, findings in diagnosed
        for f in findings
    ]
    if diagnosed and not parts:
        looked_at = _looked_at([source for _, _, source, _ in diagnosed])
        parts.append(page.finding("Nothing stands out", looked_at, ""))
    for where, own, source, findings in diagnosed:
        rows = _answers(own, source, findings)
        parts.append(page.table([where.strip(": "), ""], rows, ends_in_words=True))
    return parts


def _diagnosed(
    facts: QueryFacts,
) -> list[tuple[str, QueryFacts, SourceFacts, list[Finding]]]:
    """Return each source's facts and what holds it up; its name first, where there are several."""
    sources = sources_of(facts)
    return [
        (
            f"Source {name}: " if len(sources) > 1 else "",
            of_source(facts, name), source, diagnose(source),
        )
        for name, source in sources.items()
    ]  # fmt: skip


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _looked_at(sources: Sequence[SourceFacts]) -> str:
    """Say what was looked at and what was not, in the words of the causes."""
    batches = [batch for source in sources for batch in source.batches]
    known = {
        "lag that grows": any(b.waiting for b in batches),
        "topics that get nothing": any(b.waiting for b in batches),
        "a partition that holds its slot up": any(b.pieces and b.slots for b in batches),
        "slow executors": any(len(source.slowness) > 1 for source in sources),
        "reads that ran elsewhere than planned": any(b.as_planned is not None for b in batches),
    }
    seen = ", ".join(what for what, is_known in known.items() if is_known)
    unseen = ", ".join(what for what, is_known in known.items() if not is_known)
    words = [f"Looked for {seen}."] if seen else []
    if unseen:
        words.append(f"Not known: {unseen}; the log of metrics, the plan log and Spark's UI tell.")
    return " ".join(words)


def _answers(
    facts: QueryFacts, source: SourceFacts, findings: Sequence[Finding]
) -> list[list[str]]:
    rows = [
        ["lags most", _lags_most(source, findings)],
        ["busiest slot", _busiest(source, findings)],
        ["moved", query_moves.in_short(facts)],
    ]
    ages = [
        age
        for p in facts.progress
        for s in p.sources
        if (age := s.number("freshnessSecondsMax")) is not None
    ]
    if ages:
        rows.append(["oldest row", f"{median(ages):,.1f} s old when its batch was done (median)"])
    return rows


def _lags_most(source: SourceFacts, findings: Sequence[Finding]) -> str:
    told = [batch for batch in source.last_run if batch.waiting]
    if not told:
        return "unknown: give the log of metrics (metrics.log_file)"
    last = told[-1]
    left = last.unread or {tp: n - last.read.get(tp, 0) for tp, n in last.waiting.items()}
    if not any(lag > 0 for lag in left.values()):
        return "none: the last batch read all that was there"
    worst = min(left, key=lambda tp: (-left[tp], tp))
    whole = sum(left.values())
    why = _why_lag(source, told, findings, worst)
    return f"{worst}: {left[worst]:,} of {whole:,} records left; {why}"


def _why_lag(
    source: SourceFacts,
    told: Sequence[BatchFacts],
    findings: Sequence[Finding],
    worst: Partition,
) -> str:
    own = next((f for f in findings if f.about in (str(worst), worst.topic)), None)
    if own is not None:
        return f"{own.kind}: {own.about}" if own.about != str(worst) else f"{own.kind}, read alone"
    arrived = {tp: sum(b.waiting.get(tp, 0) for b in told) for tp in told[-1].waiting}
    share = arrived[worst] / (fmean(arrived.values()) or 1)
    most = f"it has {share:.1f} times the mean of what waits" if share >= _MORE else ""
    if source.growth is not None:
        return most or "all are behind"
    first, last = (sum(b.waiting.values()) for b in (told[0], told[-1]))
    if last < first:
        # What arrives slows it down, so the pace is that of the lag, not of reading.
        left = last - sum(told[-1].read.values())
        more = max(1, round(left * (len(told) - 1) / (first - last)))
        gone = f", gone in about {counted(more, 'more batch', 'more batches')}"
        slow = ", which hardly shrinks"
        return f"a backlog{gone if more <= _SOON else slow}{f'; {most}' if most else ''}"
    return most or "no partition stands out"


def _busiest(source: SourceFacts, findings: Sequence[Finding]) -> str:
    parts = source.slot_parts
    seconds = {slot: sum(of.values()) for slot, of in parts.items()}
    if not any(seconds.values()):
        return "unknown: give the plan log (assignor.planLog), or the address of Spark's UI"
    busiest, mean = max(seconds, key=lambda slot: (seconds[slot], slot)), fmean(seconds.values())
    times = seconds[busiest] / mean
    why = ": they are even" if times <= _EVEN else _why_busy(busiest, parts[busiest], findings)
    return f"{busiest}: {seconds_text(seconds[busiest])}, {times:.1f} times the mean of all{why}"


def _why_busy(slot: str, of: Mapping[Partition | None, float], findings: Sequence[Finding]) -> str:
    slow = [f.about.split()[0] for f in findings if f.kind == "slow executor"]
    if slot.rpartition("/")[0] in slow:
        return "; its executor is slow"
    if any(f.kind == "busy cluster" for f in findings):
        return "; it did what others could not"
    tp = max(of, key=lambda tp: of[tp])
    share = of[tp] / sum(of.values())
    return f"; {tp} is {share:.0%} of it" if tp is not None and share >= _MOST else ""
