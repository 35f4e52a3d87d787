"""What a consumer group's coordinator is asked: what was committed to it, and who is in the group.

Committed offsets are asked for by a consumer of the group that joins nothing. It waits for a
coordinator that is about to be there, as in a new cluster. librdkafka has a request of admin
clients for it, too, but that makes the process crash when the coordinator has just moved or is not
there yet (NOT_COORDINATOR, librdkafka issue 5040, still so in 2.16). An admin client also finds no
coordinator of a new cluster: it asks three times within half a second and is then silent until the
request ends; and an answer that comes later than that may crash it (issue 4605). So the consumer
is first, and requests of the admin client have all the time there is.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from assignor_bridge.errors import AssignorError
from streaming.kafka.brokers import DESCRIBE, in_requests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streaming.kafka.brokers import Brokers, Partition

_Answer = TypeVar("_Answer")

#: Errors of a coordinator that is about to be there, as in a new cluster.
PASSING = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")
#: What describing a group that is not there answers, by newer brokers.
_NO_GROUP = "GROUP_ID_NOT_FOUND"
#: Asked for where there are no topics, so that the coordinator is waited for there, too.
_NO_TOPIC = "assignor-none"
#: What a user without Describe on the group hears.
_NO_RIGHT = "GROUP_AUTHORIZATION_FAILED"
#: What one without Describe on some topic of its members hears, from Kafka 4.0 on.
_NO_RIGHT_TO_TOPICS = "TOPIC_AUTHORIZATION_FAILED"
_NO_ANSWER = ("_TIMED_OUT", "_WAIT_COORD")
_RETRY_S = 0.1
#: After it a consumer without an answer is asked whether it was refused; then after twice the time.
_WAIT_S = 0.5


class GroupError(AssignorError):
    """A consumer group that is not there or may not be seen."""


@dataclass(frozen=True, slots=True)
class Member:
    """A live consumer of a group."""

    consumer_id: str
    host: str
    client_id: str
    partitions: tuple[Partition, ...]


def members(brokers: Brokers, group: str) -> tuple[Member, ...] | None:
    """Give a group's live consumers; None when there is no such group.

    Raises
    ------
    GroupError
        When it may not be seen, or its coordinator does not answer.
    """
    limit_s = brokers.limit_s

    def ask() -> Any:
        [future] = brokers.admin.describe_consumer_groups([group], request_timeout=limit_s).values()
        return brokers.answer(future, limit_s)

    try:
        described = _again(limit_s, PASSING, ask)
    except KafkaException as error:
        if error.args[0].name() == _NO_GROUP:
            return None
        raise _refused(brokers, group, error.args[0]) from error
    if described.state.name == "DEAD":
        return None
    return tuple(
        Member(
            member.member_id,
            member.host,
            member.client_id,
            tuple((p.topic, p.partition) for p in member.assignment.topic_partitions)
            if member.assignment
            else (),
        )
        for member in described.members
    )


def committed(brokers: Brokers, group: str) -> dict[Partition, int]:
    """Give the offsets that a group has committed, of all topics that may be seen.

    Raises
    ------
    GroupError
        When it may not be seen, or its coordinator does not answer.
    """
    wanted = [
        TopicPartition(topic, partition)
        for topic, partitions in brokers.all_partitions().items()
        for partition in partitions
    ] or [TopicPartition(_NO_TOPIC, 0)]
    found: dict[Partition, int] = {}
    consumer = Consumer(
        brokers.settings.for_client(
            group_id=group, isolation_level="read_uncommitted", enable_auto_commit=False
        )
    )
    try:
        for some in in_requests(wanted):
            ask = partial(_offsets, consumer, some, _waits(brokers.limit_s))
            for p in _again(brokers.limit_s, (*PASSING, *_NO_ANSWER), ask):
                if not p.error and p.offset >= 0:
                    found[p.topic, p.partition] = p.offset
    except KafkaException as error:
        raise _refused(brokers, group, error.args[0]) from error
    finally:
        consumer.close()
    return found


def _offsets(
    consumer: Consumer, some: list[TopicPartition], waits: Iterator[float]
) -> list[TopicPartition]:
    try:
        return consumer.committed(some, timeout=next(waits))
    except KafkaException:
        heard = consumer.poll(0)
        said = heard.error() if heard is not None else None
        if said is not None and said.name() == _NO_RIGHT:
            raise KafkaException(said) from None
        raise


def _waits(limit_s: float) -> Iterator[float]:
    deadline = time.monotonic() + limit_s
    for doubled in itertools.count():
        yield max(_RETRY_S, min(_WAIT_S * 2**doubled, deadline - time.monotonic()))


def _again(limit_s: float, passing: tuple[str, ...], ask: Callable[[], _Answer]) -> _Answer:
    """Ask until the answer is something else than an error that passes."""

    def passes(error: BaseException) -> bool:
        return isinstance(error, KafkaException) and error.args[0].name() in passing

    retrying = Retrying(
        retry=retry_if_exception(passes),
        stop=stop_after_delay(limit_s),
        wait=wait_fixed(_RETRY_S),
        reraise=True,
    )
    return retrying(ask)


def _refused(brokers: Brokers, group: str, error: KafkaError) -> GroupError:
    if error.name() in (*PASSING, *_NO_ANSWER):
        return GroupError(
            f"group {group!r}: its coordinator did not answer within {brokers.limit_s:g} s "
            f"({brokers.said(error)}): is the cluster still starting? A longer --timeout waits "
            "for it"
        )
    if error.name() == _NO_RIGHT_TO_TOPICS:
        return GroupError(f"group {group!r}: {brokers.said(error, DESCRIBE)}s that it reads")
    return GroupError(f"group {group!r}: {brokers.said(error, DESCRIBE, group)}")
