"""An assignor as kafka-python expects it; the only module that imports kafka-python.

Kafka has two formats for what a member owns. Eager assignors (`sticky`) send it as user data
(KIP-341), which survives the loss of membership. Cooperative ones (KIP-429) send it in fields of
the subscription; so does a user's own assignor, because its user data are its own.
"""

from __future__ import annotations

import inspect
import logging
import weakref
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.protocol.consumer import metadata as wire

from assignor_bridge.assignors.check import assign_checked, check_handover
from assignor_bridge.assignors.claims import read_claim, write_claim
from assignor_bridge.assignors.group import Group, Member
from assignor_bridge.assignors.lag_aware import Offsets
from assignor_bridge.assignors.own import CustomAssignor
from assignor_bridge.assignors.protocol import Strategy
from assignor_bridge.consumer_groups.lags import LagReader
from assignor_bridge.errors import OptionError
from checkpoints import user_data

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from assignor_bridge.assignors.protocol import Assignor

#: Version of Kafka's ConsumerProtocol with owned partitions, generation and rack (KIP-881).
_VERSION = 3
_WITH_LAGS = ("lag-aware", "lag-aware-sticky")
_LOG = logging.getLogger(__name__)


class GroupAssignor(AbstractPartitionAssignor):
    """A built-in assignor, or the user's own, for one consumer of kafka-python."""

    def __init__(self, strategy: Assignor, member: Member) -> None:
        self._strategy = strategy
        self._is_cooperative = "COOPERATIVE" in strategy.protocols
        self._claims_in_fields = self._is_cooperative or isinstance(strategy, CustomAssignor)
        self._member = member  # as it joins next time
        self._consumer: weakref.ref[Any] | None = None
        self._lags: LagReader | None = None

    @property
    def name(self) -> str:
        """Name under which the members of a group agree on it."""
        return self._strategy.name

    def supported_protocols(self) -> list[Any]:
        """Return the protocols, the preferred one first."""
        self._attach(_find_consumer_under_construction())
        return [RebalanceProtocol[protocol] for protocol in self._strategy.protocols]

    def metadata(self, topics: Iterable[str]) -> Any:
        """Return what this member sends when it joins."""
        member = replace(self._member, topics=frozenset(topics))
        if self._lags:
            self._lags.watch(member.topics)
        sends_fields = self._claims_in_fields
        consumer = self._consumer and self._consumer()
        if consumer and self._is_cooperative:
            # After a loss of membership the consumer owns less than `on_assignment` recorded. With
            # the eager protocol it has revoked everything: a claim would only delay its partitions.
            member = replace(member, owned=_by_topic(consumer.assignment()))
            sends_fields = _uses_cooperative_protocol(consumer)
        data = self._strategy.user_data(member)
        if member.capacity != 1 and not isinstance(self._strategy, CustomAssignor):
            data = user_data.append_capacity(data, member.capacity)
        fields = member.owned if sends_fields else {}
        owned = wire.ConsumerProtocolSubscription.TopicPartition
        return wire.ConsumerProtocolSubscription(
            version=_VERSION,
            topics=sorted(member.topics),
            user_data=data,
            owned_partitions=[owned(topic=t, partitions=list(p)) for t, p in fields.items()],
            generation_id=-1 if member.generation is None else member.generation,
            rack_id=member.rack,
        )

    def assign(self, cluster: Any, members: Iterable[Any]) -> dict[str, Any]:
        """Assign the partitions of the group, as its leader.

        Raises OptionError for a refused group, PlanError for an error or an invalid answer.
        """
        if consumer := self._consumer and self._consumer():
            # kafka-python 3.0.12 forgets a join for changed metadata if `poll` ends before it does.
            consumer._coordinator.request_rejoin()
        strategy = self._strategy
        joined = tuple(map(self._read_member, members))
        topics = sorted(frozenset[str]().union(*(member.topics for member in joined)))
        counts = {topic: len(cluster.partitions_for_topic(topic) or ()) for topic in topics}
        lags: Mapping[str, Mapping[int, float]] = {}
        if self._lags:
            self._lags.watch(topics)
            lags = self._lags.last(topic for topic in topics if counts[topic])
        racks = _replica_racks(cluster, counts) if any(m.rack for m in joined) else {}
        group = Group(joined, counts, lags, racks)
        if refusal := strategy.refusal(group):
            raise OptionError(f"assignor {self.name!r} refused the group: {refusal}")
        assignment = assign_checked(strategy, group)
        if isinstance(strategy, CustomAssignor) and self._is_cooperative:
            check_handover(self.name, group, assignment)
        return {
            member: wire.ConsumerProtocolAssignment(
                _VERSION, [(topic, list(numbers)) for topic, numbers in partitions.items()], b""
            )
            for member, partitions in assignment.items()
        }

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Record what this member got, and at which generation of the group (KIP-341)."""
        owned = _by_topic(assignment.partitions())
        self._member = self._strategy.on_assignment(self._member, owned, generation)

    def _read_member(self, joined: Any) -> Member:
        """Return a member of the group with the claim and the capacity that it sent."""
        strategy, sent = self._strategy, joined.metadata
        data = None if sent.user_data is None else bytes(sent.user_data)
        generation = sent.generation_id
        if generation < 0 and isinstance(strategy, Strategy):
            generation = user_data.decode_generation(data)  # of Java clients before 3.5
        member = Member(
            joined.member_id,
            frozenset(sent.topics),
            {each.topic: list(each.partitions) for each in sent.owned_partitions or ()},
            None if generation < 0 else generation,
            sent.rack_id or None,
            instance=joined.group_instance_id,
            user_data=data,
        )
        if self._claims_in_fields:
            return member
        member = read_claim(member, data)
        if not data or not isinstance(strategy, Strategy) or strategy.user_data is not write_claim:
            return member
        if not user_data.holds_claim(data):
            _LOG.warning(
                "member %r sent %d bytes of user data that assignor %r cannot read: "
                "it is treated as owning no partitions",
                member.id, len(data), strategy.name,
            )  # fmt: skip
        return replace(member, capacity=user_data.decode_capacity(data))

    def _attach(self, consumer: Any) -> None:
        """Record the consumer that uses this object, and take over its rack and settings."""
        current = self._consumer and self._consumer()
        if consumer is None or consumer is current:
            return
        if current and not current._closed:
            raise OptionError(
                f"assignor {self.name!r} is already used by another consumer: "
                f"call assignor({self.name!r}) once for each consumer"
            )
        rack = self._member.rack or consumer.config["client_rack"] or None
        self._member = replace(self._member, rack=rack, owned={}, generation=None)
        self._consumer = reference = weakref.ref(consumer)
        if self.name in _WITH_LAGS or isinstance(self._strategy, CustomAssignor):
            config = dict(consumer.config)  # not the consumer: the thread must not keep it alive
            self._lags = LagReader(
                lambda: _LagClient(config), lambda: not getattr(reference(), "_closed", True)
            )


class _LagClient:
    """Looks up the lags of a group, with the settings of its consumer."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        shared = KafkaAdminClient.DEFAULT_CONFIG.keys() & config.keys() - {"metric_reporters"}
        settings = {key: config[key] for key in shared}
        settings["client_id"] = f"{config['client_id']}-lags"
        self._group, self._reset = config["group_id"], config["auto_offset_reset"]
        self._admin = KafkaAdminClient(**settings)
        self.close = self._admin.close

    def look_up(self, topics: Iterable[str]) -> dict[str, dict[int, int]]:
        """Return the lag of each partition of the topics that exist."""
        partitions = [
            TopicPartition(topic["name"], partition["partition_index"])
            for topic in self._admin.describe_topics(sorted(topics))
            for partition in topic["partitions"]
        ]
        commits = self._admin.list_group_offsets(self._group)[self._group]
        committed = {at: commit.offset for at, commit in commits.items() if commit.offset >= 0}
        latest = self._offsets(partitions, OffsetSpec.LATEST)
        fresh = [partition for partition in partitions if partition not in committed]
        beginning = self._offsets(fresh, OffsetSpec.EARLIEST)
        lags: dict[str, dict[int, int]] = {}
        for at in partitions:
            offsets = Offsets(latest[at], beginning.get(at, 0), committed.get(at))
            lags.setdefault(at.topic, {})[at.partition] = offsets.lag(self._reset)
        return lags

    def _offsets(self, partitions: list[TopicPartition], spec: Any) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        answers = self._admin.list_partition_offsets(dict.fromkeys(partitions, spec))
        return {partition: answer.offset for partition, answer in answers.items()}


def _replica_racks(cluster: Any, counts: Mapping[str, int]) -> dict[str, dict[int, frozenset[str]]]:
    """Return the racks that hold a replica of each partition."""
    racks = {broker.node_id: broker.rack for broker in cluster.brokers() if broker.rack}

    def racks_of(at: TopicPartition) -> frozenset[str]:
        return frozenset(rack for node, rack in racks.items() if cluster.is_replica_node(at, node))

    return {
        topic: {number: racks_of(TopicPartition(topic, number)) for number in range(count)}
        for topic, count in counts.items()
    }


def _find_consumer_under_construction() -> Any:
    """Return the consumer whose constructor is on the call stack, None if there is none.

    kafka-python gives an assignor no access to its consumer, but the consumer's constructor asks
    for the protocols.
    """
    frame = inspect.currentframe()
    while frame and not isinstance(frame.f_locals.get("self"), KafkaConsumer):
        frame = frame.f_back
    return frame.f_locals["self"] if frame else None


def _uses_cooperative_protocol(consumer: Any) -> bool:
    """Return whether all assignors in the consumer's list are cooperative, as kafka-python does."""
    listed = consumer.config["partition_assignment_strategy"]
    assignors: list[Any] = [each() if inspect.isclass(each) else each for each in listed]
    return all(RebalanceProtocol.COOPERATIVE in each.supported_protocols() for each in assignors)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    by_topic = groupby(sorted(partitions), lambda at: at.topic)
    return {topic: [at.partition for at in group] for topic, group in by_topic}
