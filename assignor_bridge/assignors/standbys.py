"""Where standby copies of tasks go: never beside the active one, far apart, even, and sticky."""

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
    group: Group, active: Sequence[int], warm: Sequence[Sequence[int]], copies: int
) -> list[set[int]]:
    """Give the tasks of which each member keeps a standby copy.

    Parameters
    ----------
    group
        Hosts and racks of the members.
    active
        Member of each task.
    warm
        Members that had a copy of each task.
    copies
        Standbys that each task gets; less than there are members.
    """
    board = _Board(group, active, copies)
    for task, had in enumerate(warm):
        for member in had:
            if len(board.holders[task]) <= copies and board.takes(task, member):
                board.add(task, member)
    for task in range(len(active)):
        while len(board.holders[task]) <= copies:
            board.add_best(task)
    moved = True
    while moved:
        moved = sum(board.spread_out(task) for task in range(len(active))) > 0
    return board.standbys


class _Board:
    def __init__(self, group: Group, active: Sequence[int], copies: int) -> None:
        self.hosts = _codes([m.host for m in group.members])
        self.racks = _codes([m.rack for m in group.members])
        #: Members of each task, the active one first.
        self.holders: list[list[int]] = [[member] for member in active]
        self.standbys: list[set[int]] = [set() for _ in group.members]
        self.counts = np.zeros(len(group.members), np.int64)
        #: No member keeps more copies, unless there is no other way.
        self.ceiling = -(-copies * len(active) // len(group.members))

    def takes(self, task: int, member: int) -> bool:
        return self.counts[member] < self.ceiling and member not in self.holders[task]

    def add(self, task: int, member: int) -> None:
        self.holders[task].append(member)
        self.standbys[member].add(task)
        self.counts[member] += 1

    def remove(self, task: int, member: int) -> None:
        self.holders[task].remove(member)
        self.standbys[member].remove(task)
        self.counts[member] -= 1

    def nearness(self, holders: Sequence[int]) -> NDArray[np.int64]:
        """For each member, how near it is to `holders`: hosts weigh more than racks."""
        near = np.zeros(len(self.counts), np.int64)
        for holder in holders:
            if self.hosts[holder] >= 0:
                near += _SAME_HOST * len(self.counts) * (self.hosts == self.hosts[holder])
            if self.racks[holder] >= 0:
                near += _SAME_RACK * (self.racks == self.racks[holder])
        return near

    def add_best(self, task: int) -> None:
        holders = self.holders[task]
        free = self.counts < self.ceiling
        free[holders] = False
        if not free.any():
            if self._make_room(task):
                return
            free[:] = True
            free[holders] = False
        candidates = np.flatnonzero(free)
        near = self.nearness(holders)[candidates]
        self.add(task, int(candidates[np.lexsort((candidates, self.counts[candidates], near))[0]]))

    def _make_room(self, task: int) -> bool:
        """Pass copies along full members, to one that has room, and take the freed place."""
        givers = [m for m in range(len(self.counts)) if m not in self.holders[task]]
        came = dict.fromkeys(givers, (-1, -1))  # from whom, and which copy
        unseen = set(self.holders[task])
        queue = deque(givers)
        while queue:
            giver = queue.popleft()
            for copy in sorted(self.standbys[giver]):
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
        """Move one copy further from the others, where a member has room; say whether it did."""
        for member in self.holders[task][1:]:
            others = [m for m in self.holders[task] if m != member]
            near = self.nearness(others)
            better = (near < near[member]) & (self.counts < self.ceiling)
            better[others] = False
            if better.any():
                candidates = np.flatnonzero(better)
                order = np.lexsort((candidates, self.counts[candidates], near[candidates]))
                self.remove(task, member)
                self.add(task, int(candidates[order[0]]))
                return True
        return False


def _codes(names: Sequence[str | None]) -> NDArray[np.int64]:
    """Give each distinct name a number; -1 for unknown."""
    known = {name: code for code, name in enumerate(sorted({n for n in names if n is not None}))}
    return np.asarray([-1 if n is None else known[n] for n in names], dtype=np.int64)
