"""Networks, brokers, logs, disks and processes fail under a query: nothing lost, nothing twice.

`tests/lab/faults` defines the faults. `make test` runs one of them, `make long` most;
`make chaos KIND=NAME` does one of them, some (`KIND='a|b'`), or all in turn (`KIND=all`), until
LIMIT_S seconds are over. All but the steps of the clock and workers that die: Spark must be started
for them, so they are asked for alone.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.benchmarks.report import commit
from tests.lab.faults import clocks, workers
from tests.lab.faults.harm import CLUSTER, PROXY, TIERED, WITH
from tests.lab.faults.kinds import KINDS, named, nothing_as_in
from tests.lab.faults.run import raised_in, run_fault
from tests.support import tiered_storage
from tests.support.broker_cluster import NEAREST_REPLICA, BrokerCluster
from tests.support.chaos_proxy import run_proxied_broker
from tests.support.small_disk import NotPossibleError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from streaming.kafka.embedded import EmbeddedBroker
    from tests.lab.faults.run import Outcome
    from tests.support.chaos_proxy import ChaosProxy
    from tests.support.standalone_cluster import StandaloneCluster

    Run = Callable[[str, int, str], Outcome]

#: `make test` does these; brokers and planners are killed in other tests, too.
_IN_EACH_RUN = ("connections cut",)
#: Each line is a fault that was survived, or what was seen instead, for `tests.lab.faults.report`.
RUNS = Path(__file__).parents[2] / "build" / "faults"


@pytest.fixture(scope="module")
def tiered(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[EmbeddedBroker, ChaosProxy]]:
    """A broker with a remote tier."""
    with run_proxied_broker(more=tiered_storage.settings(tmp_path_factory.mktemp("tier"))) as both:
        yield both


@pytest.fixture(scope="module")
def cluster() -> Iterator[BrokerCluster]:
    """Three brokers, which compact at once."""
    with BrokerCluster(properties={**NEAREST_REPLICA, "log.cleaner.backoff.ms": "200"}) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The file that moves the clocks of what is started from now on."""
    try:
        with clocks.can_jump(tmp_path_factory.mktemp("clock")) as offset:
            yield offset
    except NotPossibleError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark_on_workers(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[StandaloneCluster, SparkSession]]:
    """Spark on workers that can be stopped and killed."""
    with workers.spark_on_workers(tmp_path_factory.mktemp("workers")) as both:
        yield both


@pytest.fixture
def run(tmp_path: Path, request: pytest.FixtureRequest) -> Run:
    """Run a fault by its name and a seed, with options; note and give what was seen."""

    def run(name: str, seed: int, options: str) -> Outcome:
        kind = named(name)
        if kind.alone and os.environ.get("KIND") != name:
            raise NotPossibleError(f"with KIND='{name}' alone: Spark is started for it")
        folder = tmp_path / re.sub(r"\W+", "-", f"{name} {options} {seed}")
        place = kind.place
        if WITH[options].racks and place != CLUSTER:
            raise NotPossibleError("its one broker is in no rack")
        single = {PROXY: "proxied", TIERED: "tiered"}.get(place)
        try:
            proxied = request.getfixturevalue(single) if single else None
            cluster = request.getfixturevalue("cluster") if place == CLUSTER else None
            # The brokers run by now, Spark does not where something must be there before it.
            before: Any = request.getfixturevalue(kind.alone) if kind.alone else None
            standalone, spark = before if kind.alone == "spark_on_workers" else (None, None)
            spark = spark or request.getfixturevalue("spark")
            if kind.alone == "clock":
                spark.conf.set("assignor.test.clock", before)
                spark.conf.set("spark.assignor.env", clocks.VARIABLES)
            outcome = run_fault(kind, spark, folder, seed, proxied, cluster, options, standalone)
        except NotPossibleError as error:
            _note({"kind": name, "options": options, "seed": seed, "skipped": str(error)})
            raise
        except (Exception, pytest.fail.Exception) as error:  # the latter when time is up
            what = f"{raised_in(error)}: {error}"[:500]
            _note({"kind": name, "options": options, "seed": seed, "failed": what})
            raise
        print(outcome, flush=True)
        _note(outcome.as_json())
        return outcome

    return run


def _note(line: dict[str, object]) -> None:
    RUNS.mkdir(parents=True, exist_ok=True)
    with (RUNS / f"{commit().rstrip('+')}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


@pytest.mark.integration
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            kind.name,
            marks=[pytest.mark.falls_back] * (kind.fallbacks[1] > 0)
            + [pytest.mark.long] * (kind.name not in _IN_EACH_RUN),
        )
        for kind in KINDS.values()
        if kind.long
    ],
)
def test_nothing_is_lost_or_read_twice(spark: SparkSession, run: Run, name: str) -> None:
    try:
        run(name, 7, "")
    except NotPossibleError as error:
        pytest.skip(str(error))


@pytest.mark.chaos
@pytest.mark.falls_back
@pytest.mark.timeout(6 * 3600)
def test_faults_by_name(run: Run) -> None:
    """One that fails does not end the others: all that failed are told at the end."""
    asked, limit_s = os.environ.get("KIND") or "all", float(os.environ.get("LIMIT_S") or 600)
    chosen = list(KINDS) if asked == "all" else asked.split("|")
    options = os.environ.get("WITH") or ""
    known = {*KINDS, *map(nothing_as_in, KINDS)}
    unknown = [name for name in chosen if name not in known]
    assert not unknown, f"KIND has {unknown}: all, or some of {', '.join(KINDS)}, with | between"
    assert options in WITH, (
        f"WITH is {options!r}: nothing, or one of {', '.join(filter(None, WITH))}"
    )
    seed = int(os.environ.get("SEED") or time.time())
    print(f"SEED={seed}", flush=True)
    rng = random.Random(seed)
    end, ran = time.monotonic() + limit_s, 0
    failed: list[str] = []
    not_possible: list[str] = []
    while chosen and time.monotonic() < end:
        for name in list(chosen):
            if time.monotonic() > end:
                break
            try:
                run(name, rng.randrange(10**6), options)
                ran += 1
            except NotPossibleError as error:
                chosen.remove(name)
                not_possible.append(f"{name}: {error}")
                print(not_possible[-1], flush=True)
            except Exception as error:  # noqa: BLE001  (told at the end)
                failed.append(f"{name}: {error}")
                traceback.print_exc()
    assert not failed, "\n".join(failed)
    if not ran:
        pytest.skip("nothing was run: " + ("; ".join(not_possible) or f"LIMIT_S is {limit_s}"))
