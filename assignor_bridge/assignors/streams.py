"""`streams`: equal partition numbers of all topics form a task, with warm copies elsewhere."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.assignors.claims import weigh_claims
from assignor_bridge.assignors.cooperative import different_subscriptions
from assignor_bridge.assignors.group import Assignment
from assignor_bridge.assignors.partitions import Catalog, Partitions
from assignor_bridge.assignors.sticky import give_free, give_up
from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from assignor_bridge.assignors.group import Group

_SAME_RACK, _SAME_HOST = 1, 2


def not_co_partitioned(group: Group) -> str | None:
    """Return which topics are short of partitions; None when all subscribed ones have as many."""
    return "; ".join(_short_topics(group)) or None


def streams(group: Group) -> Assignment:
    """Keep partition p of every topic together, active on one member and copied on others.

    Promises, in order: (1) partition p of every topic (task p) goes to one member; (2) members'
    task counts differ by at most one; (3) as few tasks as possible leave the member that owns most
    of their partitions; (4) a task without owner goes to a member with room that has a standby copy
    of it; (5) each task has `standby_replicas` standbys (one less than there are members, at most),
    on distinct members and never the active one; (6) standby counts stay at the ceiling of the mean
    or below, where that is possible; (7) standbys stay where they were, unless another host, or
    else another rack, than the task's other copies has room. Topics with fewer partitions than the
    largest take no part in the last tasks: `notes` says so. Ties: by task number and member id.

    Source: Kafka Streams' tasks (KIP-441, KIP-924); the article on assignment strategies.

    Raises
    ------
    OptionError
        When members subscribe to different topics.

    >>> from assignor_bridge.assignors import Group, Member
    >>> members = (Member("C0", {"t0", "t1"}), Member("C1", {"t0", "t1"}))
    >>> answer = streams(Group(members, {"t0": 3, "t1": 3}, standby_replicas=1))
    >>> print(answer)
    C0: [t0p0, t0p2, t1p0, t1p2]
    C1: [t0p1, t1p1]
    >>> answer.standbys["C0"]
    {'t0': (1,), 't1': (1,)}
    """
    reason = different_subscriptions(group)
    if reason:
        raise OptionError(
            f"assignor 'streams' refused the group: {reason}. Use 'sticky' for such groups."
        )
    catalog = group.catalog
    owner = np.full(catalog.total, -1, np.int32)
    tasks = max((catalog[topic] for topic in group.subscribers), default=0)
    if not tasks:
        return Assignment(group, owner)
    active = _task_owners(group, tasks)
    numbers, members = np.arange(tasks), np.arange(len(group.members))
    give_up(Catalog({"tasks": tasks}), active, numbers, members)
    warm = _warm_members(group, tasks)
    _give_to_warm(active, warm, len(members))
    give_free(active, numbers, members)
    for topic in group.subscribers:
        owner[catalog.span(topic)] = active[: catalog[topic]]
    notes = _short_topics(group)
    copies = min(group.standby_replicas, len(members) - 1)
    if copies < group.standby_replicas:
        notes.append(
            f"{copies} standbys a task instead of {group.standby_replicas}: "
            f"there are {len(members)} members"
        )
    standbys: dict[str, Partitions] = {}
    if copies:
        for name, of_member in zip(
            group.ids, place_standbys(group, active.tolist(), warm, copies), strict=True
        ):
            by_topic = {t: [n for n in of_member if n < catalog[t]] for t in group.subscribers}
            standbys[name] = Partitions(catalog, catalog.ids(by_topic))
    return Assignment(group, owner, standbys=standbys, notes=tuple(notes))


def _short_topics(group: Group) -> list[str]:
    counts = {topic: group.catalog[topic] for topic in group.subscribers}
    tasks = max(counts.values(), default=0)
    return [
        f"topic {topic!r} is short: {count} partitions, where {tasks} tasks are needed"
        for topic, count in counts.items()
        if count < tasks
    ]


def _task_owners(group: Group, tasks: int) -> NDArray[np.int32]:
    """Return who owns most of each task's partitions; -1 for nobody, ties to the first by id."""
    owner = weigh_claims(group).owner
    votes: list[Counter[int]] = [Counter() for _ in range(tasks)]
    for topic in group.subscribers:
        for task, member in enumerate(owner[group.catalog.span(topic)].tolist()):
            if member >= 0:
                votes[task][member] += 1
    best = [min(v, key=lambda m: (-v[m], m)) if v else -1 for v in votes]
    return np.asarray(best, dtype=np.int32)


def _warm_members(group: Group, tasks: int) -> list[list[int]]:
    """Return the members, by id, that say that they have a standby copy of each task."""
    warm: list[list[int]] = [[] for _ in range(tasks)]
    for index, member in enumerate(group.members):
        copied = {p for t, ps in member.standby.items() if t in group.subscribers for p in ps}
        for task in copied:
            if 0 <= task < tasks:
                warm[task].append(index)
    return warm


def _give_to_warm(active: NDArray[np.int32], warm: list[list[int]], members: int) -> None:
    floor, extra = divmod(len(active), members)
    counts = np.bincount(active[active >= 0], minlength=members).tolist()
    extra -= sum(count > floor for count in counts)
    for task in np.flatnonzero(active < 0).tolist():
        with_room = [m for m in warm[task] if counts[m] < floor + (extra > 0)]
        if with_room:
            member = min(with_room, key=lambda m: (counts[m], m))
            extra -= counts[member] == floor
            counts[member] += 1
            active[task] = member


def place_standbys(
    group: Group, active: Sequence[int], warm: Sequence[Sequence[int]], copies: int
) -> list[set[int]]:
    """Return the tasks of which each member keeps a standby copy: (5) to (7) of `streams`.

    `active` is the member of each task, `warm` who had a copy of it; `copies` is how many each
    gets: fewer than there are members.
    """
    standbys = _Standbys(group, active, copies)
    for task, members in enumerate(warm):
        for member in members:
            if len(standbys.holders[task]) <= copies and standbys.may_take(task, member):
                standbys.add(task, member)
    for task in range(len(active)):
        while len(standbys.holders[task]) <= copies:
            standbys.add_best(task)
    moved = True
    while moved:
        moved = sum(standbys.spread_out(task) for task in range(len(active))) > 0
    return standbys.tasks


class _Standbys:
    """Where the copies are, while they are placed."""

    def __init__(self, group: Group, active: Sequence[int], copies: int) -> None:
        self.hosts = _codes([m.host for m in group.members])
        self.racks = _codes([m.rack for m in group.members])
        #: Members of each task, the active one first.
        self.holders: list[list[int]] = [[member] for member in active]
        #: Tasks that each member has a standby of.
        self.tasks: list[set[int]] = [set() for _ in group.members]
        self.counts = np.zeros(len(group.members), np.int64)
        #: No member keeps more copies, unless there is no other way.
        self.ceiling = -(-copies * len(active) // len(group.members))

    def may_take(self, task: int, member: int) -> bool:
        return self.counts[member] < self.ceiling and member not in self.holders[task]

    def add(self, task: int, member: int) -> None:
        self.holders[task].append(member)
        self.tasks[member].add(task)
        self.counts[member] += 1

    def remove(self, task: int, member: int) -> None:
        self.holders[task].remove(member)
        self.tasks[member].remove(task)
        self.counts[member] -= 1

    def nearness(self, holders: Sequence[int]) -> NDArray[np.int64]:
        """Return how near each member is to `holders`: hosts weigh more than racks."""
        near = np.zeros(len(self.counts), np.int64)
        for holder in holders:
            if self.hosts[holder] >= 0:
                near += _SAME_HOST * len(self.counts) * (self.hosts == self.hosts[holder])
            if self.racks[holder] >= 0:
                near += _SAME_RACK * (self.racks == self.racks[holder])
        return near

    def add_farthest(
        self, task: int, candidates: NDArray[np.bool_], near: NDArray[np.int64]
    ) -> None:
        """Give a copy to the candidate that is least near, then has the fewest copies."""
        members = np.flatnonzero(candidates)
        best = np.lexsort((members, self.counts[members], near[members]))[0]
        self.add(task, int(members[best]))

    def add_best(self, task: int) -> None:
        holders = self.holders[task]
        free = self.counts < self.ceiling
        free[holders] = False
        if not free.any():
            if self._make_room(task):
                return
            free[:] = True
            free[holders] = False
        self.add_farthest(task, free, self.nearness(holders))

    def _make_room(self, task: int) -> bool:
        """Pass copies along full members, to one that has room, and take the freed place."""
        givers = [m for m in range(len(self.counts)) if m not in self.holders[task]]
        came = dict.fromkeys(givers, (-1, -1))  # from whom, and which copy
        unseen = set(self.holders[task])
        queue = deque(givers)
        while queue:
            giver = queue.popleft()
            for copy in sorted(self.tasks[giver]):
                for taker in sorted(unseen - set(self.holders[copy])):
                    unseen.remove(taker)
                    came[taker] = (giver, copy)
                    if self.counts[taker] < self.ceiling:
                        self._pass_along(came, taker, task)
                        return True
                    queue.append(taker)
        return False

    def _pass_along(self, came: dict[int, tuple[int, int]], last: int, task: int) -> None:
        taker = last
        while came[taker][0] >= 0:
            giver, copy = came[taker]
            self.remove(copy, giver)
            self.add(copy, taker)
            taker = giver
        self.add(task, taker)

    def spread_out(self, task: int) -> bool:
        """Move one copy further from the others, where a member has room; return whether it did."""
        for member in self.holders[task][1:]:
            others = [m for m in self.holders[task] if m != member]
            near = self.nearness(others)
            better = (near < near[member]) & (self.counts < self.ceiling)
            better[others] = False
            if better.any():
                self.remove(task, member)
                self.add_farthest(task, better, near)
                return True
        return False


def _codes(names: Sequence[str | None]) -> NDArray[np.int64]:
    """Return a number for each distinct name; -1 for None."""
    codes = {name: code for code, name in enumerate(sorted({n for n in names if n is not None}))}
    return np.asarray([-1 if n is None else codes[n] for n in names], dtype=np.int64)
