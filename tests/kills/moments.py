"""The moments of a batch at which something is killed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.kills.places import Query, data_files, done, in_table, planned


@dataclass(frozen=True)
class Moment:
    """When to kill: once something new has appeared, and a random time later."""

    name: str
    #: A number that grows when it has.
    seen: Callable[[Query], int]
    #: Bounds of the time that passes until the kill.
    least_s: float
    most_s: float
    #: Kill one executor and let the queries go on.
    executor: bool = False


MOMENTS = (
    Moment("planning", planned, 0.0, 0.25),
    Moment("reading", planned, 0.2, 1.0),
    Moment("writing", data_files, 0.0, 0.4),
    Moment("commit log", in_table, 0.0, 0.15),
    Moment("state and group", done, 0.0, 0.15),
    Moment("executor", planned, 0.0, 0.6, executor=True),
)
