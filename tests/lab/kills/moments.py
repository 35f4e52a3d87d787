"""The moments of a batch at which something is killed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.lab.kills.places import Query, data_files, done, in_table, planned
from tests.lab.kills.process import Driver


@dataclass(frozen=True)
class Moment:
    """When to kill: once something new has appeared, and a random time later."""

    name: str
    #: A number that grows when it has.
    seen: Callable[[Query, Driver], int]
    #: Bounds of the time that passes until the kill.
    least_s: float
    most_s: float
    #: Kill one executor and let the queries go on.
    executor: bool = False


def _begun(query: Query, driver: Driver) -> int:
    """A new batch is in the offset log; one that is run again has only its plan."""
    return planned(query) + len(driver.plans(query.name))


MOMENTS = (
    Moment("planning", _begun, 0.0, 0.25),
    Moment("reading", _begun, 0.2, 1.0),
    Moment("writing", lambda query, _: data_files(query), 0.0, 0.4),
    Moment("commit log", lambda query, _: in_table(query), 0.0, 0.15),
    Moment("state and group", lambda query, _: done(query), 0.0, 0.15),
    Moment("executor", _begun, 0.0, 0.6, executor=True),
)
