"""A micro-batch laid out as arrays: what every step of the planner works on.

Up to 100,000 partitions and tens of thousands of slots are planned per batch, so it is columns,
not objects: one cell a range, sorted by topic, partition and start, adjacent ranges of a partition
joined (Spark's own `minPartitions` cuts them) and empty ones dropped. Slots are numbered over all
executors, executors by id. Offsets are int64 and never added up as such: near 2^63 only floats may.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from assignor_bridge.errors import OptionError
from assignor_bridge.model import MAX_PARTITION, MAX_TOPIC_LENGTH, Executor
from assignor_bridge.planner.racks import Zones, zones_of
from checkpoints.sorting import stable_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from assignor_bridge.model import Allocation
    from assignor_bridge.options import PlannerOptions
    from assignor_bridge.planner.racks import Replicas

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]
    #: Distinct names, sorted, and for each cell the place of its name in them.
    Names = tuple[tuple[str, ...], Ints]

#: Slots of all executors; more are a mistake, and must not fill the memory.
MOST_SLOTS = 1_000_000

#: Stands for the executor that local mode does not have; its tasks carry no location.
ANONYMOUS = ""


@dataclass(frozen=True, eq=False)
class Observed:
    """Columns of read reports, one cell a report, sorted so that their order does not matter."""

    #: Topics and executors that reports name, sorted; `topic` and `executor` are places in them.
    topics: tuple[str, ...]
    executors: tuple[str, ...]
    topic: Ints
    partition: Ints
    executor: Ints
    records: Floats
    bytes: Floats
    seconds: Floats
    #: Offsets that were covered; not a number where the reader did not say.
    offsets: Floats

    @classmethod
    def of(  # noqa: PLR0917
        cls,
        topics: Names,
        partition: Ints,
        executors: Names,
        records: Floats,
        size: Floats,
        seconds: Floats,
        offsets: Floats,
    ) -> Observed:
        """Sort columns of reports."""
        (topic_names, topic), (executor_names, executor) = topics, executors
        order = sorting((offsets, size, seconds, records), executor, partition, topic)
        return cls(
            topic_names, executor_names, topic[order], partition[order], executor[order],
            records[order], size[order], seconds[order], offsets[order],
        )  # fmt: skip

    @classmethod
    def none(cls) -> Observed:
        """Return no reports."""
        return cls.of(coded(()), np.empty(0, np.int64), coded(()), *[np.empty(0)] * 4)


def coded(names: Sequence[str]) -> Names:
    """Sort the distinct names, and say for each cell which one it is."""
    distinct = tuple(sorted(set(names)))
    code = {name: i for i, name in enumerate(distinct)}
    return distinct, np.fromiter(map(code.__getitem__, names), np.int64, len(names))


@dataclass(frozen=True, eq=False)
class Batch:
    """Ranges, executors and reports of one micro-batch."""

    #: Topics with data, by name.
    topics: tuple[str, ...]
    #: Index in `topics`, partition number, first offset and end offset of each range.
    topic: Ints
    partition: Ints
    start: Ints
    end: Ints
    #: By id; one named `ANONYMOUS` when Spark has none.
    executors: tuple[Executor, ...]
    #: What the options mean.
    settings: PlannerOptions
    observed: Observed
    #: Where executors come and go with the tasks.
    allocation: Allocation | None = None
    #: Offsets that wait over those of the batch: more than 1 where admission holds some back.
    backlog: float = 1.0
    #: Racks of the ranges, None where nobody named any.
    replicas: Replicas | None = None
    #: Number of the stream in its driver, by the order in which they began.
    stream: int = 0
    #: Executors that are there but give no slot to this stream (`assignor.slots`).
    left_out: int = 0
    #: One more than the highest partition of each topic that the query reads, without data too;
    #: None: unknown. What the state has beyond is gone.
    partitions: Mapping[str, int] | None = None

    @property
    def ranges(self) -> int:
        """Number of ranges."""
        return len(self.start)

    @property
    def anonymous(self) -> bool:
        """Whether there are no executors, only slots."""
        return self.executors[0].id == ANONYMOUS

    @cached_property
    def size(self) -> Ints:
        """Offsets of each range."""
        return self.end - self.start

    @cached_property
    def total(self) -> float:
        """Offsets of all ranges."""
        return float(self.size.sum(dtype=np.float64))

    @cached_property
    def executor_slots(self) -> Ints:
        """Number of slots of each executor."""
        return np.array([e.slots for e in self.executors], np.int64)

    @cached_property
    def slot_executor(self) -> Ints:
        """Index of the executor of each slot."""
        return np.repeat(np.arange(len(self.executors)), self.executor_slots)

    @cached_property
    def slot_number(self) -> Ints:
        """Number of each slot on its executor, from 0."""
        return np.arange(self.slots) - self.first_slot[self.slot_executor]

    @cached_property
    def first_slot(self) -> Ints:
        """Number of the first slot of each executor."""
        return np.cumsum(self.executor_slots) - self.executor_slots

    @cached_property
    def slots(self) -> int:
        """Number of slots over all executors."""
        return len(self.slot_executor)

    @cached_property
    def zones(self) -> Zones | None:
        """Racks as zones of executors, None where nobody named any."""
        return None if self.replicas is None else zones_of(self.executors, self.replicas)

    def name(self, row: int) -> str:
        """`topic-partition` of a range, for people."""
        return f"{self.topics[int(self.topic[row])]}-{int(self.partition[row])}"


def lay_out(  # noqa: PLR0917
    names: Names,
    partition: Ints,
    start: Ints,
    end: Ints,
    executors: Sequence[Executor],
    options: PlannerOptions,
    observed: Observed,
    parallelism: int,
    allocation: Allocation | None = None,
    replicas: Replicas | None = None,
    stream: int = 0,
    partitions: Mapping[str, int] | None = None,
) -> Batch:
    """Sort, join and check the columns of a snapshot.

    Raises
    ------
    OptionError
        For ranges that end before they start, overlap or contradict, names and numbers that Kafka
        does not allow, and executors that repeat, lack slots or have too many.
    """
    topics, topic = names
    longest = max(topics, key=len, default="")
    if len(longest) > MAX_TOPIC_LENGTH:
        raise OptionError(
            f"topic {longest[:20]!r}… has a name of {len(longest)} characters: "
            f"Kafka's have at most {MAX_TOPIC_LENGTH}"
        )
    wrong = (start < 0) | (end < start) | (partition < 0) | (partition > MAX_PARTITION)
    for i in np.flatnonzero(wrong)[:1].tolist():
        raise OptionError(
            f"range {topics[topic[i]]}-{partition[i]}[{start[i]},{end[i]}) is impossible: "
            f"a partition from 0 to {MAX_PARTITION} and 0 <= start <= end are expected"
        )
    for name, count in (partitions or {}).items():
        if not 0 <= count <= MAX_PARTITION + 1:
            raise OptionError(
                f"partitions of topic {name[:MAX_TOPIC_LENGTH]!r} are {count}: "
                f"0 to {MAX_PARTITION + 1} are expected"
            )
    order = sorting((end, start), partition, topic)
    order = order[(end > start)[order]]
    topic, partition, start, end = topic[order], partition[order], start[order], end[order]
    same = (topic[1:] == topic[:-1]) & (partition[1:] == partition[:-1])
    for i in np.flatnonzero(same & (start[1:] < end[:-1]))[:1].tolist():
        raise OptionError(
            f"ranges of {topics[topic[i]]}-{partition[i]} overlap: [{start[i]},{end[i]}) and "
            f"[{start[i + 1]},{end[i + 1]}); each offset must be asked for once"
        )
    apart = ~(same & (start[1:] == end[:-1]))
    first, last = np.append(True, apart)[: len(start)], np.append(apart, True)[: len(start)]
    if replicas is not None:
        replicas = replicas.take(order)
        for i in np.flatnonzero(same & (np.diff(replicas.code) != 0))[:1].tolist():
            raise OptionError(
                f"ranges of {topics[topic[i]]}-{partition[i]} have different racks: "
                "a partition has its replicas in the same ones for all its ranges"
            )
        replicas = replicas.take(first) if replicas.known else None
    return Batch(
        topics, topic[first], partition[first], start[first], end[last],
        _members(executors, parallelism), options, observed, allocation,
        replicas=replicas, stream=stream, partitions=partitions,
    )  # fmt: skip


def _members(given: Sequence[Executor], parallelism: int) -> tuple[Executor, ...]:
    executors = [e for e in given if e.takes_tasks]
    if not executors:
        if not 1 <= parallelism <= MOST_SLOTS:
            raise OptionError(
                f"parallelism is {parallelism}: at least 1 slot is needed, at most {MOST_SLOTS:,}"
            )
        return (Executor(ANONYMOUS, ANONYMOUS, parallelism),)
    members = tuple(sorted(executors, key=lambda e: e.id))
    for one, other in itertools.pairwise(members):
        if one.id == other.id:
            raise OptionError(f"executor {one.id!r} is listed twice: ids must differ")
    for member in members:
        if member.slots < 1:
            raise OptionError(f"executor {member.id!r} has {member.slots} slots: 1 is the least")
        if member.id == ANONYMOUS:
            raise OptionError("an executor has an empty id: a name is expected")
    slots = sum(member.slots for member in members)
    if slots > MOST_SLOTS:
        largest = max(members, key=lambda e: e.slots)
        raise OptionError(
            f"the executors have {slots} slots in all (executor {largest.id!r} {largest.slots}): "
            f"at most {MOST_SLOTS:,} are planned"
        )
    return members


def sorting(ties: tuple[Ints | Floats, ...], *keys: Ints) -> Ints:
    """Return the order by `keys`, the last counting most, then by `ties`: as `np.lexsort` does.

    The keys are packed into one integer where they fit, and ties are looked at only where there
    are any: several times as fast, most of all when the rows are in order already.
    """
    packed, span = np.zeros(len(keys[0]), np.int64), 1
    for key in keys:
        least, most = int(key.min(initial=0)), int(key.max(initial=0))
        if least < 0 or span * (most + 1) >= 1 << 63:
            return np.asarray(np.lexsort((*ties, *keys)))
        packed += key * span
        span *= most + 1
    steps = np.diff(packed)
    if (steps > 0).all():
        return np.arange(len(packed))
    order = stable_order(packed)
    packed = packed[order]
    same = packed[1:] == packed[:-1]
    if same.any():
        tied = np.append(False, same) | np.append(same, False)
        rows = order[tied]
        order[tied] = rows[np.lexsort((*(tie[rows] for tie in ties), packed[tied]))]
    return order
