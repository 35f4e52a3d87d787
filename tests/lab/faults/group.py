"""The consumer group that a query commits to: never ahead of what is complete in its checkpoint."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, TopicPartition

from checkpoints.folders import LocalFolder
from checkpoints.log_files import KafkaOffsets
from checkpoints.offset_log import read_checkpoint_folder, read_last_batches
from tests.lab.faults.feed import PARTITIONS
from tests.support.kafka_topics import fetch_committed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.kafka_topics import Topic

#: So long a group's coordinator is waited for while batches are; it may be what is broken.
_LOOK_S = 3.0


class Group:
    """A new group; each look at it compares it with the checkpoint."""

    def __init__(self, topic: Topic, checkpoint: Path) -> None:
        self.name = f"faults-{uuid.uuid4().hex[:8]}"
        #: How often it was compared with the checkpoint while batches ran.
        self.looks = 0
        self._topic = topic
        self._folder = LocalFolder(checkpoint)
        self._client: Consumer | None = None
        self._ends: dict[int, dict[str, KafkaOffsets]] = {}

    def look(self) -> dict[int, int]:
        """Return what is committed, by partition; it is complete in the checkpoint."""
        found = fetch_committed(self._topic.bootstrap_servers, self.name)
        return self._not_ahead({partition: offset for (_, partition), offset in found.items()})

    def stands(self) -> dict[int, int]:
        """Return what is committed, but offsets of 0."""
        return {p: offset for p, offset in self.look().items() if offset}

    def glance(self) -> None:
        """Look at some partitions, by a client that stays; one that joins nothing."""
        if self._client is None:
            servers = self._topic.bootstrap_servers
            settings = {"bootstrap.servers": servers, "group.id": self.name, "log_level": 0}
            self._client = Consumer(settings)
        asked = [TopicPartition(self._topic.name, p) for p in range(PARTITIONS + 5)]
        try:
            found = self._client.committed(asked, timeout=_LOOK_S)
        except KafkaException:  # the coordinator cannot be asked now
            return
        self._not_ahead({tp.partition: tp.offset for tp in found if tp.offset >= 0})
        self.looks += any(tp.offset > 0 for tp in found)

    def _not_ahead(self, group: dict[int, int]) -> dict[int, int]:
        """Read the checkpoint, after the group: a batch that is complete meanwhile is no error."""
        ends = self._completed_ends()
        ahead = {p: (offset, ends.get(p)) for p, offset in group.items() if offset > ends.get(p, 0)}
        assert not ahead, f"the group is ahead of the checkpoint: {ahead}"
        return group

    def _completed_ends(self) -> dict[int, int]:
        """Where the last batch ended that is complete in the checkpoint."""
        last = read_last_batches(self._folder)
        if last.completed_batch_id is None:
            return {}
        if last.planned_batch is not None:
            self._ends[last.planned_batch.batch_id] = last.planned_batch.ends
        ends = self._ends.get(last.completed_batch_id)
        if ends is None:  # it was planned when nobody looked
            done = read_checkpoint_folder(self._folder).last_committed
            ends = done.ends if done else {}
        return ends.get("0", {}).get(self._topic.name, {})
