"""What the brokers are asked, in few requests for many partitions each, with one time limit.

Whatever a broker does not tell is None and one note; only brokers that do not answer, or refuse
the login, are an error. No secret of the settings is ever part of either.
"""

from __future__ import annotations

import concurrent.futures
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    ResourceType,
)

from assignor_bridge.errors import AssignorError, OptionError
from streaming.kafka.settings import ClientSettings, client_settings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from confluent_kafka.admin import TopicMetadata  # type: ignore[attr-defined]

Partition = tuple[str, int]
#: An error, and the topics or partitions that it is about.
Failure = tuple[Any, list[str]]

DESCRIBE = "Describe"
#: Errors of missing rights, with the kind of resource as Kafka's ACLs name it.
_RIGHTS = {
    "TOPIC_AUTHORIZATION_FAILED": "Topic",
    "GROUP_AUTHORIZATION_FAILED": "Group",
    "CLUSTER_AUTHORIZATION_FAILED": "Cluster",
}
_SHOWN = 3
_GRACE_S = 2.0
_POLL_S = 0.02
#: librdkafka looks each partition up in a list: one request for all would take time by the square.
_PARTITIONS_A_REQUEST = 250
#: More topics are asked for all at once, which leaves out those that may not be seen.
_TOPICS_ONE_BY_ONE = 8
#: After these the brokers will not answer any more.
_FINAL = (
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._AUTHENTICATION,
)


class BrokerUnreachableError(AssignorError):
    """No broker answers, or it refuses the login."""


@dataclass(frozen=True, slots=True)
class Retention:
    """When a topic's records are deleted."""

    #: Whether old records are deleted at all, not only compacted.
    deletes: bool
    #: None for without limit.
    time_s: float | None
    size_bytes: int | None


class _Heard:
    """What a client complains of while it connects.

    Apart from `Brokers`, so that no client is part of a cycle: the garbage collector may run in a
    thread of librdkafka, and a client that is destroyed in a thread of its own aborts the process.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self.reason = ""
        #: Whether the brokers will not answer any more.
        self.final = False

    def __call__(self, error: KafkaError) -> None:
        """Take an error from librdkafka."""
        self.final = self.final or error.code() in _FINAL
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.reason = _said(self._settings, error)


class Brokers:
    """A cluster, by an admin client.

    Parameters
    ----------
    java
        Address and login, as settings of Kafka's Java client.
    limit_s
        How long each request may take.

    Raises
    ------
    SettingsError
        When a setting has no counterpart in librdkafka.
    OptionError
        When no client can be made with the settings.
    BrokerUnreachableError
        When no broker answers, or the login is refused.
    """

    def __init__(self, java: Mapping[str, str], limit_s: float) -> None:
        self.settings = client_settings(java)
        self.limit_s = limit_s
        self._where = java["bootstrap.servers"]
        #: What could not be learned, one line each.
        self.notes: list[str] = []
        #: Topics that were asked for and are not there.
        self.gone: set[str] = set()
        #: How many there are.
        self.count = 0
        self._topics: Mapping[str, TopicMetadata] | None = None
        self.admin = self._connected()
        self._consumer = Consumer(
            self.settings.for_client(
                group_id="assignor-lag",  # librdkafka wants a name; no group is joined
                isolation_level="read_uncommitted",
                enable_auto_commit=False,
            )
        )

    def partitions(self, topics: Iterable[str]) -> dict[str, frozenset[int]]:
        """Give the partitions of topics; those that are not there are left out."""
        found = {}
        for name, topic in self._metadata(sorted(set(topics))):
            error = topic.error if topic is not None else None
            if topic is None or (error and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART):
                self.gone.add(name)
            elif error is not None:
                self.notes.append(f"topic {name!r}: {self.said(error, DESCRIBE, name)}")
            else:
                found[name] = frozenset(topic.partitions)
        return found

    def all_partitions(self) -> dict[str, frozenset[int]]:
        """Give the partitions of all topics that may be seen."""
        return {
            name: frozenset(topic.partitions)
            for name, topic in self._all_topics().items()
            if topic.error is None
        }

    def log_ranges(
        self, partitions: Collection[Partition]
    ) -> tuple[dict[Partition, int], dict[Partition, int]]:
        """Give where logs begin and where they end; unknown ones are left out."""
        begins = self._log_offsets(partitions, OFFSET_BEGINNING, "earliest offset")
        return begins, self._log_offsets(partitions, OFFSET_END, "log end offset")

    def retention(self, topics: Iterable[str]) -> dict[str, Retention]:
        """Give when topics delete records; unknown ones are left out."""
        wanted = [ConfigResource(ResourceType.TOPIC, name) for name in sorted(set(topics))]
        if not wanted:
            return {}
        found = {}
        failed: dict[str, Failure] = {}
        asked = self.admin.describe_configs(wanted, request_timeout=self.limit_s)
        for resource, future in asked.items():
            try:
                configs = self.answer(future, self.limit_s)
            except KafkaException as error:
                add_failure(failed, error.args[0], resource.name)
                continue
            found[resource.name] = _retention({n: entry.value for n, entry in configs.items()})
        self.note_all("retention", failed, len(wanted), "DescribeConfigs")
        return found

    def answer(self, future: Any, limit_s: float) -> Any:
        """Wait for what an admin client was asked for with a time limit."""
        try:
            return future.result(limit_s + _GRACE_S)
        except concurrent.futures.TimeoutError as error:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from error

    def said(self, error: KafkaError, operation: str = "", name: str = "") -> str:
        """Give what an error says, in one line without secrets.

        Parameters
        ----------
        error
            From the brokers.
        operation, name
            Which right was needed, and on what, should that be it.
        """
        kind = _RIGHTS.get(error.name())
        if kind is None or not operation:
            return _said(self.settings, error)
        return f"the user lacks {operation} on {kind}" + (f" {name!r}" if name else "")

    def note_all(
        self, what: str, failed: Mapping[str, Failure], asked: int, operation: str
    ) -> None:
        """Note what is unknown of some topics or partitions, one line a reason."""
        for error, names in failed.values():
            some = ", ".join(sorted(names)[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
            said = self.said(error, operation)
            self.notes.append(f"{what} of {len(names)} of {asked} is unknown ({some}): {said}")

    def _connected(self) -> AdminClient:
        """Make sure that a broker answers; a refused login or no listener is told at once."""
        where = self._where
        heard = _Heard(self.settings)
        made_with: dict[str, Any] = {**self.settings.for_client(), "error_cb": heard}
        try:
            admin = AdminClient(made_with)
        except (KafkaException, ValueError) as error:
            said = self.settings.redact(str(error.args[0]))
            raise OptionError(f"no Kafka client can be made for {where!r}: {said}") from error
        asked = admin.describe_cluster(request_timeout=self.limit_s)
        deadline = time.monotonic() + self.limit_s + _GRACE_S
        while not heard.final and time.monotonic() < deadline:
            admin.poll(0)  # for what it complains of
            if concurrent.futures.wait([asked], _POLL_S).done:
                break
        try:
            self.count = len(asked.result(0).nodes)
        except (KafkaException, concurrent.futures.TimeoutError) as error:
            silent = time.monotonic() > deadline - _GRACE_S
            waited = f"no answer within {self.limit_s:g} s"
            said = heard.reason or (waited if silent else "it closes the connection")
            raise BrokerUnreachableError(
                f"no broker answers at {where!r} ({said}): is the address right, the broker "
                "running and the login what it asks for?"
            ) from error
        return admin

    def _metadata(self, topics: list[str]) -> list[tuple[str, TopicMetadata | None]]:
        """Ask about each of a few topics, or about all that may be seen, then for those missing."""
        there: Mapping[str, TopicMetadata] = {}
        if self._topics is not None or len(topics) > _TOPICS_ONE_BY_ONE:
            there = self._all_topics()
        return [(name, there.get(name) or self._listed(name).get(name)) for name in topics]

    def _all_topics(self) -> Mapping[str, TopicMetadata]:
        if self._topics is None:
            self._topics = self._listed(None)
        return self._topics

    def _listed(self, topic: str | None) -> Mapping[str, TopicMetadata]:
        try:
            found = (
                self._consumer.list_topics(timeout=self.limit_s)
                if topic is None
                else self._consumer.list_topics(topic, self.limit_s)
            )
        except KafkaException as error:
            raise BrokerUnreachableError(
                f"the brokers at {self._where!r} do not tell their topics: "
                f"{self.said(error.args[0])}"
            ) from error
        topics: Mapping[str, TopicMetadata] = found.topics
        return topics

    def _log_offsets(
        self, partitions: Collection[Partition], which: int, what: str
    ) -> dict[Partition, int]:
        """Ask ListOffsets, whose times -2 and -1 stand for the begin and the end of a log.

        Through a consumer: an admin client makes a future a partition, which takes longer.
        """
        wanted = [TopicPartition(*partition, which) for partition in sorted(partitions)]
        found = {}
        failed: dict[str, Failure] = {}
        for some in in_requests(wanted):
            try:
                answer = self._consumer.offsets_for_times(some, timeout=self.limit_s)
            except KafkaException as error:
                for tp in some:
                    add_failure(failed, error.args[0], f"{tp.topic}-{tp.partition}")
                continue
            for tp in answer:
                if tp.error is not None:
                    add_failure(failed, tp.error, f"{tp.topic}-{tp.partition}")
                elif tp.offset >= 0:
                    found[tp.topic, tp.partition] = tp.offset
        self.note_all(what, failed, len(wanted), DESCRIBE)
        return found


def in_requests(wanted: list[TopicPartition]) -> Iterator[list[TopicPartition]]:
    """Divide what is wanted into as many partitions as one request should ask for."""
    for first in range(0, len(wanted), _PARTITIONS_A_REQUEST):
        yield wanted[first : first + _PARTITIONS_A_REQUEST]


def _said(settings: ClientSettings, error: KafkaError) -> str:
    return settings.redact(" ".join(str(error.str()).split()))


def add_failure(failed: dict[str, Failure], error: Any, name: str) -> None:
    """Put a topic or partition beside the others that failed alike."""
    failed.setdefault(error.name(), (error, []))[1].append(name)


def _retention(configs: Mapping[str, str | None]) -> Retention:
    time_ms = int(configs.get("retention.ms") or -1)
    size = int(configs.get("retention.bytes") or -1)
    return Retention(
        "delete" in (configs.get("cleanup.policy") or ""),
        time_ms / 1000 if time_ms >= 0 else None,
        size if size >= 0 else None,
    )
