"""The wait of cold reads: learned from reads by others than the owner, and no part of a cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from assignor_bridge.model import Executor, OffsetRange
from assignor_bridge.planner.plan import plan_step
from checkpoints.state_text import decode, encode
from checkpoints.sticky_state import ASSUMED_COLD_READ_S, StateError, StickyState
from streaming.simulator.play import SimulatedQuery, play
from streaming.simulator.scenario import Scenario
from tests.support.planning import Observation, Snapshot, to_batch
from tests.unit.test_sticky_state import forged

TWO = (Executor("1", "h1"), Executor("2", "h2"))


def plan(state: StickyState, *observed: Observation) -> StickyState:
    """Plan a batch of two partitions; return the next state."""
    ranges = tuple(OffsetRange("t", p, 0, 1000) for p in range(2))
    return plan_step(to_batch(Snapshot(TWO, ranges, observed=observed)), state).state


def read(partition: int, executor: str, cold_s: float, seconds: float = 1.0) -> Observation:
    return Observation("t", partition, executor, 1000, 1000, seconds, 1000, cold_s)


@pytest.mark.parametrize(
    ("observed", "expected_s"),
    [
        pytest.param([read(0, "1", 0.0), read(0, "2", 0.1)], 0.06, id="another executor"),
        pytest.param([read(0, "1", 0.1), read(0, "1", 0.3)], 0.11, id="two tasks of an executor"),
        pytest.param([read(0, "1", 0.1), read(1, "2", 0.1)], ASSUMED_COLD_READ_S, id="owners"),
        pytest.param([read(0, "2", 0.1)], ASSUMED_COLD_READ_S, id="the next owner"),
        pytest.param([read(0, "1", 0.0), read(0, "2", 0.0)], ASSUMED_COLD_READ_S, id="not cold"),
        pytest.param([read(0, "1", 0.0), read(0, "2", np.nan)], ASSUMED_COLD_READ_S, id="unknown"),
        pytest.param([read(0, "1", 0.0), read(0, "2", 1e9, 1e9)], 5.01, id="absurd"),
    ],
)
def test_the_wait_is_learned_from_reads_by_others(observed, expected_s):
    state = plan(StickyState.empty())
    assert plan(state, *observed).cold_read_s == pytest.approx(expected_s)


def test_the_first_batch_has_no_owners_and_teaches_nothing():
    state = plan(StickyState.empty(), read(0, "1", 2.0, 3.0), read(1, "2", 2.0, 3.0))
    assert state.cold_read_s == ASSUMED_COLD_READ_S


def test_the_wait_is_forgotten_while_no_read_is_cold():
    state = replace(plan(StickyState.empty()), cold_read_s=0.1)
    for _ in range(32):
        state = decode(encode(plan(state, read(0, "1", 0.0))))
    assert state.cold_read_s == pytest.approx(0.02 + 0.08 * np.exp(-1), rel=0.02)


def test_a_negative_wait_in_a_state_is_refused():
    with pytest.raises(StateError, match="impossible costs"):
        decode(forged({"cold_read_s": -0.1}))


def test_the_wait_is_no_part_of_a_cost():
    with_wait, without = plan(StickyState.empty()), plan(StickyState.empty())
    for _ in range(4):
        with_wait = plan(with_wait, read(0, "1", 0.5, 1.5), read(1, "2", 0.0))
        without = plan(without, read(0, "1", 0.0), read(1, "2", 0.0))
    assert with_wait.common.level == pytest.approx(without.common.level)
    assert with_wait.cost.tolist() == pytest.approx(without.cost.tolist())
    assert with_wait.spreads == pytest.approx(without.spreads)


def test_a_tail_that_waits_for_long_does_not_keep_itself_alive():
    """About 0.2 s of work per slot, which deviates by 60%; a cold read takes as long."""
    scenario = Scenario(
        partitions=8, executors=4, batches=40, records=8000, cost=0.0001, skew=0.5,
        service_noise=0.6, cold_seconds=0.2,
    )  # fmt: skip
    auto, off = (
        SimulatedQuery("lag-aware-sticky", scenario),
        SimulatedQuery("lag-aware-sticky", scenario, {"assignor.tail": "off"}),
    )
    batches, batches_without = play(auto), play(off)
    assert sum(batch.tasks > 4 for batch in batches) <= 4
    seconds, seconds_without = (
        sum(batch.seconds for batch in played[5:]) for played in (batches, batches_without)
    )
    assert seconds <= 1.05 * seconds_without
    assert np.median(auto.state.spreads) <= 1.2 * np.median(off.state.spreads)
