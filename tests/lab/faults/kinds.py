"""The faults by name: each does its harm to a running query, and returns when it is over.

What is random comes from the scene's own generator; how long something lasts is part of the fault,
so these wait by the clock.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions

from tests.lab.faults import clocks, disks, logs, networks, workers
from tests.lab.faults.feed import PARTITIONS
from tests.lab.faults.harm import CLUSTER, Kind
from tests.support.shared_reader_tools import delete_before
from tests.support.spark_tools import to_dict, wait_until

if TYPE_CHECKING:
    from tests.lab.faults.harm import Harm

#: More bytes than a fetch of a partition asks for, which is 1 MiB.
_MB = 1_100_000


def nothing_done(harm: Harm) -> None:
    """Do nothing: what the checks find here is not the fault's."""
    harm.scene.wait_for_batches(3)


def leaders_change(harm: Harm) -> None:
    """Let other brokers lead all partitions, again and again, while all run."""
    for turn in range(1, 5):
        before = _leaders(harm)
        _lead(harm, turn)
        harm.note("partitions with another leader", len(_leaders(harm).items() - before.items()))
        time.sleep(harm.scene.rng.uniform(0.2, 1.5))
    harm.scene.wait_for_batches()


def broker_killed(harm: Harm) -> None:
    """Kill a broker as kill -9 does, go on without it, and start it again."""
    broker = harm.scene.rng.choice(list(harm.brokers.ids))
    harm.brokers.kill(broker)
    harm.scene.wait_for_batches(3, 180)
    harm.brokers.start(broker)
    harm.scene.wait_for_batches()


def broker_stopped(harm: Harm) -> None:
    """Stop a broker (SIGSTOP) for 2 to 12 s, with which others may come to lead; continue it."""
    broker = harm.scene.rng.choice(list(harm.brokers.ids))
    harm.brokers.pause(broker)
    time.sleep(harm.scene.rng.uniform(2, 12))
    harm.brokers.resume(broker)
    harm.scene.wait_for_batches(3, 180)


def brokers_restarted(harm: Harm) -> None:
    """Restart all brokers one by one, as an upgrade does."""
    for broker in harm.brokers.ids:
        wait_until(lambda: _all_in_sync(harm), "all brokers in sync", 180)
        harm.brokers.stop(broker)
        harm.brokers.start(broker)
        harm.note("brokers restarted")
    harm.scene.wait_for_batches(2, 180)


def partitions_added(harm: Harm) -> None:
    """Give the topic more partitions, into which records come at once."""
    admin = harm.brokers.admin()
    wanted = [NewPartitions(harm.scene.topic.name, PARTITIONS + 5)]
    admin.create_partitions(wanted)[harm.scene.topic.name].result(30)
    harm.feed.partitions = PARTITIONS + 5
    wait_until(lambda: harm.feed.counts[PARTITIONS + 4] > 20, "records in the new partitions")
    harm.scene.wait_for_batches(3)


def retention_ahead(harm: Harm) -> None:
    """Delete records that the query has not read: all of some partitions so far."""
    harm.scene.stop()
    standing = dict(harm.feed.counts)
    wait_until(lambda: all(harm.feed.counts[p] > standing[p] + 20 for p in standing), "records")
    cut = {p: harm.feed.counts[p] - 10 for p in range(0, PARTITIONS, 3)}
    wait_until(lambda: logs.reaches(harm, cut), "the records")
    delete_before(harm.scene.direct, cut)
    harm.loses({p: range(end) for p, end in cut.items()})
    harm.note("partitions cut", len(cut))
    warned = _warnings_of_loss(harm)
    harm.scene.start()
    wait_until(lambda: harm.scene.query.lastProgress is not None, "a batch", 120)
    harm.scene.wait_for_batches()
    wait_until(lambda: _warnings_of_loss(harm) > warned, "Spark's warning of what was deleted")


def _warnings_of_loss(harm: Harm) -> int:
    """How often Spark's executors have logged that records of this topic are left out."""
    said = re.compile(rf"(?is)(?:skip|be lost).{{0,300}}?{re.escape(harm.scene.topic.name)}")
    logs = Path(os.environ["SPARK_HOME"]).glob("work/*/*/stderr")
    return sum(len(said.findall(log.read_text(errors="replace"))) for log in logs)


def open_transactions(harm: Harm) -> None:
    """Leave transactions open while plain records come behind them; abort one, commit one."""
    direct, partition = harm.scene.direct, PARTITIONS  # the feed writes to those before it
    common: dict[str, Any] = {"bootstrap.servers": direct.bootstrap_servers, "log_level": 0}
    plain, expected = Producer(common), []
    for end in ("abort", "commit"):
        producer = Producer({**common, "transactional.id": uuid.uuid4().hex})
        producer.init_transactions(30)
        producer.begin_transaction()
        for each, kind in ((producer, "transaction"), (plain, "plain")):
            values = [f"{end}/{kind}/{number}" for number in range(20)]
            for value in values:
                each.produce(direct.name, value.encode(), partition=partition)
            assert each.flush(30) == 0
            expected += values if kind == "plain" or end == "commit" else []
        harm.scene.wait_for_batches(3)
        (producer.abort_transaction if end == "abort" else producer.commit_transaction)(30)
        harm.note(f"transactions: {end}")
    harm.values[partition] = expected
    harm.ends[partition] = 2 * (20 + 20 + 1)  # with the markers


def large_records(harm: Harm) -> None:
    """Write records of 1 MB (see `padding`), larger than what a fetch of a partition asks for."""
    harm.scene.wait_for_batches(3, 240)


def large_batches(harm: Harm) -> None:
    """Write 1,000 records at once, in one batch of 1 MB, of which the query reads a part."""
    direct, largest = harm.scene.direct, 0
    values = harm.values.setdefault(PARTITIONS, [])

    def look(statistics: str) -> None:
        nonlocal largest
        topics = json.loads(statistics)["topics"]
        largest = max([largest, *(topic["batchsize"]["max"] for topic in topics.values())])

    producer = Producer(
        {
            "bootstrap.servers": direct.bootstrap_servers, "log_level": 0, "linger.ms": 2_000,
            "batch.size": 2_000_000, "batch.num.messages": 1_000, "message.max.bytes": 2_000_000,
            "statistics.interval.ms": 200, "stats_cb": look,
        }
    )  # fmt: skip
    for turn in range(3):
        wait_until(lambda: harm.scene.stands_at({PARTITIONS: len(values)}), "all before", 180)
        now = [f"{turn}/{number}" for number in range(1_000)]
        for value in now:
            producer.produce(direct.name, value.ljust(1_150).encode(), partition=PARTITIONS)
        assert producer.flush(60) == 0
        values.extend(now)
        harm.ends[PARTITIONS] = len(values)
    wait_until(lambda: (producer.poll(0.1), largest > _MB)[1], "a batch of 1 MB")
    harm.note("bytes of the largest batch", largest)
    harm.scene.wait_for_batches()
    ends = [to_dict(p)["sources"][0]["endOffset"] for p in harm.scene.query.recentProgress]
    within = [end[direct.name].get(str(PARTITIONS), 0) % 1_000 for end in ends if end]
    assert any(within), "no batch of the query ended within one of the producer"


def planner_stopped(harm: Harm) -> None:
    """Stop the planner (SIGSTOP) for longer than `assignor.planTimeoutMs`."""
    [pid] = harm.scene.planners()
    with harm.scene.paused(pid):
        wait_until(lambda: harm.scene.planners() not in ([], [pid]), "another planner", 120)
    harm.scene.wait_for_batches(3)


def planner_killed(harm: Harm) -> None:
    """Kill the planner again and again."""
    for _ in range(3):
        [pid] = wait_until(harm.scene.planners, "a planner")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: harm.scene.planners() not in ([], [pid]), "another planner", 120)
        harm.note("planners killed")
        harm.scene.wait_for_batches(3)


def executor_stopped(harm: Harm) -> None:
    """Stop an executor (SIGSTOP) while it may have tasks, and continue it."""
    with harm.scene.paused(harm.scene.rng.choice(harm.scene.executors())):
        time.sleep(harm.scene.rng.uniform(3, 10))
    harm.scene.wait_for_batches(3)


def executor_killed(harm: Harm) -> None:
    """Kill an executor in a batch; Spark starts another one."""
    before = harm.scene.executors()
    harm.scene.await_a_batch()
    os.kill(harm.scene.rng.choice(before), signal.SIGKILL)
    wait_until(lambda: len(set(harm.scene.executors()) - set(before)) == 1, "another one", 120)
    harm.scene.wait_for_batches(3)


def driver_stopped(harm: Harm) -> None:
    """Stop the driver's JVM (SIGSTOP) for a minute, as on a machine that runs out of memory."""
    before, executors = harm.scene.planners(), len(harm.scene.executors())
    with harm.scene.paused(harm.scene.driver()):
        time.sleep(60)
    harm.scene.wait_for_batches(3, 180)
    assert (now := harm.scene.planners()) == before, f"the planner was {before}, is {now}"
    # Spark's master, which stood still, too, may take its workers for lost: others start then.
    wait_until(lambda: len(harm.scene.executors()) == executors, "all executors", 120)


def _lead(harm: Harm, turn: int) -> None:
    """Have other brokers lead, by Kafka's Java client: the other one cannot reassign."""
    jvm, ids = harm.scene.jvm, list(harm.brokers.ids)
    admin_api = jvm.org.apache.kafka.clients.admin
    settings, moves = jvm.java.util.HashMap(), jvm.java.util.HashMap()
    settings.put("bootstrap.servers", harm.brokers.bootstrap_servers)
    partitions, wanted = jvm.java.util.HashSet(), {}
    for number in range(PARTITIONS):
        first = (number + turn) % len(ids)
        wanted[number] = ids[first]
        replicas = jvm.java.util.ArrayList()
        for broker in ids[first:] + ids[:first]:
            replicas.add(broker)
        partition = jvm.org.apache.kafka.common.TopicPartition(harm.scene.topic.name, number)
        partitions.add(partition)
        move = admin_api.NewPartitionReassignment(replicas)
        moves.put(partition, jvm.java.util.Optional.of(move))
    admin = admin_api.Admin.create(settings)
    try:
        admin.alterPartitionReassignments(moves).all().get()
        kind = jvm.org.apache.kafka.common.ElectionType.PREFERRED

        def lead() -> bool:
            """Elect; a partition that cannot says so in a map that nobody looks at."""
            admin.electLeaders(kind, partitions).partitions().get()
            return wanted.items() <= _leaders(harm).items()

        wait_until(lead, "the leaders that were asked for")
    finally:
        admin.close()


def _leaders(harm: Harm) -> dict[int, int]:
    return {p.id: p.leader for p in harm.brokers.partitions(harm.scene.topic.name)}


def _all_in_sync(harm: Harm) -> bool:
    partitions = harm.brokers.partitions(harm.scene.topic.name)
    return all(set(p.isrs) == set(harm.brokers.ids) for p in partitions)


NOTHING_DONE = "nothing done"
#: Before the name of a kind: nothing is done in the scene of that kind.
_NOTHING_AS_IN = "nothing done, as in "
_NO_LOSS_FAILS = {"failOnDataLoss": "false"}
KINDS = {
    kind.name: kind
    for kind in (
        Kind(NOTHING_DONE, CLUSTER, nothing_done, long=False),
        *networks.KINDS,
        Kind("leaders change", CLUSTER, leaders_change),
        Kind("broker killed", CLUSTER, broker_killed),
        Kind("broker stopped", CLUSTER, broker_stopped),
        Kind("brokers restarted one by one", CLUSTER, brokers_restarted),
        Kind("partitions added", CLUSTER, partitions_added),
        Kind("retention ahead of the reader", CLUSTER, retention_ahead, options=_NO_LOSS_FAILS,
             promise="what is left is read once; what was deleted is a warning of Spark's"),
        Kind("open transactions", CLUSTER, open_transactions,
             options={"kafka.isolation.level": "read_committed"},
             promise="what was committed is read once, what was aborted never"),
        Kind("records of 1 MB", CLUSTER, large_records, padding=_MB, in_the_scene=True),
        Kind("batches of 1 MB", CLUSTER, large_batches, fed=2,
             options={"maxOffsetsPerTrigger": "900"}),
        Kind("planner stopped", CLUSTER, planner_stopped, fallbacks=(1, 2),
             options={"assignor.planTimeoutMs": "2000"}),
        Kind("planner killed", CLUSTER, planner_killed, fallbacks=(0, 3)),
        Kind("executor stopped", CLUSTER, executor_stopped),
        Kind("executor killed", CLUSTER, executor_killed),
        # What it had asked Kafka may have timed out: with alignment, for the times of records.
        Kind("driver stopped", CLUSTER, driver_stopped, fallbacks=(0, 1)),
        *logs.KINDS, *disks.KINDS, *workers.KINDS, *clocks.KINDS,
    )
}  # fmt: skip


def nothing_as_in(name: str) -> str:
    """Name the run in which nothing is done where this fault is made, with its options."""
    return _NOTHING_AS_IN + name


def named(name: str) -> Kind:
    """Return a fault, or nothing done in the scene of one; KeyError for any other name."""
    kind = KINDS[name.removeprefix(_NOTHING_AS_IN)]
    if kind.name == name:
        return kind
    return replace(kind, name=name, make=nothing_done, fallbacks=(0, 0), promise="")
