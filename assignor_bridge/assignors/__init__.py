"""Assignors: pure functions from a `Group` to an `Assignment`.

- `partitions`: sets of partitions as arrays of ids
- `group`: the data (`Member`, `Group`, `Assignment`)
- `protocol`: the interface of an assignor; `registry`: the built-in assignors, and `choose`
- `check`: the check that every answer must pass; `custom`: the import of custom assignors
- `testing`: simulated rebalances, for tests of assignors
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
