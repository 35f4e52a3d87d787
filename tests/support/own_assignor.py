"""Assignors as a user would write them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assignor_bridge.assignors.group import Group


class LastTakesAll:
    """Assign everything to one member, by default the last; depend only on `Group`."""

    name = "last-takes-all"
    place = -1

    def configure(self, options: dict[str, str]) -> None:
        """Read the option `takerPlace`, the index of the member."""
        self.place = int(options.get("takerPlace", -1))

    def assign(self, group: Group) -> dict[str, dict[str, list[int]]]:
        return {group.ids[self.place]: {topic: list(range(n)) for topic, n in group.topics.items()}}


class Forgetful(LastTakesAll):
    """Omit a partition, which makes the assignment invalid."""

    name = "forgetful"

    def assign(self, group: Group) -> dict[str, dict[str, list[int]]]:
        """Give all partitions but the first of each topic to one member."""
        return {group.ids[-1]: {topic: list(range(1, n)) for topic, n in group.topics.items()}}


class SlowWithThree(LastTakesAll):
    """Never answers for three members, so that a test can kill the leader during a rebalance."""

    name = "slow-with-three"

    def assign(self, group: Group) -> dict[str, dict[str, list[int]]]:
        """Print an event of tests/support/group_member.py, and wait if there are three members."""
        if len(group.ids) == 3:
            print(
                json.dumps({"event": "assigning", "at": time.time(), "partitions": []}), flush=True
            )
            time.sleep(600)
        return super().assign(group)
