"""Kill a way three times with kill -9 under load, and count its rows afterwards.

All processes of the way are killed at once, at a random moment two to five seconds after it has
written new rows. It is started again at once with the same command, as its user would. The count
is that of `watch.py`: every record has a number, and the way has no part in it.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

from tests.lab.peers.process import WayProcess
from tests.lab.peers.scene import START_LIMIT_S, prepare_scene

if TYPE_CHECKING:
    from collections.abc import Callable

    from streaming.kafka.embedded import EmbeddedBroker
    from tests.lab.peers.ways import Way

KILLS = 3
RATE = 5_000
_MOMENT_S = (2.0, 5.0)
#: After the last record is visible, for rows that come twice.
_AFTER_S = 3.0


def run_kills(
    broker: EmbeddedBroker, way: Way, law: str, interval_s: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Return lost and doubled rows, and the seconds from each kill to the next visible row."""
    moments = random.Random(way.name)
    restarts_s: list[float] = []
    with prepare_scene(broker, way, law, interval_s) as scene:
        process = WayProcess(way, scene.place)
        try:
            scene.start(process)
            scene.feed.set_rate(RATE)
            for _ in range(KILLS):
                rows, _ = scene.watch.read_rows()
                assert scene.wait_for_rows(process, rows + 1, START_LIMIT_S)
                time.sleep(moments.uniform(*_MOMENT_S))
                process.check_running()
                process.kill()
                rows, _ = scene.watch.read_rows()
                killed = time.monotonic()
                process = WayProcess(way, scene.place)
                assert scene.wait_for_rows(process, rows + 1, START_LIMIT_S), process.read_log_end()
                restarts_s.append(time.monotonic() - killed)
                say(f"killed; new rows after {restarts_s[-1]:.1f} s")
            produced = scene.feed.set_rate(0).records
            scene.wait_for_rows(process, produced, START_LIMIT_S)
            time.sleep(_AFTER_S)
        finally:
            process.kill()
        figures = scene.watch.read_figures([], produced)
    say(f"{produced:,} records: {figures['lost']} lost, {figures['doubled']} doubled")
    return {
        "kills": KILLS,
        "produced": produced,
        "restart_s": restarts_s,
        "lost": figures["lost"],
        "doubled": figures["doubled"],
    }
