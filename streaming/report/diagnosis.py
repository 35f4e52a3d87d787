"""What holds a query up: the causes that its run shows, what each costs, and what would help.

A pure function from facts to findings, the costliest first. A cause is named where it costs a good
part of several batches; what nobody told is no cause.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal

import numpy as np

from assignor_bridge.admission.fill import fill
from assignor_bridge.admission.lag import Budget
from assignor_bridge.errors import counted
from assignor_bridge.model import Partition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streaming.report.source_facts import SourceBatch, SourceFacts

Kind = Literal[
    "hot key", "few partitions", "slow executor", "busy cluster", "too few slots", "overhead",
    "small batches", "starved topic", "alignment", "uneven slots",
]  # fmt: skip

#: What happens in fewer batches is chance, or the start of the query.
_LEAST_BATCHES = 3
#: Least cost of a cause, as a share of the time of all batches; and the same in fair shares.
LEAST_COST = 0.2
_HOT = 1 / (1 - LEAST_COST)
#: Where nobody says how long reading took, a piece has so many records at least.
_LEAST_PIECE = 1000
#: A hot partition has so many times as much as the median of the others, and so many times as much
#: as the next one or half of all; else there are too few.
_STANDS_OUT, _NEXT, _HALF = 2.0, 1.5, 0.5
#: How many times as long as the others an executor takes.
_SLOW = 1.5
#: Reads that ran where they were planned: fewer than this share are too few.
_AS_PLANNED = 0.8
#: Executors whose planned reads ran elsewhere, named from this share.
_TAKEN = 0.3
#: Less of the time than this is reading: more slots would not help.
_MOSTLY = 0.5
#: What holds a batch back but says nothing against more slots.
_NO_LIMIT = (None, "nothing", "seconds")
#: A topic that gets less than this share of what even sharing would give it.
_STARVED = 0.25


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause."""

    kind: Kind
    #: The partition, executors or topic that it is about; empty for all.
    about: str
    why: str
    #: What would help.
    remedy: str
    #: How much of what the query, or the topic, could have it costs: from 0 to 1.
    cost: float

    @property
    def title(self) -> str:
        """The cause in a few words."""
        return f"{self.kind.capitalize()}{': ' if self.about else ''}{self.about}"


def diagnose(facts: SourceFacts) -> list[Cause]:
    """Return what holds a query up, the costliest first; nothing where nothing does."""
    found = [*_hot_key(facts), *_slow_executors(facts)]
    spare = 1 - max((finding.cost for finding in found), default=0.0)
    # Reads that run elsewhere are read all the same: their share is not one of time.
    found += [*_busy_cluster(facts), *_behind(facts, spare), *_starved(facts)]
    return sorted(found, key=lambda finding: -finding.cost)


def _hot_key(facts: SourceFacts) -> list[Cause]:
    """Find a partition that one slot reads alone for much longer than a fair share takes."""
    took, sums = 0.0, defaultdict[Partition, float](float)
    times, lost = defaultdict[Partition, list[float]](list), defaultdict[Partition, float](float)
    slots = 0
    for batch in facts.batches:
        work = _work(batch.read, facts)
        for tp, amount in work.items():
            sums[tp] += amount
        pieces = _work(batch.pieces, facts)
        if not batch.slots:
            continue
        slots, fair = batch.slots, sum(work.values()) / batch.slots
        if not pieces:
            took += fair  # nobody says that it was uneven
            continue
        largest = max(pieces, key=lambda tp: (pieces[tp], tp))
        took += max(pieces[largest], fair)
        if pieces[largest] >= _HOT * fair:
            lost[largest] += pieces[largest] - fair
            times[largest].append(pieces[largest] / fair)
    hot = max(lost, key=lambda tp: (lost[tp], tp), default=None)
    if (
        hot is None
        or _reads_little(facts)
        or len(times[hot]) < _LEAST_BATCHES
        or lost[hot] < LEAST_COST * took
    ):
        return []
    known = {tp for batch in facts.batches for tp in (*batch.read, *batch.waiting)}
    others = [sums.get(tp, 0.0) for tp in known if tp != hot]
    alone = (
        f"one slot reads {{}} alone, so reading takes {median(times[hot]):.1f} times as long as if "
        f"all {counted(slots, 'slot')} shared it"
    )
    cost, share = lost[hot] / took, sums[hot] / sum(sums.values())
    if (
        not others
        or sums[hot] < _STANDS_OUT * median(others)
        or (share < _HALF and sums[hot] < _NEXT * max(others))
    ):
        large = 1 + sum(sums[hot] <= _STANDS_OUT * other for other in others)
        many = f"{large}" if large == len(known) else f"{large} large ones of {len(known)}"
        about = f"{many} for {counted(slots, 'slot')}"
        return [Cause("few partitions", about, alone.format(hot), _how_to_cut(facts), cost)]
    return [
        Cause(
            "hot key", str(hot),
            f"this partition has {share:.0%} of the work, as when most records have one key; "
            + alone.format("it"),
            f"{_how_to_cut(facts)}; or spread the key over several when producing", cost,
        )
    ]  # fmt: skip


def _reads_little(facts: SourceFacts) -> bool:
    """Return whether reading is a small part of the batches, so that its balance hardly counts."""
    if facts.reading is not None:
        return facts.reading < LEAST_COST
    return median(max(b.pieces.values(), default=0) for b in facts.batches) < _LEAST_PIECE


def _work(offsets: Mapping[Partition, int], facts: SourceFacts) -> dict[Partition, float]:
    """Weigh offsets by what a record of their partition costs."""
    return {tp: n * facts.costs.get(tp, 1.0) for tp, n in offsets.items() if n > 0}


def _how_to_cut(facts: SourceFacts) -> str:
    if facts.split is False:
        return "let it be cut over slots: without assignor.split=false, if order allows"
    return "let it be cut over slots: assignor=lag-aware-sticky, or Spark's minPartitions"


def _slow_executors(facts: SourceFacts) -> list[Cause]:
    slowness = facts.slowness
    if len(slowness) < 2:
        return []
    speed, found = sum(1 / slow for slow in slowness.values()), []
    for name, slow in sorted(slowness.items()):
        usual = median(other for key, other in slowness.items() if key != name)
        if slow < _SLOW * usual:
            continue
        cost = 1 - speed / (speed - 1 / slow + 1 / usual)
        host = f" on {facts.hosts[name]}" if facts.hosts.get(name) else ""
        found.append(
            Cause(
                "slow executor", f"{name}{host}",
                f"it takes {slow / usual:.1f} times as long as the others for the same records, "
                f"which costs {cost:.0%} of what all of them could read",
                "look for what else its host does (load, disk, other containers), or replace it; "
                "meanwhile lag-aware-sticky gives it less to read", cost,
            )
        )  # fmt: skip
    return found


def _busy_cluster(facts: SourceFacts) -> list[Cause]:
    known = [b for b in facts.batches if b.as_planned is not None]
    hits = median(b.as_planned or 0.0 for b in known) if len(known) >= _LEAST_BATCHES else 1.0
    if hits >= _AS_PLANNED:
        return []
    told = [b.taken for b in known if b.taken]
    names = sorted({name for taken in told for name in taken}, key=lambda n: (len(n), n))
    held = [n for n in names if median(taken.get(n, 0.0) for taken in told) >= _TAKEN]
    return [
        Cause(
            "busy cluster", f"executor{'s' * (len(held) > 1)} {', '.join(held)}" if held else "",
            f"only {hits:.0%} of the reads ran where they were planned: something else held slots "
            "when the tasks began",
            "see what else runs in this application (Spark's UI, Jobs); give the query one of its "
            "own, or plan it for fewer slots (assignor.slots)", 1 - hits,
        )
    ]  # fmt: skip


def _behind(facts: SourceFacts, spare: float) -> list[Cause]:
    """Say why lag grows, unless the query would keep up without the causes that are known.

    Parameters
    ----------
    spare
        Share of the time that would be enough without them.
    """
    times, reading = facts.growth, facts.reading
    if times is None or (spare < 1 and times * spare <= 1):
        return []
    arrive = f"records arrive {times:.1f} times as fast as they are read"
    used = facts.awake * (1 if reading is None else reading)
    if used < _MOSTLY:
        most = "at most " if reading is None else ""
        idle = f", in {1 - facts.awake:.0%} of it no batch runs" * (facts.awake < 1 - LEAST_COST)
        return [
            Cause(
                "overhead", "",
                f"{arrive}, but {most or 'only '}{used:.0%} of the time is reading{idle}; the rest "
                "is waiting for a trigger, planning, sink and commits",
                "more records a batch (maxOffsetsPerTrigger), a shorter trigger, or a cheaper "
                "commit", 1 - used,
            )
        ]  # fmt: skip
    held = sum(b.held_back_by not in _NO_LIMIT for b in facts.batches)
    if reading is None and held > len(facts.batches) / 2:
        return [
            Cause(
                "small batches", "",
                f"{arrive}; a limit holds most batches back, and nobody says how long slots read",
                "more records a batch (maxOffsetsPerTrigger) if slots are idle, else more slots: "
                "the plan log (assignor.planLog) and Spark's UI tell", 1 - 1 / times,
            )
        ]  # fmt: skip
    slots, busy = facts.slots, facts.busy
    by = f" by {counted(slots, 'slot')}" if slots else ""
    worked = "" if busy is None else f", which read {busy:.0%} of the time of a batch"
    enough = f"about {math.ceil(slots * times)} slots would keep up" if slots else "more slots"
    return [
        Cause(
            "too few slots", "", f"{arrive}{by}{worked}; lag grows",
            f"{enough}; or less work per record. No other mapping helps", 1 - 1 / times,
        )
    ]  # fmt: skip


def _starved(facts: SourceFacts) -> list[Cause]:
    limited = [b for b in facts.batches if b.limited and any(b.read.values())]
    got, fair = defaultdict[str, int](int), defaultdict[str, int](int)
    count_text = defaultdict[str, int](int)
    for batch in limited:
        read, even = defaultdict[str, int](int), defaultdict[str, int](int)
        for tp, offsets in _evenly(batch, facts.weights).items():
            even[tp.topic] += offsets
            read[tp.topic] += batch.read.get(tp, 0)
        for topic, offsets in even.items():
            got[topic] += read[topic]
            fair[topic] += offsets
            count_text[topic] += read[topic] < _STARVED * offsets
    found, whole = [], sum(got.values())
    by_time = sum(b.held_back_by == "time" for b in limited) > len(limited) / 2
    for topic in sorted(fair):
        if not whole or count_text[topic] < _LEAST_BATCHES or got[topic] >= _STARVED * fair[topic]:
            continue
        first = max(got, key=lambda name: (got[name], name))
        why = (
            f"it got {got[topic] / fair[topic]:.0%} of an even share of "
            f"{counted(len(limited), 'limited batch', 'limited batches')}; {first} took "
            f"{got[first] / whole:.0%} of all"
        )
        kind: Kind = "alignment" if by_time else "starved topic"
        remedy = "assignor.fairness=even, or a floor for it"
        if by_time:
            why += ", whose records are older (assignor.alignEventTime)"
            remedy = "nothing, while a backlog is read in order; else read it with another query"
        found.append(Cause(kind, topic, why, remedy, 1 - got[topic] / fair[topic]))
    return found


def _evenly(batch: SourceBatch, weights: Mapping[str, float]) -> dict[Partition, int]:
    """Share what a batch read evenly over what waited, by weight."""
    waiting = sorted((tp, lag) for tp, lag in batch.waiting.items() if lag > 0)
    most = np.array([lag for _, lag in waiting], np.int64)
    weight = np.array([weights.get(tp.topic.lower(), 1.0) for tp, _ in waiting])
    budget = Budget("records", np.ones(len(most)), float(sum(batch.read.values())))
    shares, _ = fill(np.zeros_like(most), most, weight, [budget], np.arange(len(most)))
    return {tp: share for (tp, _), share in zip(waiting, shares.tolist(), strict=True)}
