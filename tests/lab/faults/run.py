"""One fault from begin to end, with all checks."""

from __future__ import annotations

import contextlib
import time
import traceback
import uuid
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tests.integration.test_racks import attributes
from tests.lab.faults.disks import SIZES, folder_of
from tests.lab.faults.feed import Feed
from tests.lab.faults.harm import CLUSTER, LIMIT, WITH, Harm, Kind
from tests.lab.faults.left import check_nothing_left, descriptors_of_driver
from tests.lab.faults.logs import held
from tests.lab.faults.scene import Scene
from tests.support.kafka_topics import Topic
from tests.support.shared_reader_tools import SPARKS
from tests.support.small_disk import mount_small_disk
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from streaming.kafka.embedded import EmbeddedBroker
    from tests.support.broker_cluster import BrokerCluster
    from tests.support.chaos_proxy import ChaosProxy
    from tests.support.standalone_cluster import StandaloneCluster

_TOPIC = {"max.message.bytes": "4000000"}
#: From so many batches' worth of records on, one of them was limited.
_FEW = 5


@dataclass(frozen=True)
class Outcome:
    """What was seen of one fault; all checks held."""

    kind: str
    #: What was done, in words.
    what: str
    #: The name of options that it was done with.
    options: str
    seed: int
    seconds: float
    batches: int
    rows: int
    #: Records that are not in the table: all are gone from the topic.
    lost: int
    fallbacks: int
    #: How often the group was compared with the checkpoint while batches ran.
    looks: int
    did: dict[str, int] = field(default_factory=dict)
    #: What ended a query on the way, by its name; empty when nothing did.
    errors: dict[str, str] = field(default_factory=dict)
    #: What Spark's own source lost beside ours, None where it did not run.
    sparks_lost: int | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def run_fault(
    kind: Kind, spark: SparkSession, folder: Path, seed: int,
    proxied: tuple[EmbeddedBroker, ChaosProxy] | None, cluster: BrokerCluster | None,
    options: str = "", standalone: StandaloneCluster | None = None,
) -> Outcome:  # fmt: skip
    """Run a query, do this to it, and compare: table, group, plans, and what is left behind."""
    more, began = WITH[options], time.monotonic()
    topic, direct = _topic(kind, proxied, cluster)
    all_options = {**more.options, **kind.options}
    scene = Scene(spark, topic, direct.bootstrap_servers, folder, seed, all_options)
    sparks = None
    if kind.beside:
        plain = {k: v for k, v in all_options.items() if not k.startswith("assignor.")}
        settings = {**SPARKS, **plain}
        direct_at = direct.bootstrap_servers
        sparks = Scene(spark, topic, direct_at, folder, seed, settings, ours=False)
    with contextlib.ExitStack() as stack:
        if more.racks:
            stack.enter_context(attributes(spark, *more.racks))
        disk = None
        if kind.disk:
            disk = stack.enter_context(
                mount_small_disk(folder_of(kind.disk, scene), SIZES[kind.disk])
            )
        feed = Feed(direct, kind.fed, kind.padding, kind.keys)
        stack.callback(feed.stop)
        if cluster:
            stack.callback(_mend, cluster)  # before the feed waits for acknowledgements
        proxy, logs = (proxied[1], proxied[0].folder / "log") if proxied else (None, None)
        harm = Harm(scene, feed, proxy, cluster, logs, sparks, disk, standalone)
        for one in harm.scenes:
            stack.callback(one.stop)
        if proxied:
            stack.callback(proxied[1].reset)
        before = descriptors_of_driver(scene)
        for one in harm.scenes:
            one.start()
        for one in harm.scenes:
            one.wait_for_batches(2)
        before_it, looks = scene.last_plan(), scene.group.looks
        kind.make(harm)
        if proxied:
            proxied[1].reset()
        feed.stop()
        ends = {**feed.counts, **harm.ends}
        for one in harm.scenes:
            one.catch_up(ends)
        wait_until(
            lambda: scene.group.stands() == {p: o for p, o in ends.items() if o}, "the group", 90
        )
        low, high = kind.fallbacks
        counts = (low, high * (2 if more.options else 1))
        fallbacks = scene.check_plans(counts, {more.metric, kind.metric}, before_it)
        if held_back := scene.held_back():
            harm.note("records held back", held_back)
        batches = scene.batches() + 1
        for one in harm.scenes:
            one.stop()
        for p, end in feed.counts.items() if kind.keys else ():
            left = held(harm, p, 0, end) if end else set()  # that was there when it was read
            newest = set(range(max(0, end - kind.keys), end))
            assert newest <= left, f"the log of partition {p} lacks {sorted(newest - left)[:5]}"
            harm.loses({p: set(range(end)) - left})
        written = (feed.eras, harm.gone, harm.values, kind.padding)
        rows, lost = scene.check_table(*written)
        sparks_lost = sparks.check_table(*written)[1] if sparks else None
        check_nothing_left(scene, before)
        assert scene.group.looks > looks, "the group was not looked at since the fault"
        limit = all_options.get("maxOffsetsPerTrigger") if more.options else None
        may_be_limited = limit == str(LIMIT) and rows > _FEW * LIMIT
        assert held_back or not may_be_limited, "no batch was limited"
    return Outcome(
        kind.name, kind.what, options, seed, round(time.monotonic() - began, 1), batches, rows,
        lost, fallbacks, scene.group.looks, harm.did, harm.errors, sparks_lost,
    )  # fmt: skip


def raised_in(error: BaseException) -> str:
    """Name the function of the tests that failed, but for what waits: the check."""
    names = [
        frame.name for frame in traceback.extract_tb(error.__traceback__)
        if "/tests/" in frame.filename and frame.name not in ("wait_until", "<lambda>")
    ]  # fmt: skip
    return names[-1] if names else type(error).__name__


def _mend(cluster: BrokerCluster) -> None:
    """Let all brokers run again."""
    for broker in cluster.ids:
        if cluster.pid(broker) is not None:
            cluster.resume(broker)
    cluster.start()


def _topic(
    kind: Kind,
    proxied: tuple[EmbeddedBroker, ChaosProxy] | None,
    cluster: BrokerCluster | None,
) -> tuple[Topic, Topic]:
    """Make a topic with a partition more than is fed; as the query reaches it, and directly."""
    name = f"faults-{uuid.uuid4().hex[:8]}"
    if kind.place != CLUSTER:
        assert proxied
        broker, proxy = proxied
        config = {**_TOPIC, **kind.config}
        direct = Topic(broker.bootstrap_servers, name).create(kind.partitions, config)
        return Topic(proxy.address, name), direct
    assert cluster
    config = {**_TOPIC, "min.insync.replicas": "2", **kind.config}
    cluster.create_topic(name, kind.partitions, 3, config, kind.replicas)
    topic = Topic(cluster.bootstrap_servers, name)
    return topic, topic
