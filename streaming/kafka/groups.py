"""Request a consumer group's committed offsets and members from its coordinator.

A consumer of the group, which does not join it, requests the committed offsets, because it waits
for the coordinator of a new cluster. An admin client would crash the process if the coordinator
has just moved or does not exist yet (NOT_COORDINATOR, librdkafka issue 5040, not fixed in 2.16). It
also does not find the coordinator of a new cluster: it tries three times within half a second, then
waits until the request ends, and an answer after that may crash it (issue 4605). So the consumer
goes first, and the admin client gets the whole time limit for its request.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, TopicPartition

from assignor_bridge.errors import AssignorError
from assignor_bridge.model import Partition
from streaming.kafka.brokers import DESCRIBE, split_into_requests

if TYPE_CHECKING:
    from collections.abc import Callable

    from streaming.kafka.brokers import Brokers

_Answer = TypeVar("_Answer")
#: Errors to retry: the coordinator is moving, or is loading the committed offsets.
_TRANSIENT_ERRORS = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")
#: Errors of a coordinator that does not answer in time.
_TIMEOUT_ERRORS = ("_TIMED_OUT", "_WAIT_COORD")
#: Error of newer brokers for a group that does not exist.
_NO_GROUP = "GROUP_ID_NOT_FOUND"
#: Requested if there are no topics, in order to wait for the coordinator in this case, too.
_PLACEHOLDER_TOPIC = "assignor-none"
#: Error for a user without Describe permission on the group.
_NO_PERMISSION = "GROUP_AUTHORIZATION_FAILED"
#: Error for a user without Describe permission on a topic of a member, from Kafka 4.0 on.
_NO_TOPIC_PERMISSION = "TOPIC_AUTHORIZATION_FAILED"
#: Delay between two attempts, and minimum time limit of an attempt.
_RETRY_S = 0.1
#: Time limit of the first attempt of a request; each further attempt has twice the time.
_FIRST_ATTEMPT_LIMIT_S = 0.5


class GroupError(AssignorError):
    """The members or committed offsets of a consumer group cannot be read."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A live consumer of a group."""

    consumer_id: str
    host: str
    client_id: str
    partitions: tuple[Partition, ...]


def fetch_members(brokers: Brokers, group: str) -> tuple[GroupMember, ...] | None:
    """Return a group's live consumers; None if the group does not exist.

    Raises GroupError if the user may not describe it or its topics, or no coordinator answers.
    """
    description = describe_group(brokers, group)
    if description is None:
        return None
    members = []
    for member in description.members:
        topic_partitions = member.assignment.topic_partitions if member.assignment else ()
        partitions = tuple(Partition(p.topic, p.partition) for p in topic_partitions)
        members.append(GroupMember(member.member_id, member.host, member.client_id, partitions))
    return tuple(members)


def describe_group(brokers: Brokers, group: str) -> Any:
    """Return the coordinator's description of a group; None if the group does not exist.

    Waits for a coordinator that starts or moves. Raises GroupError as `fetch_members` does.
    """

    def send(_: float) -> Any:
        limit_s = brokers.limit_s
        [future] = brokers.admin.describe_consumer_groups([group], request_timeout=limit_s).values()
        return brokers.await_answer(future)

    try:
        description = _retry(brokers.limit_s, _TRANSIENT_ERRORS, send)
    except KafkaException as error:
        if error.args[0].name() == _NO_GROUP:
            return None
        raise _make_group_error(brokers, group, error.args[0]) from error
    return None if description.state.name == "DEAD" else description


def fetch_group_offsets(brokers: Brokers, group: str) -> dict[Partition, int]:
    """Return the offsets that a group has committed, for all topics that the user may describe.

    Raises GroupError if the user may not describe it, or its coordinator does not answer.
    """
    partitions = [
        (topic, n) for topic, numbers in brokers.list_all_partitions().items() for n in numbers
    ] or [(_PLACEHOLDER_TOPIC, 0)]
    offsets: dict[Partition, int] = {}
    consumer = brokers.make_consumer(group)
    try:
        for request in split_into_requests(partitions, OFFSET_INVALID):
            send = partial(_request_group_offsets, consumer, request)
            for tp in _retry(brokers.limit_s, (*_TRANSIENT_ERRORS, *_TIMEOUT_ERRORS), send):
                if not tp.error and tp.offset >= 0:
                    offsets[Partition(tp.topic, tp.partition)] = tp.offset
    except KafkaException as error:
        raise _make_group_error(brokers, group, error.args[0]) from error
    finally:
        consumer.close()
    return offsets


def _request_group_offsets(
    consumer: Consumer, request: list[TopicPartition], attempt_limit_s: float
) -> list[TopicPartition]:
    try:
        return consumer.committed(request, timeout=attempt_limit_s)
    except KafkaException:
        event = consumer.poll(0)
        error = event.error() if event is not None else None
        if error is not None and error.name() == _NO_PERMISSION:
            raise KafkaException(error) from None
        raise


def _retry(limit_s: float, errors: tuple[str, ...], send: Callable[[float], _Answer]) -> _Answer:
    """Send a request, repeating it on `errors` for `limit_s`; `send` gets each attempt's limit."""
    deadline_s = time.monotonic() + limit_s
    attempt_limit_s = _FIRST_ATTEMPT_LIMIT_S
    while True:
        try:
            return send(max(_RETRY_S, min(attempt_limit_s, deadline_s - time.monotonic())))
        except KafkaException as error:
            if error.args[0].name() not in errors or time.monotonic() >= deadline_s:
                raise
        time.sleep(_RETRY_S)
        attempt_limit_s *= 2


def _make_group_error(brokers: Brokers, group: str, error: KafkaError) -> GroupError:
    if error.name() in (*_TRANSIENT_ERRORS, *_TIMEOUT_ERRORS):
        return GroupError(
            f"group {group!r}: its coordinator did not answer within {brokers.limit_s:g} s "
            f"({brokers.describe_error(error)}): if the cluster is still starting, give a longer "
            "--timeout"
        )
    if error.name() == _NO_TOPIC_PERMISSION:
        reason = brokers.describe_error(error, DESCRIBE)
        return GroupError(f"group {group!r}: {reason}s that the group reads")
    return GroupError(f"group {group!r}: {brokers.describe_error(error, DESCRIBE, group)}")
