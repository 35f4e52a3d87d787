"""Diagnose a query: find the causes that slow it down, their costs, and their remedies.

`diagnose` is a pure function that returns the costliest cause first. Effects below a threshold are
not reported. Missing data is never reported as a cause.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal

import numpy as np

from assignor_bridge.admission.batch_inputs import Budget
from assignor_bridge.admission.fill import fill
from assignor_bridge.errors import elide, pluralize
from assignor_bridge.model import Partition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streaming.report.source_facts import SourceBatch, SourceFacts

_SlotKind = Literal["hot key", "few partitions", "slow executor", "busy cluster", "uneven slots"]
_LagKind = Literal["too few slots", "overhead", "small batches", "starved topic", "alignment"]
Kind = Literal[_SlotKind, _LagKind]

#: Minimum number of batches with a cause; fewer may be noise or the start of the query.
_MIN_BATCHES = 3
#: Minimum cost of a hot partition and of uneven slots (see `Cause.cost`).
MIN_COST = 0.2
#: A partition may be hot if one slot reads this many times a slot's fair share of work from it.
_MIN_FAIR_SHARES = 1 / (1 - MIN_COST)
#: If reading times are unknown: minimum offsets of a batch's largest piece for balance to matter.
_MIN_PIECE_OFFSETS = 1000
#: Minimum work of a hot partition relative to the median of the other partitions.
_MIN_OVER_MEDIAN = 2.0
#: Minimum work relative to the next largest partition, if its share is below `_MIN_SHARE`.
_MIN_OVER_NEXT = 1.5
_MIN_SHARE = 0.5
#: A slow executor takes at least this many times as long as the median of the other executors.
_MIN_SLOWNESS = 1.5
#: The cluster is busy if a smaller share of reads ran on their planned executor.
_MIN_HIT_RATE = 0.8
#: An executor is named as busy if at least this share of its planned reads ran elsewhere.
_MIN_ELSEWHERE = 0.3
#: If reading takes a smaller share of the time, more slots would not help.
_MIN_READING_SHARE = 0.5
#: `held_back_by` if more slots may help: unknown, no limit, one on seconds, or a fallback.
_EASED_BY_SLOTS = (None, "nothing", "seconds", "spark")
#: A topic is starved if it gets a smaller fraction of its even share.
_MIN_EVEN_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Cause:
    """A reason why a query is slower than it could be."""

    kind: Kind
    #: The affected partitions, executors, or topic; empty if the whole query is affected.
    about: str
    why: str
    #: What the user can do about it.
    remedy: str
    #: Lost share of the query's (or topic's) possible throughput, from 0 to 1; for a busy cluster,
    #: the share of reads that ran on another executor than planned.
    cost: float

    @property
    def title(self) -> str:
        """Short text with the kind of cause and what it affects."""
        return f"{self.kind.capitalize()}{': ' if self.about else ''}{self.about}"


def diagnose(facts: SourceFacts) -> list[Cause]:
    """Return the causes that slow a query down, the costliest first."""
    causes = [*_find_hot_partition(facts), *_find_slow_executors(facts)]
    needed_share = 1 - max((cause.cost for cause in causes), default=0.0)
    # A busy cluster's cost is a share of reads, not of time, so `needed_share` ignores it.
    causes += [*_find_busy_cluster(facts), *_explain_lag_growth(facts, needed_share)]
    return sorted([*causes, *_find_starvation(facts)], key=lambda cause: -cause.cost)


def _find_hot_partition(facts: SourceFacts) -> list[Cause]:
    """Return the cause if one partition often loads a slot far above its fair share of the work.

    The cause is few partitions if this one does not stand out from the others, else a hot key.
    """
    busiest_work, work_by_partition = 0.0, defaultdict[Partition, float](float)
    ratios = defaultdict[Partition, list[float]](list)
    excess_work = defaultdict[Partition, float](float)
    slots = 0
    for batch in facts.batches:
        work = _weigh_offsets(batch.read_offsets, facts)
        for tp, amount in work.items():
            work_by_partition[tp] += amount
        pieces = _weigh_offsets(batch.piece_offsets, facts)
        if not batch.slots:
            continue
        slots, fair_work = batch.slots, sum(work.values()) / batch.slots
        if not pieces:
            busiest_work += fair_work  # unknown pieces are assumed to be balanced
            continue
        largest_tp = max(pieces, key=lambda tp: (pieces[tp], tp))
        busiest_work += max(pieces[largest_tp], fair_work)
        if pieces[largest_tp] >= _MIN_FAIR_SHARES * fair_work:
            excess_work[largest_tp] += pieces[largest_tp] - fair_work
            ratios[largest_tp].append(pieces[largest_tp] / fair_work)
    candidate = max(excess_work, key=lambda tp: (excess_work[tp], tp), default=None)
    if (
        candidate is None
        or _is_reading_short(facts)
        or len(ratios[candidate]) < _MIN_BATCHES
        or excess_work[candidate] < MIN_COST * busiest_work
    ):
        return []
    partitions = {tp for b in facts.batches for tp in (*b.read_offsets, *b.unread_offsets)}
    other_work = [work_by_partition.get(tp, 0.0) for tp in partitions if tp != candidate]
    effect = (
        f"alone, so reading takes {median(ratios[candidate]):.1f} times as long as if all "
        f"{pluralize(slots, 'slot')} shared the work"
    )
    remedy, cost = _suggest_split(facts), excess_work[candidate] / busiest_work
    share = work_by_partition[candidate] / sum(work_by_partition.values())
    if (
        not other_work
        or work_by_partition[candidate] < _MIN_OVER_MEDIAN * median(other_work)
        or (share < _MIN_SHARE and work_by_partition[candidate] < _MIN_OVER_NEXT * max(other_work))
    ):
        candidate_work = work_by_partition[candidate]
        large_count = 1 + sum(candidate_work <= _MIN_OVER_MEDIAN * work for work in other_work)
        count = len(partitions)
        large_text = "" if large_count == count else f" large partitions of {count}"
        about = f"{large_count}{large_text} for {pluralize(slots, 'slot')}"
        why = f"one slot reads {candidate} {effect}"
        return [Cause("few partitions", about, why, remedy, cost)]
    why = (
        f"this partition has {share:.0%} of the work, probably because most of its records "
        f"have the same key; one slot reads it {effect}"
    )
    remedy = f"{remedy}; or let the producer split the key into several"
    return [Cause("hot key", str(candidate), why, remedy, cost)]


def _is_reading_short(facts: SourceFacts) -> bool:
    """Return whether reading takes too little time (or if unknown, too few offsets) to matter."""
    if facts.reading_share is not None:
        return facts.reading_share < MIN_COST
    largest_pieces = [max(b.piece_offsets.values(), default=0) for b in facts.batches]
    return median(largest_pieces) < _MIN_PIECE_OFFSETS


def _weigh_offsets(offsets: Mapping[Partition, int], facts: SourceFacts) -> dict[Partition, float]:
    """Multiply each partition's offsets by its relative cost; omit partitions without offsets."""
    return {tp: n * facts.relative_costs.get(tp, 1.0) for tp, n in offsets.items() if n > 0}


def _suggest_split(facts: SourceFacts) -> str:
    if facts.split is False:
        return "split it over several slots: remove assignor.split=false, if row order may change"
    return "split it over several slots: set assignor=lag-aware-sticky, or Spark's minPartitions"


def _find_slow_executors(facts: SourceFacts) -> list[Cause]:
    slowness = facts.slowness
    if len(slowness) < 2:
        return []
    total_speed, causes = sum(1 / factor for factor in slowness.values()), []
    remedy = (
        "check its host for other load (CPU, disk, other containers), or replace it; until then "
        "lag-aware-sticky gives it less to read"
    )
    for name, factor in sorted(slowness.items()):
        usual_factor = median(other for key, other in slowness.items() if key != name)
        if factor < _MIN_SLOWNESS * usual_factor:
            continue
        cost = 1 - total_speed / (total_speed - 1 / factor + 1 / usual_factor)
        host = f" on {facts.hosts[name]}" if facts.hosts.get(name) else ""
        cost_text = f"{cost:.0%}" if cost >= 0.01 else "less than 1%"
        why = (
            f"it takes {factor / usual_factor:.1f} times as long as the others for the same "
            f"records, which costs {cost_text} of the total throughput"
        )
        causes.append(Cause("slow executor", f"{name}{host}", why, remedy, cost))
    return causes


def _find_busy_cluster(facts: SourceFacts) -> list[Cause]:
    batches = [b for b in facts.batches if b.hit_rate is not None]
    hit_rate = median(b.hit_rate or 0.0 for b in batches) if len(batches) >= _MIN_BATCHES else 1.0
    if hit_rate >= _MIN_HIT_RATE:
        return []
    shares = [b.share_elsewhere for b in batches if b.share_elsewhere]
    names = sorted({name for by_name in shares for name in by_name}, key=lambda n: (len(n), n))
    busy_executors = [n for n in names if median(s.get(n, 0.0) for s in shares) >= _MIN_ELSEWHERE]
    plural = "s" * (len(busy_executors) > 1)
    about = f"executor{plural} {elide(busy_executors, 5)}" if busy_executors else ""
    why = (
        f"only {hit_rate:.0%} of the reads ran on their planned executors, because other work "
        "occupied slots when the tasks started"
    )
    remedy = (
        "check which other jobs run in this application (Jobs in Spark's UI); give the query its "
        "own application, or plan it for fewer slots (assignor.slots)"
    )
    return [Cause("busy cluster", about, why, remedy, 1 - hit_rate)]


def _explain_lag_growth(facts: SourceFacts, needed_share: float) -> list[Cause]:
    """Return the cause of growing lag; none without growth, or if fixing the worst cause is enough.

    `needed_share` is the share of the reading time that would remain if that cause were fixed.
    """
    ratio, reading_share = facts.arrival_ratio, facts.reading_share
    if ratio is None or (needed_share < 1 and ratio * needed_share <= 1):
        return []
    arrivals = f"records arrive {ratio:.2f} times as fast as they are read"
    share = facts.running_share * (1 if reading_share is None else reading_share)
    if share < _MIN_READING_SHARE:
        qualifier = "only" if reading_share is not None else "at most"
        is_idle = facts.running_share < 1 - MIN_COST
        idle_text = f"; for {1 - facts.running_share:.0%}, no batch runs" * is_idle
        why = (
            f"{arrivals}, but reading takes {qualifier} {share:.0%} of the time{idle_text}; "
            "batches also plan, write, and commit"
        )
        remedy = (
            "read more records per batch (maxOffsetsPerTrigger), use a shorter trigger, or make "
            "the commit cheaper"
        )
        return [Cause("overhead", "", why, remedy, 1 - share)]
    limited_count = sum(b.held_back_by not in _EASED_BY_SLOTS for b in facts.batches)
    if reading_share is None and limited_count > len(facts.batches) / 2:
        why = f"{arrivals}; a limit caps most batches, and the reading times of slots are unknown"
        remedy = (
            "read more records per batch (maxOffsetsPerTrigger) if slots are idle, otherwise add "
            "slots; the plan log (assignor.planLog) and Spark's UI show idle slots"
        )
        return [Cause("small batches", "", why, remedy, 1 - 1 / ratio)]
    slots, busy_share = facts.slots, facts.busy_share
    slots_text = f" by {pluralize(slots, 'slot')}" if slots else ""
    busy_text = "" if busy_share is None else f", busy for {busy_share:.0%} of the batch time"
    advice = f"about {math.ceil(slots * ratio)} slots would keep up" if slots else "add slots"
    why = f"{arrivals}{slots_text}{busy_text}, so lag grows"
    remedy = f"{advice}; or reduce the work per record. No assignor would help"
    return [Cause("too few slots", "", why, remedy, 1 - 1 / ratio)]


def _find_starvation(facts: SourceFacts) -> list[Cause]:
    limited_batches = [b for b in facts.batches if b.is_limited and any(b.read_offsets.values())]
    total_read_by_topic, total_even_by_topic = Counter[str](), Counter[str]()
    starved_count_by_topic = Counter[str]()
    for batch in limited_batches:
        read_by_topic, even_by_topic = Counter[str](), Counter[str]()
        for tp, offsets in _share_evenly(batch, facts.weights).items():
            even_by_topic[tp.topic] += offsets
            read_by_topic[tp.topic] += batch.read_offsets.get(tp, 0)
        for topic, offsets in even_by_topic.items():
            total_read_by_topic[topic] += read_by_topic[topic]
            total_even_by_topic[topic] += offsets
            starved_count_by_topic[topic] += read_by_topic[topic] < _MIN_EVEN_SHARE * offsets
    causes, total_offsets = [], sum(total_read_by_topic.values())
    is_aligned = sum(b.held_back_by == "time" for b in limited_batches) > len(limited_batches) / 2
    for topic in sorted(total_even_by_topic):
        share = total_read_by_topic[topic] / (total_even_by_topic[topic] or 1)
        is_brief = starved_count_by_topic[topic] < _MIN_BATCHES
        if not total_offsets or is_brief or share >= _MIN_EVEN_SHARE:
            continue
        largest_topic, max_offsets = max(total_read_by_topic.items(), key=lambda item: item[::-1])
        why = (
            f"it got {share:.0%} of its even share in "
            f"{pluralize(len(limited_batches), 'limited batch', 'limited batches')}; "
            f"{largest_topic} got {max_offsets / total_offsets:.0%} of the records"
        )
        kind: Kind = "alignment" if is_aligned else "starved topic"
        remedy = "set assignor.fairness=even, or set a floor for the topic"
        if is_aligned:
            why += ", which are older (assignor.alignEventTime)"
            remedy = f"wait until {largest_topic} has caught up; or read it with a separate query"
        causes.append(Cause(kind, topic, why, remedy, 1 - share))
    return causes


def _share_evenly(batch: SourceBatch, weights: Mapping[str, float]) -> dict[Partition, int]:
    """Divide the batch's number of offsets in proportion to weights, up to each partition's lag."""
    lag_pairs = sorted((tp, lag) for tp, lag in batch.unread_offsets.items() if lag > 0)
    lags = np.array([lag for _, lag in lag_pairs], np.int64)
    weight = np.array([weights.get(tp.topic.lower(), 1.0) for tp, _ in lag_pairs])
    budget = Budget("records", np.ones(len(lags)), float(sum(batch.read_offsets.values())))
    shares, _ = fill(np.zeros_like(lags), lags, weight, [budget], np.arange(len(lags)))
    return {tp: share for (tp, _), share in zip(lag_pairs, shares.tolist(), strict=True)}
