"""Many mappings through the same scenario, as one row each."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

from assignor_bridge.assignors.registry import lookup
from assignor_bridge.simulator.play import Played, Player, play

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from assignor_bridge.assignors.protocol import Assignor
    from assignor_bridge.simulator.scenario import Scenario

#: Batches at the start, in which there is nothing to be sticky to and costs are unknown.
WARM_UP_BATCHES = 3


@dataclass(frozen=True)
class Row:
    """How one mapping did, after the warm-up."""

    name: str
    played: Sequence[Played]

    @property
    def late(self) -> Sequence[Played]:
        """The batches that count."""
        return self.played[WARM_UP_BATCHES:] or self.played

    @property
    def median_seconds(self) -> float:
        """Median time of a batch."""
        return median(p.seconds for p in self.late)

    @property
    def mean_over(self) -> float:
        """Mean of how much longer than the ideal a batch takes, as a share."""
        return fmean(p.over for p in self.late)

    @property
    def worst_over(self) -> float:
        """The same in the worst batch."""
        return max(p.over for p in self.late)

    @property
    def tasks(self) -> float:
        """Mean number of tasks."""
        return fmean(p.tasks for p in self.late)

    @property
    def broken(self) -> float:
        """Mean share of partitions that another executor goes on with."""
        return fmean(p.broken / max(1, p.partitions) for p in self.late)

    def as_json(self) -> dict[str, object]:
        """As JSON values, for `--json`."""
        return {
            "name": self.name,
            "medianSeconds": round(self.median_seconds, 6),
            "meanOver": round(self.mean_over, 6),
            "worstOver": round(self.worst_over, 6),
            "tasks": round(self.tasks, 2),
            "brokenContinuities": round(self.broken, 6),
        }


def compare(
    scenario: Scenario,
    names: Sequence[str],
    options: Mapping[str, str] | None = None,
    find: Callable[[str], Assignor] = lookup,
    locality_wait: float = 3.0,
) -> list[Row]:
    """Play the scenario through each mapping or assignor."""
    return [
        Row(name, play(Player(name, scenario, options or {}, find, locality_wait)))
        for name in names
    ]
