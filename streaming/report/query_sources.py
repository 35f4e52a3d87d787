"""What a checkpoint, a plan log, a log of metrics and a UI know of each source of a query."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from assignor_bridge.model import Partition
from assignor_bridge.options import LAG_AWARE_STICKY
from streaming.replay.log import costs_in
from streaming.replay.plan_log import with_a_name
from streaming.replay.replayed import SPARK
from streaming.report.source_facts import SourceBatch, SourceFacts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from checkpoints.sticky_state import StickyState
    from streaming.observe.figures import BatchFigures
    from streaming.observe.query_progress import BatchProgress, SourceProgress
    from streaming.replay.log import Costs
    from streaming.replay.plan_log import LoggedPlan
    from streaming.report.query_facts import QueryFacts

#: A partition and an executor, and a number of each.
_Key = tuple[Partition, str]
_Reads = dict[_Key, float]
#: Who placed a batch in the metrics, and Spark's mapping there.
_STRATEGY = "assignor.strategy"
#: So far above its ideal a plan is not even.
_UNEVEN = 0.25


def sources_of(facts: QueryFacts) -> dict[str, SourceFacts]:
    """Return what is known of each source that read something, by its name in the checkpoint."""
    names = _indexes(facts)
    known = {}
    for name, index in names.items():
        progress = {
            p.batch: (p, s)
            for p in facts.progress
            for s in p.sources
            if s.index == index and s.has_data
        }
        source = _source(facts, name, progress, alone=len(names) == 1)
        if source.batches:
            known[name] = source
    return known


def _indexes(facts: QueryFacts) -> dict[str, int | None]:
    """Return the sources by their names in the checkpoint, each with its place in the progress."""
    indexes = sorted({s.index for p in facts.progress for s in p.sources})
    names = list(facts.log.sources) if facts.log else [str(index) for index in indexes]
    if len(names) == len(indexes) == 1:
        return {names[0]: indexes[0]}
    index_of = {str(index): index for index in indexes}
    return {name: index_of.get(name) for name in names}


def _source(
    facts: QueryFacts,
    name: str,
    progress: Mapping[int, tuple[BatchProgress, SourceProgress]],
    *,
    alone: bool,
) -> SourceFacts:
    logged = facts.log.sources.get(name, ()) if facts.log else ()
    ranges = {b.batch: {r.tp: r.size for r in b.ranges if r.size} for b in logged if b.records}
    plans = facts.plans.get(name, ())
    later = [*plans[1:], None]
    by_number = {p.number: _of_plan(p, after) for p, after in zip(plans, later, strict=False)}
    state = plans[-1].outcome.state if plans else None
    if state is None and facts.log is not None:
        state = facts.log.checkpoint.states.get(name)
    planned_by = {p.number: p.outcome.assignor for p in plans}
    strategies = {number: s.metrics.get(_STRATEGY, SPARK) for number, (_, s) in progress.items()}
    # A query without a state and our metrics has Spark alone.
    all_spark = state is None and set(strategies.values()) <= {SPARK}
    ui = {b.batch: b for b in facts.ui.batches} if facts.ui is not None and alone else {}
    batches, last = [], None
    for number in sorted(ranges.keys() | progress.keys()):
        assignor = planned_by.get(number, strategies.get(number, SPARK if all_spark else None))
        took = facts.log.seconds.get(number) if facts.log is not None else None
        batch = SourceBatch(number, ranges.get(number, {}), seconds=took)
        if number in ui:
            batch = _with_ui(batch, ui[number], assignor)
        if number in progress:
            batch = _with_progress(batch, *progress[number])
        if not batch.read:
            continue  # nobody says where it began
        if assignor == SPARK or (assignor and (batch.imbalance or 0.0) >= _UNEVEN):
            is_cut = number in ui and len(ui[number].tasks) > len(batch.read)
            batch = replace(batch, pieces={} if is_cut else batch.read)
        batches.append(replace(batch, **by_number.get(number, {})))
        last = assignor
    costs = costs_in(state)
    return SourceFacts(
        batches,
        last or (LAG_AWARE_STICKY if state is not None else None),
        plans[-1].batch.settings.split if plans else None,
        {tp: cost / costs.record for tp, cost in costs.unusual.items()} if costs else {},
        _slowness(state, costs),
        {r.executor: r.host for r in state.readers} if state else {},
        dict(plans[-1].batch.settings.weights) if plans else {},
    )


def _slowness(state: StickyState | None, costs: Costs | None) -> dict[str, float]:
    if state is None or costs is None:
        return {}
    ids = [reader.executor for reader in state.readers if reader.executor]
    return {name: costs.slowness.get(name, 1.0) for name in ids}


def _with_ui(batch: SourceBatch, figures: BatchFigures, assignor: str | None) -> SourceBatch:
    local = [task.local for task in figures.tasks]
    planned = local and assignor not in (None, SPARK)
    return replace(
        batch,
        seconds=figures.seconds,
        slots=len(figures.slots) or None,
        slot_seconds=figures.slot_seconds() if local else {},
        as_planned=sum(local) / len(local) if planned else None,
    )


def _with_progress(
    batch: SourceBatch, progress: BatchProgress, source: SourceProgress
) -> SourceBatch:
    read = batch.read
    if not read:
        read = {tp: offsets for tp, offsets in source.read.items() if offsets > 0}
    waiting = {tp: read.get(tp, 0) + held for tp, held in source.held_back.items()}
    slots, hits = source.number("slots"), source.number("localityHitRate")
    return replace(
        batch,
        read=read,
        waiting=waiting if source.latest else {},
        run=progress.run_id,
        began_s=progress.timestamp_s,
        seconds=progress.seconds,
        slots=int(slots) if slots else batch.slots,
        as_planned=batch.as_planned if hits is None else hits,
        held_back_by=source.metrics.get("assignor.heldBackBy"),
        imbalance=source.number("imbalance"),
    )


def _of_plan(plan: LoggedPlan, after: LoggedPlan | None) -> dict[str, Any]:
    """Return what a plan says of its batch; what its readers reported is in the plan after it."""
    batch, pieces = plan.batch, plan.outcome.tasks.pieces
    executors = [with_a_name(executor).id for executor in batch.executors]
    slots = [
        f"{executors[place]}/{number}"
        for place, number in zip(
            batch.slot_executor.tolist(), batch.slot_number.tolist(), strict=True
        )
    ]
    largest, planned = dict[Partition, int](), defaultdict[_Key, dict[str, int]](dict)
    columns = pieces.row.tolist(), pieces.slot.tolist(), (pieces.end - pieces.start).tolist()
    for row, slot, size in zip(*columns, strict=True):
        tp = Partition(batch.topics[int(batch.topic[row])], int(batch.partition[row]))
        of_executor = planned[tp, executors[int(batch.slot_executor[slot])]]
        of_executor[slots[slot]] = of_executor.get(slots[slot], 0) + size
        largest[tp] = max(largest.get(tp, 0), of_executor[slots[slot]])
    known: dict[str, Any] = {"slots": batch.slots, "pieces": largest}
    reads, seconds = _reported(after, executors[0] if batch.anonymous else None)
    if not reads or sum(reads.values()) > 1.01 * batch.total:  # of several batches
        return known
    sizes = {key: sum(of_slots.values()) for key, of_slots in planned.items()}
    known["slot_seconds"] = _share_over_slots(planned, seconds, slots)
    known["taken"] = _share_read_elsewhere(sizes, reads)
    if after is not None and "plannedHitRate" in after.outcome.metrics:
        known["as_planned"] = float(after.outcome.metrics["plannedHitRate"])
    return known


def _reported(after: LoggedPlan | None, only: str | None) -> tuple[_Reads, _Reads]:
    """Return the offsets and seconds that were reported; all of one executor, if it is alone."""
    reads, seconds = defaultdict[_Key, float](float), defaultdict[_Key, float](float)
    if after is None:
        return {}, {}
    seen = after.batch.observed
    columns = seen.topic, seen.partition, seen.executor, seen.records, seen.offsets, seen.seconds
    for topic, partition, executor, records, offsets, took in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        key = Partition(seen.topics[topic], partition), only or seen.executors[executor]
        reads[key] += next((n for n in (offsets, records) if math.isfinite(n)), 0.0)
        seconds[key] += took if math.isfinite(took) else 0.0
    return reads, seconds


def _share_over_slots(
    planned: Mapping[_Key, Mapping[str, int]], seconds: _Reads, slots: Sequence[str]
) -> dict[str, float]:
    """Share the seconds of each executor over its slots: as planned, else to the least busy."""
    worked = dict.fromkeys(slots, 0.0)
    for key in seconds.keys() & planned.keys():
        for slot, size in planned[key].items():
            worked[slot] += seconds[key] * size / sum(planned[key].values())
    for key in sorted(seconds.keys() - planned.keys()):
        executor = key[1]
        of_executor = [slot for slot in slots if slot.rpartition("/")[0] == executor]
        slot = min(of_executor or [f"{executor}/0"], key=lambda name: worked.get(name, 0.0))
        worked[slot] = worked.get(slot, 0.0) + seconds[key]
    return worked


def _share_read_elsewhere(planned: Mapping[_Key, int], reads: _Reads) -> dict[str, float]:
    """Return which share of each executor's planned offsets it did not read."""
    whole, missing = defaultdict[str, float](float), defaultdict[str, float](float)
    for key, offsets in planned.items():
        whole[key[1]] += offsets
        missing[key[1]] += max(0.0, offsets - reads.get(key, 0.0))
    return {executor: missing[executor] / whole[executor] for executor in whole}
