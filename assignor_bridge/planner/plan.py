"""The recipe: share, load, learn, predict, place, pack, check, remember, explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignor_bridge.assignors.own import configure_assignors
from assignor_bridge.assignors.registry import Choice, choose, lookup
from assignor_bridge.options import LAG_AWARE_STICKY
from assignor_bridge.planner.check import check
from assignor_bridge.planner.costs import predict
from assignor_bridge.planner.demand import demand
from assignor_bridge.planner.explain import explain
from assignor_bridge.planner.flagship import FAILOVER, place_batch
from assignor_bridge.planner.groups import place_group, slot_group
from assignor_bridge.planner.learn import learn
from assignor_bridge.planner.pack import Tasks, pack
from assignor_bridge.planner.remember import HOLD_PLACE_BATCHES, remember
from assignor_bridge.planner.slots import share_slots
from assignor_bridge.planner.table import load
from checkpoints.state_text import decode_or_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from assignor_bridge.assignors.protocol import Assignor
    from assignor_bridge.options import PlannerOptions
    from assignor_bridge.planner.batch import Batch
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.demand import Demand
    from assignor_bridge.planner.flagship import Placement
    from assignor_bridge.planner.table import PartitionTable
    from checkpoints.sticky_state import StickyState

#: Names that the planner plans itself; all others are assignors of consumer groups.
_OURS = frozenset({LAG_AWARE_STICKY, FAILOVER})


@dataclass(frozen=True, eq=False)
class Outcome:
    """A plan as columns, with what to remember and why it is so."""

    assignor: str
    batch: Batch
    tasks: Tasks
    #: Executor ids by task, most wanted first; tasks without any are left out.
    standbys: Mapping[int, tuple[str, ...]]
    state: StickyState
    metrics: Mapping[str, str | int | float]
    reasons: tuple[str, ...]


def plan_batch(
    batch: Batch, state_text: str | None, find: Callable[[str], Assignor] = lookup
) -> Outcome:
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
    batch: Batch,
    state: StickyState,
    find: Callable[[str], Assignor] = lookup,
    state_warning: str | None = None,
) -> Outcome:
    """Plan with a state that is decoded already, for the simulator: see `plan_batch`."""
    batch = share_slots(batch, state)
    names = batch.settings.assignors
    table = load(state, batch, None if _OURS.issuperset(names) else HOLD_PLACE_BATCHES)
    learned, prediction_error = learn(table, batch)
    weights = predict(learned, table.line, batch)
    demanded = demand(batch, table, weights)
    placement = _place(batch, table, weights, demanded, find)
    # What an assignor of groups gives whole to a member is not cut for a minimum.
    ours = placement.assignor in _OURS
    tasks = pack(batch, placement.pieces, weights, demanded, top_up=ours)
    check(placement.assignor, batch, tasks.pieces, tasks.task, len(tasks))
    after = remember(batch, table, learned, demanded, placement, tasks)
    if placement.on_assignment is not None:
        placement.on_assignment(after.generation)
    metrics, reasons = explain(
        batch, table, weights, demanded, placement, tasks, after.generation, prediction_error,
        state_warning,
    )  # fmt: skip
    by_slot = placement.standbys
    standbys = {i: by_slot[slot] for i, slot in enumerate(tasks.slot.tolist()) if slot in by_slot}
    return Outcome(placement.assignor, batch, tasks, standbys, after, metrics, tuple(reasons))


def _place(
    batch: Batch,
    table: PartitionTable,
    weights: Weights,
    demand: Demand,
    find: Callable[[str], Assignor],
) -> Placement:
    """Place with the first assignor in the list whose preconditions hold."""
    settings = batch.settings
    if settings.assignors[0] in _OURS:
        choice = Choice(lookup(settings.assignors[0]))
    else:
        candidates = configure_assignors(settings.assignors, settings.own, find)
        group = slot_group(batch, table, weights)
        choice = choose(settings.assignors, group, candidates.__getitem__)
        if choice.assignor.name not in _OURS:
            return place_group(choice, group, batch, table, weights)
    return place_batch(choice, batch, table, weights, demand)


def check_names(options: PlannerOptions, find: Callable[[str], Assignor] = lookup) -> None:
    """Refuse assignors that nobody knows, and what they refuse, before the first batch."""
    configure_assignors(options.assignors, options.own, find)
