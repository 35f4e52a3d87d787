"""Faults of the log itself: records that were read and are gone, topics made anew, odd times.

Where records are gone, Spark's own source reads beside ours: what it makes of the fault is all that
can be promised.
"""

from __future__ import annotations

import contextlib
import re
import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.lab.faults.feed import PARTITIONS
from tests.lab.faults.harm import CLUSTER, PROXY, TIERED, Kind
from tests.support import tiered_storage
from tests.support.kafka_topics import fetch_committed
from tests.support.shared_reader_tools import find_root_cause
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.lab.faults.harm import Harm
    from tests.lab.faults.scene import Scene

_LEADER, _FOLLOWER = 1, 2
_KEYS = 20
_RECORDS_S = 180
_A_YEAR_MS = 365 * 24 * 3600 * 1000
_ERRORS = ("KafkaIllegalStateException", "UnknownTopicOrPartition")


def unclean_election(harm: Harm) -> None:
    """Let a follower lead that lacks records which were read; other records get their offsets."""
    read, ends = _elect_unclean(harm, stop=False)
    for scene in harm.scenes:
        _follow(harm, scene, ends)
    _write_on(harm, ends)
    harm.brokers.start(_LEADER)
    for scene in harm.scenes:
        scene.wait_for_batches(3)
    _wait_for_records(harm, read)


def unclean_election_unseen(harm: Harm) -> None:
    """Let such a follower lead while the query is stopped, which starts when the log is longer."""
    read, ends = _elect_unclean(harm, stop=True)
    _write_on(harm, ends)
    _wait_for_records(harm, read, behind=5)
    wait_until(lambda: reaches(harm, {p: end + 1 for p, end in read.items()}), "the brokers")
    harm.loses({p: range(ends[p], read[p]) for p in read}, era=1)
    harm.brokers.start(_LEADER)
    for scene in harm.scenes:
        scene.start()
    for scene in harm.scenes:
        scene.wait_for_batches()


def topic_made_anew(harm: Harm) -> None:
    """Delete the topic while it is read, and make it anew; then records come again."""
    _pause_the_feed(harm)
    admin = harm.brokers.admin()
    admin.delete_topics([harm.scene.topic.name])[harm.scene.topic.name].result(30)
    name = harm.scene.topic.name
    wait_until(lambda: name not in admin.list_topics(timeout=10).topics, "the topic to be gone")
    harm.brokers.create_topic(name, PARTITIONS + 1, 3, {"min.insync.replicas": "2"})
    empty = dict.fromkeys(range(PARTITIONS), 0)
    for scene in harm.scenes:
        _follow(harm, scene, empty)
    _write_on(harm, empty)
    for scene in harm.scenes:
        scene.wait_for_batches(3)


def compacted(harm: Harm) -> None:
    """Let compaction remove older records of the keys, some of them before they are read."""
    harm.scene.stop()
    busy = PARTITIONS - 1
    before = harm.feed.counts[busy]
    _wait_for_records(harm, {busy: before}, behind=4 * _KEYS)

    def gone() -> int:
        """Records that are not there any more of the first ones that were not read."""
        return _KEYS - len(held(harm, busy, before, before + _KEYS))

    unread: int = wait_until(gone, "compaction", _RECORDS_S)
    harm.note("unread records compacted, at least", unread)
    harm.scene.start()
    harm.scene.wait_for_batches(3)


def odd_times(harm: Harm) -> None:
    """Let the first unread record of each partition be of 1970 or of the next year, in turns."""
    next_year = int(time.time() * 1000) + _A_YEAR_MS
    for turn in range(2):
        harm.feed.stop()
        ends = dict(harm.feed.counts)
        harm.scene.catch_up(ends)
        for partition, end in ends.items():
            harm.feed.stamps[partition, end] = 1 if (partition + turn) % 2 else next_year
        harm.feed.start()
        _wait_for_records(harm, ends)
        harm.scene.catch_up({partition: end + 1 for partition, end in ends.items()})
        harm.note("records of another time", len(ends))
    harm.scene.wait_for_batches(3)


def remote_tier(harm: Harm) -> None:
    """Read records from a remote tier (of one partition a fetch, in Kafka 4.1)."""
    for scene in harm.scenes:
        scene.stop()
    read = dict(harm.feed.counts)
    _wait_for_records(harm, read, behind=50)
    harm.feed.stop()
    ends = dict(harm.feed.counts)
    harm.feed.start()
    wait_until(lambda: all(_local_start(harm, p) >= ends[p] for p in ends), "them to move", 120)
    harm.note("records in the remote tier", sum(ends[p] - read[p] for p in ends))
    for scene in harm.scenes:
        began = time.monotonic()
        scene.start()
        scene.catch_up(ends)
        harm.note(f"milliseconds: {scene.name}", int(1000 * (time.monotonic() - began)))
        scene.stop()
    for scene in harm.scenes:
        scene.start()
        scene.wait_for_batches()


def _local_start(harm: Harm, partition: int) -> int:
    """The first offset that the broker has on its own disk."""
    assert harm.logs is not None
    segments = (harm.logs / f"{harm.scene.topic.name}-{partition}").glob("*.log")
    return min((int(path.stem) for path in segments), default=0)


def mostly_empty(harm: Harm) -> None:
    """Read a topic whose partitions are empty but for a hundred."""
    harm.scene.wait_for_batches(3, 240)


def log_ends(harm: Harm) -> dict[int, int]:
    """Where the log of each partition ends that is written to."""

    def asked() -> dict[int, int] | None:
        ends = {}
        with _consumer(harm) as consumer, contextlib.suppress(KafkaException):  # no leader yet
            for p in range(harm.feed.partitions):
                tp = TopicPartition(harm.scene.direct.name, p)
                ends[p] = consumer.get_watermark_offsets(tp, 20)[1]
            return ends
        return None

    found: dict[int, int] = wait_until(asked, "the ends of the log")
    return found


@contextlib.contextmanager
def _consumer(harm: Harm) -> Iterator[Consumer]:
    servers = harm.scene.direct.bootstrap_servers
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "faults", "log_level": 0})
    try:
        yield consumer
    finally:
        consumer.close()


def reaches(harm: Harm, ends: Mapping[int, int]) -> bool:
    """Whether the log of these partitions goes as far."""
    found = log_ends(harm)
    return all(found[p] >= end for p, end in ends.items())


def _elect_unclean(harm: Harm, *, stop: bool) -> tuple[dict[int, int], dict[int, int]]:
    """Have the follower lead; up to where was read, and where the log ends now."""
    harm.brokers.kill(_FOLLOWER)
    wait_until(lambda: _in_sync(harm) == {(_LEADER,)}, "the follower to be out of sync", 60)
    _wait_for_records(harm, dict(harm.feed.counts), behind=10)
    read = _pause_the_feed(harm)
    if stop:
        for scene in harm.scenes:
            scene.stop()
    harm.brokers.kill(_LEADER)
    harm.brokers.start(_FOLLOWER)
    wait_until(lambda: _leaders(harm) == {_FOLLOWER}, "the follower to lead", 90)
    ends = log_ends(harm)
    assert all(ends[p] < read[p] for p in read), (ends, read)
    harm.note("records truncated", sum(read[p] - ends[p] for p in read))
    return read, ends


def _wait_for_records(harm: Harm, offsets: Mapping[int, int], behind: int = 0) -> None:
    """Wait until these partitions have records at these offsets and so many behind them."""
    wait_until(
        lambda: all(harm.feed.counts[p] > offset + behind for p, offset in offsets.items()),
        "records",
        _RECORDS_S,
    )


def _pause_the_feed(harm: Harm) -> dict[int, int]:
    """Let all that is written be read, and the group be there; the offsets."""
    harm.feed.stop()
    read = dict(harm.feed.counts)
    for scene in harm.scenes:
        scene.catch_up(read)
    wait_until(lambda: harm.scene.group.stands() == read, "the group")
    return read


def _follow(harm: Harm, scene: Scene, ends: Mapping[int, int]) -> None:
    """See the query go back to these ends; one that ends with Spark's error is started again."""
    wait_until(
        lambda: not scene.is_active or scene.stands_at(ends), "an error or the new ends", 180
    )
    if scene.is_active:
        assert scene.options.get("failOnDataLoss") == "false", "no error"
    else:
        error = find_root_cause(scene.failure())
        assert any(one in error for one in _ERRORS), error
        harm.errors[scene.name] = re.sub(r"-?\d+", "#", error)
        scene.options["failOnDataLoss"] = "false"
        scene.start()
        wait_until(lambda: scene.stands_at(ends), f"the query to go on at {ends}", 180)
    if scene is harm.scene:
        wait_until(lambda: _is_within(_group(harm), ends), "the group to follow the log back", 60)


def _group(harm: Harm) -> dict[int, int]:
    group = fetch_committed(harm.scene.direct.bootstrap_servers, harm.scene.group.name)
    return {partition: offset for (_, partition), offset in group.items()}


def _is_within(offsets: Mapping[int, int], ends: Mapping[int, int]) -> bool:
    return all(offset <= ends.get(p, 0) for p, offset in offsets.items())


def _write_on(harm: Harm, ends: Mapping[int, int]) -> None:
    harm.feed.begin_era(ends)
    harm.feed.start()


def _in_sync(harm: Harm) -> set[tuple[int, ...]]:
    return {tuple(p.isrs) for p in harm.brokers.partitions(harm.scene.topic.name)}


def _leaders(harm: Harm) -> set[int]:
    return {p.leader for p in harm.brokers.partitions(harm.scene.topic.name)}


def held(harm: Harm, partition: int, first: int, end: int) -> set[int]:
    """Offsets of the records that the log has, of these."""
    with _consumer(harm) as consumer:
        consumer.assign([TopicPartition(harm.scene.direct.name, partition, first)])
        found: set[int] = set()
        while end - 1 not in found and (message := consumer.poll(20)) is not None:
            assert message.error() is None, message.error()
            offset = message.offset()
            assert offset is not None
            if offset >= end:
                break
            found.add(offset)
        return found


_UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
_GOES_ON = (
    "the error of Spark's own source; after a start with failOnDataLoss=false nothing is lost"
)
KINDS = (
    Kind("unclean election", CLUSTER, unclean_election, config=_UNCLEAN, beside=True,
         replicas=(_LEADER, _FOLLOWER), promise=_GOES_ON),
    Kind("unclean election, not seen", CLUSTER, unclean_election_unseen, config=_UNCLEAN,
         beside=True, replicas=(_LEADER, _FOLLOWER), long=False,
         loss="in the topic, not read",
         promise="as Spark's own source, which notices nothing and begins where it was"),
    Kind("topic made anew", CLUSTER, topic_made_anew, beside=True, promise=_GOES_ON),
    Kind("topic made anew, failOnDataLoss=false", CLUSTER, topic_made_anew, beside=True, long=False,
         options={"failOnDataLoss": "false"}, promise="what comes into the new topic is read once"),
    Kind("compaction ahead of the reader", CLUSTER, compacted, keys=_KEYS,
         config={"cleanup.policy": "compact", "segment.ms": "500",
                 "min.cleanable.dirty.ratio": "0.01"}, in_the_scene=True,
         promise="the newest record of each key is read once, none twice"),
    Kind("records of 1970 and of next year", CLUSTER, odd_times,
         metric="assignor.eventTimeSpreadSeconds",
         config={"message.timestamp.after.max.ms": str(2**63 - 1)},
         options={"assignor.alignEventTime": "10 minutes", "assignor.fairness": "deadline",
                  "maxOffsetsPerTrigger": "2000"}),
    Kind("records in a remote tier", TIERED, remote_tier, config=tiered_storage.TOPIC, beside=True,
         long=False),
    Kind("9,900 of 10,000 partitions empty", PROXY, mostly_empty, partitions=10_000, fed=100,
         long=False, in_the_scene=True),
)  # fmt: skip
