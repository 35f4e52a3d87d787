"""Networks, brokers and processes that fail under a query: nothing lost, nothing twice.

What is done is told in `tests/faults/kinds.py`. `make long` does each once; `make chaos KIND=NAME`
does one of them, or all in turn (`KIND=all`), until LIMIT_S seconds are over.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.report import commit
from tests.faults.kinds import CLUSTER, KINDS, PROXY
from tests.faults.run import run_fault
from tests.support.broker_cluster import BrokerCluster
from tests.support.chaos_proxy import proxied_broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from streaming.kafka.embedded import EmbeddedBroker
    from tests.faults.run import Outcome
    from tests.support.chaos_proxy import ChaosProxy

    Run = Callable[[str, int], Outcome]

#: Each line is a fault that was survived, for `tests.faults.report`.
RUNS = Path(__file__).parents[2] / "build" / "faults"


@pytest.fixture(scope="module")
def proxied() -> Iterator[tuple[EmbeddedBroker, ChaosProxy]]:
    """A broker behind a proxy."""
    with proxied_broker() as both:
        yield both


@pytest.fixture(scope="module")
def cluster() -> Iterator[BrokerCluster]:
    """Three brokers."""
    with BrokerCluster() as cluster:
        yield cluster


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Run:
    """Run a fault by its name and a seed, note it, and give what was seen."""

    def run(name: str, seed: int) -> Outcome:
        folder = tmp_path / f"{name.replace(' ', '-')}-{seed}"
        of = {place: place == KINDS[name].place for place in (PROXY, CLUSTER)}
        outcome = run_fault(
            name, spark, folder, seed,
            request.getfixturevalue("proxied") if of[PROXY] else None,
            request.getfixturevalue("cluster") if of[CLUSTER] else None,
        )  # fmt: skip
        print(outcome, flush=True)
        RUNS.mkdir(parents=True, exist_ok=True)
        with (RUNS / f"{commit().removesuffix('+')}.jsonl").open("a") as file:
            file.write(json.dumps(outcome.as_json()) + "\n")
        return outcome

    return run


@pytest.mark.integration
@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(kind.name, marks=[pytest.mark.falls_back] if kind.fallbacks[1] else [])
        for kind in KINDS.values()
    ],
)
def test_nothing_is_lost_or_read_twice(run: Run, name: str) -> None:
    run(name, 7)


@pytest.mark.chaos
@pytest.mark.falls_back
@pytest.mark.timeout(6 * 3600)
def test_faults_by_name(run: Run) -> None:
    kind, limit_s = os.environ.get("KIND") or "all", float(os.environ.get("LIMIT_S") or 600)
    assert kind == "all" or kind in KINDS, f"KIND is {kind!r}: all, or one of {', '.join(KINDS)}"
    rng = random.Random(int(os.environ.get("SEED") or time.time()))
    end = time.monotonic() + limit_s
    for name in itertools.cycle(KINDS if kind == "all" else [kind]):
        if time.monotonic() > end:
            return
        run(name, rng.randrange(10**6))
