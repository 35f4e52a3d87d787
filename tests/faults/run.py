"""One fault from begin to end, with all checks."""

from __future__ import annotations

import time
import uuid
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tests.faults.kinds import KINDS, PROXY, Harm, Kind
from tests.faults.scene import PARTITIONS, Feed, Scene
from tests.kafka_topics import Topic
from tests.spark_tools import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from streaming.kafka.embedded import EmbeddedBroker
    from tests.support.broker_cluster import BrokerCluster
    from tests.support.chaos_proxy import ChaosProxy

_TOPIC = {"max.message.bytes": "4000000"}


@dataclass(frozen=True)
class Outcome:
    """What was seen of one fault; all checks held."""

    kind: str
    seed: int
    seconds: float
    batches: int
    rows: int
    #: Records that are not in the table: all had been deleted from the topic.
    lost: int
    fallbacks: int
    did: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def run_fault(
    name: str, spark: SparkSession, folder: Path, seed: int,
    proxied: tuple[EmbeddedBroker, ChaosProxy] | None, cluster: BrokerCluster | None,
) -> Outcome:  # fmt: skip
    """Run a query, do this to it, and compare: table, group, plans, and what is left behind."""
    kind, began = KINDS[name], time.monotonic()
    topic, direct = _topic(kind, proxied, cluster)
    feed = Feed(direct, PARTITIONS, kind.padding)
    scene = Scene(spark, topic, direct.bootstrap_servers, folder, seed, kind.options)
    harm = Harm(scene, feed, proxied[1] if proxied else None, cluster)
    try:
        scene.start()
        scene.wait_for_batches(2)
        kind.make(harm)
        if proxied:
            proxied[1].reset()
        feed.stop()
        ends = {**feed.counts, **harm.ends}
        scene.catch_up(ends)
        read = {p: end for p, end in ends.items() if end}
        wait_until(
            lambda: {p: o for p, o in scene.look_at_the_group().items() if o} == read,
            f"the group to reach {read}",
            90,
        )
        fallbacks, batches = scene.check_plans(kind.fallbacks), scene.batches() + 1
        scene.stop()
        rows, lost = scene.check_table(feed.counts, harm.deleted_below, harm.values)
        scene.check_nothing_left()
    finally:
        if proxied:
            proxied[1].reset()
        scene.stop()
        if cluster is not None:
            for broker in cluster.ids:
                if cluster.pid(broker) is not None:
                    cluster.resume(broker)
            cluster.start()
        feed.stop()
    seconds = round(time.monotonic() - began, 1)
    return Outcome(name, seed, seconds, batches, rows, lost, fallbacks, harm.did)


def _topic(
    kind: Kind,
    proxied: tuple[EmbeddedBroker, ChaosProxy] | None,
    cluster: BrokerCluster | None,
) -> tuple[Topic, Topic]:
    """Make a topic with a partition more than is fed; as the query reaches it, and directly."""
    name = f"faults-{uuid.uuid4().hex[:8]}"
    if kind.place == PROXY:
        assert proxied
        broker, proxy = proxied
        direct = Topic(broker.bootstrap_servers, name).create(PARTITIONS + 1, _TOPIC)
        return Topic(proxy.address, name), direct
    assert cluster
    config = {**_TOPIC, "min.insync.replicas": "2"}
    cluster.create_topic(name, PARTITIONS + 1, 3, config)
    topic = Topic(cluster.bootstrap_servers, name)
    return topic, topic
