"""Place standby copies of tasks; implements promises (6) to (8) of `streams`."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from assignor_bridge.assignors.group import Group

_SAME_RACK, _SAME_HOST = 1, 2


def place_standbys(
    group: Group,
    active_members: Sequence[int],
    warm_members: Sequence[Sequence[int]],
    copies_per_task: int,
) -> list[set[int]]:
    """Return each member's standby tasks.

    `active_members` has each task's active member, `warm_members` the members with a copy of each
    task. `copies_per_task` is below the number of members. Steps: (1) keep copies on members with
    room; (2) add missing copies to the farthest members; (3) move copies to farther members.
    """
    # 1. Keep copies.
    placement = _StandbyPlacement(group, active_members, copies_per_task)
    for task, members in enumerate(warm_members):
        for member in members:
            if len(placement.holders[task]) <= copies_per_task and placement.has_room(task, member):
                placement.add(task, member)
    # 2. Add missing copies.
    for task in range(len(active_members)):
        while len(placement.holders[task]) <= copies_per_task:
            placement.add_copy(task)
    # 3. Move copies.
    while sum(placement.move_farther(task) for task in range(len(active_members))):
        pass
    return placement.tasks


class _StandbyPlacement:
    """The standby copies that each member has so far."""

    def __init__(self, group: Group, active_members: Sequence[int], copies_per_task: int) -> None:
        self.hosts = _encode_names([m.host for m in group.members])
        self.racks = _encode_names([m.rack for m in group.members])
        #: Members with each task, the active member first.
        self.holders: list[list[int]] = [[member] for member in active_members]
        #: Tasks of which each member has a standby copy.
        self.tasks: list[set[int]] = [set() for _ in group.members]
        self.counts = np.zeros(len(group.members), np.int64)  # standby copies by member
        #: Maximum copies per member; exceeded only if there is no other place for a copy.
        self.max_copies = -(-copies_per_task * len(active_members) // len(group.members))

    def has_room(self, task: int, member: int) -> bool:
        return self.counts[member] < self.max_copies and member not in self.holders[task]

    def add(self, task: int, member: int) -> None:
        self.holders[task].append(member)
        self.tasks[member].add(task)
        self.counts[member] += 1

    def remove(self, task: int, member: int) -> None:
        self.holders[task].remove(member)
        self.tasks[member].remove(task)
        self.counts[member] -= 1

    def compute_nearness(self, holders: Sequence[int]) -> NDArray[np.int64]:
        """Return each member's nearness to `holders`; a shared host outweighs any shared racks."""
        nearness = np.zeros(len(self.counts), np.int64)
        for holder in holders:
            if self.hosts[holder] >= 0:
                nearness += _SAME_HOST * len(self.counts) * (self.hosts == self.hosts[holder])
            if self.racks[holder] >= 0:
                nearness += _SAME_RACK * (self.racks == self.racks[holder])
        return nearness

    def add_farthest(
        self, task: int, candidates: NDArray[np.bool_], nearness: NDArray[np.int64]
    ) -> None:
        """Add a copy to the candidate of least nearness; ties by number of copies, then by id."""
        members = np.flatnonzero(candidates)
        index = np.lexsort((members, self.counts[members], nearness[members]))[0]
        self.add(task, int(members[index]))

    def add_copy(self, task: int) -> None:
        """Add a copy to the member with room that is farthest from the task's holders.

        If no member has room, shift other copies; if that fails, exceed `max_copies`.
        """
        holders = self.holders[task]
        candidates = self.counts < self.max_copies
        candidates[holders] = False
        if not candidates.any():
            if self._add_by_shifting(task):
                return
            candidates[:] = True
            candidates[holders] = False
        self.add_farthest(task, candidates, self.compute_nearness(holders))

    def _add_by_shifting(self, task: int) -> bool:
        """Shift other copies to make room, and add a copy of `task`; return False if impossible."""
        givers = [m for m in range(len(self.counts)) if m not in self.holders[task]]
        step_by_taker = dict.fromkeys(givers, (-1, -1))  # giver and copied task, -1 if none
        unvisited = set(self.holders[task])
        queue = deque(givers)
        while queue:
            giver = queue.popleft()
            for copied_task in sorted(self.tasks[giver]):
                for taker in sorted(unvisited - set(self.holders[copied_task])):
                    unvisited.remove(taker)
                    step_by_taker[taker] = (giver, copied_task)
                    if self.counts[taker] < self.max_copies:
                        self._shift_and_add(step_by_taker, taker, task)
                        return True
                    queue.append(taker)
        return False

    def _shift_and_add(
        self, step_by_taker: dict[int, tuple[int, int]], taker: int, task: int
    ) -> None:
        while step_by_taker[taker][0] >= 0:
            giver, copied_task = step_by_taker[taker]
            self.remove(copied_task, giver)
            self.add(copied_task, taker)
            taker = giver
        self.add(task, taker)

    def move_farther(self, task: int) -> bool:
        """Move a copy to a farther member with room; return False if there is no such move."""
        for member in self.holders[task][1:]:
            others = [m for m in self.holders[task] if m != member]
            nearness = self.compute_nearness(others)
            candidates = (nearness < nearness[member]) & (self.counts < self.max_copies)
            candidates[others] = False
            if candidates.any():
                self.remove(task, member)
                self.add_farthest(task, candidates, nearness)
                return True
        return False


def _encode_names(names: Sequence[str | None]) -> NDArray[np.int64]:
    """Return each name's index among the sorted distinct names, -1 for None."""
    distinct_names = sorted({n for n in names if n is not None})
    code_by_name = {name: code for code, name in enumerate(distinct_names)}
    return np.asarray([-1 if n is None else code_by_name[n] for n in names], dtype=np.int64)
