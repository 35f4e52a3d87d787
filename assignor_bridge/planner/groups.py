"""Every assignor but the flagship: the batch as a Kafka consumer group, and its answer as pieces.

Members are task slots, named `<executor>/<slot>`, subscribed to all topics. A group has all
partitions that a topic is known to have, those without data in this batch too, so placement does
not wander with who happens to have data. A topic has as many partitions as the highest number seen
in the state or the batch says. Partitions are assigned whole.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.check import assign_checked
from assignor_bridge.assignors.group import Assignment, Group, Member
from assignor_bridge.assignors.own import Own, configured
from assignor_bridge.assignors.partitions import Catalog, Partitions
from assignor_bridge.assignors.registry import choose
from assignor_bridge.errors import OptionError
from assignor_bridge.options import FLAGSHIP

if TYPE_CHECKING:
    from collections.abc import Callable

    from assignor_bridge.assignors.protocol import Assignor
    from assignor_bridge.model import Executor
    from assignor_bridge.options import PlannerOptions
    from assignor_bridge.planner.batch import Batch, Floats, Ints
    from assignor_bridge.planner.ledger import Ledger

#: Name of the members' "executor" where Spark has none.
LOCAL = "local"
#: A partition number beyond this is a mistake, and must not fill the memory.
_MOST_PARTITIONS = 5_000_000


@dataclass(frozen=True, eq=False)
class Answer:
    """What the chosen assignor said, for the ranges of the batch."""

    assignor: str
    #: Slot of each range.
    slot: Ints
    #: Slot of each line of the ledger, with or without data.
    slot_of_line: Ints
    #: Executor ids where a slot's partitions have standby copies, most wanted first.
    standbys: dict[int, tuple[str, ...]]
    #: Why the assignors before it in the list were passed over.
    refusals: tuple[str, ...]
    notes: tuple[str, ...]
    #: Tells an own assignor that has `on_assignment` what the members got, at this generation.
    tell: Callable[[int], None] | None = None


def priority(executor: Executor, options: PlannerOptions) -> int | None:
    """Priority by the first host pattern that matches, else the executor's own."""
    for pattern, number in options.priorities:
        if fnmatchcase(executor.host, pattern) or fnmatchcase(executor.id, pattern):
            return number
    return executor.priority


def ask(
    ledger: Ledger, owner: Ints, work: Floats, options: PlannerOptions,
    find: Callable[[str], Assignor],
) -> Answer:  # fmt: skip
    """Let the first assignor of the list whose preconditions hold decide.

    Parameters
    ----------
    owner
        Slot that read each line's partition last, -1 for none.
    work
        Predicted work of each range: the lag, for assignors that look at it.
    find
        Gives the assignor of a name.
    """
    group, id_of_line, slot_of_member = _group(ledger, owner, work, options)
    candidates = configured(options.assignors, options.own, find)
    choice = choose(options.assignors, group, candidates.__getitem__)
    assignment = assign_checked(choice.assignor, group)
    decided = np.asarray(assignment.owner, np.int64)
    if assignment.withheld is not None:
        # Between micro-batches nobody reads: what is withheld can be handed over at once.
        decided = np.where(decided < 0, assignment.withheld, decided)
    slot_of_line = slot_of_member[decided[id_of_line]]
    return Answer(
        choice.assignor.name,
        slot_of_line[ledger.line],
        slot_of_line,
        _standbys(ledger.batch, group, assignment, slot_of_member[decided], options),
        choice.refusals,
        assignment.notes,
        _listener(choice.assignor, group, decided),
    )


def _listener(assignor: Assignor, group: Group, decided: Ints) -> Callable[[int], None] | None:
    if not (isinstance(assignor, Own) and assignor.listens):
        return None
    final = Assignment(group, decided)

    def tell(generation: int) -> None:
        for member in group.members:
            assignor.on_assignment(member, final[member.id], generation)

    return tell


def _group(
    ledger: Ledger, owner: Ints, work: Floats, options: PlannerOptions
) -> tuple[Group, Ints, Ints]:
    """Build the group; also the number of each line's partition and the slot of each member."""
    batch = ledger.batch
    topic, partition = ledger.topic, ledger.partition
    counts = np.zeros(len(ledger.topics), np.int64)
    np.maximum.at(counts, topic, partition + 1)
    if counts.sum() > _MOST_PARTITIONS:
        raise OptionError(
            f"topics {', '.join(ledger.topics[:5])} would have {int(counts.sum())} partitions: "
            f"assignors other than {FLAGSHIP!r} plan at most {_MOST_PARTITIONS}"
        )
    catalog = Catalog(dict(zip(ledger.topics, counts.tolist(), strict=True)))
    id_of_line = catalog.starts[topic] + partition
    topics = frozenset(ledger.topics)
    generation = ledger.before.generation
    by_owner = np.argsort(owner, kind="stable")
    first = np.searchsorted(owner[by_owner], np.arange(batch.slots + 1)).tolist()
    members = []
    priorities = [priority(e, options) for e in batch.executors]
    for slot, (index, number) in enumerate(
        zip(batch.slot_executor.tolist(), batch.slot_number.tolist(), strict=True)
    ):
        executor = batch.executors[index]
        ids = np.sort(id_of_line[by_owner[first[slot] : first[slot + 1]]])
        members.append(
            Member(
                f"{LOCAL if batch.anonymous else executor.id}/{number}",
                topics,
                owned=Partitions(catalog, ids),
                generation=generation if len(ids) else None,
                rack=executor.rack,
                host=executor.host,
                priority=priorities[index],
            )
        )
    lags: dict[str, dict[int, float]] = {}
    for row, lag in enumerate(work.tolist()):
        of_topic = lags.setdefault(batch.topics[batch.topic[row]], {})
        number = int(batch.partition[row])
        of_topic[number] = of_topic.get(number, 0) + lag
    group = Group(tuple(members), catalog, lags=lags, standby_replicas=options.standby_replicas)
    slot_of = {member.id: slot for slot, member in enumerate(members)}
    slot_of_member = np.array([slot_of[i] for i in group.ids], np.int64)
    return group, id_of_line, slot_of_member


def _standbys(
    batch: Batch, group: Group, assignment: Assignment, slot_of_id: Ints, options: PlannerOptions
) -> dict[int, tuple[str, ...]]:
    """Rank the executors that hold standby copies of what a slot reads, as many as asked for."""
    if not assignment.standbys or batch.anonymous:
        return {}
    index = {e.id: i for i, e in enumerate(batch.executors)}
    copies: dict[int, Counter[int]] = {}
    for member, partitions in sorted(assignment.standbys.items()):
        executor = index[member.rpartition("/")[0]]
        slots = slot_of_id[partitions.ids_in(group.catalog)].tolist()
        for slot, count in Counter(slots).items():
            if batch.slot_executor[slot] != executor:
                copies.setdefault(slot, Counter())[executor] += count
    return {
        slot: tuple(
            batch.executors[e].id
            for e, _ in sorted(held.items(), key=lambda item: (-item[1], item[0]))
        )[: options.standby_replicas]
        for slot, held in sorted(copies.items())
    }
