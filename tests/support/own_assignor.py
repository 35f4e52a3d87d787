"""An assignor as a user would write one: everything goes to one member, the last by default."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assignor_bridge.assignors.group import Group


class LastTakesAll:
    """Knows nothing of the project but the group that it is given."""

    name = "last-takes-all"
    place = -1

    def configure(self, options: dict[str, str]) -> None:
        """Let the option `takerPlace` name another member than the last."""
        self.place = int(options.get("takerPlace", -1))

    def assign(self, group: Group) -> dict[str, dict[str, list[int]]]:
        """Give all partitions to one member."""
        return {group.ids[self.place]: {topic: list(range(n)) for topic, n in group.topics.items()}}


class Forgetful(LastTakesAll):
    """Leaves a partition out, which nobody may act on."""

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
