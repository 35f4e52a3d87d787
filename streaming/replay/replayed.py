"""All mappings over the batches of one source, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignor_bridge.assignors.registry import ASSIGNORS
from assignor_bridge.options import LAG_AWARE_STICKY
from streaming.simulator.play import SPARK_MAPPINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streaming.replay.cluster import Cluster
    from streaming.replay.log import ReplayBatch
    from streaming.replay.racks import RackMap
    from streaming.replay.traffic import Traffic
    from streaming.simulator.play import MappingResult

#: The mapping that all others are compared with.
SPARK = SPARK_MAPPINGS[0]
#: What is compared when nothing is named.
EVERYTHING = (*SPARK_MAPPINGS, LAG_AWARE_STICKY, *sorted(set(ASSIGNORS) - {LAG_AWARE_STICKY}))
#: The query's own plans, from a plan log.
ITSELF = "this query"


@dataclass(frozen=True, slots=True)
class Replay:
    """All mappings over the batches of one source."""

    #: What was replayed, for people: the checkpoint and the number of the source.
    title: str
    cluster: Cluster
    batches: Sequence[ReplayBatch]
    mappings: Sequence[MappingResult]
    #: Where replicas are, and what reading elsewhere costs; None where nobody says.
    racks: RackMap | None = None
    traffic: Traffic | None = None
    #: Our planner, as if there were no zones.
    without_zones: MappingResult | None = None

    def find(self, name: str) -> MappingResult | None:
        """Return one mapping's result, None when it was not played."""
        return next((m for m in self.mappings if m.name == name and m.error is None), None)

    @property
    def records(self) -> int:
        """Offsets over all batches."""
        return sum(batch.records for batch in self.batches)

    @property
    def partitions(self) -> int:
        """Partitions that had data in some batch."""
        return len({r.tp for batch in self.batches for r in batch.ranges})

    @property
    def partitions_without_rack(self) -> int:
        """Of these, those of whose leader no rack is known."""
        if self.racks is None:
            return self.partitions
        known = self.racks.knows
        return len({r.tp for batch in self.batches for r in batch.ranges if not known(r.tp)})

    @property
    def knows_racks(self) -> bool:
        """Whether the rack of some partition's leader is known."""
        racks = self.racks
        return racks is not None and any(
            racks.knows(r.tp) for batch in self.batches for r in batch.ranges
        )

    def cross_zone(self, result: MappingResult) -> float | None:
        """Return the share of all bytes that are known to cross zones; None where nothing is."""
        if self.traffic is None or not self.knows_racks:
            return None
        sizes = [_bytes(batch, self.traffic) for batch in self.batches]
        crossed = (n * (p.cross_zone or 0.0) for n, p in zip(sizes, result.played, strict=True))
        return sum(crossed) / (sum(sizes) or 1.0)


def _bytes(batch: ReplayBatch, traffic: Traffic) -> float:
    return float(traffic.bytes_of([r.tp for r in batch.ranges]) @ [r.size for r in batch.ranges])
