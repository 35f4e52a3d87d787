"""What surrounds a run: a topic, its producer, and a watcher of the output."""

from __future__ import annotations

import json
import shutil
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tests.lab.peers.environments import BUILD, LOOP_ENVIRONMENT
from tests.lab.peers.feed import Feed
from tests.lab.peers.ways import Place
from tests.support.kafka_topics import Topic
from tests.support.line_process import LineProcess

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streaming.kafka.embedded import EmbeddedBroker
    from tests.lab.peers.process import WayProcess
    from tests.lab.peers.ways import Way

PARTITIONS = 24
#: Names of the laws by which records are spread over partitions, with the exponent of Zipf's.
LAWS = {"equal": 0.0, "zipf": 1.1}
#: Records that are in the topic when a way starts.
FIRST_RECORDS = 20
#: Time limit until a way has written the first records.
START_LIMIT_S = 300.0
_POLL_S = 0.1


class Watch(LineProcess):
    """The program `watch.py` as a process: it reads what a way has written."""

    def __init__(self, way: Way, table: Path) -> None:
        program = Path(__file__).with_name("watch.py")
        super().__init__([str(LOOP_ENVIRONMENT.make()), str(program), way.output, str(table)])

    def read_rows(self) -> tuple[int, float | None]:
        """Return the number of visible rows, and when the last became visible."""
        answer = self._request("rows")
        return answer["rows"], answer["last_visible_s"]

    def read_rate(self, window_ms: tuple[int, int]) -> float | None:
        """Return the rate of the commits in a window, in rows a second."""
        rate: float | None = self._request(f"rate {json.dumps(window_ms)}")["rate"]
        return rate

    def read_figures(self, windows_ms: Sequence[tuple[int, int]], produced: int) -> dict[str, Any]:
        """Return the figures of all windows, and the lost and doubled rows."""
        return self._request(f"figures {json.dumps({'windows': windows_ms, 'produced': produced})}")

    def _request(self, line: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.ask(line))
        return answer


@dataclass(frozen=True)
class Scene:
    """One run of one way."""

    place: Place
    feed: Feed
    watch: Watch

    def wait_for_rows(self, process: WayProcess, rows: int, limit_s: float) -> bool:
        """Return whether this number of rows is visible before the time limit."""
        deadline = time.monotonic() + limit_s
        while self.watch.read_rows()[0] < rows:
            process.check_running()
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def start(self, process: WayProcess) -> None:
        """Wait until the way has written the first records."""
        assert self.wait_for_rows(process, FIRST_RECORDS, START_LIMIT_S), process.read_log_end()


@contextmanager
def prepare_scene(broker: EmbeddedBroker, way: Way, law: str, interval_s: int) -> Iterator[Scene]:
    """Create a topic and its producer; remove the topic and all output at the end."""
    broker.check_alive()
    topic = Topic(broker.bootstrap_servers, f"peers-{uuid4().hex[:8]}")
    topic.create(PARTITIONS, {"segment.index.bytes": "65536"})
    folder = BUILD / "runs" / topic.name
    place = Place(broker.bootstrap_servers, topic.name, PARTITIONS, folder, interval_s)
    with Feed(topic, PARTITIONS, LAWS[law]) as feed, Watch(way, place.table) as watch:
        feed.burst(FIRST_RECORDS)
        yield Scene(place, feed, watch)
    # Kept after an error, to look at.
    admin = broker.admin()
    admin.delete_topics([topic.name])[topic.name].result(30)
    shutil.rmtree(folder, ignore_errors=True)
