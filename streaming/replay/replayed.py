"""The results of a replay."""

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
    from streaming.replay.racks_input import RackMap
    from streaming.replay.traffic import Traffic
    from streaming.simulator.results import MappingResult

#: Name of Spark's default assignment, the baseline of all comparisons.
SPARK = SPARK_MAPPINGS[0]
#: Mappings and assignors that are compared by default.
DEFAULT_NAMES = (*SPARK_MAPPINGS, LAG_AWARE_STICKY, *sorted(set(ASSIGNORS) - {LAG_AWARE_STICKY}))
#: Name of the result for the query's own plans, from a plan log.
ITSELF = "this query"


@dataclass(frozen=True, slots=True)
class Replay:
    """The results of all mappings over the batches of one source."""

    #: Display name: the checkpoint, and the source's number if there are several.
    title: str
    cluster: Cluster
    batches: Sequence[ReplayBatch]
    mappings: Sequence[MappingResult]
    #: Racks of executors and replicas; None if unknown.
    racks: RackMap | None = None
    #: Bytes that the query reads, and their price; None if not estimated.
    traffic: Traffic | None = None
    #: Result of lag-aware-sticky, planned without zones; None without `traffic` or if not replayed.
    without_zones: MappingResult | None = None

    def find_result(self, name: str) -> MappingResult | None:
        """Return the result of a mapping; None if it is missing or failed."""
        return next((m for m in self.mappings if m.name == name and m.error is None), None)

    @property
    def offset_count(self) -> int:
        """Number of offsets in all batches."""
        return sum(batch.offset_count for batch in self.batches)

    @property
    def partition_count(self) -> int:
        """Number of partitions with data in any batch."""
        return len({r.tp for batch in self.batches for r in batch.ranges})

    @property
    def partitions_without_rack(self) -> int:
        """Number of partitions with data whose leader's rack is unknown."""
        if self.racks is None:
            return self.partition_count
        has_rack = self.racks.has_leader_rack
        return len({r.tp for batch in self.batches for r in batch.ranges if not has_rack(r.tp)})

    @property
    def has_racks(self) -> bool:
        """Whether any partition has a leader with a known rack."""
        racks = self.racks
        return racks is not None and any(
            racks.has_leader_rack(r.tp) for batch in self.batches for r in batch.ranges
        )

    def compute_cross_zone_share(self, result: MappingResult) -> float | None:
        """Return the share of bytes known to cross zones; None without traffic or known racks."""
        if self.traffic is None or not self.has_racks:
            return None
        batch_bytes = [_count_bytes(batch, self.traffic) for batch in self.batches]
        pairs = zip(batch_bytes, result.batches, strict=True)
        return sum(n * (p.cross_zone_share or 0.0) for n, p in pairs) / (sum(batch_bytes) or 1.0)


def _count_bytes(batch: ReplayBatch, traffic: Traffic) -> float:
    offset_bytes = traffic.list_offset_bytes([r.tp for r in batch.ranges])
    return float(offset_bytes @ [r.size for r in batch.ranges])
