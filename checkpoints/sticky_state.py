"""The planner's memory between micro-batches.

Where each partition's reading stopped and at which member, the generation of that assignment, and
what was learned about costs. It costs stickiness when it is lost, never data.
`checkpoints.state_text` writes and reads it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Generations and numbers of batches are 32 bits wide (KIP-341) and signed.
MAX_INT32 = 2**31 - 1
#: A partition without data is remembered for so many batches at least.
MIN_HOLD = 16


class StateError(ValueError):
    """A state that cannot be used: corrupt, foreign or from a newer version."""


class KnownExecutor(NamedTuple):
    """One executor; each of its slots is a member of the group."""

    executor: str
    host: str
    slots: int


class Pace(NamedTuple):
    """How slow an executor is; the fields mean what a partition's columns of cost mean."""

    #: Logarithm of its seconds over those of a usual executor, smoothed; 0 is usual.
    slowness: float = 0.0
    #: The same, as observed last.
    last: float = 0.0
    #: How many good reports `slowness` rests on.
    evidence: float = 0.0


class Common(NamedTuple):
    """What the read reports of all partitions have in common."""

    #: Logarithm of the seconds a record; not a number while no seconds were reported.
    level: float = math.nan
    #: What a range costs in addition to its records, expressed in records.
    fixed: float = 0.0
    #: Whether costs of their own foresaw the partitions' reports better than one cost for all did.
    own: bool = False
    #: Standard deviation of a long report, in logarithms, from what its partition's before said.
    noise: float = 0.2
    #: How far off the reports were, by the rule that foresaw them (see `planner.learn`).
    errors: tuple[float, ...] = ()
    #: How many reports `errors` rests on.
    reports: float = 0.0
    #: Share of the reported time that all of this together expected elsewhere, and the same of
    #: records alike, faded; how many batches they rest on, and whether the first is relied on.
    missed: float = 0.0
    missed_alike: float = 0.0
    compared: float = 0.0
    relied_on: bool = False


@dataclass(frozen=True, eq=False)
class StickyState:
    """What the planner knew when it had planned a batch; columns are sorted by topic, partition."""

    #: Rises with each change of members or partitions.
    generation: int
    #: Batches planned so far.
    batches: int
    #: Sorted by id. Members are numbered over all slots: the first executor's from 0, and so on.
    readers: tuple[KnownExecutor, ...]
    #: By executor id.
    paces: dict[str, Pace]
    common: Common
    #: Sorted; `topic` holds indices into it.
    topics: tuple[str, ...]
    topic: NDArray[np.int64]
    partition: NDArray[np.int64]
    #: Number of the member that read the partition last; -1 for none.
    member: NDArray[np.int64]
    #: Offset at which it stopped; -1 when unknown.
    position: NDArray[np.int64]
    #: Batch (as `batches`) in which the partition last had data.
    seen: NDArray[np.int64]
    #: Logarithm of the partition's cost over the common one, smoothed; not a number when unknown.
    cost: NDArray[np.float64]
    #: The same, as observed last: distinguishes an outlier from a change.
    last_cost: NDArray[np.float64]
    #: How many good reports `cost` rests on.
    evidence: NDArray[np.float64]
    #: Logarithm of bytes a record, smoothed; not a number when unknown.
    bytes: NDArray[np.float64]
    #: Records an offset, smoothed; not a number when unknown.
    density: NDArray[np.float64]
    #: Batches in a row for which there were far too many executors; below 0, so many in a row that
    #: asked for more.
    calm: int = 0
    #: Batches without data after which a partition is forgotten.
    hold: int = MIN_HOLD

    @property
    def members(self) -> int:
        """Number of slots over all readers."""
        return sum(reader.slots for reader in self.readers)

    def last_executors(self) -> dict[tuple[str, int], KnownExecutor]:
        """Return who read each partition last: of one that zones share, the last near reader.

        Local mode has no executor with a name.
        """
        of_member = [executor for executor in self.readers for _ in range(executor.slots)]
        columns = (self.topic.tolist(), self.partition.tolist(), self.member.tolist())
        return {
            (self.topics[topic], number): of_member[member]
            for topic, number, member in zip(*columns, strict=True)
            if member >= 0 and of_member[member].executor
        }

    @classmethod
    def empty(cls) -> StickyState:
        """Nothing known: before the first batch."""
        ints, floats = np.empty(0, np.int64), np.empty(0)
        return cls(
            0, 0, (), {}, Common(), (), ints, ints, ints, ints, ints,
            floats, floats, floats, floats, floats,
        )  # fmt: skip
