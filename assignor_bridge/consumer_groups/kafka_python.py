"""An assignor in the shape that kafka-python expects; only this module imports kafka-python."""

from __future__ import annotations

import inspect
import weakref
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from assignor_bridge.assignors.check import assign_checked
from assignor_bridge.assignors.group import Group, Member
from assignor_bridge.assignors.lag_aware import Offsets
from assignor_bridge.assignors.own import CustomAssignor
from assignor_bridge.consumer_groups.lags import LagReader
from assignor_bridge.consumer_groups.members import (
    Subscription,
    check_handover,
    is_cooperative,
    read_subscription,
    write_subscription,
)
from assignor_bridge.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from assignor_bridge.assignors.protocol import Assignor

#: Version of Kafka's ConsumerProtocol with owned partitions, generation and rack (KIP-881).
_VERSION = 3
_WITH_LAGS = ("lag-aware", "lag-aware-sticky")


class GroupAssignor(AbstractPartitionAssignor):
    """One of our assignors, or a user's own, as a member of a group; for one consumer."""

    def __init__(self, strategy: Assignor, member: Member) -> None:
        self._strategy = strategy
        #: This member as it joins next time.
        self._member = member
        self._consumer: weakref.ref[Any] | None = None
        self._lags: LagReader | None = None

    @property
    def name(self) -> str:
        """Name under which the members of a group agree on it."""
        return self._strategy.name

    def supported_protocols(self) -> list[Any]:
        """Return the protocols, the preferred one first."""
        self._attach(_consumer_under_construction())
        return [RebalanceProtocol[protocol] for protocol in self._strategy.protocols]

    def metadata(self, topics: Iterable[str]) -> Any:
        """Return what this member sends when it joins."""
        topics = frozenset(topics)
        if self._lags:
            self._lags.refresh(topics)
        member = replace(self._member, topics=topics)
        cooperative = is_cooperative(self._strategy)
        consumer = self._consumer and self._consumer()
        if consumer and cooperative:
            # A consumer that lost its membership has given up what `on_assignment` noted.
            member = replace(member, owned=_by_topic(consumer.assignment()))
            cooperative = _uses_cooperative_protocol(consumer)
        sent = write_subscription(self._strategy, member, cooperative=cooperative)
        return ConsumerProtocolSubscription(
            version=_VERSION,
            topics=sorted(topics),
            user_data=sent.user_data,
            owned_partitions=[
                ConsumerProtocolSubscription.TopicPartition(topic=t, partitions=list(numbers))
                for t, numbers in (sent.owned or {}).items()
            ],
            generation_id=sent.generation,
            rack_id=member.rack,
        )

    def assign(self, cluster: Any, members: Iterable[Any]) -> dict[str, Any]:
        """Assign the partitions of the group, as its leader.

        Raises
        ------
        OptionError
            If the assignor refuses the group.
        PlanError
            If it raises, or if its answer is not valid and complete.
        """
        strategy = self._strategy
        read = tuple(_read_member(strategy, joined) for joined in members)
        topics = sorted(frozenset[str]().union(*(member.topics for member in read)))
        counts = {topic: len(cluster.partitions_for_topic(topic) or ()) for topic in topics}
        lags: Mapping[str, Mapping[int, float]] = {}
        if self._lags:
            self._lags.refresh(topics)
            lags = self._lags.last(topic for topic in topics if counts[topic])
        has_racks = any(member.rack for member in read)
        group = Group(read, counts, lags, _replica_racks(cluster, counts) if has_racks else {})
        refusal = strategy.refusal(group)
        if refusal:
            raise OptionError(f"assignor {strategy.name!r} refused the group: {refusal}")
        answer = assign_checked(strategy, group)
        if isinstance(strategy, CustomAssignor) and is_cooperative(strategy):
            check_handover(strategy.name, group, answer)
        return {
            member: ConsumerProtocolAssignment(
                _VERSION, [(topic, list(numbers)) for topic, numbers in partitions.items()], b""
            )
            for member, partitions in answer.items()
        }

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Note what this member got, and at which generation of the group (KIP-341)."""
        owned = _by_topic(assignment.partitions())
        self._member = self._strategy.on_assignment(self._member, owned, generation)

    def _attach(self, consumer: Any) -> None:
        """Note the consumer that uses this object: its settings, and later what it owns."""
        current = self._consumer and self._consumer()
        if consumer is None or consumer is current:
            return
        if current and not current._closed:
            raise OptionError(
                f"assignor {self.name!r} is already used by another consumer: "
                f"call assignor({self.name!r}) once for each consumer"
            )
        member = self._member
        rack = member.rack or consumer.config["client_rack"] or None
        self._member = replace(member, rack=rack, owned={}, generation=None)
        self._consumer = reference = weakref.ref(consumer)
        if self.name in _WITH_LAGS or isinstance(self._strategy, CustomAssignor):
            settings = dict(consumer.config)
            self._lags = LagReader(lambda: _Lags(settings), lambda: _is_open(reference()))


class _Lags:
    """Looks up the lags of a group, with a client that has the settings of its consumer."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        shared = KafkaAdminClient.DEFAULT_CONFIG.keys() & settings.keys() - {"metric_reporters"}
        self._group: str = settings["group_id"]
        self._reset: str = settings["auto_offset_reset"]
        self._admin = KafkaAdminClient(
            **{key: settings[key] for key in shared}
            | {"client_id": f"{settings['client_id']}-lags"}
        )

    def look_up(self, topics: Iterable[str]) -> dict[str, dict[int, int]]:
        """Return the lag of each partition of the topics that exist."""
        described = self._admin.describe_topics(sorted(topics))
        lags: dict[str, dict[int, int]] = {t["name"]: {} for t in described if t["partitions"]}
        partitions = [
            TopicPartition(topic["name"], partition["partition_index"])
            for topic in described
            for partition in topic["partitions"]
        ]
        if not partitions:
            return lags
        committed = {
            partition: offset.offset
            for partition, offset in self._admin.list_group_offsets(self._group)[
                self._group
            ].items()
            if offset.offset >= 0
        }
        latest = self._offsets(partitions, OffsetSpec.LATEST)
        fresh = [partition for partition in partitions if partition not in committed]
        beginning = self._offsets(fresh, OffsetSpec.EARLIEST)
        for at in partitions:
            offsets = Offsets(latest[at], beginning.get(at, 0), committed.get(at))
            lags[at.topic][at.partition] = offsets.lag(self._reset)
        return lags

    def close(self) -> None:
        """End the connections."""
        self._admin.close()

    def _offsets(self, partitions: list[TopicPartition], spec: Any) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        found = self._admin.list_partition_offsets(dict.fromkeys(partitions, spec))
        return {partition: offset.offset for partition, offset in found.items()}


def _read_member(strategy: Assignor, joined: Any) -> Member:
    sent = joined.metadata
    member = Member(
        joined.member_id,
        frozenset(sent.topics),
        rack=sent.rack_id or None,
        instance=joined.group_instance_id,
    )
    owned = {each.topic: list(each.partitions) for each in sent.owned_partitions or ()}
    data = None if sent.user_data is None else bytes(sent.user_data)
    return read_subscription(strategy, member, Subscription(data, owned, sent.generation_id))


def _replica_racks(cluster: Any, counts: Mapping[str, int]) -> dict[str, dict[int, frozenset[str]]]:
    """Return the racks that hold a replica of each partition."""
    racks = {broker.node_id: broker.rack for broker in cluster.brokers() if broker.rack}
    return {
        topic: {
            number: frozenset(
                rack
                for node, rack in racks.items()
                if cluster.is_replica_node(TopicPartition(topic, number), node)
            )
            for number in range(count)
        }
        for topic, count in counts.items()
        if racks
    }


def _consumer_under_construction() -> Any:
    """Return the consumer whose constructor called us, None if there is none.

    kafka-python gives an assignor no access to its consumer. But the constructor asks for the
    protocols, so that the consumer is on the call stack once.
    """
    frame = inspect.currentframe()
    while frame:
        caller = frame.f_locals.get("self")
        if isinstance(caller, KafkaConsumer):
            return caller
        frame = frame.f_back
    return None


def _uses_cooperative_protocol(consumer: Any) -> bool:
    """Return whether all assignors in the consumer's list are cooperative, as kafka-python does."""
    for listed in consumer.config["partition_assignment_strategy"]:
        assignor: Any = listed() if inspect.isclass(listed) else listed
        if RebalanceProtocol.COOPERATIVE not in assignor.supported_protocols():
            return False
    return True


def _is_open(consumer: Any) -> bool:
    return consumer is not None and not consumer._closed


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    owned: defaultdict[str, list[int]] = defaultdict(list)
    for topic, number in sorted(partitions):
        owned[topic].append(number)
    return dict(owned)
