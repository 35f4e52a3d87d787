"""What a fault is: its name, what it may reach, and what it says must be found afterwards."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.lab.faults.feed import PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from tests.lab.faults.feed import Feed
    from tests.lab.faults.scene import Scene
    from tests.support.broker_cluster import BrokerCluster
    from tests.support.chaos_proxy import ChaosProxy
    from tests.support.standalone_cluster import StandaloneCluster

#: What the query reads from.
PROXY, CLUSTER = "one broker behind a proxy", "three brokers"
TIERED = "one broker with a remote tier"


@dataclass
class Harm:
    """All that a fault may reach, and what it says about what must be found afterwards."""

    scene: Scene
    feed: Feed
    proxy: ChaosProxy | None = None
    cluster: BrokerCluster | None = None
    #: Of a single broker, where its data is.
    logs: Path | None = None
    #: The same query by Spark's own source, where the fault is done to both.
    sparks: Scene | None = None
    #: The small file system that the kind asks for.
    disk: Path | None = None
    #: What Spark runs on, where a fault is done to it.
    standalone: StandaloneCluster | None = None
    #: Offsets that may be missing, by era of the feed and partition: they are gone from the topic.
    gone: dict[tuple[int, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    #: What a partition that the feed leaves alone must hold, and where its log ends.
    values: dict[int, list[str]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    #: What happened, in numbers.
    did: dict[str, int] = field(default_factory=dict)
    #: What ended a query on the way, of each scene by its name.
    errors: dict[str, str] = field(default_factory=dict)

    def note(self, what: str, count: int = 1) -> None:
        """Count something that was done."""
        self.did[what] = self.did.get(what, 0) + count

    def loses(self, offsets: Mapping[int, Iterable[int]], era: int = 0) -> None:
        """Say that these may be missing in the table, by partition."""
        for partition, gone in offsets.items():
            self.gone[era, partition].update(gone)

    @property
    def scenes(self) -> list[Scene]:
        """The query with the option, and the one without where there is one."""
        return [self.scene, *([self.sparks] if self.sparks else [])]

    @property
    def between(self) -> ChaosProxy:
        """The proxy of a fault that has one."""
        assert self.proxy is not None
        return self.proxy

    @property
    def brokers(self) -> BrokerCluster:
        """The cluster of a fault that has one."""
        assert self.cluster is not None
        return self.cluster

    @property
    def workers(self) -> StandaloneCluster:
        """The workers of a fault that has them."""
        assert self.standalone is not None
        return self.standalone


@dataclass(frozen=True)
class Kind:
    """A fault by name."""

    name: str
    place: str
    make: Callable[[Harm], None]
    #: Batches that Spark's own mapping reads, at least and at most.
    fallbacks: tuple[int, int] = (0, 0)
    options: Mapping[str, str] = field(default_factory=dict)
    #: Settings of the topic, and the brokers of all its partitions (else Kafka's choice of three).
    config: Mapping[str, str] = field(default_factory=dict)
    replicas: Sequence[int] = ()
    #: Of the topic, and of those the first ones that records are written to.
    partitions: int = PARTITIONS + 1
    fed: int = PARTITIONS
    #: Characters that fill up each record.
    padding: int = 0
    #: Keys of each partition's records; 0: they have none.
    keys: int = 0
    #: The metric of its options, which shows that they are on.
    metric: str = "assignor.strategy"
    #: What is a small file system of its own: `checkpoint`, `table` or `state`.
    disk: str = ""
    #: Whether Spark's own source is read beside ours.
    beside: bool = False
    #: What Spark must be started with for it alone: a fixture of `test_faults.py`.
    alone: str = ""
    #: Whether `make long` does it, too.
    long: bool = True
    #: Whether it is in topic and records already: with nothing done there it is done.
    in_the_scene: bool = False
    #: What is promised, where that is not "nothing is lost, nothing comes twice".
    promise: str = ""
    #: What the records are that may be missing.
    loss: str = "gone from the topic"

    @property
    def scene(self) -> str:
        """All that a run in which nothing is done depends on: two kinds may have the same."""
        what = (
            self.place, self.options, self.config, self.replicas, self.partitions, self.fed,
            self.padding, self.keys, self.metric, self.disk, self.beside, self.alone,
        )  # fmt: skip
        return repr(what)

    @property
    def what(self) -> str:
        """What is done, and what is promised, in words."""
        done = " ".join((self.make.__doc__ or "").split())
        return done + (f" Promised: {self.promise}." if self.promise else "")


@dataclass(frozen=True)
class With:
    """Options that any fault may be done with, and the metric that shows that they are on."""

    options: Mapping[str, str] = field(default_factory=dict)
    metric: str = "assignor.strategy"
    #: Of the executors.
    racks: tuple[str, ...] = ()


#: Records of a batch, less than come while one is read.
LIMIT = 800
#: By the name that `make chaos WITH=` takes.
WITH = {
    "": With(),
    "admission": With(
        {
            "assignor.fairness": "deadline", "assignor.targetBatchSeconds": "1",
            "maxOffsetsPerTrigger": str(LIMIT),
        },
        "assignor.admittedRecords",
    ),
    "alignment": With(
        {
            "assignor.alignEventTime": "5 seconds", "assignor.fairness": "even",
            "maxOffsetsPerTrigger": str(LIMIT),
        },
        "assignor.eventTimeSpreadSeconds",
    ),
    "zones": With(metric="assignor.crossZoneOffsets", racks=("a", "b")),
}  # fmt: skip
