"""The planner over many batches in the simulator: the figures required by issue 6."""

from __future__ import annotations

import pytest

from streaming.simulator.play import SimulatedQuery, play
from streaming.simulator.scenario import Scenario

#: Without costs of tasks and cold consumers, so that `over` compares with the true bound.
PURE = {"task_seconds": 0.0, "cold_seconds": 0.0, "service_noise": 0.0}


def played(**given):
    return play(SimulatedQuery("lag-aware-sticky", Scenario(**{**PURE, **given})))


@pytest.mark.parametrize("lags", ["uniform", "zipf", "lognormal"])
def test_steady_rates_with_noise(lags):
    """In 200 batches less than 1% of partitions move after the third; the imbalance is allowed."""
    late = played(partitions=100, executors=10, batches=200, lags=lags, noise=0.1)[3:]
    assert max(p.moved_partitions / p.partitions for p in late) < 0.01
    assert max(p.regret_share for p in late) <= 0.05


def test_a_rotating_hot_spot_moves_few_partitions():
    late = played(partitions=200, executors=20, batches=40, lags="rotating", noise=0.1)[1:]
    assert max(p.moved_partitions / p.partitions for p in late) < 0.1
    assert max(p.regret_share for p in late) <= 0.05


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize(("partitions", "executors"), [(64, 8), (200, 20)])
def test_cost_skew_of_one_to_fifty_is_learned_by_the_fourth_batch(seed, partitions, executors):
    late = played(
        partitions=partitions, executors=executors, batches=8, lags="uniform", noise=0.02,
        cost_skew=50, seed=seed,
    )[3:]  # fmt: skip
    assert max(p.regret_share for p in late) <= 0.15


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize(("partitions", "executors"), [(32, 4), (200, 20)])
def test_an_executor_three_times_slower_gets_less_by_the_fourth_batch(seed, partitions, executors):
    late = played(
        partitions=partitions, executors=executors, batches=8, lags="uniform", noise=0.02,
        slowness_by_index={3: 3.0}, seed=seed,
    )[3:]  # fmt: skip
    assert max(p.regret_share for p in late) <= 0.20


def test_costly_partitions_with_a_slow_executor_settle():
    late = played(
        partitions=64, executors=8, batches=20, noise=0.05, cost_skew=50, slowness_by_index={3: 3.0}
    )[10:]
    assert max(p.regret_share for p in late) <= 0.20


def test_an_executor_that_recovers_gets_its_share_again():
    scenario = Scenario(partitions=100, executors=10, lags="uniform", noise=0.02, **PURE)
    player = SimulatedQuery("lag-aware-sticky", scenario)
    overs = []
    from dataclasses import replace

    from streaming.simulator.scenario import generate_batches

    for step in generate_batches(replace(scenario, batches=16)):
        slow = {"3": 3.0} if step.number < 6 else {}
        overs.append(player.play(replace(step, slowness=slow)).regret_share)
    assert overs[5] <= 0.2
    assert max(overs[11:]) <= 0.2


def test_churn_moves_only_affected_partitions():
    each = played(
        partitions=200, executors=20, batches=60, lags="lognormal", skew=0.5, noise=0.02,
        churn_every=20,
    )  # fmt: skip
    assert max(p.moved_partitions / p.partitions for p in each) <= 0.07
    assert max(p.regret_share for p in each[1:]) <= 0.05
