"""The built-in assignors in the conformance suite for users' assignors."""

from __future__ import annotations

from hypothesis import settings

from assignor_bridge.assignors import ASSIGNORS
from assignor_bridge.testing import AssignorConformance


class Ours(AssignorConformance):
    #: Each run draws other groups.
    trials = settings(AssignorConformance.trials, max_examples=20, derandomize=False)


class TestRange(Ours):
    assignor, balance, racks, sticky = "range", "topics", True, True


class TestRoundrobin(Ours):
    assignor, balance, sticky = "roundrobin", "counts", True


class TestSticky(Ours):
    assignor, balance, racks, sticky, least_moves = "sticky", "counts", True, True, True


class TestCooperativeSticky(TestSticky):
    assignor = "cooperative-sticky"


class TestConstrainedCooperativeSticky(TestSticky):
    assignor, same_subscriptions = "constrained-cooperative-sticky", True


class TestUniform(TestSticky):
    assignor = "uniform"


class TestLagAware(Ours):
    assignor, balance, racks = "lag-aware", "topics", True


class TestLagAwareSticky(Ours):
    assignor, balance = "lag-aware-sticky", "lags"


class TestFailover(Ours):
    assignor, sticky = "failover", True


class TestStreams(Ours):
    assignor, same_subscriptions, racks, sticky, least_moves = "streams", True, True, True, True


def test_every_built_in_assignor_is_tested() -> None:
    cases = [c for c in globals().values() if isinstance(c, type) and issubclass(c, Ours)]
    assert {case.assignor for case in cases if case.assignor} == set(ASSIGNORS)
