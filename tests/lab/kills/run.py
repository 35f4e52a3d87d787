"""Many kills in a row, with a look after each."""

from __future__ import annotations

import json
import random
import time
from typing import TYPE_CHECKING

from tests.lab.kills.checks import Watch, committed, where_it_hit
from tests.lab.kills.feed import Feed
from tests.lab.kills.moments import MOMENTS, Moment
from tests.lab.kills.places import PARTITIONS, QUERIES, TWO_EXECUTORS, Place, done
from tests.lab.kills.process import Driver
from tests.lab.kills.report import Kill, Report

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from checkpoints.sticky_state import StickyState
    from tests.support.kafka_topics import Topic


#: A moment of a batch, and of which query.
When = tuple[Moment, str]
#: Each moment, of each query; executors are killed where there are any.
ROUND: tuple[When, ...] = tuple((moment, query) for moment in MOMENTS for query in QUERIES)


def rounds(master: str, seed: int) -> Iterator[When]:
    """Give rounds without end, each in an order of its own."""
    rng = random.Random(seed)
    fitting = [when for when in ROUND if master == TWO_EXECUTORS or not when[0].executor]
    while True:
        yield from rng.sample(fitting, len(fitting))


def kill_often(
    place: Place, topic: Topic, kills: Iterable[When], seed: int, limit_s: float = float("inf")
) -> Report:
    """Kill at these moments, until the time is over; then catch up and compare.

    Parameters
    ----------
    place
        Where the queries run; its folder must be empty.
    topic
        The topic that they read, not created yet.
    """
    topic.create(PARTITIONS)
    began = time.monotonic()
    killer = Killer(place, Feed(topic, seed), seed)
    try:
        for moment, query in kills:
            if time.monotonic() > began + limit_s:
                break
            killer.kill(moment, query)
        killer.catch_up()
    finally:
        killer.close()
    killer.report.seconds = round(time.monotonic() - began, 1)
    return killer.report


class Killer:
    """The drivers of one run, one after the other, and what was seen of their queries."""

    def __init__(self, place: Place, feed: Feed, seed: int) -> None:
        self.report = Report([seed])
        self._place = place
        self._feed = feed
        self._rng = random.Random(seed)
        self._watches = [Watch(query, feed.sent) for query in place.queries]
        #: The last one is not told to go yet: its Spark starts while the one before it runs.
        self._drivers = [Driver(place, 0)]
        #: Of each query when the driver that runs was told to go.
        self._states: list[StickyState | None] = []
        self._plans = dict.fromkeys(QUERIES, 0)
        #: Records that the admissions of each query held back.
        self._held_back = dict.fromkeys(QUERIES, 0)

    def kill(self, moment: Moment, name: str) -> None:
        """Kill the driver or an executor at a moment of a batch of this query, then look."""
        driver, query = self._running(), self._place.query(name)
        before = moment.seen(query, driver)
        driver.wait_for(lambda: moment.seen(query, driver) > before, moment.name)
        # No wait for a condition: a kill at a random time of the batch is what is tested.
        time.sleep(self._rng.uniform(moment.least_s, moment.most_s))
        hits = {}
        if moment.executor:
            driver.kill_an_executor(self._rng)
            batches = {other: done(other) for other in self._place.queries}
            driver.wait_for(
                lambda: all(done(other) > batch for other, batch in batches.items()),
                "a batch of each query after the kill of an executor",
            )
        else:
            self._end_of(driver)
            hits = {other.name: where_it_hit(other) for other in self._place.queries}
        kill = Kill(moment.name, name, hits, self._place.master, bool(self._place.limits))
        self.report.kills.append(kill)
        self._look()

    def catch_up(self) -> None:
        """Let a last driver read all there is, and compare the tables row by row."""
        self._feed.stop()
        if len(self._drivers) > 1:  # an executor was killed last
            self._end_of(self._drivers[0])
            self._look()
        [last] = self._drivers
        _, upsert = self._watches
        self._go(
            last, json.dumps({"counts": self._feed.counts, "versions": sorted(upsert.expected)})
        )
        last.wait()
        self._end_of(last)
        self._look()
        tables = json.loads((last.folder / "tables.json").read_text())
        self.report.compared = upsert.compare(tables)
        for watch in self._watches:
            assert committed(watch.query) == dict(enumerate(self._feed.counts))
            # Else nothing here was about the option; that none fell back is looked at in each log.
            name = watch.query.name
            assert self._plans[name], f"no batch of {name} was planned"
            limited = bool(self._held_back[name])
            assert limited == bool(self._place.limits), f"{name}: {self._held_back} held back"
        self.report.records = sum(self._feed.counts)

    def close(self) -> None:
        """Let nothing run on."""
        self._feed.stop()
        for driver in self._drivers:
            driver.kill()

    def _running(self) -> Driver:
        """The driver that runs the queries; a new one after the kill of one."""
        if len(self._drivers) == 1:
            self._go(self._drivers[0], "run")
            self._drivers.append(Driver(self._place, self._drivers[0].number + 1))
        return self._drivers[0]

    def _go(self, driver: Driver, task: str) -> None:
        self._states = [watch.state for watch in self._watches]
        driver.go(task)

    def _end_of(self, driver: Driver) -> None:
        """Kill it if it has not ended, and look at its log."""
        driver.kill()
        self._drivers.remove(driver)
        driver.check_log()
        for watch, state in zip(self._watches, self._states, strict=True):
            name = watch.query.name
            self._plans[name] += len(driver.plans(name))
            admissions = driver.admissions(name)
            self._held_back[name] += sum(int(a["heldBackRecords"]) for a in admissions)
            moved = watch.partitions_moved(driver, state)
            if moved is not None:
                self.report.moved[name].append(moved)

    def _look(self) -> None:
        for watch in self._watches:
            watch.look(len(self.report.kills) + 1)  # one driver may have been ended by us
