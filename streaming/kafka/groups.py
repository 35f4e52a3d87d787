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

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, TopicPartition

from assignor_bridge.errors import AssignorError
from assignor_bridge.model import Partition
from streaming.kafka.brokers import DESCRIBE, in_requests

if TYPE_CHECKING:
    from collections.abc import Callable

    from streaming.kafka.brokers import Brokers

_Answer = TypeVar("_Answer")

#: Errors that pass: the coordinator moves, or loads what was committed.
_PASSING = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")
_NO_ANSWER = ("_TIMED_OUT", "_WAIT_COORD")
#: The answer to describing a group that does not exist, by newer brokers.
_NO_GROUP = "GROUP_ID_NOT_FOUND"
#: Asked for where there are no topics, so that the coordinator is waited for there, too.
_NO_TOPIC = "assignor-none"
#: The answer to a user without Describe on the group.
_NO_RIGHT = "GROUP_AUTHORIZATION_FAILED"
#: The answer to one without Describe on some topic of its members, from Kafka 4.0 on.
_NO_RIGHT_TO_TOPICS = "TOPIC_AUTHORIZATION_FAILED"
_RETRY_S = 0.1
#: After it a consumer without an answer is asked whether it was refused; then after twice the time.
_WAIT_S = 0.5


class GroupError(AssignorError):
    """A consumer group that does not exist or may not be seen."""


@dataclass(frozen=True, slots=True)
class Member:
    """A live consumer of a group."""

    consumer_id: str
    host: str
    client_id: str
    partitions: tuple[Partition, ...]


def members(brokers: Brokers, group: str) -> tuple[Member, ...] | None:
    """Return a group's live consumers; None when there is no such group.

    Raises GroupError when it may not be seen, or its coordinator does not answer.
    """
    described = describe(brokers, group)
    if described is None:
        return None
    return tuple(
        Member(
            member.member_id,
            member.host,
            member.client_id,
            tuple(Partition(p.topic, p.partition) for p in member.assignment.topic_partitions)
            if member.assignment
            else (),
        )
        for member in described.members
    )


def describe(brokers: Brokers, group: str) -> Any:
    """Return the coordinator's description of a group; None when there is no such group.

    Waits for a coordinator that starts or moves. Raises GroupError as `members` does.
    """

    def ask(_: float) -> Any:
        limit_s = brokers.limit_s
        [future] = brokers.admin.describe_consumer_groups([group], request_timeout=limit_s).values()
        return brokers.answer(future)

    try:
        described = _retried(brokers.limit_s, _PASSING, ask)
    except KafkaException as error:
        if error.args[0].name() == _NO_GROUP:
            return None
        raise _refused(brokers, group, error.args[0]) from error
    return None if described.state.name == "DEAD" else described


def committed(brokers: Brokers, group: str) -> dict[Partition, int]:
    """Return the offsets that a group has committed, of all topics that may be seen.

    Raises GroupError when it may not be seen, or its coordinator does not answer.
    """
    partitions = [
        (topic, number) for topic, all_ in brokers.all_partitions().items() for number in all_
    ] or [(_NO_TOPIC, 0)]
    offsets: dict[Partition, int] = {}
    consumer = brokers.consumer(group)
    try:
        for request in in_requests(partitions, OFFSET_INVALID):
            ask = partial(_ask_committed, consumer, request)
            for tp in _retried(brokers.limit_s, (*_PASSING, *_NO_ANSWER), ask):
                if not tp.error and tp.offset >= 0:
                    offsets[Partition(tp.topic, tp.partition)] = tp.offset
    except KafkaException as error:
        raise _refused(brokers, group, error.args[0]) from error
    finally:
        consumer.close()
    return offsets


def _ask_committed(
    consumer: Consumer, request: list[TopicPartition], wait_s: float
) -> list[TopicPartition]:
    try:
        return consumer.committed(request, timeout=wait_s)
    except KafkaException:
        event = consumer.poll(0)
        error = event.error() if event is not None else None
        if error is not None and error.name() == _NO_RIGHT:
            raise KafkaException(error) from None
        raise


def _retried(limit_s: float, passing: tuple[str, ...], ask: Callable[[float], _Answer]) -> _Answer:
    """Ask until the answer is not an error that passes, each time with more time to wait for it."""
    deadline = time.monotonic() + limit_s
    wait_s = _WAIT_S
    while True:
        try:
            return ask(max(_RETRY_S, min(wait_s, deadline - time.monotonic())))
        except KafkaException as error:
            if error.args[0].name() not in passing or time.monotonic() >= deadline:
                raise
        time.sleep(_RETRY_S)
        wait_s *= 2


def _refused(brokers: Brokers, group: str, error: KafkaError) -> GroupError:
    if error.name() in (*_PASSING, *_NO_ANSWER):
        return GroupError(
            f"group {group!r}: its coordinator did not answer within {brokers.limit_s:g} s "
            f"({brokers.reason(error)}): is the cluster still starting? A longer --timeout waits "
            "for it"
        )
    if error.name() == _NO_RIGHT_TO_TOPICS:
        return GroupError(f"group {group!r}: {brokers.reason(error, DESCRIBE)}s that it reads")
    return GroupError(f"group {group!r}: {brokers.reason(error, DESCRIBE, group)}")
