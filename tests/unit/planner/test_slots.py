"""The slots that a query plans for if several queries share the executors."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor_bridge.errors import OptionError
from assignor_bridge.model import Allocation, Executor, OffsetRange
from assignor_bridge.options import parse_options
from assignor_bridge.planner.slots import share_slots
from checkpoints.state_text import decode
from checkpoints.sticky_state import StickyState
from tests.support.planning import Snapshot, plan, to_batch
from tests.support.strategies_snapshots import executors

RANGES = tuple(OffsetRange("t", partition, 0, 100) for partition in range(24))


def given_by(
    executors: tuple[Executor, ...], wanted: str, stream: int = 0, state: str | None = None
) -> dict[str, int]:
    """Slots by executor."""
    snapshot = Snapshot(executors, RANGES, {"assignor.slots": wanted}, stream=stream)
    known = decode(state) if state else StickyState.empty()
    return {e.id: e.slots for e in share_slots(to_batch(snapshot), known).executors}


def cluster(count: int, slots: int) -> tuple[Executor, ...]:
    return tuple(Executor(f"{i}", f"h{i}", slots) for i in range(count))


@pytest.mark.parametrize(
    ("wanted", "slots"),
    [
        ("0.5", [2, 2, 2]), ("50%", [2, 2, 2]), ("6", [2, 2, 2]), (" 3 ", [1, 1, 1]),
        ("100%", [4, 4, 4]), ("1.0", [4, 4, 4]), ("12", [4, 4, 4]), ("9999", [4, 4, 4]),
        ("1", [1]), ("1%", [1]), ("2", [1, 1]), ("8", [3, 3, 2]),
    ],
)  # fmt: skip
def test_each_executor_gives_slots_in_proportion(wanted: str, slots: list[int]) -> None:
    assert list(given_by(cluster(3, 4), wanted).values()) == slots


def test_any_stream_number_is_accepted() -> None:
    """It once raised NumPy's OverflowError, with a traceback in `assignor plan`."""
    stream = 2**62 + 1
    assert given_by(cluster(3, 4), "5", stream) == given_by(cluster(3, 4), "5", stream % 3)


@pytest.mark.parametrize("wanted", ["0", "-1", "0%", "0.0", "101%", "1.5", "nan%", "half", "", "%"])
def test_invalid_shares_are_refused(wanted: str) -> None:
    with pytest.raises(OptionError, match=r"a share such as 0\.5 or 50%, or a whole number from 1"):
        parse_options({"assignor.slots": wanted})


@pytest.mark.parametrize("wanted", ["1", "2", "4", "0.5", "0.25"])
def test_queries_started_in_sequence_use_different_executors(wanted: str) -> None:
    """Two halves of four executors with one slot each were once the same two."""
    there = cluster(8, 1)
    first, second = (given_by(there, wanted, stream=number) for number in (1, 2))
    assert not first.keys() & second.keys()


def test_slots_are_taken_from_executors_that_own_partitions() -> None:
    """Even if the stream has another number after a restart."""
    there = cluster(6, 1)
    before = plan(Snapshot(there, RANGES, {"assignor.slots": "0.5"}, stream=1))
    hosts = {task.executor for task in before.tasks}
    assert len(hosts) == 3
    for stream in range(4):
        assert given_by(there, "0.5", stream, before.state).keys() == hosts
    anew = tuple(Executor(f"{i + 10}", e.host) for i, e in enumerate(there[::-1]))
    kept = given_by(anew, "0.5", 5, before.state)
    assert {e.host for e in anew if e.id in kept} == {e.host for e in there if e.id in hosts}


@given(executors(), st.integers(1, 100), st.integers(0, 50), st.randoms())
def test_slots_are_spread_over_executors(
    there: tuple[Executor, ...], wanted: int, stream: int, random: object
) -> None:
    total = sum(e.slots for e in there)
    found = given_by(there, str(wanted), stream)
    shuffled = list(there)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert given_by(tuple(shuffled), str(wanted), stream) == found
    if there:
        assert sum(found.values()) == min(wanted, total)
        for executor in there:
            exact = executor.slots * min(wanted, total) / total
            assert int(exact) <= found.get(executor.id, 0) < exact + 1


@pytest.mark.parametrize(
    "assignor", ["lag-aware-sticky", "sticky", "range", "roundrobin", "lag-aware", "uniform"]
)
def test_the_plan_and_its_metrics_use_only_the_selected_slots(assignor: str) -> None:
    options = {"assignor": assignor, "assignor.slots": "0.5"}
    found = plan(Snapshot(cluster(3, 4), RANGES, options))
    assert len(found.tasks) == 6
    assert {(t.executor, t.slot) for t in found.tasks} == {
        (str(executor), slot) for executor in range(3) for slot in range(2)
    }
    assert found.metrics["slots"] == 6


def test_in_local_mode_the_share_is_of_the_drivers_cores() -> None:
    found = plan(Snapshot((), RANGES, {"assignor.slots": "25%"}, parallelism=8))
    assert len(found.tasks) == 2


def test_executors_of_other_queries_count_as_present() -> None:
    """The maximum of executors is present, and half of them are used by another query."""
    options = {"assignor.slots": "0.5"}
    snapshot = Snapshot(cluster(4, 1), RANGES, options, allocation=Allocation(0, 4, 1, 1.0))
    assert len(plan(snapshot).tasks) == 2
    assert len(plan(replace(snapshot, allocation=Allocation(0, 5, 1, 1.0))).tasks) > 2


def test_a_number_of_slots_that_is_available_requests_no_executors() -> None:
    """Further executors would stay idle."""
    asked = Snapshot(cluster(4, 1), RANGES, {"assignor.slots": "2"})
    assert len(plan(replace(asked, allocation=Allocation(0, 100, 1, 1.0))).tasks) == 2


def test_slots_cannot_be_combined_with_failover() -> None:
    options = {"assignor": "failover", "assignor.priorities": "a=1", "assignor.slots": "0.5"}
    with pytest.raises(OptionError, match="cannot be combined with the assignor 'failover'"):
        parse_options(options)
