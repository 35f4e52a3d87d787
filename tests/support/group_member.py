"""A consumer of kafka-python in a process of its own: `python -m tests.support.group_member JSON`.

Prints one line of JSON for each event; ends when its standard input ends.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from typing import Any

from kafka import KafkaConsumer
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from assignor_bridge.consumer_groups import assignor

#: kafka-python's own assignors, by the names that settings use for them.
KAFKA_PYTHON = {
    f"kafka-python-{each.name}": each
    for each in (
        CooperativeStickyAssignor, RangePartitionAssignor, RoundRobinPartitionAssignor,
        StickyPartitionAssignor,
    )
}  # fmt: skip


def hide_generation(listed: Any) -> None:
    """Hide the generation from an assignor: the negative control of the zombie's test."""
    on_assignment = listed.on_assignment
    listed.on_assignment = lambda assignment, _generation: on_assignment(assignment, -1)


def add_user_data(listed: Any) -> None:
    """Let an assignor send user data with its assignments, which ours and Kafka's do not."""
    assign = listed.assign

    def assign_with_user_data(cluster: Any, members: Any) -> Any:
        answer = assign(cluster, members)
        for assignment in answer.values():
            assignment.user_data = b"state"
        return answer

    listed.assign = assign_with_user_data


class Listener(AsyncConsumerRebalanceListener):
    def __init__(self, member: GroupMember) -> None:
        self.member = member

    async def on_partitions_revoked(self, revoked: Any) -> None:
        if revoked and self.member.reads:
            await self.member.consumer.commit_async()
        self.member.report("revoked", revoked)

    async def on_partitions_assigned(self, assigned: Any) -> None:
        if assigned and not self.member.reads:
            self.member.consumer.pause(*assigned)
        self.member.report("assigned", assigned)

    async def on_partitions_lost(self, lost: Any) -> None:
        self.member.report("lost", lost)


class GroupMember:
    def __init__(self, settings: dict[str, Any]) -> None:
        self.reads = settings.get("reads", False)
        self.poll_ms = settings.get("poll_ms", 100)
        facts = settings.get("facts", {})
        listed = [
            KAFKA_PYTHON[name]() if name in KAFKA_PYTHON else assignor(name, **facts)
            for name in settings["strategies"]
        ]
        for each in listed:
            if settings.get("assignment_user_data"):
                add_user_data(each)
            if settings.get("no_generation"):
                hide_generation(each)
        self.consumer = KafkaConsumer(
            bootstrap_servers=settings["bootstrap"], group_id=settings["group"],
            client_id=settings["name"], group_instance_id=settings.get("instance"),
            partition_assignment_strategy=listed, auto_offset_reset="earliest",
            enable_auto_commit=False, session_timeout_ms=settings["session_ms"],
            heartbeat_interval_ms=200, max_poll_records=20,
            metadata_max_age_ms=settings.get("metadata_ms", 1000),
        )  # fmt: skip
        self.consumer.subscribe(settings["topics"], listener=Listener(self))

    def report(self, event: str, partitions: Any = (), **more: Any) -> None:
        names = sorted(f"{p.topic}-{p.partition}" for p in partitions)
        line = {"event": event, "at": time.time(), "partitions": names, **more}
        print(json.dumps(line), flush=True)

    def run(self, ended: threading.Event) -> None:
        while not ended.is_set():
            batch = self.consumer.poll(timeout_ms=self.poll_ms)
            for partition, records in batch.items():
                self.report("read", [partition], offsets=[record.offset for record in records])
            if batch:
                try:
                    self.consumer.commit()
                except Exception as error:  # noqa: BLE001  (in a rebalance: the listener commits)
                    self.report("uncommitted", error=repr(error))
                time.sleep(0.02)
        self.report("closing")
        self.consumer.close()
        self.report("closed")


def main() -> None:
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    GroupMember(json.loads(sys.argv[1])).run(ended)


if __name__ == "__main__":
    main()
