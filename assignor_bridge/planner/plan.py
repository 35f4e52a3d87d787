"""The recipe: share, load, learn, predict, place, pack, check, remember, explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignor_bridge.assignors.own import configured
from assignor_bridge.assignors.registry import Choice, choose, lookup
from assignor_bridge.options import LAG_AWARE_STICKY
from assignor_bridge.planner.check import check_plan
from assignor_bridge.planner.costs import predict
from assignor_bridge.planner.demand import estimate_demand
from assignor_bridge.planner.explain import explain
from assignor_bridge.planner.flagship import FAILOVER, place_batch
from assignor_bridge.planner.groups import build_slot_group, place_group
from assignor_bridge.planner.learn import learn
from assignor_bridge.planner.pack import TaskList, pack
from assignor_bridge.planner.remember import MAX_HOLD_BATCHES, remember
from assignor_bridge.planner.slots import share_slots
from assignor_bridge.planner.table import load_table
from checkpoints.state_text import decode_or_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from assignor_bridge.assignors.protocol import Assignor
    from assignor_bridge.options import PlannerOptions
    from assignor_bridge.planner.batch import MicroBatch
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.demand import Demand
    from assignor_bridge.planner.flagship import Placement
    from assignor_bridge.planner.table import PartitionTable
    from checkpoints.sticky_state import StickyState

#: Names that the planner plans itself; all others are assignors of consumer groups.
_PLANNER_STRATEGIES = frozenset({LAG_AWARE_STICKY, FAILOVER})


@dataclass(frozen=True, eq=False)
class PlannedBatch:
    """A plan as columns, with what to remember and why it is so."""

    assignor: str
    batch: MicroBatch
    tasks: TaskList
    #: Executor ids by task, most wanted first; tasks without any are left out.
    standbys: Mapping[int, tuple[str, ...]]
    state: StickyState
    metrics: Mapping[str, str | int | float]
    reasons: tuple[str, ...]


def plan_batch(
    batch: MicroBatch, state_text: str | None, find: Callable[[str], Assignor] = lookup
) -> PlannedBatch:
    """Plan one micro-batch: which executor slot reads which offsets.

    Raises
    ------
    OptionError
        For options or data that the user must change.
    PlanError
        When an assignor's answer breaks the rules.

    Examples
    --------
    >>> from streaming.human_json.snapshots import read_snapshot, write_plan
    >>> executors = [{"id": "1", "host": "host-a"}, {"id": "2", "host": "host-b"}]
    >>> lags = {0: 700, 1: 100}
    >>> ranges = [{"topic": "t", "partition": p, "start": 0, "end": n} for p, n in lags.items()]
    >>> batch, state = read_snapshot({"executors": executors, "ranges": ranges})
    >>> for task in write_plan(plan_batch(batch, state))["tasks"]:
    ...     print(task["executor"], *(list(r.values())[1:] for r in task["ranges"]))
    1 [0, 300, 700]
    2 [0, 0, 300] [1, 0, 100]
    """
    state, warning = decode_or_empty(state_text)
    return plan_step(batch, state, find, warning)


def plan_step(
    batch: MicroBatch,
    state: StickyState,
    find: Callable[[str], Assignor] = lookup,
    state_warning: str | None = None,
) -> PlannedBatch:
    """Plan with a state that is decoded already, for the simulator: see `plan_batch`."""
    batch = share_slots(batch, state)
    names = batch.settings.assignors
    table = load_table(
        state, batch, None if _PLANNER_STRATEGIES.issuperset(names) else MAX_HOLD_BATCHES
    )
    learned, prediction_error = learn(table, batch)
    weights = predict(learned, table.line, batch)
    demand = estimate_demand(batch, table, weights)
    placement = _place_with_first_usable_assignor(batch, table, weights, demand, find)
    # What an assignor of groups gives whole to a member is not cut for a minimum.
    cuts_ranges = placement.assignor in _PLANNER_STRATEGIES
    tasks = pack(batch, placement.pieces, weights, demand, top_up=cuts_ranges)
    check_plan(placement.assignor, batch, tasks.pieces, tasks.task, len(tasks))
    after = remember(batch, table, learned, demand, placement, tasks)
    if placement.on_assignment is not None:
        placement.on_assignment(after.generation)
    metrics, reasons = explain(
        batch, table, weights, demand, placement, tasks, after.generation, prediction_error,
        state_warning,
    )  # fmt: skip
    by_slot = placement.standbys
    standbys = {i: by_slot[slot] for i, slot in enumerate(tasks.slot.tolist()) if slot in by_slot}
    return PlannedBatch(placement.assignor, batch, tasks, standbys, after, metrics, tuple(reasons))


def _place_with_first_usable_assignor(
    batch: MicroBatch,
    table: PartitionTable,
    weights: Weights,
    estimate_demand: Demand,
    find: Callable[[str], Assignor],
) -> Placement:
    """Place with the first assignor in the list whose preconditions hold."""
    settings = batch.settings
    if settings.assignors[0] in _PLANNER_STRATEGIES:
        choice = Choice(lookup(settings.assignors[0]))
    else:
        candidates = configured(settings.assignors, settings.own, find)
        group = build_slot_group(batch, table, weights)
        choice = choose(settings.assignors, group, candidates.__getitem__)
        if choice.assignor.name not in _PLANNER_STRATEGIES:
            return place_group(choice, group, batch, table, weights)
    return place_batch(choice, batch, table, weights, estimate_demand)


def check_assignors(options: PlannerOptions, find: Callable[[str], Assignor] = lookup) -> None:
    """Refuse assignors that nobody knows, and what they refuse, before the first batch."""
    configured(options.assignors, options.own, find)
