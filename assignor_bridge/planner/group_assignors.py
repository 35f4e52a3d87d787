"""Plan with consumer group assignors: turn the batch into a group, and its assignment into pieces.

Members are task slots, named `<executor>/<slot>`, subscribed to all topics. The group has all known
partitions, even without data in this batch, so that placement does not depend on which partitions
have data. A topic's partitions end at the highest number in the state or the batch, because
partitions that never had data would use up a member's share. No partition is cut.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.check import assign_checked
from assignor_bridge.assignors.group import Assignment, Group, Member
from assignor_bridge.assignors.own import CustomAssignor
from assignor_bridge.assignors.partitions import Catalog, Partitions
from assignor_bridge.errors import OptionError, elide
from assignor_bridge.options import LAG_AWARE_STICKY
from assignor_bridge.planner.flagship import Placement, find_lower_bound, find_priority
from assignor_bridge.planner.pieces import Pieces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assignor_bridge.assignors.protocol import Assignor
    from assignor_bridge.assignors.registry import Choice
    from assignor_bridge.planner.batch import Ints, MicroBatch
    from assignor_bridge.planner.costs import Weights
    from assignor_bridge.planner.table import PartitionTable

#: Executor name of members if no executor takes tasks, as in local mode.
LOCAL = "local"
#: Maximum partitions of a group; more are a mistake, and could exhaust memory.
_MAX_PARTITIONS = 5_000_000


def build_slot_group(batch: MicroBatch, table: PartitionTable, weights: Weights) -> Group:
    """Return the slots as a group with predicted work as lags; `OptionError` if it is too large."""
    state = table.state
    counts = np.zeros(len(state.topics), np.int64)
    np.maximum.at(counts, state.topic, state.partition + 1)
    if counts.sum() > _MAX_PARTITIONS:
        raise OptionError(
            f"{int(counts.sum()):,} partitions of {elide(state.topics, 5)} are too many for group "
            f"assignors, which support at most {_MAX_PARTITIONS:,}: use {LAG_AWARE_STICKY!r}"
        )
    catalog = Catalog(dict(zip(state.topics, counts.tolist(), strict=True)))
    partition_ids = catalog.starts[state.topic] + state.partition
    topics, generation = frozenset(state.topics), state.generation
    by_owner = np.argsort(table.owner, kind="stable")
    first_owned = np.searchsorted(table.owner[by_owner], np.arange(batch.slots + 1))
    priorities = [find_priority(batch, executor) for executor in batch.executors]
    members = []
    for slot, (name, index) in enumerate(_name_members(batch)):
        owned = np.sort(partition_ids[by_owner[first_owned[slot] : first_owned[slot + 1]]])
        members.append(
            Member(
                name,
                topics,
                owned=Partitions(catalog, owned),
                generation=generation if len(owned) else None,
                rack=batch.executors[index].rack,
                host=batch.executors[index].host,
                priority=priorities[index],
            )
        )
    lags: dict[str, dict[int, float]] = {}
    columns = (batch.topic.tolist(), batch.partition.tolist(), weights.work.tolist())
    for topic, partition, lag in zip(*columns, strict=True):
        topic_lags = lags.setdefault(batch.topics[topic], {})
        topic_lags[partition] = topic_lags.get(partition, 0) + lag
    return Group(
        tuple(members),
        catalog,
        lags=lags,
        partition_racks=_map_racks(batch, catalog),
        standby_replicas=batch.options.standby_replicas,
    )


def _map_racks(batch: MicroBatch, catalog: Catalog) -> dict[str, dict[int, frozenset[str]]]:
    """Return racks by partition, all executors' if unknown; {} without known racks or a price."""
    if batch.replicas is None or not batch.options.zone_price_per_gb:
        return {}
    all_racks = frozenset(e.rack for e in batch.executors if e.rack)
    racks = {topic: dict.fromkeys(range(count), all_racks) for topic, count in catalog.items()}
    columns = (batch.topic, batch.partition, batch.replicas.code)
    for topic, partition, code in zip(*(column.tolist() for column in columns), strict=True):
        racks[batch.topics[topic]][partition] = batch.replicas.racks[code] or all_racks
    return racks


def _name_members(batch: MicroBatch) -> Iterator[tuple[str, int]]:
    """Yield the member name of each slot, and the index of its executor."""
    for i, executor in enumerate(batch.executors):
        for number in range(executor.slots):
            yield f"{LOCAL if batch.anonymous else executor.id}/{number}", i


def place_group(
    choice: Choice, group: Group, batch: MicroBatch, table: PartitionTable, weights: Weights
) -> Placement:
    """Assign the group with the chosen assignor, and place each range on its partition's slot."""
    assignment = assign_checked(choice.assignor, group)
    owner = np.asarray(assignment.owner, np.int64)
    if assignment.withheld is not None:
        # Between micro-batches no partition is being read, so withheld partitions can move now.
        owner = np.where(owner < 0, assignment.withheld, owner)
    slot_by_name = {name: slot for slot, (name, _) in enumerate(_name_members(batch))}
    slot_of_partition = np.array([slot_by_name[name] for name in group.ids], np.int64)[owner]
    line_ids = group.catalog.starts[table.state.topic] + table.state.partition
    slot_of_line = slot_of_partition[line_ids]
    pieces = Pieces.whole(batch, slot_of_line[table.line])
    bound = find_lower_bound(batch, weights, np.arange(batch.slots))
    name, notes, refusals = choice.assignor.name, assignment.notes, choice.refusals
    standbys = _rank_standbys(batch, group, assignment, slot_of_partition)
    final_assignment = Assignment(group, owner)
    return Placement(name, pieces, bound, slot_of_line, notes, refusals, standbys, final_assignment)


def notify_assignor(
    assignor: Assignor, group: Group, assignment: Assignment, generation: int
) -> None:
    """Call a custom assignor's `on_assignment`, if it has one, for each member."""
    if isinstance(assignor, CustomAssignor) and assignor.has_on_assignment:
        for member in group.members:
            assignor.on_assignment(member, assignment[member.id], generation)


def _rank_standbys(
    batch: MicroBatch, group: Group, assignment: Assignment, slot_of_partition: Ints
) -> dict[int, tuple[str, ...]]:
    """Return by slot the other executors with copies of its partitions, most copies first."""
    copy_counts_by_slot, max_standbys = dict[int, Counter[int]](), batch.options.standby_replicas
    index_by_id = {e.id: i for i, e in enumerate(batch.executors)}
    standbys = {} if batch.anonymous else assignment.standbys
    for member, partitions in sorted(standbys.items()):
        executor = index_by_id[member.rpartition("/")[0]]
        reader_slots = slot_of_partition[partitions.ids_in(group.catalog)].tolist()
        for slot, count in Counter(reader_slots).items():
            if batch.slot_executor[slot] != executor:
                copy_counts_by_slot.setdefault(slot, Counter())[executor] += count
    return {
        slot: tuple(
            batch.executors[e].id
            for e, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:max_standbys]
        )
        for slot, counts in sorted(copy_counts_by_slot.items())
    }
