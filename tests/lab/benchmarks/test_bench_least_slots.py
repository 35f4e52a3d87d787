"""The fewest slots that hold lag flat at a given load: Theodolite's measure of scalability.

`measured`: a producer process writes 2,500 records a second into sixteen partitions; a record costs
1 ms of its slot, modelled by a sleep of 20 ms at every twentieth one, so 2.5 slots have work for
all of their time. Spark runs in local mode with so many slots, a query without a limit; results go
nowhere. After ten seconds of warm-up lag is looked at for half a minute: what waits when a batch
begins is what the batch reads. It is flat where a line through these grows by less than a twentieth
of what arrives. The least number of slots is searched for by halving, from 3 to 12; the ways take
turns, a run each, after a run of each that does not count.

`simulated`: 100,000 records a second of 1 ms each over 1,000 partitions, executors of four slots,
batches of ten seconds' arrivals; lag is flat where such a batch takes at most ten seconds, on
average from the fourth batch on. 100 slots have work for all of their time. Tasks (4 ms) and cold
consumers (20 ms) cost, 5% of service time is chance. What the simulator does not have is the
half second that Spark's reader waits at the end of a partition.

`times the least possible` is over load times cost. "none" says that the most slots tried did not
do, 12 measured, 1,600 simulated. Lags: `equal`, and Zipf's law with the exponent (0.8 over 16
partitions: the largest has 23%, so much that it needs six tenths of a slot for itself; 0.8 and 1.2
over 1,000: 6% and 23%, more than one slot can read).

`ASSIGNOR_BENCH_SCALE=0.1` tries it with shorter runs and smaller simulations, and writes nothing.
"""

from __future__ import annotations

import time
from datetime import datetime
from statistics import fmean
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pytest

from streaming.simulator.play import compare
from streaming.simulator.scenario import Scenario
from tests.lab.benchmarks.freshness_load import Load, LoadProcess
from tests.lab.benchmarks.freshness_runs import batches_of, wait_for
from tests.lab.benchmarks.report import write_report
from tests.lab.benchmarks.turns import NO_WAIT, OURS, SCALE, in_turn
from tests.support.kafka_topics import Topic
from tests.support.spark_tools import assert_planned, read_topic, start_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path

    from streaming.kafka.embedded import EmbeddedBroker

    Search = Generator[int, bool, int | None]

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

PARTITIONS, RATE, FIRST, ZIPF = 16, 2_500, 20, 0.8
WARM_UP_S, MEASURED_S, FLAT = max(3.0, 10 * SCALE), max(6.0, 30 * SCALE), 0.05
SLEEP = "CASE WHEN offset % 20 = 19 THEN java_method('java.lang.Thread', 'sleep', 20L) END"
LEAST_SLOTS, MAX_SLOTS = 3, 12 if SCALE == 1 else 4
WAYS: dict[str, Callable[[int], dict[str, str]]] = {
    "Spark: default": lambda slots: {},
    "Spark: no wait": lambda slots: NO_WAIT,
    "Spark: minPartitions, 8 a slot": lambda slots: {"minPartitions": str(8 * slots)} | NO_WAIT,
    "lag-aware-sticky": lambda slots: OURS,
}
SIMULATED = ("spark", "minPartitions", "maxRecordsPerPartition", "lag-aware-sticky")
ARRIVE, BATCH_S, OF_AN_EXECUTOR = int(100_000 * min(1, 4 * SCALE)), 10, 4


def least(low: int, high: int) -> Search:
    """Look for the least number for which it holds, by halving; None where the highest does not.

    A number is yielded to ask whether it holds there; searches of several ways take turns.
    """
    if not (yield high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if (yield middle) else (middle + 1, high)
    return high


def by_turns(
    searches: Mapping[str, Search], holds: Callable[[str, int], bool]
) -> dict[str, int | None]:
    """Return what each search finds; in each round, each goes on by a step."""
    found: dict[str, int | None] = {}
    asked = {way: next(search) for way, search in searches.items()}
    number = 0
    while asked:
        for way in in_turn(list(asked), number):
            try:
                asked[way] = searches[way].send(holds(way, asked[way]))
            except StopIteration as end:
                found[way] = end.value
                del asked[way]
        number += 1
    return {way: found[way] for way in searches}


def test_least_slots(broker: EmbeddedBroker, tmp_path: Path) -> None:
    def holds(way: str, slots: int) -> bool:
        grows = growth(broker.bootstrap_servers, WAYS[way](slots), slots, tmp_path)
        print(f"{way}, {slots} slots: lag grows by {grows:.1%} of what arrives", flush=True)
        return grows < FLAT

    rows = simulated()
    for way in WAYS:
        holds(way, MAX_SLOTS)  # does not count: the driver's JVM is the same for all runs
    searches = {way: least(LEAST_SLOTS, MAX_SLOTS) for way in WAYS}
    for way, slots in by_turns(searches, holds).items():
        rows.append(row("measured", f"zipf {ZIPF}", way, slots, RATE / 1000))
        print(rows[-1], flush=True)
    if SCALE == 1:
        write_report(
            "least_slots", title="The fewest slots that hold lag flat", rows=rows,
            notes=__doc__ or "",
            command="make bench (tests/lab/benchmarks/test_bench_least_slots.py)",
        )  # fmt: skip


def row(how: str, lags: str, way: str, slots: int | None, possible: float) -> dict[str, Any]:
    return {
        "how": how,
        "lags": lags,
        "way": way,
        "slots": "none" if slots is None else slots,
        "times the least possible": "" if slots is None else slots / possible,
    }


def growth(servers: str, options: Mapping[str, str], slots: int, folder: Path) -> float:
    """Run a query on so many slots; how fast its lag grows, over the rate of what arrives."""
    topic = Topic(servers, f"slots-{uuid4().hex[:8]}").create(PARTITIONS)
    spark = start_spark(
        f"local[{slots}]", folder / topic.name,
        spark_kafka_consumer_cache_capacity="4000",
    )  # fmt: skip
    try:
        with LoadProcess(Load(servers, topic.name, PARTITIONS, ZIPF, FIRST)) as producer:
            query = (
                read_topic(spark, topic, options)
                .selectExpr(SLEEP)
                .writeStream.format("noop")
                .option("checkpointLocation", str(folder / topic.name / "checkpoint"))
                .start()
            )
            try:
                wait_for(query, FIRST)
                producer.write_at(RATE)
                from_s = time.time() + WARM_UP_S
                time.sleep(WARM_UP_S + MEASURED_S)
                batches = batches_of(query)
            finally:
                query.stop()
    finally:
        spark.stop()
    if "assignor" in options:
        assert_planned(batches)
    begun = [(began(batch), batch["numInputRows"]) for batch in batches]
    seconds, waiting = np.array([b for b in begun if b[0] >= from_s] or begun).T
    if len(seconds) < 3:  # a batch that takes so long that hardly another follows
        return 1.0
    return float(np.polyfit(seconds - seconds[0], waiting, 1)[0]) / RATE


def began(batch: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(batch["timestamp"].replace("Z", "+00:00")).timestamp()


def simulated() -> list[dict[str, Any]]:
    rows = []
    possible = ARRIVE // 1000
    for lags, skew in (("uniform", 0.0), ("zipf", 0.8), ("zipf", 1.2)):

        def holds(name: str, executors: int, lags: Any = lags, skew: float = skew) -> bool:
            scenario = Scenario(
                partitions=1_000, executors=executors, slots=(OF_AN_EXECUTOR,), batches=6,
                records=ARRIVE * BATCH_S, lags=lags, skew=skew, cost=0.001,
            )  # fmt: skip
            [result] = compare(scenario, [name])
            return fmean(batch.seconds for batch in result.batches) <= BATCH_S

        low, high = possible // OF_AN_EXECUTOR, 16 * possible // OF_AN_EXECUTOR
        searches = {name: least(low, high) for name in SIMULATED}
        shape = f"zipf {skew:g}" if skew else "equal"
        for name, executors in by_turns(searches, holds).items():
            slots = None if executors is None else executors * OF_AN_EXECUTOR
            rows.append(row("simulated", shape, name, slots, possible))
            print(rows[-1], flush=True)
    return rows
