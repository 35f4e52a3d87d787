"""Commit a query's progress to a Kafka consumer group, so that Kafka's own tools see it.

Never in the way of the query: a thread of its own talks to the broker, with one commit in flight;
of those that wait only the newest is kept. A commit that fails is counted and told in one line,
and the next batch (or the repeated line of an idle query) tries again.

Commits go through `AdminClient.alter_consumer_group_offsets`: an OffsetCommit with generation -1
and no member. The broker takes it when the group has no members, and makes an unknown group
(ClassicGroup.validateOffsetCommit, ConsumerGroup.validateOffsetCommit, Kafka 4.1); with a live
member it refuses with UNKNOWN_MEMBER_ID, so nothing is taken from a real consumer. A `Consumer`
that commits without a subscription sends the same request, but it has no time limit and a state
machine of its own that a refusal stirs up.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from checkpoints.kafka_settings import ClientSettings, client_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

#: How long the broker may take for one commit.
COMMIT_LIMIT_S = 10.0
#: How long `flush` waits.
FLUSH_LIMIT_S = 8.0
_SHOWN = 3
_RETRY_S = 0.2
#: How long a new cluster may take to have a coordinator; less than what `flush` waits.
_COORDINATOR_LIMIT_S = 4.0
#: Errors of a coordinator that is about to be there, as in a new cluster.
PASSING = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")

_ADVICE = {
    "UNKNOWN_MEMBER_ID": "the group has live members: commit to a group that nobody subscribes "
    "with",
    "GROUP_AUTHORIZATION_FAILED": "the user of the query needs Read on this group",
    "TOPIC_AUTHORIZATION_FAILED": "the user of the query needs Read on this topic",
    "UNKNOWN_TOPIC_OR_PART": "the topic or the partition is not there",
}

Offsets = dict[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class CommitReport:
    """What became of the commits of this process so far."""

    committed: int
    failed: int
    #: Batch of the last commit that the broker took; None before the first.
    batch_id: int | None
    #: Why the last commit failed, in one line; None when it did not.
    error: str | None


@dataclass(frozen=True, slots=True)
class Commit:
    """The end offsets of one batch, for one group."""

    group: str
    batch_id: int
    offsets: Offsets


class GroupCommits:
    """The commits of one stream."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pending: Commit | None = None
        self._in_flight: Commit | None = None
        self._newest = -1
        self._java: dict[str, str] = {}
        self._report = CommitReport(0, 0, None, None)
        self._thread: threading.Thread | None = None
        # Client, what it was made for and with; of the thread alone.
        self._client: Any = None
        self._made_for: dict[str, str] = {}
        self._settings = ClientSettings({})

    def use(self, java: Mapping[str, str]) -> None:
        """Take the settings of the stream's Java client, for all commits from here on."""
        with self._changed:
            self._java = dict(java)

    def submit(self, commit: Commit) -> CommitReport:
        """Leave a commit to the thread; tells at once how those before went.

        One of an older batch than was submitted before is left out: a group never goes back.
        """
        with self._changed:
            if commit.batch_id >= self._newest:
                self._newest = commit.batch_id
                self._pending = commit
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._run, name="group-commits", daemon=True
                    )
                    self._thread.start()
                self._changed.notify_all()
            return self._report

    def flush(self, limit_s: float = FLUSH_LIMIT_S) -> CommitReport:
        """Wait until nothing is in flight nor waiting, or the limit is reached."""
        deadline = time.monotonic() + limit_s
        with self._changed:
            while waiting := self._pending or self._in_flight:
                left = deadline - time.monotonic()
                if left <= 0:
                    about = f"commit of batch {waiting.batch_id} to group {waiting.group!r}"
                    error = self._report.error or f"{about}: no answer within {limit_s:g} s"
                    return replace(self._report, error=error)
                self._changed.wait(left)
            return self._report

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._pending is None:
                    self._changed.wait()
                commit, self._pending = self._pending, None
                self._in_flight = commit
                java = self._java
            error = self._commit(commit, java)
            with self._changed:
                self._in_flight = None
                done = self._report
                self._report = (
                    CommitReport(done.committed + 1, done.failed, commit.batch_id, None)
                    if error is None
                    else replace(done, failed=done.failed + 1, error=error)
                )
                self._changed.notify_all()

    def _commit(self, commit: Commit, java: dict[str, str]) -> str | None:
        """Give one line when the commit failed, None when the broker took it."""
        about = f"commit of batch {commit.batch_id} to group {commit.group!r}"
        try:
            why = self._ask(commit, java)
        except Exception as error:  # noqa: BLE001  (whatever happens is told, the thread goes on)
            why = reason(error)
        return None if why is None else self._settings.redact(f"{about} failed{why}")

    def _ask(self, commit: Commit, java: dict[str, str]) -> str | None:
        from confluent_kafka import KafkaException

        if not commit.offsets:
            return None
        self._connect(java, commit)
        deadline = time.monotonic() + COMMIT_LIMIT_S
        while True:
            try:
                done = self._once(commit)
            except KafkaException as error:
                if not _passes(error.args[0]) or time.monotonic() > deadline:
                    raise
            else:
                bad = sorted((p for p in done if p.error), key=lambda p: (p.topic, p.partition))
                if not any(_passes(p.error) for p in bad) or time.monotonic() > deadline:
                    break
            time.sleep(_RETRY_S)
        if not bad:
            return None
        named = ", ".join(f"{p.topic}-{p.partition}" for p in bad[:_SHOWN])
        more = ", …" if len(bad) > _SHOWN else ""
        return f" for {len(bad)} of {len(done)} partitions ({named}{more}){reason(bad[0].error)}"

    def _connect(self, java: dict[str, str], commit: Commit) -> None:
        from confluent_kafka.admin import AdminClient

        if self._client is None or self._made_for != java:
            self._client = None
            self._settings = client_settings(java)
            client = AdminClient(self._settings.for_client())
            self._await_coordinator(commit)
            self._client, self._made_for = client, java

    def _await_coordinator(self, commit: Commit) -> None:
        """Wait for the coordinator of a new cluster, which a consumer does and an admin client not.

        That asks for it three times within half a second, and then its request times out.
        """
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        mine = {"group.id": commit.group, "enable.auto.commit": False}
        consumer = Consumer(self._settings.for_client(**mine))
        try:
            consumer.committed([TopicPartition(*next(iter(commit.offsets)))], _COORDINATOR_LIMIT_S)
        except KafkaException:
            pass  # the commit itself will tell why
        finally:
            consumer.close()

    def _once(self, commit: Commit) -> Any:
        """Send one request; gives the partitions, each with its error or None."""
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

        wanted = [
            TopicPartition(topic, partition, offset)
            for (topic, partition), offset in sorted(commit.offsets.items())
        ]
        request = ConsumerGroupTopicPartitions(commit.group, wanted)
        [answer] = self._client.alter_consumer_group_offsets(
            [request], request_timeout=COMMIT_LIMIT_S
        ).values()
        return answer.result(COMMIT_LIMIT_S + 2).topic_partitions


def _passes(error: Any) -> bool:
    """Whether an error is one of a coordinator that is about to be there, as in a new cluster."""
    return error is not None and error.name() in PASSING


def reason(error: Any) -> str:
    """Give `: ` and why in one line, with what to do about it where that is known."""
    inner = error.args[0] if getattr(error, "args", None) else error
    if hasattr(inner, "name") and hasattr(inner, "str"):  # a KafkaError
        advice = _ADVICE.get(inner.name())
        said = f"{inner.str()} ({advice})" if advice else str(inner.str())
    else:
        said = str(error) or type(error).__name__
    return ": " + " ".join(said.split())
