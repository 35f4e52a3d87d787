"""Every assignor but the flagship: the batch as a Kafka consumer group, and its answer as pieces.

Members are task slots, named `<executor>/<slot>`, subscribed to all topics. A group has all
partitions that a topic is known to have, those without data in this batch too, so placement does
not wander with who happens to have data. A topic has as many partitions as the highest number seen
in the state or the batch says. (Those behind, which never had data, would fill a member's share
with nothing.) Partitions are assigned whole.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.check import assign_checked
from assignor_bridge.assignors.group import Assignment, Group, Member
from assignor_bridge.assignors.own import CustomAssignor
from assignor_bridge.assignors.partitions import Catalog, Partitions
from assignor_bridge.errors import OptionError
from assignor_bridge.options import LAG_AWARE_STICKY
from assignor_bridge.planner.flagship import Placement, lower_bound, priority, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from assignor_bridge.assignors.protocol import Assignor
    from assignor_bridge.assignors.registry import Choice
    from assignor_bridge.planner.batch import Batch, Ints
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.table import PartitionTable

#: Name of the members' "executor" where Spark has none.
LOCAL = "local"
#: A partition number beyond this is a mistake, and must not fill the memory.
_MOST_PARTITIONS = 5_000_000


def slot_group(batch: Batch, table: PartitionTable, weights: Weights) -> Group:
    """Return the batch's slots as a group; its lags are the predicted work."""
    state = table.state
    counts = np.zeros(len(state.topics), np.int64)
    np.maximum.at(counts, state.topic, state.partition + 1)
    if counts.sum() > _MOST_PARTITIONS:
        raise OptionError(
            f"topics {', '.join(state.topics[:5])} would have {int(counts.sum())} partitions: "
            f"assignors other than {LAG_AWARE_STICKY!r} plan at most {_MOST_PARTITIONS}"
        )
    catalog = Catalog(dict(zip(state.topics, counts.tolist(), strict=True)))
    partition_id = catalog.starts[state.topic] + state.partition
    topics, generation = frozenset(state.topics), state.generation
    by_owner = np.argsort(table.owner, kind="stable")
    first = np.searchsorted(table.owner[by_owner], np.arange(batch.slots + 1))
    priorities = [priority(batch, executor) for executor in batch.executors]
    members = []
    for slot, (name, e) in enumerate(_members(batch)):
        owned = np.sort(partition_id[by_owner[first[slot] : first[slot + 1]]])
        members.append(
            Member(
                name,
                topics,
                owned=Partitions(catalog, owned),
                generation=generation if len(owned) else None,
                rack=batch.executors[e].rack,
                host=batch.executors[e].host,
                priority=priorities[e],
            )
        )
    lags: dict[str, dict[int, float]] = {}
    for topic, partition, lag in zip(
        batch.topic.tolist(), batch.partition.tolist(), weights.work.tolist(), strict=True
    ):
        of_topic = lags.setdefault(batch.topics[topic], {})
        of_topic[partition] = of_topic.get(partition, 0) + lag
    return Group(
        tuple(members),
        catalog,
        lags=lags,
        partition_racks=_partition_racks(batch, catalog),
        standby_replicas=batch.settings.standby_replicas,
    )


def _partition_racks(batch: Batch, catalog: Catalog) -> dict[str, dict[int, frozenset[str]]]:
    """Return the racks of all partitions; what is unknown has a replica in each."""
    if batch.replicas is None or not batch.settings.zone_price_per_gb:
        return {}
    everywhere = frozenset(e.rack for e in batch.executors if e.rack)
    racks = {topic: dict.fromkeys(range(count), everywhere) for topic, count in catalog.items()}
    columns = (batch.topic, batch.partition, batch.replicas.code)
    for topic, partition, code in zip(*(column.tolist() for column in columns), strict=True):
        racks[batch.topics[topic]][partition] = batch.replicas.racks[code] or everywhere
    return racks


def _members(batch: Batch) -> Iterator[tuple[str, int]]:
    """Name the member of each slot, and the index of its executor."""
    for i, executor in enumerate(batch.executors):
        for number in range(executor.slots):
            yield f"{LOCAL if batch.anonymous else executor.id}/{number}", i


def place_group(
    choice: Choice, group: Group, batch: Batch, table: PartitionTable, weights: Weights
) -> Placement:
    """Let the chosen assignor assign the group, and read its answer as slots of ranges."""
    assignment = assign_checked(choice.assignor, group)
    member = np.asarray(assignment.owner, np.int64)
    if assignment.withheld is not None:
        # Between micro-batches nobody reads: what is withheld can be handed over at once.
        member = np.where(member < 0, assignment.withheld, member)
    slot_of = {name: slot for slot, (name, _) in enumerate(_members(batch))}
    slot = np.array([slot_of[name] for name in group.ids], np.int64)[member]
    slot_of_line = slot[group.catalog.starts[table.state.topic] + table.state.partition]
    return Placement(
        choice.assignor.name,
        whole(batch, slot_of_line[table.line]),
        lower_bound(batch, weights, np.arange(batch.slots)),
        slot_of_line,
        assignment.notes,
        choice.refusals,
        _standbys(batch, group, assignment, slot),
        _listener(choice.assignor, group, Assignment(group, member)),
    )


def _listener(assignor: Assignor, group: Group, final: Assignment) -> Callable[[int], None] | None:
    if not (isinstance(assignor, CustomAssignor) and assignor.has_on_assignment):
        return None

    def tell(generation: int) -> None:
        for member in group.members:
            assignor.on_assignment(member, final[member.id], generation)

    return tell


def _standbys(
    batch: Batch, group: Group, assignment: Assignment, slot_of_id: Ints
) -> dict[int, tuple[str, ...]]:
    """Rank the executors that hold standby copies of what a slot reads, as many as asked for."""
    copies, most = dict[int, Counter[int]](), batch.settings.standby_replicas
    index = {e.id: i for i, e in enumerate(batch.executors)}
    standbys = {} if batch.anonymous else assignment.standbys
    for member, partitions in sorted(standbys.items()):
        executor = index[member.rpartition("/")[0]]
        for slot, count in Counter(slot_of_id[partitions.ids_in(group.catalog)].tolist()).items():
            if batch.slot_executor[slot] != executor:
                copies.setdefault(slot, Counter())[executor] += count
    return {
        slot: tuple(
            batch.executors[e].id
            for e, _ in sorted(count.items(), key=lambda item: (-item[1], item[0]))[:most]
        )
        for slot, count in sorted(copies.items())
    }
