"""The driver says which partitions there are: those that are gone have no place in a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from assignor_bridge.errors import OptionError
from assignor_bridge.model import Executor, OffsetRange
from tests.support.planning import Snapshot, plan

if TYPE_CHECKING:
    from tests.support.planning import Plan

EXECUTORS = tuple(Executor(f"{i}", f"h{i}", 1) for i in range(4))


def planned(
    assignor: str, sizes: dict[str, list[int]], live: dict[str, int] | None, state: str | None
) -> Plan:
    ranges = tuple(
        OffsetRange(topic, partition, 0, size)
        for topic, of_topic in sizes.items()
        for partition, size in enumerate(of_topic)
        if size
    )
    options = {"assignor": assignor}
    return plan(Snapshot(EXECUTORS, ranges, options, state=state, partitions=live))


@pytest.mark.parametrize("knows", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize(
    "assignor", ["uniform", "constrained-cooperative-sticky", "sticky", "range", "roundrobin"]
)
def test_a_topic_that_is_gone_has_no_place(assignor: str, knows: bool) -> None:
    """It kept one for 10,000 batches: one executor of four read all that was left."""
    both = {"a": [10] * 4, "b": [10] * 12}
    state = None
    for _ in range(2):
        state = planned(assignor, both, {"a": 4, "b": 12} if knows else None, state).state
    after = planned(assignor, {"a": [10] * 4}, {"a": 4} if knows else None, state)
    readers = {task.executor for task in after.tasks}
    if knows:
        assert len(readers) == 4
    elif assignor == "uniform":
        assert len(readers) < 4, "what the test is about"


def test_partitions_that_are_gone_are_forgotten() -> None:
    state = planned("sticky", {"a": [10] * 8}, {"a": 8}, None).state
    after = planned("sticky", {"a": [10] * 4}, {"a": 4}, state)
    assert len({task.executor for task in after.tasks}) == 4


def test_more_partitions_than_kafka_can_have_are_refused() -> None:
    with pytest.raises(OptionError, match=r"partitions of topic 'a' are \d+: 0 to 2147483648 are"):
        planned("sticky", {"a": [10]}, {"a": 2**62, "b": 2**62}, None)


def test_partitions_without_data_count_for_streams() -> None:
    """Of two topics with as many partitions one was "short" while its last one was empty."""
    sizes = {"a": [10] * 8, "b": [10] * 7 + [0]}
    assert planned("streams,sticky", sizes, {"a": 8, "b": 8}, None).assignor == "streams"
    assert planned("streams,sticky", sizes, None, None).assignor == "sticky"
