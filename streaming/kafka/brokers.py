"""Request metadata from brokers, with a time limit and many partitions per request.

If a request for a value fails, the value is unknown and a note is added. Requests raise an
error only if no broker answers or authentication fails. Notes and errors contain no secrets.
"""

from __future__ import annotations

import concurrent.futures
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]

from assignor_bridge.errors import AssignorError, OptionError, elide
from assignor_bridge.model import Partition
from streaming.kafka.settings import translate_settings
from streaming.kafka.utf8 import is_utf8

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from confluent_kafka import Message
    from confluent_kafka.admin import TopicMetadata  # type: ignore[attr-defined]

    #: Names of the topics, partitions, or brokers whose requests failed, by reason.
    Failures = dict[str, list[str]]

DESCRIBE = "Describe"
#: Resource type, as in Kafka's ACLs, by error for a missing permission.
_RESOURCE_TYPE_BY_ERROR = {
    "TOPIC_AUTHORIZATION_FAILED": "Topic",
    "GROUP_AUTHORIZATION_FAILED": "Group",
    "CLUSTER_AUTHORIZATION_FAILED": "Cluster",
}
#: Time to wait beyond a request's own limit, so that the client can report the timeout itself.
_GRACE_S = 2.0
_POLL_S = 0.02
#: librdkafka searches a list for each partition, so one large request would take quadratic time.
_PARTITIONS_PER_REQUEST = 250
#: For more topics than this, one request lists all topics that the user may describe.
_MAX_SINGLE_TOPIC_REQUESTS = 8
#: Errors that end the wait for the first answer.
_FINAL_ERRORS = (KafkaError._ALL_BROKERS_DOWN, KafkaError._AUTHENTICATION)


class BrokerUnreachableError(AssignorError):
    """No broker answers, or the brokers reject the credentials."""


def flatten_offsets(offsets: Mapping[str, Mapping[int, int]]) -> dict[Partition, int]:
    """Flatten `{topic: {partition: offset}}` to offsets by partition."""
    return {Partition(t, n): offset for t, by_n in offsets.items() for n, offset in by_n.items()}


@dataclass(frozen=True, slots=True)
class Retention:
    """When a topic's records are deleted."""

    #: Whether old records are deleted, not only compacted.
    deletes: bool
    #: Maximum age of a record; None if unlimited.
    time_s: float | None
    #: Maximum log size of a partition; None if unlimited.
    size_bytes: int | None
    #: Whether a record is deleted once a newer record has the same key.
    compacts: bool = False


class Brokers:
    """Connections to the brokers of a Kafka cluster, with the settings of a Java client.

    Each request may take `limit_s` seconds. Raises SettingsError if a setting is missing, invalid,
    or without a counterpart in librdkafka, OptionError if librdkafka rejects the settings, and
    BrokerUnreachableError if no broker answers or the credentials are rejected.
    """

    def __init__(self, java_settings: Mapping[str, str], limit_s: float) -> None:
        self.settings = translate_settings(java_settings)
        self.limit_s = limit_s
        self._address = java_settings["bootstrap.servers"].rpartition("@")[2]  # without credentials
        #: Lines that report which values are unknown, and why.
        self.notes: list[str] = []
        #: Requested topics that do not exist.
        self.missing_topics: set[str] = set()
        self.broker_count = 0
        self.admin = self._connect()
        self._consumer = self.make_consumer("assignor-lag")  # librdkafka requires a group

    def make_consumer(self, group: str, **settings: Any) -> Consumer:
        """Return a consumer that commits nothing; `_` in a setting's name stands for `.`."""
        settings = {"isolation_level": "read_uncommitted", "enable_auto_commit": False, **settings}
        return Consumer(self.settings.to_client_config(group_id=group, **settings))

    def list_partitions(self, topics: Iterable[str]) -> dict[str, frozenset[int]]:
        """Return each topic's partition numbers; omit missing topics, and note failed requests."""
        names = sorted(set(topics))
        all_topics = self._all_topics if len(names) > _MAX_SINGLE_TOPIC_REQUESTS else {}
        numbers_by_topic = {}
        for name in names:
            topic = all_topics.get(name) or self._fetch_topics(name).get(name)
            error = topic.error if topic is not None else None
            if topic is None or (error and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART):
                self.missing_topics.add(name)
            elif error is not None:
                self.notes.append(f"topic {name!r}: {self.describe_error(error, DESCRIBE, name)}")
            else:
                numbers_by_topic[name] = frozenset(topic.partitions)
        return numbers_by_topic

    def list_all_partitions(self) -> dict[str, frozenset[int]]:
        """Return the partition numbers of all topics that the user may describe."""
        topics = self._all_topics.items()
        return {name: frozenset(t.partitions) for name, t in topics if t.error is None}

    def fetch_log_ranges(
        self, partitions: Collection[tuple[str, int]]
    ) -> tuple[dict[Partition, int], dict[Partition, int]]:
        """Return the first and the end offset of each partition's log; omit unknown offsets."""
        begins = self._fetch_log_offsets(partitions, OFFSET_BEGINNING, "earliest offset")
        return begins, self._fetch_log_offsets(partitions, OFFSET_END, "log end offset")

    def fetch_retention(self, topics: Collection[str]) -> dict[str, Retention]:
        """Return each topic's retention; omit topics whose retention is unknown."""
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in sorted(topics)]
        if not resources:
            return {}
        retention_by_topic = {}
        failures: Failures = {}
        futures = self.admin.describe_configs(resources, request_timeout=self.limit_s)
        for resource, future in futures.items():
            try:
                configs = self.await_answer(future)
            except KafkaException as error:
                self.add_failure(failures, error.args[0], "DescribeConfigs", resource.name)
            else:
                values = {name: entry.value for name, entry in configs.items()}
                retention_by_topic[resource.name] = _parse_retention(values)
        self.note_failures("retention", failures, len(resources))
        return retention_by_topic

    def await_answer(self, future: Any) -> Any:
        """Return the answer to an admin client's request; raise KafkaException if it fails."""
        try:
            return future.result(self.limit_s + _GRACE_S)
        except concurrent.futures.TimeoutError as error:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from error

    def describe_error(self, error: KafkaError, operation: str = "", name: str = "") -> str:
        """Describe an error in one line without secrets.

        With an `operation`, the text for a missing permission names it and the resource.
        """
        resource_type = _RESOURCE_TYPE_BY_ERROR.get(error.name())
        if resource_type is None or not operation:
            return self.settings.redact(" ".join(str(error.str()).split()))
        return f"the user lacks {operation} on {resource_type}" + (f" {name!r}" if name else "")

    def add_failure(
        self, failures: Failures, error: KafkaError, operation: str, name: object
    ) -> None:
        """Add a topic or partition to those that failed for the same reason."""
        failures.setdefault(self.describe_error(error, operation), []).append(str(name))

    def note_failures(self, quantity: str, failures: Failures, count: int) -> None:
        """Add a note per reason why `quantity` is unknown for some of `count` names."""
        for reason, names in failures.items():
            problem = f"{quantity} is unknown for {len(names)} of {count}"
            self.notes.append(f"{problem} ({elide(sorted(names))}): {reason}")

    def _connect(self) -> AdminClient:
        """Create a client and count the brokers; stop waiting at the first of `_FINAL_ERRORS`."""
        # A list, not a method, keeps clients out of reference cycles: the garbage collector may run
        # in a thread of librdkafka, and destroying a client in such a thread aborts the process.
        errors: list[KafkaError] = []
        settings: dict[str, Any] = {**self.settings.to_client_config(), "error_cb": errors.append}
        try:
            admin = AdminClient(settings)
        except (KafkaException, ValueError) as error:
            reason = self.settings.redact(str(error.args[0]))
            raise OptionError(
                f"cannot create a Kafka client for {self._address!r}: {reason}"
            ) from error
        future = admin.describe_cluster(request_timeout=self.limit_s)
        deadline_s = time.monotonic() + self.limit_s + _GRACE_S
        while time.monotonic() < deadline_s and not any(e.code() in _FINAL_ERRORS for e in errors):
            admin.poll(0)  # calls error_cb
            if concurrent.futures.wait([future], _POLL_S).done:
                break
        try:
            self.broker_count = len(future.result(0).nodes)
        except (KafkaException, concurrent.futures.TimeoutError) as error:
            causes = [e for e in errors if e.code() != KafkaError._ALL_BROKERS_DOWN]
            if causes:
                reason = self.describe_error(causes[-1])
            elif time.monotonic() > deadline_s - _GRACE_S:
                reason = f"no answer within {self.limit_s:g} s"
            else:
                reason = "the connection was closed"
            raise BrokerUnreachableError(
                f"no broker answers at {self._address!r} ({reason}): check the address, whether "
                "the broker is running, and the credentials"
            ) from error
        return admin

    @cached_property
    def _all_topics(self) -> Mapping[str, TopicMetadata]:
        return self._fetch_topics()

    def _fetch_topics(self, name: str | None = None) -> Mapping[str, TopicMetadata]:
        """Return the metadata of one topic, or of all topics; empty if the name is not UTF-8."""
        if name is not None and not is_utf8(name):  # no topic has such a name
            return {}
        try:
            return dict(self._consumer.list_topics(name, timeout=self.limit_s).topics)
        except KafkaException as error:
            raise BrokerUnreachableError(
                f"the brokers at {self._address!r} did not list their topics: "
                f"{self.describe_error(error.args[0])}"
            ) from error

    def _fetch_log_offsets(
        self, partitions: Collection[tuple[str, int]], timestamp: int, quantity: str
    ) -> dict[Partition, int]:
        """Return log offsets; Kafka defines `timestamp` -2 as a log's start, and -1 as its end.

        The requests use a consumer, because an admin client would create a future per partition.
        """
        offsets = {}
        failures: Failures = {}
        for request in split_into_requests(partitions, timestamp):
            try:
                answers = self._consumer.offsets_for_times(request, timeout=self.limit_s)
            except KafkaException as error:
                for tp in request:
                    partition = Partition(tp.topic, tp.partition)
                    self.add_failure(failures, error.args[0], DESCRIBE, partition)
                continue
            for tp in answers:
                partition = Partition(tp.topic, tp.partition)
                if tp.error is not None:
                    self.add_failure(failures, tp.error, DESCRIBE, partition)
                elif tp.offset >= 0:
                    offsets[partition] = tp.offset
        self.note_failures(quantity, failures, len(partitions))
        return offsets


def is_group_refusal(message: Message) -> bool:
    """Return whether a message reports a denied group, which does not prevent reading."""
    error = message.error()
    is_refused = error is not None and error.name() == "GROUP_AUTHORIZATION_FAILED"
    return is_refused and not message.topic()


def split_into_requests(
    partitions: Collection[tuple[str, int]], offset: int
) -> Iterator[list[TopicPartition]]:
    """Yield the partitions, each with `offset`, in lists that are small enough for one request."""
    tps = [TopicPartition(*partition, offset) for partition in sorted(partitions)]
    for first in range(0, len(tps), _PARTITIONS_PER_REQUEST):
        yield tps[first : first + _PARTITIONS_PER_REQUEST]


def _parse_retention(configs: Mapping[str, str | None]) -> Retention:
    time_ms = int(configs.get("retention.ms") or -1)
    size_bytes = int(configs.get("retention.bytes") or -1)
    policy = configs.get("cleanup.policy") or ""
    return Retention(
        "delete" in policy,
        time_ms / 1000 if time_ms >= 0 else None,
        size_bytes if size_bytes >= 0 else None,
        "compact" in policy,
    )
