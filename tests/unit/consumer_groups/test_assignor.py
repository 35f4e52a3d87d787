"""Assignors as kafka-python sees them, without a broker: joins, answers, and mistakes."""

from __future__ import annotations

import logging
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from assignor_bridge.assignors import ASSIGNORS, Group
from assignor_bridge.consumer_groups import assignor
from assignor_bridge.consumer_groups.lags import LagReader
from assignor_bridge.errors import OptionError, PlanError
from checkpoints.user_data import encode_claim


class Cluster:
    """What an assignor looks at in kafka-python's ClusterMetadata."""

    def __init__(self, racks: dict[int, str] | None = None, **topics: int) -> None:
        self.topics = topics
        self.racks = racks or {}

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(self.topics[topic])) if topic in self.topics else None

    def brokers(self) -> list[Any]:
        return [SimpleNamespace(node_id=n, rack=rack) for n, rack in self.racks.items()]

    def is_replica_node(self, partition: Any, node: int) -> bool:
        return partition.partition % len(self.racks) == node


class Members:
    """A group of assignors of kafka-python's shape; the first in the alphabet leads."""

    def __init__(self, cluster: Cluster, **assignors: Any) -> None:
        self.cluster, self.assignors, self.generation = cluster, assignors, 0
        self.instances: dict[str, str] = {}

    def rebalance(self) -> dict[str, dict[str, list[int]]]:
        """Play one round; what is sent goes through kafka-python's own bytes."""
        self.generation += 1
        sent = {
            name: each.metadata(set(self.cluster.topics)).encode()
            for name, each in self.assignors.items()
        }
        joined = [
            SimpleNamespace(
                member_id=name,
                group_instance_id=self.instances.get(name),
                metadata=ConsumerProtocolSubscription.decode(data),
            )
            for name, data in sent.items()
        ]
        answer = self.assignors[min(self.assignors)].assign(self.cluster, joined)
        assigned = {}
        for name, each in self.assignors.items():
            received = ConsumerProtocolAssignment.decode(answer[name].encode())
            each.on_assignment(received, self.generation)
            assigned[name] = {t: list(numbers) for t, numbers in received.assigned_partitions}
        return assigned


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_each_assignor_serves_a_group(name: str) -> None:
    members = Members(Cluster(t=6), a=assignor(name), b=assignor(name))
    for _ in range(2):
        owned = members.rebalance()
    assert sorted(n for each in owned.values() for n in each.get("t", [])) == list(range(6))


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_each_assignor_offers_its_protocols(name: str) -> None:
    expected = [RebalanceProtocol[p] for p in ASSIGNORS[name].protocols]
    assert assignor(name).supported_protocols() == expected


def test_sticky_sends_and_reads_kafkas_user_data() -> None:
    """A member keeps what it has if another one leaves and a new one joins."""
    members = Members(Cluster(t=4), a=assignor("sticky"), b=assignor("sticky"))
    first = members.rebalance()
    assert first == {"a": {"t": [0, 2]}, "b": {"t": [1, 3]}}
    sent = members.assignors["b"].metadata({"t"})
    assert sent.user_data == encode_claim(first["b"], 1)
    assert (sent.owned_partitions, sent.generation_id) == ([], 1)
    del members.assignors["a"]
    members.assignors["c"] = assignor("sticky")
    assert members.rebalance() == {"b": first["b"], "c": first["a"]}


def test_kafka_pythons_own_sticky_assignor_has_another_format(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Version 3.0.12 writes two bytes before Kafka's format, which Java's leader cannot read."""
    members = Members(Cluster(t=4), a=assignor("sticky"), b=StickyPartitionAssignor())
    first = members.rebalance()
    sent = ConsumerProtocolSubscription.decode(members.assignors["b"].metadata({"t"}).encode())
    assert sent.user_data == b"\0\1" + encode_claim(first["b"], 1)
    caplog.clear()
    members.rebalance()
    [line] = caplog.messages
    assert "that assignor 'sticky' cannot read" in line


def test_a_cooperative_member_sends_what_it_owns_and_since_when() -> None:
    members = Members(Cluster(t=2), a=assignor("cooperative-sticky"))
    members.rebalance()
    sent = members.assignors["a"].metadata({"t"})
    assert [(each.topic, each.partitions) for each in sent.owned_partitions] == [("t", [0, 1])]
    assert (sent.generation_id, sent.user_data) == (1, b"\x00\x00\x00\x01")


def test_a_claim_without_generation_loses_against_ours() -> None:
    """kafka-python's own cooperative assignor sends none; then ours owns what both claim."""
    ours, theirs = assignor("cooperative-sticky"), CooperativeStickyAssignor()
    both = ConsumerProtocolAssignment(0, [("t", [0, 1])], b"")
    ours.on_assignment(both, 7)
    theirs.on_assignment(both, 7)
    members = Members(Cluster(t=4), a=ours, b=theirs)
    assert members.rebalance() == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}


def test_static_members_keep_their_place() -> None:
    members = Members(Cluster(t=2), a=assignor("range"), b=assignor("range"))
    members.instances = {"b": "first"}
    assert members.rebalance() == {"a": {"t": [1]}, "b": {"t": [0]}}


def test_racks_priorities_and_capacities_reach_the_leader() -> None:
    racks = {0: "near", 1: "far"}
    members = Members(
        Cluster(racks, t=4), a=assignor("sticky", rack="far"), b=assignor("sticky", rack="near")
    )
    assert members.rebalance() == {"a": {"t": [1, 3]}, "b": {"t": [0, 2]}}
    members = Members(Cluster(t=2), a=assignor("failover"), b=assignor("failover", priority=3))
    assert members.rebalance()["b"] == {"t": [0, 1]}
    weighted = assignor("lag-aware-sticky", capacity=3)
    members = Members(Cluster(t=8), a=assignor("lag-aware-sticky"), b=weighted)
    members.assignors["a"]._lags = Known({"t": dict.fromkeys(range(8), 100)})
    assert [len(each["t"]) for each in members.rebalance().values()] == [2, 6]


class Known:
    """A reader whose lags are there."""

    def __init__(self, lags: Any) -> None:
        self.lags = lags

    def watch(self, topics: Any) -> None:
        pass

    def get_lags(self, topics: Any) -> Any:
        return self.lags


class Backwards:
    """A user's own: gives everything to the last member."""

    def assign(self, group: Group) -> Any:
        return {group.ids[-1]: {t: list(range(n)) for t, n in group.topics.items()}}


class Grabbing(Backwards):
    protocols = ("COOPERATIVE",)


def test_a_users_own_class_and_function_serve_a_group() -> None:
    members = Members(Cluster(t=2), a=assignor(Backwards), b=assignor(Backwards))
    assert members.rebalance()["b"] == {"t": [0, 1]}
    assert assignor(lambda group: {}).name.endswith("<lambda>")
    assert assignor("tests.support.own_assignor:LastTakesAll").name == "last-takes-all"


def test_a_cooperative_class_must_not_take_what_another_member_owns() -> None:
    members = Members(Cluster(t=2), a=assignor(Grabbing))
    members.rebalance()
    members.assignors["b"] = assignor(Grabbing)
    with pytest.raises(PlanError, match="gave t-0 to 'b' while 'a' claims it"):
        members.rebalance()


def raise_(group: Group) -> Any:
    raise RuntimeError("no\nidea")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: assignor("stiky"), "unknown assignor 'stiky'; did you mean 'sticky'"),
        (lambda: assignor("no.such:Thing"), "assignor 'no.such:Thing' could not be loaded"),
        (lambda: assignor(5), "assignor 'int' is a int without `assign"),
        (
            lambda: assignor("sticky", priority=1),
            "'sticky' ignores priority: remove priority=1, or",
        ),
        (lambda: assignor("range", capacity=2), "ignores capacity: remove capacity=2, or use 'lag"),
        (lambda: assignor("lag-aware-sticky", capacity=-1), "has the capacity -1"),
    ],
)
def test_a_mistake_is_one_line(make: Any, message: str) -> None:
    with pytest.raises(OptionError) as error:
        make()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_class_that_raises_is_named_in_one_line() -> None:
    with pytest.raises(PlanError, match=r"^assignor 'raise_' raised RuntimeError: no idea$"):
        Members(Cluster(t=1), a=assignor(raise_)).rebalance()


def test_a_refused_group_is_one_line() -> None:
    name = "constrained-cooperative-sticky"
    members = Members(Cluster(t=1, u=1), a=assignor(name), b=assignor(name))
    metadata = members.assignors["b"].metadata
    members.assignors["b"].metadata = lambda _topics: metadata({"t"})
    with pytest.raises(OptionError, match=rf"^assignor '{name}' refused the group: "):
        members.rebalance()


def test_user_data_of_another_client_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    members = Members(Cluster(t=2), a=assignor("sticky"), b=assignor("sticky"))
    sent = members.assignors["b"].metadata({"t"})
    sent.user_data = b'{"owned": "all"}'
    members.assignors["b"].metadata = lambda _topics: sent
    owned = members.rebalance()
    assert sorted(n for each in owned.values() for n in each["t"]) == [0, 1]
    [line] = caplog.messages
    assert "member 'b' sent user data of length 16 that assignor 'sticky' cannot read" in line


def test_without_kafka_python_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "assignor_bridge.consumer_groups.kafka_python")
    monkeypatch.setitem(sys.modules, "kafka", None)
    with pytest.raises(OptionError, match=r"install 'assignor-bridge\[kafka-python\]'"):
        assignor("sticky")


class Client:
    """Answers after `gate`; raises as often as it is told."""

    def __init__(self, failures: int = 0) -> None:
        self.failures, self.gate, self.closed = failures, threading.Event(), 0

    def look_up(self, topics: Any) -> Any:
        assert self.gate.wait(10)
        if self.failures:
            self.failures -= 1
            raise OSError("no broker")
        return {topic: {0: 5} for topic in topics}

    def close(self) -> None:
        self.closed += 1


def test_lags_are_read_without_waiting(caplog: pytest.LogCaptureFixture) -> None:
    """Until the client has answered there are none, which is one line; then they are there."""
    client, is_open = Client(failures=1), [True]
    reader = LagReader(lambda: client, lambda: is_open[0])
    reader.watch({"t"})
    assert reader.get_lags(["t"]) == reader.get_lags(["t"]) == {}
    assert caplog.messages == ["the lags of t are not known yet: 0 is used in this rebalance"]
    client.gate.set()
    wait_for(lambda: client.closed == 1)
    reader.watch({"u"})
    wait_for(lambda: reader.get_lags([]) == {"t": {0: 5}, "u": {0: 5}})
    reader._wake.clear()
    reader.watch({"t"})
    assert not reader._wake.is_set()  # a rebalance starts no look-up of topics that it knows
    assert [r.levelno for r in caplog.records] == [logging.WARNING] * 2
    assert "could not be looked up (OSError: no broker)" in caplog.messages[1]
    is_open[0] = False
    reader._wake.set()
    wait_for(lambda: client.closed == 2)


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
