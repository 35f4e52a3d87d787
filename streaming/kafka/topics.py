"""Create and delete topics, and return when the broker has done so."""

from __future__ import annotations

import concurrent.futures
import contextlib
import time
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

from assignor_bridge.errors import AssignorError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_REQUEST_LIMIT_S = 60.0
_ANSWER_LIMIT_S = 15.0
#: A KRaft controller writes at most 10,000 records a request (MAX_RECORDS_PER_USER_OP, Kafka 4.1).
_PARTITIONS_PER_REQUEST = 5_000


class TopicError(AssignorError):
    """A topic could not be created."""


def create_topic(
    bootstrap_servers: str,
    name: str,
    partitions: int,
    config: Mapping[str, str] | None = None,
    replication: int = 1,
    *,
    limit_s: float = _REQUEST_LIMIT_S,
) -> None:
    """Create a topic, and return when each partition has a leader.

    Many partitions are made in steps, each of which may take `limit_s` to have its leaders: a
    cluster is not asked for more while it still makes the ones before.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    try:
        admin.list_topics(timeout=_ANSWER_LIMIT_S)
    except KafkaException as error:
        raise TopicError(
            f"topic {name!r} could not be created: no broker answers at {bootstrap_servers!r} "
            f"({error.args[0].str()})"
        ) from error
    for there in range(0, partitions, _PARTITIONS_PER_REQUEST):
        size = min(there + _PARTITIONS_PER_REQUEST, partitions)
        try:
            if there:
                more = NewPartitions(name, size)
                admin.create_partitions([more], operation_timeout=30.0)[name].result(
                    _REQUEST_LIMIT_S
                )
            else:
                topic = NewTopic(
                    name, num_partitions=size, replication_factor=replication,
                    config=dict(config or {}),
                )  # fmt: skip
                admin.create_topics([topic], operation_timeout=30.0)[name].result(_REQUEST_LIMIT_S)
        except (KafkaException, concurrent.futures.TimeoutError) as error:
            why = error.args[0].str() if error.args else f"no answer within {_REQUEST_LIMIT_S:g} s"
            raise TopicError(f"topic {name!r} could not be created: {why}") from error
        _await_leaders(admin, name, size, limit_s)


def _await_leaders(admin: AdminClient, topic: str, partitions: int, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    leaders = 0
    while (asked := time.monotonic()) < deadline:
        with contextlib.suppress(KafkaException):  # it is too busy to answer in time
            found = admin.list_topics(topic, timeout=_ANSWER_LIMIT_S).topics[topic].partitions
            leaders = sum(partition.leader >= 0 for partition in found.values())
        if leaders == partitions:
            return
        # With very many partitions the answer itself is work for the broker, which has other.
        time.sleep(max(0.02, time.monotonic() - asked))
    raise TopicError(
        f"topic {topic!r} has leaders for {leaders} of {partitions} partitions after {limit_s:g} s"
    )


def delete_topics(bootstrap_servers: str, names: Sequence[str]) -> None:
    """Delete topics as far as the broker allows; it may be gone by now."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    for future in admin.delete_topics(list(names), request_timeout=10.0).values():
        with contextlib.suppress(KafkaException, concurrent.futures.TimeoutError):
            future.result(15.0)
