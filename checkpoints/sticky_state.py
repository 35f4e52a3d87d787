"""The planner's state between micro-batches.

It has each partition's position and last reader, the assignment's generation, and the learned
costs. Losing it costs stickiness, but never data. `checkpoints.state_text` encodes it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Generations (KIP-341) and batch numbers are signed 32-bit integers.
MAX_INT32 = 2**31 - 1
#: Minimum number of batches for which a partition without data is kept.
MIN_HOLD = 16
#: Assumed wait of a cold read in seconds, until one was measured (see `planner.cold_reads`).
ASSUMED_COLD_READ_S = 0.02


class StateError(ValueError):
    """A state is unusable: corrupt, or written by an unsupported version."""


class StoredExecutor(NamedTuple):
    """One executor; each of its slots is a member of the group."""

    executor: str
    host: str
    slots: int


class Pace(NamedTuple):
    """An executor's learned slowness, with its last sample and its evidence."""

    #: Smoothed log of the executor's seconds divided by a typical executor's; 0 is typical.
    slowness: float = 0.0
    #: The last observed value of the same logarithm, before smoothing.
    last: float = 0.0
    #: Inverse of the variance of `slowness`.
    evidence: float = 0.0


class Common(NamedTuple):
    """The part of the cost model that all partitions share, learned from read reports."""

    #: Logarithm of the seconds per record of a typical partition; NaN until seconds are reported.
    level: float = math.nan
    #: Seconds that a range takes in addition to those of its records.
    fixed: float = 0.0
    #: Standard deviation of a long report's log(cost) from its partition's mean.
    noise: float = 0.2
    #: Number of batches in which the noise was measured, up to a maximum.
    noise_batches: float = 0.0
    #: Running means from which the fixed cost is fitted (see `planner.learning`).
    fit: tuple[float, ...] = ()
    #: Number of batches in `fit`, up to a maximum.
    fit_batches: float = 0.0


@dataclass(frozen=True, eq=False)
class StickyState:
    """The planner's state after planning a batch; columns are sorted by topic and partition."""

    #: Increases with each change of members or partitions.
    generation: int
    #: Number of batches planned so far.
    batches: int
    #: Executors, sorted by id. Their slots, in this order, are the numbered members.
    readers: tuple[StoredExecutor, ...]
    #: Pace by executor id.
    paces: dict[str, Pace]
    common: Common
    #: Sorted topic names; `topic` has indices into them.
    topics: tuple[str, ...]
    topic: NDArray[np.int64]
    partition: NDArray[np.int64]
    #: Number of the member that read the partition last; -1 for none.
    member: NDArray[np.int64]
    #: End of the partition's last range in a batch; -1 if unknown.
    position: NDArray[np.int64]
    #: Last batch in which the partition had data, counted from 1 as in `batches`.
    seen: NDArray[np.int64]
    #: Smoothed logarithm of the partition's cost divided by the common cost; NaN if unknown.
    cost: NDArray[np.float64]
    #: The last observed value of the same logarithm, to distinguish an outlier from a change.
    last_cost: NDArray[np.float64]
    #: Total weight of the reports behind `cost`, in good reports; capped, reset by a change.
    evidence: NDArray[np.float64]
    #: Smoothed logarithm of the bytes per record; NaN if unknown.
    bytes: NDArray[np.float64]
    #: Smoothed number of records per offset; NaN if unknown.
    density: NDArray[np.float64]
    #: Number of consecutive calm batches (see `planner.demand`), or minus that of requesting ones.
    calm: int = 0
    #: Number of batches without data after which a partition is dropped.
    hold: int = MIN_HOLD
    #: Standard deviations of log(seconds / predicted seconds) in the last batches.
    spreads: tuple[float, ...] = ()
    #: Running mean of the seconds until the first record arrives in a cold read.
    cold_read_s: float = ASSUMED_COLD_READ_S
    #: Whether, in the last batch, only tail tasks read the partition.
    in_tail: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))

    @property
    def member_count(self) -> int:
        """Number of members: one per slot of each reader."""
        return sum(reader.slots for reader in self.readers)

    def map_last_executors(self) -> dict[tuple[str, int], StoredExecutor]:
        """Return each partition's last reader, if any, by topic and number; {} in local mode."""
        executor_of_member = [executor for executor in self.readers for _ in range(executor.slots)]
        columns = (self.topic.tolist(), self.partition.tolist(), self.member.tolist())
        return {
            (self.topics[topic], number): executor_of_member[member]
            for topic, number, member in zip(*columns, strict=True)
            if member >= 0 and executor_of_member[member].executor
        }

    @classmethod
    def empty(cls) -> StickyState:
        """Return the state before the first batch."""
        ints, floats = np.empty(0, np.int64), np.empty(0)
        return cls(
            0, 0, (), {}, Common(), (), ints, ints, ints, ints, ints,
            floats, floats, floats, floats, floats,
        )  # fmt: skip
