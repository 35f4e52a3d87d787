"""The planner's state beside the checkpoint: kept, read again, never in the way when it is bad."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from checkpoints.state_text import VERSION
from tests.support import planner_proxy
from tests.support.java_program import compile_programs, run_java
from tests.support.small_disk import NotPossibleError, fill_up, mount_small_disk, remount
from tests.support.spark_tools import assert_each_row_once, run_in_batches, run_to_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from tests.support.kafka_topics import Topic
    from tests.support.spark_tools import DriverLog

# Among the drivers, so that both halves of `make test` take about as long.
pytestmark = [pytest.mark.integration, pytest.mark.drivers]

COUNTS = [60, 60, 60]
FUTURE = "999999.v99"


def folder_of(checkpoint: str) -> Path:
    return Path(checkpoint) / "sources" / "0" / "assignments"


def files(checkpoint: str) -> list[Path]:
    """State files, oldest first."""
    found = folder_of(checkpoint).glob("[0-9]*.v[0-9]*")
    return sorted(found, key=lambda path: int(path.name.partition(".")[0]))


def damage(how: str, path: Path) -> None:
    """Leave something else than a state under this name, and no checksum of Hadoop's beside it."""
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    content = path.read_bytes()
    if how == "directory":
        path.unlink()
        path.mkdir()
    elif how == "flipped":
        middle = len(content) // 2
        flipped = bytes([content[middle] ^ 1])
        path.write_bytes(content[:middle] + flipped + content[middle + 1 :])
    else:
        path.write_bytes({"empty": b"", "truncated": content[:-9]}[how])


@pytest.fixture
def state_disk(checkpoint: str) -> Iterator[Path]:
    """The folder of state files on a file system of its own, of 64 KiB."""
    try:
        with mount_small_disk(folder_of(checkpoint), "64k") as folder:
            yield folder
    except NotPossibleError as error:
        pytest.skip(str(error))


BATCHED = {"assignor": "lag-aware-sticky", "maxOffsetsPerTrigger": "40"}


def test_a_restart_goes_on_with_the_state_of_the_last_completed_batch(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    tmp_path: Path,
    planner: Callable[[str], None],
    record: Path,
    driver_log: DriverLog,
) -> None:
    topic.create(3).fill(COUNTS)
    table = str(tmp_path / "table")
    planner("record")
    run_to_table(spark, topic, checkpoint, table, **BATCHED)
    last = planner_proxy.read_plans(record)[-1]["state"]
    assert len(planner_proxy.read_plans(record)) == 5
    assert len(files(checkpoint)) == 3
    newest = files(checkpoint)[-1]
    assert newest.read_text() == last
    future = folder_of(checkpoint) / FUTURE
    future.write_text("QUJzCQAAAAAAAAAA")
    leftover = folder_of(checkpoint) / ".7.v1.0b5c.tmp"
    leftover.write_text("of a driver that was killed")

    record.unlink()
    topic.fill(COUNTS, first=60)
    run_to_table(spark, topic, checkpoint, table, **BATCHED)

    assert planner_proxy.read_snapshots(record)[0]["state"] == last
    [warning] = driver_log.lines("cannot use its stored state")
    assert f"{FUTURE}: the state has version 9, newer" in warning
    assert f"with the older {newest.name}" in warning
    assert future.exists()
    assert len(files(checkpoint)) == 4
    # The newer version, once it is back, takes the newest that it can read: what this one wrote.
    assert all(path.name.endswith(f".v{VERSION}") for path in files(checkpoint)[-3:])
    assert files(checkpoint)[0] == future
    assert not leftover.exists()
    assert not driver_log.lines("could not save its state")
    assert_each_row_once(spark, table, [120, 120, 120])


@pytest.mark.parametrize(
    ("newest", "second"),
    [
        pytest.param("truncated", "directory", marks=pytest.mark.long),
        ("flipped", "empty"),
    ],
)
def test_bad_state_files_are_passed_over_with_one_warning(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    tmp_path: Path,
    planner: Callable[[str], None],
    record: Path,
    driver_log: DriverLog,
    newest: str,
    second: str,
) -> None:
    topic.create(3).fill(COUNTS)
    table = str(tmp_path / "table")
    in_three = BATCHED | {"maxOffsetsPerTrigger": "60"}
    run_to_table(spark, topic, checkpoint, table, **in_three)
    good, *bad = files(checkpoint)
    kept = good.read_text()
    for how, path in zip((second, newest), bad, strict=True):
        damage(how, path)

    planner("record")
    topic.fill(COUNTS, first=60)
    run_to_table(spark, topic, checkpoint, table, **in_three)

    assert planner_proxy.read_snapshots(record)[0]["state"] == kept
    [warning] = driver_log.lines("cannot use its stored state")
    assert f"with the older {good.name}" in warning
    assert all(f"assignments/{path.name}: " in warning for path in bad)
    assert not driver_log.lines("could not plan")
    assert not driver_log.lines("could not save its state")
    assert_each_row_once(spark, table, [120, 120, 120])


def test_a_state_of_other_topics_is_told_and_left_aside(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    tmp_path: Path,
    planner: Callable[[str], None],
    record: Path,
    driver_log: DriverLog,
) -> None:
    from tests.support.kafka_topics import Topic as AnyTopic

    topic.create(1).fill([20])
    other = AnyTopic(topic.bootstrap_servers, f"{topic.name}-other").create(1)
    other.fill([20])
    run_in_batches(spark, topic, checkpoint)
    second = str(tmp_path / "second")
    shutil.copytree(folder_of(checkpoint), folder_of(second))

    planner("record")
    _, rows = run_in_batches(spark, other, second)

    assert rows == 20
    assert planner_proxy.read_snapshots(record)[0]["state"] is None
    [warning] = driver_log.lines("cannot use its stored state")
    assert "plans without" in warning
    assert f"belongs to topics {topic.name};" in warning


@pytest.mark.long
def test_a_folder_that_cannot_be_written_is_told_once_and_the_query_runs(
    spark: SparkSession, topic: Topic, checkpoint: str, driver_log: DriverLog
) -> None:
    topic.create(3).fill(COUNTS)
    folder_of(checkpoint).parent.mkdir(parents=True)
    folder_of(checkpoint).write_text("a file where the folder should be")

    progresses, rows = run_in_batches(spark, topic, checkpoint)

    assert rows == sum(COUNTS)
    assert len(progresses) == 5
    assert {p["sources"][0]["metrics"]["assignor.strategy"] for p in progresses} == {
        "lag-aware-sticky"
    }
    [warning] = driver_log.lines("could not save its state")
    assert "/assignments/" in warning


@pytest.mark.parametrize("trouble", [pytest.param("full", marks=pytest.mark.long), "read-only"])
def test_a_disk_that_takes_nothing_is_told_once_and_the_query_runs(
    spark: SparkSession,
    topic: Topic,
    checkpoint: str,
    state_disk: Path,
    driver_log: DriverLog,
    trouble: str,
) -> None:
    topic.create(3).fill(COUNTS)
    if trouble == "full":
        fill_up(state_disk)
    else:
        assert remount(state_disk, "ro")

    progresses, rows = run_in_batches(spark, topic, checkpoint)

    assert rows == sum(COUNTS)
    assert {p["sources"][0]["metrics"]["assignor.fallbacks"] for p in progresses} == {"0"}
    [warning] = driver_log.lines("could not save its state")
    assert {"full": "No space left", "read-only": "Read-only"}[trouble] in warning
    assert {path.name for path in state_disk.iterdir()} <= {"filler"}


def _checked(tmp_path: Path, what: str, kept: Path) -> tuple[str, set[str]]:
    """Write ten states where something fails: what was told, and the files that are there then."""
    classes = compile_programs(tmp_path / "classes", "StateChecks")
    done = run_java(classes, "state.StateChecks", what, str(kept))
    return done.stdout + done.stderr, {p.name for p in (kept / "assignments").glob("[0-9]*")}


@pytest.mark.long
def test_a_state_that_cannot_be_deleted_is_told_once_and_keeps_no_others(tmp_path: Path) -> None:
    """It was taken for a failure to save, in each batch, and nothing behind it was deleted."""
    told, names = _checked(tmp_path, "locked", tmp_path / "kept")
    assert names == {"0.v2", "7.v2", "8.v2", "9.v2"}
    assert told.count("could not delete its old state") == 1
    assert "could not save its state" not in told


@pytest.mark.long
@pytest.mark.parametrize("what", ["unlisted", "silent"])
def test_a_folder_that_could_not_be_listed_gets_no_states_below_those_it_has(
    tmp_path: Path, what: str
) -> None:
    """Numbers began at 0 again, so that the next start took the old state for the newest.

    And a server that took too long was an interrupt of the thread, which ended the query.
    """
    folder = tmp_path / "kept" / "assignments"
    folder.mkdir(parents=True)
    (folder / "50002.v2").write_text("of the run before")
    told, names = _checked(tmp_path, what, tmp_path / "kept")
    assert names == {"50009.v2", "50010.v2", "50011.v2"}
    assert told.count("cannot use its stored state") == 1
    assert told.count("could not save its state") == 1
