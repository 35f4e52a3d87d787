"""From offsets to lags: what counts as lag when nothing was committed, or the log was cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Offsets:
    """The offsets of one partition that its lag follows from."""

    #: Offset after the last record.
    latest: int
    #: Offset of the first record that is still there.
    beginning: int = 0
    #: Offset that the group committed; None when it never did.
    committed: int | None = None

    def lag(self, offset_reset: str = "latest") -> int:
        """Offsets that are still to be read.

        Without a commit that is nothing if the group starts at the end (`auto.offset.reset=latest`)
        and everything there is otherwise. Never negative: a commit beyond the end, of a log that
        was cut or recreated, counts as no lag. A commit before the first record that is still there
        counts from the commit, as Kafka's tools count: more than can be read.
        """
        if self.committed is not None:
            return max(self.latest - self.committed, 0)
        if offset_reset == "latest":
            return 0
        return max(self.latest - self.beginning, 0)


def lags_of(
    offsets: Mapping[str, Mapping[int, Offsets]], offset_reset: str = "latest"
) -> dict[str, dict[int, int]]:
    """Lag of each partition, by topic and number: `Group.lags` from what a cluster reports."""
    return {
        topic: {p: o.lag(offset_reset) for p, o in sorted(of_topic.items())}
        for topic, of_topic in sorted(offsets.items())
    }
