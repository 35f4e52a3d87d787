"""Estimate the bytes that a query reads per day, and the cost of reading them across zones."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.model import Partition
from assignor_bridge.options import PlannerOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from checkpoints.sticky_state import StickyState
    from streaming.replay.log import CheckpointLog, ReplayBatch

#: The default of `assignor.zonePricePerGb`.
PRICE_PER_GB = PlannerOptions().zone_price_per_gb
GB = 1e9  # bytes
_DAY_S = 86_400
#: Assumed bytes per offset if they are unknown.
_ASSUMED_OFFSET_BYTES = 100.0


@dataclass(frozen=True)
class Traffic:
    """A query's traffic, in bytes of keys and values, and its price across zones."""

    price_per_gb: float = PRICE_PER_GB
    #: Mean of the partitions' bytes per offset; given or assumed if none were learned.
    mean_offset_bytes: float = _ASSUMED_OFFSET_BYTES
    #: Bytes per offset of each partition for which the planner learned them.
    offset_bytes: Mapping[Partition, float] = field(default_factory=dict)
    #: Bytes read per day; None without two batches that have different timestamps.
    bytes_a_day: float | None = None
    #: Text that describes where the bytes per offset come from.
    origin: str = ""

    def list_offset_bytes(self, partitions: Sequence[Partition]) -> NDArray[np.float64]:
        """Return the bytes per offset of each partition; the mean if none were learned."""
        sizes = [self.offset_bytes.get(tp, self.mean_offset_bytes) for tp in partitions]
        return np.array(sizes, np.float64)

    def compute_daily_cost(self, cross_zone_share: float) -> float | None:
        """Return the daily cost if this share of the bytes crosses zones; None if unknown."""
        if self.bytes_a_day is None:
            return None
        return cross_zone_share * self.bytes_a_day / GB * self.price_per_gb


def estimate_traffic(
    log: CheckpointLog,
    source: str,
    batches: Sequence[ReplayBatch],
    price_per_gb: float = PRICE_PER_GB,
    record_bytes: float | None = None,
) -> Traffic:
    """Return the traffic: bytes after the first batch, over the time from first to last plan."""
    mean_offset_bytes, origin = _ASSUMED_OFFSET_BYTES, "assumed; set it with --record-bytes"
    offset_bytes: dict[Partition, float] = {}
    if record_bytes is not None:
        mean_offset_bytes, origin = record_bytes, "as given"
    elif offset_bytes := _compute_offset_bytes(log.checkpoint.states.get(source)):
        mean_offset_bytes = float(np.mean([*offset_bytes.values()]))
        origin = "as learned by the planner"
    timestamp_ms_by_batch = {b.batch_id: b.timestamp_ms for b in log.checkpoint.batches}
    timed_bytes = [
        (at_ms, sum(r.size * offset_bytes.get(r.tp, mean_offset_bytes) for r in batch.ranges))
        for batch in batches
        if (at_ms := timestamp_ms_by_batch.get(batch.batch)) is not None
    ]
    elapsed_s = (timed_bytes[-1][0] - timed_bytes[0][0]) / 1000 if timed_bytes else 0
    # Skip the first batch, because its records arrived before the first timestamp.
    total_bytes = sum(size for _, size in timed_bytes[1:])
    bytes_a_day = total_bytes / elapsed_s * _DAY_S if elapsed_s > 0 else None
    return Traffic(price_per_gb, mean_offset_bytes, offset_bytes, bytes_a_day, origin)


def _compute_offset_bytes(state: StickyState | None) -> dict[Partition, float]:
    """Return the learned bytes per offset by partition; others are omitted."""
    if state is None:
        return {}
    density = np.where(np.isnan(state.density), 1.0, state.density)
    columns = (state.topic, state.partition, np.exp(state.bytes) * density)
    return {
        Partition(state.topics[topic], partition): size
        for topic, partition, size in zip(*(c.tolist() for c in columns), strict=True)
        if not math.isnan(size)
    }
