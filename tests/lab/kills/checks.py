"""What is looked at after each kill: table, checkpoint, state and group of each query."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from checkpoints.folders import LocalFolder
from checkpoints.offset_log import read_checkpoint_folder
from streaming.audit.all_checks import audit
from streaming.audit.audited_files import read_evidence
from tests.lab.kills.feed import Reference, Row
from tests.lab.kills.places import PARTITIONS, UPSERT, Query, done, in_table, planned
from tests.support import kafka_topics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from checkpoints.sticky_state import StickyState
    from tests.lab.kills.feed import Change
    from tests.lab.kills.process import Driver

#: What a first plan may move: 5% of the partitions.
MOST_MOVED = PARTITIONS // 20
#: Where a kill finds a batch: Delta commits first, then Spark's commit log.
PLACES = BEFORE, BETWEEN, AFTER = "before Delta", "after Delta", "after the log"


class Watch:
    """One query: what it was seen to have, which it must not lose, and what its table must hold."""

    def __init__(self, query: Query, sent: list[list[Change]]) -> None:
        self.query = query
        self.state: StickyState | None = None
        #: What the table of the upsert must hold, by version.
        self.expected: dict[int, list[Row]] = {}
        self._reference = Reference(sent) if query.name == UPSERT else None

    def look(self, kills: int) -> None:
        """Compare group, table, checkpoint and state after so many kills."""
        query = self.query
        group = committed(query)  # first: the query may be running
        held = held_by_table(query)
        if held.batch < 0:
            assert not group, f"{query.name}: the group is ahead of an empty table: {group}"
            return
        checkpoint = read_checkpoint_folder(LocalFolder(query.checkpoint))
        [ends] = [b.ends["0"][query.topic] for b in checkpoint.batches if b.batch_id == held.batch]
        ahead = {p: (offset, ends[p]) for p, offset in group.items() if offset > ends[p]}
        assert not ahead, f"{query.name}: the group is ahead of batch {held.batch}: {ahead}"
        expected = sum(ends.values())
        if self._reference is not None:
            self.expected[held.version] = self._reference.rows(ends)
            expected = len(self.expected[held.version])
        assert held.rows == expected, f"{query.name}: rows after batch {held.batch}"
        check_audit(query)
        assert not checkpoint.warnings
        state = checkpoint.states.get("0")
        known = state.batches if state is not None else 0
        assert known >= (self.state.batches if self.state is not None else 0)
        # A kill may cost the state of one batch, and spare the next run the planning of one.
        assert known + 2 * kills > done(query), f"{query.name}: state of {known} batches"
        self.state = state

    def partitions_moved(self, driver: Driver, state: StickyState | None) -> int | None:
        """How many the first plan of a run moved from where this state has them, few at most.

        None when the run was killed before, or has no executors to choose from.
        """
        plans = driver.plans(self.query.name)
        if not plans or state is None or not len(state.readers) == int(plans[0]["executors"]) > 1:
            return None
        moved = int(plans[0]["movedPartitions"])
        assert moved <= MOST_MOVED, (self.query.name, driver.folder, plans[0])
        return moved

    def compare(self, tables: Mapping[str, list[Row]]) -> list[int]:
        """Compare versions of the table with what they must hold, row by row; gives the counts."""
        for version, expected in self.expected.items():
            found = tables[str(version)]
            wrong = [pair for pair in zip(found, expected, strict=False) if pair[0] != pair[1]]
            assert found == expected, f"version {version}: found and expected, {wrong[:5]}"
        return [len(rows) for rows in self.expected.values()]


def check_audit(query: Query) -> None:
    """Let `assignor audit` find nothing; the upsert's commits have ranges of their own."""
    found = audit(read_evidence(str(query.table), str(query.checkpoint)))
    assert found.findings == [], f"{query.name}: {found.findings}"
    [of_query] = found.queries
    if query.name == UPSERT:
        silent = [str(b) for b in of_query.batches if not b.metadata or not b.metadata.ranges]
        assert not silent, f"{query.name}: without ranges of their own: {silent}"
    print(
        f"audit of {query.name}: {len(of_query.batches)} batches, {of_query.offsets} offsets, "
        f"records of {of_query.batches_counted} proved, "
        f"of {of_query.batches_recounted} counted again"
    )


@dataclass(frozen=True)
class Held:
    """What the log of a Delta table says."""

    #: Its newest version, -1 for no table.
    version: int
    #: Last batch whose transaction it holds, -1 for none.
    batch: int
    rows: int


def held_by_table(query: Query) -> Held:
    """Read the table's log; each batch must be in it once, in order."""
    batch, files, newest = -1, {}, in_table(query)
    for version in range(newest + 1):
        for line in (query.table / "_delta_log" / f"{version:020}.json").read_text().splitlines():
            action = json.loads(line)
            if "txn" in action:
                found = action["txn"]["version"]
                assert found == batch + 1, f"{query.name}: batch {found} came after {batch}"
                batch = found
            if "add" in action:
                files[action["add"]["path"]] = json.loads(action["add"]["stats"])["numRecords"]
            if "remove" in action:
                del files[action["remove"]["path"]]
    return Held(newest, batch, sum(files.values()))


def where_it_hit(query: Query) -> str:
    """Tell from what is on disk how far the batch had come."""
    if planned(query) == done(query):
        return AFTER
    return BETWEEN if held_by_table(query).batch == planned(query) else BEFORE


def committed(query: Query) -> dict[int, int]:
    """The group's offsets by partition."""
    found = kafka_topics.fetch_committed(query.bootstrap_servers, query.group)
    return {partition: offset for (_, partition), offset in found.items()}
