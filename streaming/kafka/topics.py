"""Create and delete topics, and wait until the broker has done so."""

from __future__ import annotations

import concurrent.futures
import contextlib
import time
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

from assignor_bridge.errors import AssignorError, pluralize

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Time limit for the change of a topic, and for its leaders.
_LIMIT_S = 60.0
_METADATA_LIMIT_S = 15.0
#: A KRaft controller writes at most 10,000 records per request (MAX_RECORDS_PER_USER_OP, 4.1).
_PARTITIONS_PER_REQUEST = 5_000


class TopicError(AssignorError):
    """A topic could not be created with all partitions, or some have no leader in time."""


def create_topic(
    bootstrap_servers: str,
    name: str,
    partitions: int,
    config: Mapping[str, str] | None = None,
    replication: int = 1,
    *,
    limit_s: float = _LIMIT_S,
) -> None:
    """Create a topic, and wait until each partition has a leader.

    Each request creates at most 5,000 partitions and waits at most `limit_s` for their leaders.
    Raises TopicError; the topic may then exist with only some of the partitions.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    try:
        admin.list_topics(timeout=_METADATA_LIMIT_S)
    except KafkaException as error:
        raise TopicError(
            f"topic {name!r} could not be created: no broker answers at {bootstrap_servers!r} "
            f"({error.args[0].str()})"
        ) from error
    for created_count in range(0, partitions, _PARTITIONS_PER_REQUEST):
        target_count = min(created_count + _PARTITIONS_PER_REQUEST, partitions)
        try:
            if created_count:
                growth = NewPartitions(name, target_count)
                admin.create_partitions([growth], operation_timeout=30.0)[name].result(_LIMIT_S)
            else:
                topic = NewTopic(name, target_count, replication, config=dict(config or {}))
                admin.create_topics([topic], operation_timeout=30.0)[name].result(_LIMIT_S)
        except (KafkaException, concurrent.futures.TimeoutError) as error:
            reason = error.args[0].str() if error.args else f"no answer within {_LIMIT_S:g} s"
            shortfall = f"has only {created_count:,} of {partitions:,} partitions"
            problem = shortfall if created_count else "could not be created"
            raise TopicError(f"topic {name!r} {problem}: {reason}") from error
        _await_leaders(admin, name, target_count, limit_s)


def _await_leaders(admin: AdminClient, topic: str, partition_count: int, limit_s: float) -> None:
    deadline_s = time.monotonic() + limit_s
    leader_count = 0
    while (requested_s := time.monotonic()) < deadline_s:
        with contextlib.suppress(KafkaException):  # the broker is too busy to answer in time
            metadata = admin.list_topics(topic, timeout=_METADATA_LIMIT_S).topics[topic]
            leader_count = sum(partition.leader >= 0 for partition in metadata.partitions.values())
        if leader_count == partition_count:
            return
        # With very many partitions, answering takes time that the broker needs to elect leaders.
        time.sleep(max(0.02, time.monotonic() - requested_s))
    raise TopicError(
        f"topic {topic!r} has {pluralize(leader_count, 'leader')} for "
        f"{pluralize(partition_count, 'partition')} after {limit_s:g} s"
    )


def delete_topics(bootstrap_servers: str, names: Sequence[str]) -> None:
    """Delete topics; ignore failures, because the broker may have stopped."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    for future in admin.delete_topics(list(names), request_timeout=10.0).values():
        with contextlib.suppress(KafkaException, concurrent.futures.TimeoutError):
            future.result(15.0)
