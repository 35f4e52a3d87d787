"""Kill a running query again and again, and look after each kill at what is on disk and in Kafka.

`kill_often` starts `tests/kill_driver.py` in a process group of its own, waits for a moment of a
batch (by what appears in the checkpoint and the table), waits a little longer, at random, and
kills the group with signal 9: driver, executors, planner and all. Then it looks: the Delta table
must hold the batches whose transaction it names and no more, the consumer group must not be ahead
of it, and the first plan of the next driver must leave the partitions where they were. At the end a
last run catches up, and the driver checks the table row by row.

Another query is added in `tests/kill_driver.py`; see there.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from checkpoints.folders import LocalFolder
from checkpoints.offset_log import read_checkpoint
from tests.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from checkpoints.sticky_state import StickyState
    from tests.kafka_topics import Topic

PARTITIONS = 40
#: What a first plan may move: 5% of the partitions.
MOST_MOVED = PARTITIONS // 20
_ROOT = Path(__file__).parents[1]
_DRIVER = _ROOT / "tests" / "kill_driver.py"
_START_LIMIT_S = 180


@dataclass(frozen=True)
class Place:
    """Where a query runs: all that its driver is told."""

    bootstrap_servers: str
    topic: str
    group: str
    #: Everything is written below it.
    folder: str
    #: Name in `kill_driver.QUERIES`.
    query: str

    @property
    def checkpoint(self) -> Path:
        return Path(self.folder) / "checkpoint"

    @property
    def table(self) -> Path:
        return Path(self.folder) / "table"


@dataclass(frozen=True)
class Moment:
    """When to kill: once something new has appeared, and a random time later."""

    name: str
    #: A number that grows when it has.
    seen: Callable[[Place], int]
    #: Bounds of the time that passes until the kill.
    least_s: float
    most_s: float
    #: Kill one executor and let the query go on.
    executor: bool = False


def _newest(folder: Path, pattern: str) -> int:
    with contextlib.suppress(FileNotFoundError):
        found = (re.fullmatch(pattern, entry.name) for entry in os.scandir(folder))
        return max((int(name.group(1)) for name in found if name), default=-1)
    return -1


def planned(place: Place) -> int:
    """Newest batch of the offset log."""
    return _newest(place.checkpoint / "offsets", r"(\d+)")


def done(place: Place) -> int:
    """Newest batch of the commit log."""
    return _newest(place.checkpoint / "commits", r"(\d+)")


def in_table(place: Place) -> int:
    """Newest version of the Delta table."""
    return _newest(place.table / "_delta_log", r"(\d{20})\.json")


def data_files(place: Place) -> int:
    """Number of data files, finished or not."""
    with contextlib.suppress(FileNotFoundError):
        return sum(entry.name.startswith(("part-", ".part-")) for entry in os.scandir(place.table))
    return 0


MOMENTS = (
    Moment("planning", planned, 0.0, 0.25),
    Moment("reading", planned, 0.2, 1.0),
    Moment("writing", data_files, 0.0, 0.4),
    Moment("commit log", in_table, 0.0, 0.15),
    Moment("state and group", done, 0.0, 0.15),
    Moment("executor", planned, 0.0, 0.6, executor=True),
)


class Driver:
    """One run of the driver, in a process group of its own."""

    def __init__(self, place: Place, number: int, mode: str = "run") -> None:
        self.folder = Path(place.folder) / f"run-{number}"
        self.folder.mkdir()
        self.log = self.folder / "driver.log"
        self._said = self.folder / "said.txt"
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, str(_DRIVER), json.dumps(asdict(place)), str(self.folder), mode],
                env=os.environ
                | {
                    "PYTHONPATH": str(_ROOT),
                    # Starts are most of the time here.
                    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
                    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
                },
                stdin=subprocess.PIPE,  # closes with us: then the driver ends itself
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something of this run; tells what the driver said when it has ended."""
        deadline = time.monotonic() + _START_LIMIT_S
        while not condition():
            assert self.process.poll() is None, f"{what}: the driver ended: {self.said()}"
            assert time.monotonic() < deadline, f"{what}: not within {_START_LIMIT_S} s"
            time.sleep(0.005)

    def said(self) -> str:
        return self._said.read_text(errors="replace")[-3000:] + self.text()[-3000:]

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def first_plan(self) -> dict[str, str] | None:
        """Figures of the first plan of this run; None when it was killed before."""
        found = re.search(r"tasks by assignor '[^']*': \{(.*)\}", self.text())
        return dict(p.split("=", 1) for p in found[1].split(", ") if "=" in p) if found else None

    def kill(self) -> None:
        """Kill the whole group at once."""
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
        wait_until(lambda: not self._members(), "the end of all processes of the driver")
        for copies in ("spark-home", "local"):  # of all jars, for each executor
            shutil.rmtree(self.folder / copies, ignore_errors=True)

    def kill_an_executor(self, rng: random.Random) -> None:
        self.wait_for(lambda: bool(self._executors()), "an executor")
        os.kill(rng.choice(self._executors()), signal.SIGKILL)

    def _executors(self) -> list[int]:
        kind = "CoarseGrainedExecutorBackend"
        return sorted(p for p in self._members() if kind in _read(f"/proc/{p}/cmdline"))

    def _members(self) -> list[int]:
        """Living processes of the group."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                fields = _read(f"/proc/{entry.name}/stat").rpartition(")")[2].split()
                if fields and fields[0] not in "ZX" and int(fields[2]) == self.process.pid:
                    found.append(int(entry.name))
        return found


def _read(path: str) -> str:
    with contextlib.suppress(OSError):
        return Path(path).read_text(errors="replace")
    return ""


class Feed:
    """Writes numbered records to all partitions until it is stopped; some get more than others."""

    def __init__(self, topic: Topic) -> None:
        self.counts = [0] * PARTITIONS
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        producer = Producer({"bootstrap.servers": self._topic.bootstrap_servers})
        while not self._stop.wait(0.25):
            for partition in range(PARTITIONS):
                for _ in range(1 + partition % 4):
                    value = f"{partition}/{self.counts[partition]}".encode()
                    producer.produce(self._topic.name, value, partition=partition)
                    self.counts[partition] += 1
            producer.flush(60)


@dataclass
class Report:
    """What was killed, and where it hit: for a test's output."""

    seed: int
    kills: int = 0
    moments: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)
    #: Partitions that first plans after a restart moved.
    moved: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0


def kill_often(
    place: Place, topic: Topic, kills: int, seed: int, until: float = float("inf")
) -> Report:
    """Kill so many times (or until that time of the monotonic clock), then catch up and check.

    Parameters
    ----------
    place
        Where the query runs; its folder must be empty.
    topic
        The topic that it reads, not created yet.
    """
    topic.create(PARTITIONS)
    feed = Feed(topic)
    report = Report(seed)
    rng = random.Random(seed)
    began = time.monotonic()
    driver: Driver | None = None
    state: StickyState | None = None
    at_start: StickyState | None = None
    moments: list[Moment] = []
    try:
        while report.kills < kills and time.monotonic() < until:
            if not moments:
                moments = rng.sample(MOMENTS, len(MOMENTS))
            moment = moments.pop()
            if driver is None:
                driver, at_start = Driver(place, report.kills), state
            before = moment.seen(place)
            driver.wait_for(lambda: moment.seen(place) > before, moment.name)  # noqa: B023
            time.sleep(rng.uniform(moment.least_s, moment.most_s))
            report.kills += 1
            report.moments[moment.name] += 1
            if moment.executor:
                driver.kill_an_executor(rng)
                completed = done(place)
                driver.wait_for(lambda: done(place) > completed, "a batch after it")  # noqa: B023
            else:
                driver.kill()
                report.hits[where_it_hit(place)] += 1
                check_plan(driver, at_start, report)
                driver = None
            state = check_facts(place, state, report.kills)
    finally:
        feed.stop()
        if driver is not None:
            driver.kill()
    last = Driver(place, report.kills, json.dumps(feed.counts))
    try:
        last.process.wait(_START_LIMIT_S)
        assert last.process.returncode == 0, last.said()
        check_plan(last, state, report)
    finally:
        last.kill()
    check_facts(place, state, report.kills)
    assert committed(place) == dict(enumerate(feed.counts))
    report.seconds = round(time.monotonic() - began, 1)
    return report


def where_it_hit(place: Place) -> str:
    """Tell from what is on disk how far the batch had come."""
    if planned(place) == done(place):
        return "after the commit log"
    if delta_batch(place)[0] == planned(place):
        return "between Delta's commit and the commit log"
    return "before Delta's commit"


def check_plan(driver: Driver, state: StickyState | None, report: Report) -> None:
    """The first plan of a run leaves the partitions where they were in this state."""
    plan = driver.first_plan()
    if plan is not None and state is not None and len(state.readers) == int(plan["executors"]):
        moved = int(plan["movedPartitions"])
        assert moved <= MOST_MOVED, (driver.folder, plan)
        report.moved[moved] += 1
    for unexpected in ("cannot use its stored state", "could not plan", "could not commit"):
        assert unexpected not in driver.text(), (driver.folder, driver.text()[-3000:])


def check_facts(place: Place, before: StickyState | None, kills: int) -> StickyState | None:
    """Compare group, table and checkpoint; gives the stored state, which is never lost."""
    group = committed(place)  # first: the query may be running
    batch, rows = delta_batch(place)
    if batch < 0:
        assert not group
        return before
    checkpoint = read_checkpoint(LocalFolder(place.checkpoint))
    ends = next(b.ends["0"] for b in checkpoint.batches if b.batch_id == batch)[place.topic]
    ahead = {p: (offset, ends[p]) for p, offset in group.items() if offset > ends[p]}
    assert not ahead, f"the group is ahead of batch {batch} in Delta: {ahead}"
    if place.query == "append":
        assert rows == sum(ends.values()), f"rows after batch {batch}"
    assert not checkpoint.warnings
    state = checkpoint.states.get("0")
    known = state.batches if state is not None else 0
    assert known >= (before.batches if before is not None else 0)
    # A kill may cost the state of one batch, and spare the next run the planning of one.
    assert known + 2 * kills > done(place)
    return state


def delta_batch(place: Place) -> tuple[int, int]:
    """Last batch whose transaction the Delta table holds (-1 for none), and its rows so far."""
    batch, rows, log = -1, 0, place.table / "_delta_log"
    for version in range(in_table(place) + 1):
        for line in (log / f"{version:020}.json").read_text().splitlines():
            action = json.loads(line)
            if "txn" in action:
                assert action["txn"]["version"] > batch, "a batch is in the table twice"
                batch = action["txn"]["version"]
            if "add" in action:
                rows += json.loads(action["add"]["stats"])["numRecords"]
    return batch, rows


def committed(place: Place) -> dict[int, int]:
    """The group's offsets by partition."""
    asking = Consumer({"bootstrap.servers": place.bootstrap_servers, "group.id": place.group})
    asked = [TopicPartition(place.topic, p) for p in range(PARTITIONS)]

    def answer() -> list[TopicPartition]:
        with contextlib.suppress(KafkaException):  # a new broker's coordinator is not there yet
            return asking.committed(asked, timeout=10)
        return []

    try:
        told = wait_until(answer, "an answer about the group")
        return {p.partition: p.offset for p in told if p.offset >= 0}
    finally:
        asking.close()
