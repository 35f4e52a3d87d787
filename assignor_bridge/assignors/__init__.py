"""Assignors: pure functions from a `Group` to an `Assignment`.

- `partitions`: how sets of partitions are laid out, and why
- `group`: the nouns (`Member`, `Group`, `Assignment`)
- `protocol`: what an assignor is; `registry`: the table of ours and the choice among several
- `check`: the check that every answer must pass; `loading`: the user's own assignors (an edge)
- `testing`: a group in memory, for tests of assignors
"""

from assignor_bridge.assignors.check import check_assignment
from assignor_bridge.assignors.group import Assignment, Group, Member
from assignor_bridge.assignors.partitions import Catalog, Partitions
from assignor_bridge.assignors.protocol import Assignor, Strategy
from assignor_bridge.assignors.registry import ASSIGNORS, Choice, choose, lookup

__all__ = [
    "ASSIGNORS", "Assignment", "Assignor", "Catalog", "Choice", "Group", "Member", "Partitions",
    "Strategy", "check_assignment", "choose", "lookup",
]  # fmt: skip
