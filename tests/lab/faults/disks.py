"""Faults of disks: full, or read-only, for the state, the checkpoint, Delta's table and a broker.

Each is a small file system in memory, mounted where the files are.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lab.faults.harm import CLUSTER, Kind
from tests.support.small_disk import fill_up, mount_small_disk, remount
from tests.support.spark_tools import DriverLog, wait_until

if TYPE_CHECKING:
    from tests.lab.faults.harm import Harm
    from tests.lab.faults.scene import Scene

#: How large a file system is, by what it holds.
SIZES = {"state": "256k", "checkpoint": "64m", "table": "64m"}
#: What a broker gets beside the records of all faults before, in MB.
_BROKER_MB = 128


def folder_of(disk: str, scene: Scene) -> Path:
    """Where the file system is mounted; that of a table or checkpoint holds Spark's, too."""
    if disk == "state":
        return Path(scene.checkpoint) / "sources" / "0" / "assignments"
    return Path(scene.table if disk == "table" else scene.checkpoint).parent


def state_disk_full(harm: Harm) -> None:
    """Fill the disk of the planner's state up, and empty it again."""
    disk, log = _disk(harm), _driver_log(harm)
    filler = fill_up(disk)
    wait_until(lambda: log.lines("could not save its state"), "a warning")
    before = _newest(disk)
    harm.scene.wait_for_batches(3)
    assert len(log.lines("could not save its state")) == 1
    filler.unlink()
    wait_until(lambda: _newest(disk) > before, "a newer state")
    harm.scene.wait_for_batches()


def table_disk_full(harm: Harm) -> None:
    """Fill the disk of the Delta table up, and empty it when the query has failed."""
    filler = fill_up(_disk(harm))
    _end_with(harm, "No space left")
    filler.unlink()
    _start_again(harm)


def checkpoint_disk_full(harm: Harm) -> None:
    """Fill the disk of the checkpoint up in a batch, and empty it when the query has failed."""

    def filled() -> Path | None:
        """Fill it up within a batch; None when that one was over before the disk was full."""
        if not harm.scene.is_in_a_batch():
            return None
        filler = fill_up(_disk(harm))
        if harm.scene.is_in_a_batch():
            return filler
        filler.unlink()
        return None

    filler = wait_until(filled, "a full disk within a batch")
    _end_with(harm, "No space left")
    filler.unlink()
    _start_again(harm)


def checkpoint_read_only(harm: Harm) -> None:
    """Make the checkpoint read-only in a batch, and writable when the query has failed."""
    disk = _disk(harm)
    wait_until(
        lambda: harm.scene.is_in_a_batch() and remount(disk, "ro"),
        "a moment in a batch at which no file is written",
    )
    _end_with(harm, "Read-only file system")
    assert remount(disk, "rw")
    _start_again(harm)


def broker_disk_full(harm: Harm) -> None:
    """Fill a broker's disk up, so that it ends; empty it and start the broker again."""
    brokers, broker = harm.brokers, harm.scene.rng.choice(list(harm.brokers.ids))
    log = brokers.log_folder(broker)
    aside = log.with_name("aside")
    brokers.stop(broker)
    log.rename(aside)
    try:
        with mount_small_disk(log, f"{_BROKER_MB + _used_mb(aside)}m") as disk:
            _copy(aside, disk)
            brokers.start(broker)
            filler = fill_up(disk)
            wait_until(lambda: brokers.pid(broker) is None, "the broker to end", 120)
            harm.scene.wait_for_batches(3, 180)
            filler.unlink()
            brokers.start(broker)
            harm.scene.wait_for_batches(3, 180)
            brokers.stop(broker)
            shutil.rmtree(aside)
            _copy(disk, aside)
    finally:
        if brokers.pid(broker) is not None:
            brokers.kill(broker)
        shutil.rmtree(log)
        aside.rename(log)
    brokers.start(broker)
    harm.scene.wait_for_batches()


def _copy(source: Path, target: Path) -> None:
    """Copy files whose pages are mostly empty, as a broker's indexes are."""
    target.mkdir(exist_ok=True)
    copy = ["cp", "--archive", "--sparse=always", f"{source}/.", str(target)]
    subprocess.run(copy, check=True)


def _used_mb(folder: Path) -> int:
    """MB of the blocks of all files: what they are long is mostly nothing, as of indexes."""
    return sum(path.stat().st_blocks for path in folder.rglob("*")) * 512 // 2**20


def _disk(harm: Harm) -> Path:
    assert harm.disk is not None
    return harm.disk


def _driver_log(harm: Harm) -> DriverLog:
    return DriverLog(Path(harm.scene.setting("assignor.test.log")))


def _newest(folder: Path) -> int:
    """Number of the newest state file."""
    numbers = [path.name.partition(".")[0] for path in folder.glob("[0-9]*.v[0-9]*")]
    return max(map(int, numbers), default=-1)


def _end_with(harm: Harm, words: str) -> None:
    """See each query end with this error; the group is not ahead then."""
    for scene in harm.scenes:
        text = _causes(scene.failure())
        assert words in text, text
        harm.errors[scene.name] = words
    harm.scene.group.look()  # which fails if it is


def _causes(error: Any) -> str:
    """All that the chain of causes says: what failed on an executor is told far below."""
    cause, texts = error._origin, []
    while cause is not None:
        texts.append(str(cause.getMessage()))
        cause = cause.getCause()
    return " | ".join(texts)


def _start_again(harm: Harm) -> None:
    for scene in harm.scenes:
        scene.start()
    for scene in harm.scenes:
        scene.wait_for_batches()


_FAILS = "the error of Spark's own source; after a start nothing is lost, nothing comes twice"
KINDS = (
    Kind("state disk full", CLUSTER, state_disk_full, disk="state"),
    Kind("table disk full", CLUSTER, table_disk_full, disk="table", beside=True, long=False,
         promise=_FAILS),
    Kind("checkpoint disk full", CLUSTER, checkpoint_disk_full, disk="checkpoint", beside=True,
         long=False, promise=_FAILS),
    Kind("broker disk full", CLUSTER, broker_disk_full, long=False),
    Kind("checkpoint read-only", CLUSTER, checkpoint_read_only, disk="checkpoint", beside=True,
         promise=_FAILS),
)  # fmt: skip
