"""Partitions that no longer exist, by the driver's counts, are not planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from assignor_bridge.errors import OptionError
from assignor_bridge.model import Executor, OffsetRange
from checkpoints.state_text import decode
from tests.support.planning import Snapshot, plan

if TYPE_CHECKING:
    from tests.support.planning import Plan

WHOLE = ["uniform", "constrained-cooperative-sticky"]


def planned(
    assignor: str,
    sizes: dict[str, list[int]],
    live: dict[str, int] | None,
    state: str | None = None,
    executors: int = 4,
) -> Plan:
    ranges = tuple(
        OffsetRange(topic, partition, 0, size)
        for topic, of_topic in sizes.items()
        for partition, size in enumerate(of_topic)
        if size
    )
    there = tuple(Executor(f"{i}", f"h{i}", 1) for i in range(executors))
    return plan(Snapshot(there, ranges, {"assignor": assignor}, state=state, partitions=live))


def readers(made: Plan) -> int:
    return len({task.executor for task in made.tasks})


@pytest.mark.parametrize("assignor", WHOLE)
def test_a_deleted_topic_is_not_assigned(assignor: str) -> None:
    """It was once kept for 10,000 batches, so that one executor of four read all other data."""
    both, left = {"a": [10] * 4, "b": [10] * 12}, {"a": [10] * 4}
    state = planned(assignor, both, {"a": 4, "b": 12}).state
    assert readers(planned(assignor, left, {"a": 4}, state)) == 4
    assert readers(planned(assignor, left, None, state)) < 4, "without known partition counts"


@pytest.mark.parametrize("assignor", ["sticky", "lag-aware-sticky"])
def test_deleted_partitions_are_forgotten(assignor: str) -> None:
    state = planned(assignor, {"a": [10] * 8, "b": [10]}, {"a": 8, "b": 1}).state
    after = decode(planned(assignor, {"a": [10] * 4}, {"a": 4}, state).state or "")
    assert (after.topics, after.partition.tolist()) == (("a",), [0, 1, 2, 3])


def test_quiet_partitions_are_remembered() -> None:
    state = planned("sticky", {"a": [10] * 8}, {"a": 8}).state
    after = decode(planned("sticky", {"a": [10] * 4}, {"a": 8}, state).state or "")
    assert after.partition.tolist() == [*range(8)]


@pytest.mark.parametrize("assignor", [*WHOLE, "range", "sticky", "streams"])
def test_partitions_without_data_do_not_use_up_a_share(assignor: str) -> None:
    """20 of 100 partitions have data; an executor that joins reads some of these."""
    sizes, live = {"a": [10] * 20}, {"a": 100}
    first = planned(assignor, sizes, live)
    assert readers(first) == 4
    assert readers(planned(assignor, sizes, live, first.state, executors=5)) == 5


def test_more_partitions_than_kafka_can_have_are_refused() -> None:
    message = r"topic 'a' has \d+ partitions: expected 0 to 2147483648"
    with pytest.raises(OptionError, match=message):
        planned("sticky", {"a": [10]}, {"a": 2**62, "b": 2**62})
