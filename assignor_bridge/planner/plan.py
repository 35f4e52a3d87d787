"""Plan a micro-batch: `plan_step` calls one function per step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from assignor_bridge.assignors.own import configure_assignors
from assignor_bridge.assignors.registry import Choice, choose, lookup
from assignor_bridge.options import LAG_AWARE_STICKY
from assignor_bridge.planner.cold_reads import update_cold_read_s
from assignor_bridge.planner.costs import predict
from assignor_bridge.planner.demand import estimate_demand, may_request_executors
from assignor_bridge.planner.explanation import explain, explain_tail
from assignor_bridge.planner.flagship import FAILOVER, place_batch
from assignor_bridge.planner.group_assignors import build_slot_group, notify_assignor, place_group
from assignor_bridge.planner.learning import learn
from assignor_bridge.planner.pack import pack
from assignor_bridge.planner.remember import MAX_HOLD_BATCHES, remember
from assignor_bridge.planner.slots import share_slots
from assignor_bridge.planner.table import load_table
from assignor_bridge.planner.tail import find_lines_in_tail, plan_tail
from assignor_bridge.planner.task_list import TaskList, append_tail
from assignor_bridge.planner.unpredictability import compute_unpredictability, update_spreads
from assignor_bridge.planner.verify import check_plan
from checkpoints.state_text import decode_or_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from assignor_bridge.assignors.group import Group
    from assignor_bridge.assignors.protocol import Assignor
    from assignor_bridge.options import PlannerOptions
    from assignor_bridge.planner.batch import MicroBatch
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.table import PartitionTable
    from checkpoints.sticky_state import StickyState

    FindAssignor = Callable[[str], Assignor]

#: Assignors that the planner implements itself; all others assign the partitions of a group.
_BUILT_IN = frozenset({LAG_AWARE_STICKY, FAILOVER})


@dataclass(frozen=True, eq=False)
class PlannedBatch:
    """A plan as columns, with the next state, metrics, and reasons."""

    assignor: str
    batch: MicroBatch
    tasks: TaskList
    #: Standby executor ids by task, most preferred first; tasks without standbys have no entry.
    standbys: Mapping[int, tuple[str, ...]]
    state: StickyState
    metrics: Mapping[str, str | int | float]
    reasons: tuple[str, ...]


def plan_batch(
    batch: MicroBatch, state_text: str | None, find_assignor: FindAssignor = lookup
) -> PlannedBatch:
    """Plan one micro-batch: which executor slot reads which offsets.

    `state_text`: state after the last batch; None or invalid text is no state.
    Raises `OptionError` for invalid options or data, and `PlanError` for an invalid assignment.

    >>> from streaming.human_json.snapshots import parse_snapshot, plan_to_json
    >>> executors = [{"id": "1", "host": "host-a"}, {"id": "2", "host": "host-b"}]
    >>> lags = {0: 700, 1: 100}
    >>> ranges = [{"topic": "t", "partition": p, "start": 0, "end": n} for p, n in lags.items()]
    >>> batch, state = parse_snapshot({"executors": executors, "ranges": ranges})
    >>> for task in plan_to_json(plan_batch(batch, state))["tasks"]:
    ...     print(task["executor"], *(list(r.values())[1:] for r in task["ranges"]))
    1 [0, 300, 700]
    2 [0, 0, 300] [1, 0, 100]
    """
    state, warning = decode_or_empty(state_text)
    return plan_step(batch, state, find_assignor, warning)


def plan_step(
    batch: MicroBatch,
    state: StickyState,
    find_assignor: FindAssignor = lookup,
    warning: str | None = None,
) -> PlannedBatch:
    """Plan with a decoded state (see `plan_batch`); the reasons include a `warning` about it.

    1. Select the slots that the query may use, and match the state to them.
    2. Learn from the reports, and predict the work of each range.
    3. Choose the executors in use, and place all ranges on their slots.
    4. Cut a shared tail off the pieces, pack both into tasks, and check that these read each
       offset exactly once.
    5. Build the next state, and explain the plan.
    """
    # 1. Select slots, and match the state.
    batch = share_slots(batch, state)
    is_built_in = _BUILT_IN.issuperset(batch.options.assignors)
    table = load_table(state, batch, None if is_built_in else MAX_HOLD_BATCHES)
    # 2. Learn and predict.
    learned_state, prediction_error, predicted_s = learn(table, batch)
    weights = predict(learned_state, table.line, batch)
    spreads = update_spreads(table, batch, predicted_s)
    cold_read_s = update_cold_read_s(table, batch)
    # 3. Choose executors and place.
    demand = estimate_demand(batch, table, weights)
    choice, group = _choose_assignor(batch, table, weights, find_assignor)
    if group is None:
        placement = place_batch(choice, batch, table, weights, demand)
    else:
        placement = place_group(choice, group, batch, table, weights)
    # 4. Cut, pack, and check. A group assignor's partitions are not cut.
    tail, unpredictability = None, compute_unpredictability(spreads)
    if group is None and not may_request_executors(batch):  # waiting tasks would request them
        tail = plan_tail(batch, weights, placement.pieces, unpredictability, cold_read_s)
    if tail is None:
        tasks = pack(batch, placement.pieces, weights, demand, top_up=group is None)
    else:
        heads = pack(batch, tail.heads, weights, demand, tail_count=tail.task_count)
        tasks = append_tail(batch, heads, tail)
    check_plan(placement.assignor, batch, tasks.pieces, tasks.task, len(tasks))
    # 5. Build the next state and explain.
    next_state = replace(
        remember(batch, table, learned_state, placement, tasks, calm_streak=demand.calm_streak),
        spreads=spreads,
        cold_read_s=cold_read_s,
        in_tail=find_lines_in_tail(table, tail),
    )
    generation, inputs = next_state.generation, (batch, table, weights, placement, tasks)
    if group is not None and placement.assignment is not None:
        notify_assignor(choice.assignor, group, placement.assignment, generation)
    metrics, reasons = explain(
        *inputs,
        demand=demand,
        generation=generation,
        prediction_error=prediction_error,
        state_warning=warning,
    )
    if batch.options.max_tail_tasks_per_slot:
        tail_metrics, tail_reasons = explain_tail(tail, unpredictability)
        metrics, reasons = metrics | tail_metrics, [*reasons, *tail_reasons]
    standbys_by_slot, task_slots = placement.standbys, tasks.slot.tolist()
    standbys = {t: standbys_by_slot[s] for t, s in enumerate(task_slots) if s in standbys_by_slot}
    return PlannedBatch(
        placement.assignor, batch, tasks, standbys, next_state, metrics, tuple(reasons)
    )


def _choose_assignor(
    batch: MicroBatch, table: PartitionTable, weights: Weights, find_assignor: FindAssignor
) -> tuple[Choice, Group | None]:
    """Choose an assignor in the list (see `choose`); also return the group of slots to assign.

    The group is None if the planner implements the assignor itself.
    """
    options = batch.options
    if options.assignors[0] in _BUILT_IN:
        return Choice(lookup(options.assignors[0])), None
    assignor_by_name = configure_assignors(options.assignors, options.custom_options, find_assignor)
    group = build_slot_group(batch, table, weights)
    choice = choose(options.assignors, group, assignor_by_name.__getitem__)
    return choice, None if choice.assignor.name in _BUILT_IN else group


def check_assignors(options: PlannerOptions, find_assignor: FindAssignor = lookup) -> None:
    """Raise `OptionError` for unknown assignors, and for options that an assignor rejects."""
    configure_assignors(options.assignors, options.custom_options, find_assignor)
