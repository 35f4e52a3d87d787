"""The recipe: learn, predict, find owners, place, pack, check, remember, explain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.own import configured
from assignor_bridge.assignors.registry import lookup
from assignor_bridge.model import OffsetRange, Plan, Task
from assignor_bridge.options import FLAGSHIP
from assignor_bridge.planner.batch import from_snapshot
from assignor_bridge.planner.check import check
from assignor_bridge.planner.demand import demand
from assignor_bridge.planner.explain import explain
from assignor_bridge.planner.flagship import Placement, place_batch, shares
from assignor_bridge.planner.groups import ask
from assignor_bridge.planner.learning import learn
from assignor_bridge.planner.ledger import HOLD_PLACE_BATCHES, Ledger
from assignor_bridge.planner.owners import owners
from assignor_bridge.planner.pack import Tasks, pack
from assignor_bridge.planner.pieces import whole
from assignor_bridge.planner.weights import predict
from checkpoints.sticky_state import StateError, StickyState, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from assignor_bridge.assignors.protocol import Assignor
    from assignor_bridge.model import Snapshot
    from assignor_bridge.options import PlannerOptions
    from assignor_bridge.planner.batch import Batch, Flags, Ints
    from assignor_bridge.planner.weights import Weights

#: Names that the planner plans itself; all others are assignors of consumer groups.
FAILOVER = "failover"


@dataclass(frozen=True, eq=False)
class Outcome:
    """A plan as columns, with what to remember and why it is so."""

    assignor: str
    batch: Batch
    tasks: Tasks
    #: Index of the executor of each task, -1 for those that may run anywhere.
    place: Ints
    #: Executor ids by task, most wanted first; tasks without any are left out.
    standbys: Mapping[int, tuple[str, ...]]
    state: StickyState
    metrics: Mapping[str, str | int | float]
    reasons: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Decision:
    """What a strategy decided, before it is packed."""

    assignor: str
    placement: Placement
    #: Slot of each line of the ledger after this batch, where a strategy places partitions
    #: without data too; None leaves them where they were.
    slot_of_line: Ints | None
    standbys: Mapping[int, tuple[str, ...]]
    refusals: tuple[str, ...]
    #: Tells an own assignor what its members got, once their generation is known.
    tell: Callable[[int], None] | None = None


def plan(snapshot: Snapshot, find: Callable[[str], Assignor] = lookup) -> Plan:
    """Plan one micro-batch: which executor slot reads which offsets.

    Raises
    ------
    OptionError
        For options or data that the user must change.
    PlanError
        When an assignor's answer breaks the rules.
    """
    return as_plan(plan_batch(from_snapshot(snapshot), snapshot.state, find))


def plan_batch(
    batch: Batch, state_text: str | None, find: Callable[[str], Assignor] = lookup
) -> Outcome:
    """Plan columns, for the worker: see `plan`."""
    try:
        state, warning = (decode(state_text) if state_text else StickyState.empty()), None
    except StateError as error:
        state, warning = StickyState.empty(), str(error)
    return plan_step(batch, state, find, warning)


def plan_step(
    batch: Batch,
    state: StickyState,
    find: Callable[[str], Assignor] = lookup,
    state_warning: str | None = None,
) -> Outcome:
    """Plan columns with a state that is decoded already, for the simulator: see `plan`."""
    options = batch.options
    flagship = set(options.assignors) <= {FLAGSHIP, FAILOVER}
    ledger = Ledger(state, batch, None if flagship else HOLD_PLACE_BATCHES)
    learn(ledger)
    weights = predict(ledger)
    owner = owners(ledger)
    wanted = demand(ledger, weights, owner, options)
    decision = _decide(ledger, weights, owner, options, wanted.in_use, find)
    pieces = decision.placement.pieces
    tasks = pack(batch, pieces, weights, options.with_tasks(wanted.tasks))
    check(decision.assignor, batch, tasks.pieces, tasks.task, len(tasks))
    carried = decision.slot_of_line
    if carried is None:  # what an executor that is let go owned has no owner any more
        carried = np.where(wanted.in_use[owner], owner, -1)
    after = replace(ledger.close(pieces, carried), calm=wanted.calm)
    if decision.tell is not None:
        decision.tell(after.generation)
    metrics, reasons = explain(
        ledger, weights, owner, decision.placement, tasks, decision.assignor, options
    )
    metrics["generation"] = after.generation
    reasons[1:1] = wanted.asking
    if decision.slot_of_line is None:
        reasons[1:1] = wanted.gathering
    if decision.refusals:
        metrics["fallbackReason"] = "; ".join(decision.refusals)
        reasons[1:1] = [f"{refusal}" for refusal in decision.refusals]
    if state_warning is not None:
        metrics["stateWarning"] = state_warning
        reasons.append(f"planned without memory: {state_warning}")
    standbys = {
        task: decision.standbys[slot]
        for task, slot in enumerate(tasks.slot.tolist())
        if slot in decision.standbys
    }
    place = np.full(len(tasks), -1) if batch.anonymous else batch.slot_executor[tasks.slot]
    if wanted.is_open:
        place = np.where(tasks.number < batch.executor_slots[place], place, -1)
    return Outcome(decision.assignor, batch, tasks, place, standbys, after, metrics, tuple(reasons))


def _decide(  # noqa: PLR0917
    ledger: Ledger,
    weights: Weights,
    owner: Ints,
    options: PlannerOptions,
    in_use: Flags,
    find: Callable[[str], Assignor],
) -> Decision:
    """Plan with the first assignor in the list that can."""
    batch = ledger.batch
    mine = owner[ledger.line]
    first = options.assignors[0]
    if first in (FLAGSHIP, FAILOVER):
        placement = place_batch(batch, weights, mine, options, first == FAILOVER, in_use)
        return Decision(first, placement, None, {}, ())
    answer = ask(ledger, owner, weights.work, options, find)
    if answer.assignor in (FLAGSHIP, FAILOVER):
        placement = place_batch(batch, weights, mine, options, answer.assignor == FAILOVER, in_use)
        return Decision(answer.assignor, placement, None, {}, answer.refusals)
    placement = Placement(whole(batch, answer.slot), shares(batch, weights), answer.notes)
    return Decision(
        answer.assignor, placement, answer.slot_of_line, answer.standbys, answer.refusals,
        answer.tell,
    )  # fmt: skip


def check_names(options: PlannerOptions, find: Callable[[str], Assignor] = lookup) -> None:
    """Refuse assignors that nobody knows, and what they refuse, before the first batch."""
    configured(options.assignors, options.own, find)


def as_plan(outcome: Outcome) -> Plan:
    """Turn columns into the objects of `model`."""
    batch, tasks = outcome.batch, outcome.tasks
    ranges: list[list[OffsetRange]] = [[] for _ in range(len(tasks))]
    pieces = tasks.pieces
    for task, row, start, end in zip(
        tasks.task.tolist(), pieces.row.tolist(), pieces.start.tolist(), pieces.end.tolist(),
        strict=True,
    ):  # fmt: skip
        topic = batch.topics[batch.topic[row]]
        ranges[task].append(OffsetRange(topic, int(batch.partition[row]), start, end))
    executor = [None if e < 0 else batch.executors[e].id for e in outcome.place.tolist()]
    return Plan(
        outcome.assignor,
        tuple(
            Task(executor[i], int(tasks.number[i]), tuple(ranges[i]), outcome.standbys.get(i, ()))
            for i in range(len(tasks))
        ),
        encode(outcome.state),
        outcome.metrics,
        outcome.reasons,
    )
