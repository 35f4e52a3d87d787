"""An assignor as kafka-python expects it; the only module that imports kafka-python.

Kafka has two formats for what a member owns. Eager assignors (`sticky`) send it as user data
(KIP-341), which survives the loss of membership. Cooperative ones (KIP-429) send it in fields of
the subscription; so does a user's own assignor, whose user data may have any format.
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
from assignor_bridge.assignors.claims import add_claim, write_claim
from assignor_bridge.assignors.group import Group, Member
from assignor_bridge.assignors.lag_aware import Offsets
from assignor_bridge.assignors.own import CustomAssignor
from assignor_bridge.assignors.protocol import Strategy
from assignor_bridge.consumer_groups.lags import LagReader
from assignor_bridge.errors import OptionError
from checkpoints import user_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from assignor_bridge.assignors.protocol import Assignor

#: Version of Kafka's ConsumerProtocol with owned partitions, generation and rack (KIP-881).
_PROTOCOL_VERSION = 3
_ASSIGNORS_THAT_USE_LAGS = ("lag-aware", "lag-aware-sticky")
_LOG = logging.getLogger(__name__)


class GroupAssignor(AbstractPartitionAssignor):
    """A built-in assignor, or the user's own, for one consumer of kafka-python."""

    def __init__(self, strategy: Assignor, member: Member) -> None:
        self._strategy = strategy
        self._is_cooperative = "COOPERATIVE" in strategy.protocols
        self._claims_in_fields = self._is_cooperative or isinstance(strategy, CustomAssignor)
        self._member = member  # state in which it joins next time
        self._consumer: Callable[[], Any] = lambda: None  # later a weak reference
        self._lags: LagReader | None = None

    @property
    def name(self) -> str:
        """Name under which the members of a group agree on it."""
        return self._strategy.name

    def supported_protocols(self) -> list[Any]:
        """Return the protocols, the preferred one first; attach the consumer under construction."""
        self._attach(_find_consumer_under_construction())
        return [RebalanceProtocol[protocol] for protocol in self._strategy.protocols]

    def metadata(self, topics: Iterable[str]) -> Any:
        """Return the subscription that this member sends when it joins."""
        member = replace(self._member, topics=frozenset(topics))
        if self._lags:
            self._lags.watch(member.topics)
        sends_fields = self._claims_in_fields
        consumer = self._consumer()
        if consumer and self._is_cooperative:
            # After a loss of membership the consumer owns less than `on_assignment` recorded. With
            # the eager protocol it has revoked everything: a claim would only delay its partitions.
            member = replace(member, owned=_group_by_topic(consumer.assignment()))
            protocol = consumer._coordinator._rebalance_protocol
            sends_fields = protocol is RebalanceProtocol.COOPERATIVE
        data = self._strategy.user_data(member)
        if member.capacity != 1 and not isinstance(self._strategy, CustomAssignor):
            data = user_data.append_capacity(data, member.capacity)
        claim = member.owned if sends_fields else {}
        make_topic = wire.ConsumerProtocolSubscription.TopicPartition
        return wire.ConsumerProtocolSubscription(
            version=_PROTOCOL_VERSION,
            topics=sorted(member.topics),
            user_data=data,
            owned_partitions=[make_topic(topic=t, partitions=list(p)) for t, p in claim.items()],
            generation_id=-1 if member.generation is None else member.generation,
            rack_id=member.rack,
        )

    def assign(self, cluster: Any, members: Iterable[Any]) -> dict[str, Any]:
        """Assign the partitions of the group, whose leader this member is.

        Raises OptionError if the assignor refuses the group, and PlanError if it raises an error
        or its answer is invalid.
        """
        if consumer := self._consumer():
            # kafka-python 3.0.12 forgets a join for new metadata if `poll` ends before the join.
            consumer._coordinator.request_rejoin()
        strategy = self._strategy
        group_members = tuple(map(self._parse_member, members))
        topics = sorted(frozenset[str]().union(*(member.topics for member in group_members)))
        counts = {topic: len(cluster.partitions_for_topic(topic) or ()) for topic in topics}
        lags: Mapping[str, Mapping[int, float]] = {}
        if self._lags:
            self._lags.watch(topics)
            lags = self._lags.get_lags(topic for topic in topics if counts[topic])
        has_racks = any(member.rack for member in group_members)
        racks = _list_racks(cluster, counts) if has_racks else {}
        group = Group(group_members, counts, lags, racks)
        if refusal := strategy.refusal(group):
            raise OptionError(f"assignor {self.name!r} refused the group: {refusal}")
        assignment = assign_checked(strategy, group)
        if isinstance(strategy, CustomAssignor) and self._is_cooperative:
            check_handover(self.name, group, assignment)
        return {
            member: wire.ConsumerProtocolAssignment(
                _PROTOCOL_VERSION, [(topic, list(p)) for topic, p in partitions.items()], b""
            )
            for member, partitions in assignment.items()
        }

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Record the partitions of this member, and the group's generation (KIP-341)."""
        owned = _group_by_topic(assignment.partitions())
        self._member = self._strategy.on_assignment(self._member, owned, generation)

    def _parse_member(self, response_member: Any) -> Member:
        """Return a member of a JoinGroupResponse, with the claim and capacity that it sent."""
        strategy, subscription = self._strategy, response_member.metadata
        data = None if subscription.user_data is None else bytes(subscription.user_data)
        generation = subscription.generation_id
        if generation < 0 and isinstance(strategy, Strategy):
            generation = user_data.decode_generation(data)  # of Java clients before 3.5
        member = Member(
            response_member.member_id,
            frozenset(subscription.topics),
            {t.topic: list(t.partitions) for t in subscription.owned_partitions or ()},
            None if generation < 0 else generation,
            subscription.rack_id or None,
            instance=response_member.group_instance_id,
            user_data=data,
        )
        if self._claims_in_fields:
            return member
        member = add_claim(member, data)
        if not data or not isinstance(strategy, Strategy) or strategy.user_data is not write_claim:
            return member
        if not user_data.holds_claim(data):
            _LOG.warning(
                "member %r sent user data of length %d that assignor %r cannot read: "
                "the member is treated as owning no partitions",
                member.id,
                len(data),
                strategy.name,
            )
        return replace(member, capacity=user_data.decode_capacity(data))

    def _attach(self, consumer: Any) -> None:
        """Record the consumer, if known, and drop old claims; refuse a second open consumer."""
        previous_consumer = self._consumer()
        if consumer is None or consumer is previous_consumer:
            return
        if previous_consumer and not previous_consumer._closed:
            raise OptionError(
                f"assignor {self.name!r} is already used by another consumer: "
                f"call assignor({self.name!r}) once for each consumer"
            )
        rack = self._member.rack or consumer.config["client_rack"] or None
        self._member = replace(self._member, rack=rack, owned={}, generation=None)
        self._consumer = reference = weakref.ref(consumer)
        if self.name in _ASSIGNORS_THAT_USE_LAGS or isinstance(self._strategy, CustomAssignor):
            config = dict(consumer.config)  # not the consumer: the thread must not keep it alive
            self._lags = LagReader(
                lambda: _LagClient(config), lambda: not getattr(reference(), "_closed", True)
            )


class _LagClient:
    """Looks up the lags of a group, with the settings of this member's consumer."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        names = KafkaAdminClient.DEFAULT_CONFIG.keys() & config.keys() - {"metric_reporters"}
        settings = {name: config[name] for name in names}
        settings["client_id"] = f"{config['client_id']}-lags"
        self._group, self._offset_reset = config["group_id"], config["auto_offset_reset"]
        self._admin = KafkaAdminClient(**settings)
        self.close = self._admin.close

    def look_up(self, topics: Iterable[str]) -> dict[str, dict[int, int]]:
        """Return the lag of each partition of the existing topics, by topic and number."""
        partitions = [
            TopicPartition(topic["name"], partition["partition_index"])
            for topic in self._admin.describe_topics(sorted(topics))
            for partition in topic["partitions"]
        ]
        commits = self._admin.list_group_offsets(self._group)[self._group]
        commit_offsets = {p: commit.offset for p, commit in commits.items() if commit.offset >= 0}
        end_offsets = self._list_offsets(partitions, OffsetSpec.LATEST)
        partitions_without_commit = [p for p in partitions if p not in commit_offsets]
        start_offsets = self._list_offsets(partitions_without_commit, OffsetSpec.EARLIEST)
        lags: dict[str, dict[int, int]] = {}
        for p in partitions:
            offsets = Offsets(end_offsets[p], start_offsets.get(p, 0), commit_offsets.get(p))
            lags.setdefault(p.topic, {})[p.partition] = offsets.lag(self._offset_reset)
        return lags

    def _list_offsets(self, partitions: list[TopicPartition], spec: Any) -> dict[Any, int]:
        offsets = self._admin.list_partition_offsets(dict.fromkeys(partitions, spec))
        return {partition: offset.offset for partition, offset in offsets.items()}


def _list_racks(cluster: Any, counts: Mapping[str, int]) -> dict[str, dict[int, frozenset[str]]]:
    """Return each partition's replica racks by topic and number; ignore brokers without a rack."""
    rack_by_node = {broker.node_id: broker.rack for broker in cluster.brokers() if broker.rack}

    def find_racks(tp: TopicPartition) -> frozenset[str]:
        return frozenset(r for n, r in rack_by_node.items() if cluster.is_replica_node(tp, n))

    return {
        topic: {number: find_racks(TopicPartition(topic, number)) for number in range(count)}
        for topic, count in counts.items()
    }


def _find_consumer_under_construction() -> Any:
    """Return the consumer whose constructor is on the call stack, or None if there is none.

    kafka-python gives an assignor no access to its consumer, but the consumer's constructor calls
    `supported_protocols`.
    """
    frame = inspect.currentframe()
    while frame and not isinstance(frame.f_locals.get("self"), KafkaConsumer):
        frame = frame.f_back
    return frame.f_locals["self"] if frame else None


def _group_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    by_topic = groupby(sorted(partitions), lambda partition: partition.topic)
    return {topic: [partition.partition for partition in group] for topic, group in by_topic}
