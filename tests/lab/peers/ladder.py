"""One run of one way up a ladder of rates: one process, one topic, one table.

1. Start the way on a few records, and wait until they are visible.
2. Warm it up at 20,000 records a second.
3. Per rate: let it settle, measure, stop the producer, wait until all rows are visible.
4. As fast as it goes: freeze the way (SIGSTOP), produce a backlog, let it run again.
5. Read the whole output: ages, rates, lost and doubled rows.

A way fell behind at a rate if its commits had less than 95% of the load, and more than three
seconds of records were not visible at the end. Higher rates are then not tried.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.lab.peers.process import MemoryPeak, WayProcess
from tests.lab.peers.scene import prepare_scene

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streaming.kafka.embedded import EmbeddedBroker
    from tests.lab.peers.scene import Scene
    from tests.lab.peers.ways import Way

AS_FAST_AS_IT_GOES = "as fast as it goes"
KEPT_UP, FELL_BEHIND, NOT_TRIED = "kept up", "fell behind", "not tried"
#: Verdicts of the backlog.
ALL_READ, PARTLY_READ = "all read", "not all read in two minutes"
_WARM_UP_RATE = 20_000
_MIN_SHARE_OF_LOAD, _MAX_BEHIND_S = 0.95, 3.0
_DRAIN_LIMIT_S, _LONG_DRAIN_LIMIT_S = 60.0, 120.0
_MILLION = 1e6


@dataclass(frozen=True)
class Settings:
    """What is measured, for all ways alike."""

    rates: Sequence[int]
    seconds: float
    #: Records of the backlog; 0 leaves it out.
    backlog: int
    warm_up_s: float = 8.0
    settle_s: float = 3.0
    #: Seconds between two commits.
    interval_s: int = 1


class Ladder:
    """One run of one way; `climb` does all steps."""

    def __init__(self, scene: Scene, process: WayProcess, settings: Settings) -> None:
        self._scene = scene
        self._process = process
        self._settings = settings
        self._produced = 0
        self._rungs: list[dict[str, Any]] = []
        #: Of each measured rate: its place in `_rungs` and its window of produce times.
        self._windows: dict[int, tuple[int, int]] = {}

    def climb(self, say: Callable[[str], None]) -> dict[str, Any]:
        """Measure all rates; return the figures of the run."""
        began = time.monotonic()
        self._scene.start(self._process)  # 1.
        start_s = time.monotonic() - began
        self._warm_up()  # 2.
        is_drained = True
        for rate in self._settings.rates:
            if is_drained and not self._has_fallen_behind():
                is_drained = self._measure(rate)  # 3.
            else:
                self._rungs.append({"load": rate, "verdict": NOT_TRIED})
            say(describe(self._rungs[-1]))
        if self._settings.backlog and is_drained:
            is_drained = self._measure_backlog()  # 4.
            say(describe(self._rungs[-1]))
        # One more wait, so that lost rows are known.
        is_drained = is_drained or self._stop_and_drain(_LONG_DRAIN_LIMIT_S)
        figures = self._scene.watch.read_figures(  # 5.
            list(self._windows.values()), self._produced
        )
        if not is_drained:  # what has not been read yet is not lost
            figures["lost"] = None
        for number, window in zip(self._windows, figures.pop("windows"), strict=True):
            self._rungs[number] |= {key: window[key] for key in window if key != "rate"}
        return {"start_s": start_s, "produced": self._produced, "rungs": self._rungs, **figures}

    def _warm_up(self) -> None:
        self._scene.feed.set_rate(_WARM_UP_RATE)
        time.sleep(self._settings.warm_up_s)
        assert self._stop_and_drain(_LONG_DRAIN_LIMIT_S), "the rows of the warm-up are not visible"

    def _stop_and_drain(self, limit_s: float = _DRAIN_LIMIT_S) -> bool:
        self._produced = self._scene.feed.set_rate(0).records
        return self._scene.wait_for_rows(self._process, self._produced, limit_s)

    def _has_fallen_behind(self) -> bool:
        return any(rung["verdict"] == FELL_BEHIND for rung in self._rungs)

    def _measure(self, load: int) -> bool:
        """Measure one rate; return whether all rows became visible afterwards."""
        self._scene.feed.set_rate(load)
        time.sleep(self._settings.settle_s)
        with MemoryPeak(self._process) as memory:
            rows, _ = self._scene.watch.read_rows()
            from_ms, cpu_s = _now_ms(), self._process.read_cpu_s()
            time.sleep(self._settings.seconds)
            until_ms, cpu_s = _now_ms(), self._process.read_cpu_s() - cpu_s
        done = self._scene.feed.set_rate(0)
        rows_at_end, _ = self._scene.watch.read_rows()
        rate = self._scene.watch.read_rate((from_ms, until_ms))
        hidden_rows = done.records - rows_at_end
        is_behind = hidden_rows > _MAX_BEHIND_S * load and (rate or 0) < _MIN_SHARE_OF_LOAD * load
        self._windows[len(self._rungs)] = (from_ms, until_ms)
        self._rungs.append(
            {
                "load": load,
                "verdict": FELL_BEHIND if is_behind else KEPT_UP,
                "rate": rate,
                "cpu_s_per_million": _per_million(cpu_s, rows_at_end - rows),
                "rss_mb": memory.rss_mb,
                "hidden_rows": hidden_rows,
                "producer_behind_s": done.behind_s,
            }
        )
        self._process.check_running()
        return self._stop_and_drain()

    def _measure_backlog(self) -> bool:
        """Measure a backlog that was produced while the way was frozen; return whether it ended."""
        records = self._settings.backlog
        self._process.freeze()
        try:
            self._produced = self._scene.feed.burst(records).records
            cpu_s = self._process.read_cpu_s()
        finally:
            self._process.thaw()
        thawed_s = time.time()
        with MemoryPeak(self._process) as memory:
            is_read = self._scene.wait_for_rows(self._process, self._produced, _LONG_DRAIN_LIMIT_S)
            cpu_s = self._process.read_cpu_s() - cpu_s
        rows, last_visible_s = self._scene.watch.read_rows()
        committed = records - (self._produced - rows)
        lasted_s = (last_visible_s or thawed_s) - thawed_s
        self._rungs.append(
            {
                "load": AS_FAST_AS_IT_GOES,
                "verdict": ALL_READ if is_read else PARTLY_READ,
                "rate": committed / lasted_s if lasted_s > 0 else None,
                "cpu_s_per_million": _per_million(cpu_s, committed),
                "rss_mb": memory.rss_mb,
            }
        )
        return is_read


def run_ladder(
    broker: EmbeddedBroker, way: Way, law: str, settings: Settings, say: Callable[[str], None]
) -> dict[str, Any]:
    """Run one way up the ladder; return the figures of the run."""
    with (
        prepare_scene(broker, way, law, settings.interval_s) as scene,
        WayProcess(way, scene.place) as process,
    ):
        return Ladder(scene, process, settings).climb(say)


def describe(rung: dict[str, Any]) -> str:
    """Return a line about one rate."""
    load = rung["load"]
    text = f"{load:,}/s" if isinstance(load, int) else load
    if rung["verdict"] == NOT_TRIED:
        return f"{text}: {NOT_TRIED}"
    rate = f"{rung['rate']:,.0f}" if rung["rate"] else "unknown"
    return (
        f"{text}: {rung['verdict']}, {rate} rows/s, {rung['cpu_s_per_million'] or 0:.2f} CPU s per "
        f"million, {rung['rss_mb']:.0f} MB"
    )


def _now_ms() -> int:
    return int(time.time() * 1000)


def _per_million(cpu_s: float, rows: int) -> float | None:
    return cpu_s / rows * _MILLION if rows > 0 else None
