"""The planner's state between micro-batches.

It has the position and the last reader of each partition, the generation of that assignment, and
the learned costs. Losing it costs stickiness, but never data. `checkpoints.state_text` encodes it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Generations and batch numbers are signed 32-bit integers (KIP-341).
MAX_INT32 = 2**31 - 1
#: Minimum number of batches for which a partition without data is kept.
MIN_HOLD = 16


class StateError(ValueError):
    """A state is unusable: corrupt, of other topics, or of a newer version."""


class KnownExecutor(NamedTuple):
    """One executor; each of its slots is a member of the group."""

    executor: str
    host: str
    slots: int


class Pace(NamedTuple):
    """The slowness of an executor, with the same statistics as the cost of a partition."""

    #: Smoothed logarithm of its seconds divided by those of a typical executor; 0 is typical.
    slowness: float = 0.0
    #: The last observed value of it.
    last: float = 0.0
    #: Number of valid reports behind `slowness`.
    evidence: float = 0.0


class Common(NamedTuple):
    """The part of the cost model that all partitions share, learned from read reports."""

    #: Logarithm of the seconds per record; NaN until seconds are reported.
    level: float = math.nan
    #: Fixed cost of a range, as a number of records.
    fixed: float = 0.0
    #: Whether a cost for each partition predicted the reports better than one cost for all.
    own: bool = False
    #: Standard deviation of log(cost) of a long report around its partition's mean.
    noise: float = 0.2
    #: Prediction error of each candidate model (see `planner.learn`).
    errors: tuple[float, ...] = ()
    #: Number of reports behind `errors`.
    reports: float = 0.0
    #: Share of the reported time that was predicted for the wrong task, by the model and by record
    #: counts; both fade. Number of batches compared, and whether the model is used.
    missed: float = 0.0
    missed_alike: float = 0.0
    compared: float = 0.0
    relied_on: bool = False


@dataclass(frozen=True, eq=False)
class StickyState:
    """The planner's state after planning a batch; columns are sorted by topic and partition."""

    #: Increases with each change of members or partitions.
    generation: int
    #: Batches planned so far.
    batches: int
    #: Sorted by id. Members are numbered over all slots, starting with the first executor's.
    readers: tuple[KnownExecutor, ...]
    #: By executor id.
    paces: dict[str, Pace]
    common: Common
    #: Sorted; `topic` has indices into it.
    topics: tuple[str, ...]
    topic: NDArray[np.int64]
    partition: NDArray[np.int64]
    #: Number of the member that read the partition last; -1 for none.
    member: NDArray[np.int64]
    #: Offset at which it stopped; -1 if unknown.
    position: NDArray[np.int64]
    #: Number of the batch (see `batches`) in which the partition last had data.
    seen: NDArray[np.int64]
    #: Smoothed logarithm of the partition's cost divided by the common cost; NaN if unknown.
    cost: NDArray[np.float64]
    #: The last observed value of it, to distinguish an outlier from a change.
    last_cost: NDArray[np.float64]
    #: Number of valid reports behind `cost`.
    evidence: NDArray[np.float64]
    #: Smoothed logarithm of the bytes per record; NaN if unknown.
    bytes: NDArray[np.float64]
    #: Smoothed number of records per offset; NaN if unknown.
    density: NDArray[np.float64]
    #: Consecutive batches with far too many executors; negative: consecutive batches that requested
    #: more executors.
    calm: int = 0
    #: Number of batches without data after which a partition is dropped.
    hold: int = MIN_HOLD

    @property
    def members(self) -> int:
        """Number of slots over all readers."""
        return sum(reader.slots for reader in self.readers)

    def last_executors(self) -> dict[tuple[str, int], KnownExecutor]:
        """Return the last (near) reader of each partition; empty in local mode."""
        of_member = [executor for executor in self.readers for _ in range(executor.slots)]
        columns = (self.topic.tolist(), self.partition.tolist(), self.member.tolist())
        return {
            (self.topics[topic], number): of_member[member]
            for topic, number, member in zip(*columns, strict=True)
            if member >= 0 and of_member[member].executor
        }

    @classmethod
    def empty(cls) -> StickyState:
        """Return the state before the first batch."""
        ints, floats = np.empty(0, np.int64), np.empty(0)
        return cls(
            0, 0, (), {}, Common(), (), ints, ints, ints, ints, ints,
            floats, floats, floats, floats, floats,
        )  # fmt: skip
