"""Combine the facts about each source from checkpoint, plan log, metrics log, and Spark's UI."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from assignor_bridge.model import Partition
from assignor_bridge.options import LAG_AWARE_STICKY
from streaming.replay.log import compute_costs
from streaming.replay.plan_log import name_executor
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

#: A partition and an executor that reads it.
_Key = tuple[Partition, str]
#: Offsets or seconds, by partition and executor.
_Amounts = dict[_Key, float]
#: Metric with the name of the batch's assignor.
_STRATEGY = "assignor.strategy"
#: If a plan's imbalance is at least this, its partitions are assumed not to be split.
_UNSPLIT_IMBALANCE = 0.25


def collect_sources(facts: QueryFacts) -> dict[str, SourceFacts]:
    """Return the facts about each source with data, by its name in a checkpoint, such as `0`."""
    index_by_name = _match_indexes(facts)
    sources = {}
    for name, index in index_by_name.items():
        progress = {
            p.batch: (p, s)
            for p in facts.progress
            for s in p.sources
            if s.index == index and s.has_data
        }
        source = _collect_source(facts, name, progress, is_only=len(index_by_name) == 1)
        if source.batches:
            sources[name] = source
    return sources


def _match_indexes(facts: QueryFacts) -> dict[str, int | None]:
    """Map each source's name in a checkpoint to its index in the progress; None if unknown."""
    indexes = sorted({s.index for p in facts.progress for s in p.sources})
    checkpoint_log = facts.checkpoint_log
    names = [*checkpoint_log.batches_by_source] if checkpoint_log else [*map(str, indexes)]
    if len(names) == len(indexes) == 1:
        return {names[0]: indexes[0]}
    index_by_name = {str(index): index for index in indexes}
    return {name: index_by_name.get(name) for name in names}


def _collect_source(
    facts: QueryFacts,
    name: str,
    progress: Mapping[int, tuple[BatchProgress, SourceProgress]],
    *,
    is_only: bool,
) -> SourceFacts:
    checkpoint_log = facts.checkpoint_log
    logged_batches = checkpoint_log.batches_by_source.get(name, ()) if checkpoint_log else ()
    data_batches = [b for b in logged_batches if b.offset_count]
    reads_by_batch = {b.batch: {r.tp: r.size for r in b.ranges if r.size} for b in data_batches}
    seconds_by_batch = checkpoint_log.seconds_by_batch if checkpoint_log else {}
    plans = facts.plans.get(name, ())
    plan_pairs = zip(plans, [*plans[1:], None], strict=False)
    plan_fields = {plan.number: _collect_fields(plan, next_plan) for plan, next_plan in plan_pairs}
    state = plans[-1].outcome.state if plans else None
    if state is None and checkpoint_log is not None:
        state = checkpoint_log.checkpoint.states.get(name)
    planned_assignor_by_batch = {p.number: p.outcome.assignor for p in plans}
    used_assignor_by_batch = {n: s.metrics.get(_STRATEGY, SPARK) for n, (_, s) in progress.items()}
    # Without planner state and assignor metrics, assume that Spark's default was used.
    is_spark = state is None and set(used_assignor_by_batch.values()) <= {SPARK}
    ui_by_batch = {b.batch: b for b in facts.ui_run.batches} if facts.ui_run and is_only else {}
    batches, last_assignor = [], None
    for number in sorted(reads_by_batch.keys() | progress.keys()):
        used_assignor = used_assignor_by_batch.get(number, SPARK if is_spark else None)
        assignor = planned_assignor_by_batch.get(number, used_assignor)
        reads = reads_by_batch.get(number, {})
        batch = SourceBatch(number, reads, seconds=seconds_by_batch.get(number))
        if number in ui_by_batch:
            batch = _add_ui(batch, ui_by_batch[number], assignor)
        if number in progress:
            batch = _add_progress(batch, *progress[number])
        if not batch.read_offsets:
            continue  # the batch's start offsets are unknown
        if assignor == SPARK or (assignor and (batch.imbalance or 0.0) >= _UNSPLIT_IMBALANCE):
            tasks = ui_by_batch[number].tasks if number in ui_by_batch else ()
            is_split = len(tasks) > len(batch.read_offsets)
            batch = replace(batch, piece_offsets={} if is_split else batch.read_offsets)
        batches.append(replace(batch, **plan_fields.get(number, {})))
        last_assignor = assignor
    costs = compute_costs(state)
    return SourceFacts(
        batches,
        last_assignor or (LAG_AWARE_STICKY if state is not None else None),
        plans[-1].batch.options.split if plans else None,
        {tp: cost / costs.record_s for tp, cost in costs.unusual_costs.items()} if costs else {},
        _list_slowness(state, costs),
        {r.executor: r.host for r in state.readers} if state else {},
        dict(plans[-1].batch.options.weights) if plans else {},
    )


def _list_slowness(state: StickyState | None, costs: Costs | None) -> dict[str, float]:
    if state is None or costs is None:
        return {}
    ids = [reader.executor for reader in state.readers if reader.executor]
    return {id_: costs.slowness.get(id_, 1.0) for id_ in ids}


def _add_ui(batch: SourceBatch, figures: BatchFigures, assignor: str | None) -> SourceBatch:
    are_local = [task.local for task in figures.tasks]
    is_planned = are_local and assignor not in (None, SPARK)
    return replace(
        batch,
        seconds=figures.seconds,
        slots=len(figures.slots) or None,
        slot_seconds=figures.sum_seconds_by_slot() if are_local else {},
        hit_rate=sum(are_local) / len(are_local) if is_planned else None,
    )


def _add_progress(
    batch: SourceBatch, progress: BatchProgress, source: SourceProgress
) -> SourceBatch:
    reads = batch.read_offsets or {tp: n for tp, n in source.read_offsets.items() if n > 0}
    unread_offsets = {tp: reads.get(tp, 0) + offsets for tp, offsets in source.held_back.items()}
    slots, hit_rate = source.get_number("slots"), source.get_number("localityHitRate")
    return replace(
        batch,
        read_offsets=reads,
        unread_offsets=unread_offsets if source.latest else {},
        run_id=progress.run_id,
        start_s=progress.timestamp_s,
        seconds=progress.seconds,
        slots=int(slots) if slots else batch.slots,
        hit_rate=batch.hit_rate if hit_rate is None else hit_rate,
        held_back_by=source.metrics.get("assignor.heldBackBy"),
        imbalance=source.get_number("imbalance"),
    )


def _collect_fields(plan: LoggedPlan, next_plan: LoggedPlan | None) -> dict[str, Any]:
    """Return `SourceBatch` fields from its plan and from its read reports in the next plan."""
    batch, tasks, pieces = plan.batch, plan.outcome.tasks, plan.outcome.tasks.pieces
    executors = [name_executor(executor).id for executor in batch.executors]
    slot_pairs = zip(batch.slot_executor.tolist(), batch.slot_number.tolist(), strict=True)
    slots = [f"{executors[executor]}/{number}" for executor, number in slot_pairs]
    piece_offsets, planned_sizes = dict[Partition, int](), defaultdict[_Key, dict[str, int]](dict)
    columns = pieces.row, pieces.slot, pieces.end - pieces.start, tasks.task >= tasks.head_count
    for row, slot, size, is_in_tail in zip(*(c.tolist() for c in columns), strict=True):
        tp = Partition(batch.topics[int(batch.topic[row])], int(batch.partition[row]))
        if is_in_tail:  # any slot may read it
            piece_offsets[tp] = max(piece_offsets.get(tp, 0), size)
            continue
        slot_sizes = planned_sizes[tp, executors[int(batch.slot_executor[slot])]]
        slot_sizes[slots[slot]] = slot_sizes.get(slots[slot], 0) + size
        piece_offsets[tp] = max(piece_offsets.get(tp, 0), slot_sizes[slots[slot]])
    fields: dict[str, Any] = {"slots": batch.slots, "piece_offsets": piece_offsets}
    reads, seconds = _sum_reports(next_plan, executors[0] if batch.anonymous else None)
    if not reads or sum(reads.values()) > 1.01 * batch.total_offsets:  # reports of several batches
        return fields
    sizes = {key: sum(slot_sizes.values()) for key, slot_sizes in planned_sizes.items()}
    fields["slot_seconds"] = _divide_among_slots(planned_sizes, reads, seconds, slots)
    fields["share_elsewhere"] = _compute_share_elsewhere(sizes, reads)
    if next_plan is not None and "plannedHitRate" in next_plan.outcome.metrics:
        fields["hit_rate"] = float(next_plan.outcome.metrics["plannedHitRate"])
    return fields


def _sum_reports(plan: LoggedPlan | None, executor_id: str | None) -> tuple[_Amounts, _Amounts]:
    """Return reports' offsets (else records) and seconds by key; `executor_id` replaces theirs."""
    reads, seconds = defaultdict[_Key, float](float), defaultdict[_Key, float](float)
    if plan is None:
        return {}, {}
    rows = plan.batch.reports
    columns = rows.topic, rows.partition, rows.executor, rows.records, rows.offsets, rows.seconds
    reports = zip(*(column.tolist() for column in columns), strict=True)
    for topic, partition, executor, records, offsets, took_s in reports:
        key = Partition(rows.topics[topic], partition), executor_id or rows.executors[executor]
        reads[key] += next((n for n in (offsets, records) if math.isfinite(n)), 0.0)
        seconds[key] += took_s if math.isfinite(took_s) else 0.0
    return reads, seconds


def _divide_among_slots(
    planned_sizes: Mapping[_Key, Mapping[str, int]],
    reads: _Amounts,
    seconds: _Amounts,
    slots: Sequence[str],
) -> dict[str, float]:
    """Divide each executor's seconds among its planned slots; other reads go to its idlest slot.

    Other reads are those of more offsets than planned: of a tail, or of pieces planned elsewhere.
    """
    worked_s, unplanned_s = dict.fromkeys(slots, 0.0), dict[_Key, float]()
    for key, key_s in seconds.items():
        size = sum(planned_sizes[key].values()) if key in planned_sizes else 0
        planned_share = min(1.0, size / max(reads[key], 1.0))
        unplanned_s[key] = key_s * (1 - planned_share)
        for slot, slot_size in planned_sizes.get(key, {}).items():
            worked_s[slot] += key_s * planned_share * slot_size / size
    for key, key_s in sorted(unplanned_s.items()):
        executor = key[1]
        executor_slots = [slot for slot in slots if slot.rpartition("/")[0] == executor]
        slot = min(executor_slots or [f"{executor}/0"], key=lambda name: worked_s.get(name, 0.0))
        worked_s[slot] = worked_s.get(slot, 0.0) + key_s
    return worked_s


def _compute_share_elsewhere(sizes: Mapping[_Key, int], reads: _Amounts) -> dict[str, float]:
    """Return the share of each executor's planned offsets that it did not read."""
    all_offsets, missing_offsets = defaultdict[str, float](float), defaultdict[str, float](float)
    for key, offsets in sizes.items():
        all_offsets[key[1]] += offsets
        missing_offsets[key[1]] += max(0.0, offsets - reads.get(key, 0.0))
    return {executor: missing_offsets[executor] / n for executor, n in all_offsets.items()}
