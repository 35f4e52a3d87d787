"""Functions that each put one fault into a table or checkpoint, with the expected findings."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Action = dict[str, Any]
OTHER = "00000000-0000-4000-8000-00000000000b"


@dataclass(frozen=True)
class Copy:
    """A copy of a table and its query's checkpoint; version N + 1 of the table is batch N."""

    table: Path
    checkpoint: Path

    def to(self, folder: Path) -> Copy:
        copy = Copy(folder / "table", folder / "checkpoint")
        shutil.copytree(self.table, copy.table)
        shutil.copytree(self.checkpoint, copy.checkpoint)
        return copy

    @property
    def log(self) -> Path:
        return self.table / "_delta_log"

    @property
    def last(self) -> int:
        return max(int(path.stem) for path in self.log.glob("*.json"))

    def path(self, version: int) -> Path:
        return self.log / f"{version:020}.json"

    def read(self, version: int) -> list[Action]:
        return [json.loads(line) for line in self.path(version).read_text().splitlines()]

    def write(self, version: int, actions: list[Action]) -> None:
        self.path(version).write_text("\n".join(json.dumps(action) for action in actions))

    def commit(self, *actions: Action) -> None:
        self.write(self.last + 1, list(actions))

    def add(self, version: int) -> Action:
        return next(a["add"] for a in self.read(version) if "add" in a)

    def copy_file(self, version: int) -> Action:
        """Copy the first file that a version adds, and return the action to add the copy."""
        add = self.add(version)
        name = add["path"].replace("part-00000", "part-00099")
        shutil.copy(self.table / add["path"], self.table / name)
        return {**add, "path": name}

    def edit_metadata(self, version: int, change: Callable[[dict[str, Any]], None]) -> None:
        """Change the metadata that our sink wrote to a commit."""
        actions = self.read(version)
        info = actions[0]["commitInfo"]
        metadata = json.loads(info["userMetadata"])
        change(metadata["assignor"])
        info["userMetadata"] = json.dumps(metadata)
        self.write(version, actions)

    def edit_ranges(self, version: int, begin: int = 0, end: int = 0) -> None:
        def change(metadata: dict[str, Any]) -> None:
            [topics] = metadata["ranges"].values()
            [partitions] = topics.values()
            number = sorted(partitions)[0]
            low, high = partitions[number]
            partitions[number] = [low + begin, high + end]

        self.edit_metadata(version, change)

    def forget_offsets(self) -> None:
        """Delete all but the last batches from the checkpoint, as Spark does after 100 batches."""
        for name in ("offsets", "commits"):
            for path in (self.checkpoint / name).iterdir():
                if path.name.isdigit() and int(path.name) < self.last - 1:
                    path.unlink()

    def set_back(self, batch: int) -> None:
        """Delete all batches after this one from the checkpoint."""
        for name in ("offsets", "commits"):
            for path in (self.checkpoint / name).iterdir():
                if path.name.isdigit() and int(path.name) > batch:
                    path.unlink()

    def forget_checksums(self) -> None:
        """Delete the `.crc` files, which not all engines write."""
        for path in self.log.glob("*.crc"):
            path.unlink()

    def drop(self, version: int) -> None:
        """Remove a version, and renumber the later ones."""
        self.forget_checksums()
        last = self.last
        self.path(version).unlink()
        for later in range(version + 1, last + 1):
            self.path(later).rename(self.path(later - 1))


def info(operation: str, **more: Any) -> Action:
    return {"commitInfo": {"timestamp": 1, "operation": operation, **more}}


def gap(copy: Copy) -> None:
    copy.forget_offsets()
    copy.edit_ranges(3, begin=2)


def gap_against_the_offset_log(copy: Copy) -> None:
    copy.edit_ranges(3, begin=2)


def overlap(copy: Copy) -> None:
    copy.forget_offsets()
    copy.edit_ranges(3, begin=-2)


def first_offsets_missing(copy: Copy) -> None:
    copy.forget_offsets()
    copy.edit_ranges(1, begin=2)


def topic_recreated(copy: Copy) -> None:
    copy.forget_offsets()
    copy.edit_ranges(copy.last, end=-1000)


def batch_missing(copy: Copy) -> None:
    copy.drop(3)


def first_batch_missing(copy: Copy) -> None:
    copy.drop(1)


def batch_twice(copy: Copy) -> None:
    actions = [action for action in copy.read(3) if "add" not in action]
    copy.commit(*actions, {"add": copy.copy_file(3)})


def batches_out_of_order(copy: Copy) -> None:
    copy.forget_checksums()
    three, four = copy.read(3), copy.read(4)
    copy.write(3, four)
    copy.write(4, three)


def ranges_of_another_batch(copy: Copy) -> None:
    copy.edit_metadata(3, lambda metadata: metadata.update(batch=0))


def ranges_of_another_query(copy: Copy) -> None:
    copy.edit_metadata(3, lambda metadata: metadata.update(query=OTHER))


def no_ranges(copy: Copy) -> None:
    copy.forget_offsets()
    actions = copy.read(2)
    del actions[0]["commitInfo"]["userMetadata"]
    copy.write(2, actions)


def another_querys_batch(copy: Copy) -> None:
    actions = [action for action in copy.read(3) if "add" not in action]
    [txn] = [action["txn"] for action in actions if "txn" in action]
    txn |= {"appId": f"assignor-{OTHER}", "version": 0}
    copy.commit(*actions, {"add": copy.copy_file(3)})
    copy.edit_metadata(copy.last, lambda metadata: metadata.update(query=OTHER, batch=0))


def older_checkpoint(copy: Copy) -> None:
    copy.set_back(1)


def older_table(copy: Copy) -> None:
    for _ in range(2):
        (copy.log / f"{copy.last:020}.crc").unlink(missing_ok=True)
        copy.path(copy.last).unlink()


def table_recreated(copy: Copy) -> None:
    for version in range(copy.last, 0, -1):
        (copy.log / f"{version:020}.crc").unlink(missing_ok=True)
        copy.path(version).unlink()


def checkpoint_of_another_query(copy: Copy) -> None:
    (copy.checkpoint / "metadata").write_text(json.dumps({"id": OTHER}))


def restore(copy: Copy, parameters: dict[str, Any]) -> None:
    removes = [
        {"remove": {"path": copy.add(version)["path"], "dataChange": True}}
        for version in range(3, copy.last + 1)
    ]
    copy.commit(info("RESTORE", operationParameters=parameters), *removes)


def restored(copy: Copy) -> None:
    restore(copy, {"version": 2, "timestamp": None})


def restored_to_a_time(copy: Copy) -> None:
    restore(copy, {"version": None, "timestamp": "2026-11-22 20:00:00"})


def restored_from_before_the_log(copy: Copy) -> None:
    log_cleaned_up(copy)
    copy.commit(info("RESTORE", operationParameters={"version": None, "timestamp": "2026-01-01"}))


def another_writers_append(copy: Copy) -> None:
    copy.commit(info("WRITE", operationParameters={"mode": "Append"}), {"add": copy.copy_file(2)})


def another_writers_append_under_our_ranges(copy: Copy) -> None:
    copy.commit(copy.read(2)[0], {"add": copy.copy_file(2)})


def another_writers_transaction(copy: Copy) -> None:
    txn = {"txn": {"appId": "nightly", "version": 1}}
    copy.commit(info("WRITE"), txn, {"add": copy.copy_file(2)})


def rows_deleted(copy: Copy) -> None:
    remove = {"remove": {"path": copy.add(2)["path"], "dataChange": True}}
    copy.commit(info("DELETE"), remove)


def rows_changed(copy: Copy) -> None:
    remove = {"remove": {"path": copy.add(2)["path"], "dataChange": True}}
    copy.commit(info("UPDATE"), remove, {"add": {**copy.copy_file(2), "stats": None}})


def rows_deleted_by_a_vector(copy: Copy) -> None:
    add = copy.add(2)
    vector = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "cardinality": 3}
    remove = {"remove": {"path": add["path"], "dataChange": True}}
    copy.commit(info("DELETE"), remove, {"add": {**add, "deletionVector": vector}})


def file_lost(copy: Copy) -> None:
    (copy.table / copy.add(2)["path"]).unlink()


def file_truncated(copy: Copy) -> None:
    path = copy.table / copy.add(2)["path"]
    path.write_bytes(path.read_bytes()[:-10])


def file_in_two_commits(copy: Copy) -> None:
    copy.write(4, [*copy.read(4), {"add": copy.add(2)}])


def file_copied_into_a_batch(copy: Copy) -> None:
    copy.write(4, [*copy.read(4), {"add": copy.copy_file(4)}])


def file_left_out_of_a_batch(copy: Copy) -> None:
    copy.write(4, [action for action in copy.read(4) if "add" not in action])


def rows_added_to_a_batch(copy: Copy) -> None:
    actions = copy.read(4)
    for action in actions:
        if "add" in action:
            stats = json.loads(action["add"]["stats"])
            action["add"]["stats"] = json.dumps({**stats, "numRecords": stats["numRecords"] + 1})
    copy.write(4, actions)


def offsets_of_another_batch(copy: Copy) -> None:
    """Change the statistics of a file whose rows have Kafka's columns."""
    actions = copy.read(4)
    metadata = json.loads(actions[0]["commitInfo"]["userMetadata"])["assignor"]
    [[topic, partitions]] = metadata["ranges"]["0"].items()
    number, [begin, end] = next(iter(partitions.items()))
    for action in actions:
        if "add" in action:
            stats = json.loads(action["add"]["stats"])
            stats["minValues"] = {"topic": topic, "partition": int(number), "offset": begin}
            stats["maxValues"] = {"topic": topic, "partition": int(number), "offset": end}
            action["add"]["stats"] = json.dumps(stats)
    copy.write(4, actions)


def compaction_that_lost_rows(copy: Copy) -> None:
    removes = [
        {"remove": {"path": copy.add(version)["path"], "dataChange": False}} for version in (2, 3)
    ]
    copy.commit(info("OPTIMIZE"), *removes, {"add": {**copy.copy_file(2), "dataChange": False}})


def other_records(copy: Copy) -> None:
    def change(metadata: dict[str, Any]) -> None:
        [topics] = metadata["ranges"].values()
        [partitions] = topics.values()
        records = sum(end - begin for begin, end in partitions.values())
        metadata["counted"] = {"records": records, "checksum": "0123456789abcdef"}

    copy.edit_metadata(3, change)


def log_cleaned_up(copy: Copy) -> None:
    for version in range(3):
        copy.path(version).unlink()


def commit_deleted(copy: Copy) -> None:
    copy.path(3).unlink()


def commit_truncated(copy: Copy) -> None:
    text = copy.path(3).read_text()
    copy.path(3).write_text(text[: len(text) // 2])


def commit_emptied(copy: Copy) -> None:
    copy.path(3).write_text("")


#: The kinds of findings that each fault causes.
FAULTS: dict[Callable[[Copy], None], set[str]] = {
    gap: {"gap"},
    gap_against_the_offset_log: {"gap", "ranges-mismatch"},
    overlap: {"overlap"},
    first_offsets_missing: {"gap"},
    topic_recreated: {"range-reversed"},
    batch_missing: {"batch-missing"},
    first_batch_missing: {"batch-missing"},
    batch_twice: {"batch-twice"},
    batches_out_of_order: {"batch-order"},
    ranges_of_another_batch: {"batch-mismatch"},
    ranges_of_another_query: {"batch-mismatch"},
    no_ranges: {"no-ranges"},
    another_querys_batch: {"query-overlap"},
    older_checkpoint: {"checkpoint-behind"},
    older_table: {"table-behind"},
    table_recreated: {"table-behind"},
    checkpoint_of_another_query: {"other-query"},
    restored: {"restored"},
    restored_to_a_time: {"restored"},
    restored_from_before_the_log: {"log-begins-late", "restored-unknown"},
    another_writers_append: {"foreign-rows", "file-doubled"},
    another_writers_append_under_our_ranges: {"foreign-rows", "file-doubled"},
    another_writers_transaction: {"foreign-rows", "file-doubled"},
    rows_deleted: {"rows-changed"},
    rows_changed: {"rows-changed"},
    rows_deleted_by_a_vector: {"rows-changed"},
    file_lost: {"file-lost"},
    file_truncated: {"file-changed"},
    file_in_two_commits: {"file-doubled", "count-mismatch"},
    offsets_of_another_batch: {"rows-outside"},
    file_copied_into_a_batch: {"file-doubled", "count-mismatch", "state-mismatch"},
    file_left_out_of_a_batch: {"count-mismatch", "state-mismatch"},
    rows_added_to_a_batch: {"count-mismatch"},
    compaction_that_lost_rows: {"compaction-rows"},
    other_records: {"records-mismatch"},
    log_cleaned_up: {"log-begins-late"},
    commit_deleted: {"commit-missing", "batch-missing"},
    commit_truncated: {"commit-damaged", "batch-missing"},
    commit_emptied: {"commit-damaged", "batch-missing"},
}
