"""Test the simulator's models of Spark's assignments and scheduler."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace

import pytest

from assignor_bridge.errors import OptionError
from assignor_bridge.model import Executor, OffsetRange
from streaming.cli import main
from streaming.simulator.mappings import (
    java_hash,
    place_by_hash,
    place_by_max_records,
    place_by_min_partitions,
)
from streaming.simulator.play import SimulatedQuery, compare, play
from streaming.simulator.scenario import Scenario, generate_batches
from streaming.simulator.schedule import schedule

TWO = (Executor("1", "h1"), Executor("2", "h2"))


def ranges(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange("t", i, 0, size) for i, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("topic", "partition", "expected"),
    [
        pytest.param("", 0, 961, id="31 times 31"),
        pytest.param("t", 0, 1077, id="plus the letter"),
        pytest.param("t", 3, 1077 + 93, id="31 a partition"),
        pytest.param("flights", 7, -777_036_650 + 0, id="beyond 31 bits it turns negative"),
    ],
)
def test_java_hash(topic, partition, expected):
    if topic == "flights":
        text = 0
        for letter in topic:
            text = 31 * text + ord(letter)
        expected = (31 * (31 + partition) + text + 2**31) % 2**32 - 2**31
    assert java_hash(topic, partition) == expected


def test_the_default_chooses_executors_by_hash_in_descending_order():
    placed = place_by_hash(ranges(5, 0, 5, 5), TWO)
    assert [t.executor for t in placed] == ["1", "1", "2"]  # 1077, 1139 are odd, 1170 is even


def test_max_records_splits_and_drops_locations():
    placed = place_by_max_records(ranges(10, 3), 4)
    assert [(t.executor, t.ranges[0].size) for t in placed] == [
        (None, 3), (None, 3), (None, 4), (None, 3),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "floor", "tasks"),
    [
        pytest.param([10, 10], 2, 2, id="enough partitions keep their executor"),
        pytest.param([90, 10], 10, 10, id="large ones are split in proportion"),
        pytest.param([100, 1, 1], 5, 5, id="small ones do not count in the proportion"),
    ],
)
def test_min_partitions(sizes, floor, tasks):
    placed = place_by_min_partitions(ranges(*sizes), TWO, floor)
    assert len(placed) == tasks
    assert all((t.executor is None) == (tasks > len(sizes)) for t in placed)


@pytest.mark.parametrize("size", [0, 1, 3, 1000])
def test_splitting_into_more_parts_than_offsets_gives_one_range_per_offset(size):
    """Spark creates the empty ranges too and drops them; here they take no memory."""
    [whole] = ranges(size)
    assert whole.split(max(size, 1)) == tuple(OffsetRange("t", 0, i, i + 1) for i in range(size))
    tracemalloc.start()
    parts = whole.split(200_000)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert parts == whole.split(max(size, 1))
    assert peak_bytes < 500_000


@pytest.mark.parametrize("name", ["minPartitions=1000001", "maxRecordsPerPartition=1"])
def test_more_than_a_million_tasks_are_refused(name, capsys):
    small = ["simulate", "--partitions", "2", "--records", "1100000", "--batches", "1"]
    assert main.run([*small, "--assignors", name]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert name in err.splitlines()[-1]
    assert "at most 1,000,000 tasks" in err.splitlines()[-1]
    fewer = ["--assignors", "minPartitions=1000000,maxRecordsPerPartition=5000000"]
    assert main.run([*small[:3], "--records", "10", "--batches", "1", *fewer]) == 0


def test_a_slot_takes_its_own_tasks_then_any_without_location():
    runs = schedule([("1",), ("1",), (), ("2",)], lambda task, executor: 1.0, TWO)
    assert [(r.task, r.executor, r.end_seconds) for r in runs] == [
        (0, "1", 1.0), (3, "2", 1.0), (1, "1", 2.0), (2, "2", 2.0),
    ]  # fmt: skip


def test_other_executors_help_after_the_locality_wait():
    runs = schedule([("1",)] * 4, lambda task, executor: 10.0, TWO, locality_wait_s=3.0)
    assert [(r.executor, r.end_seconds) for r in runs] == [
        ("1", 10.0), ("2", 13.0), ("1", 20.0), ("2", 23.0),
    ]  # fmt: skip


def test_tasks_of_missing_executors_run_anywhere():
    assert len(schedule([("gone",), ("gone",)], lambda task, executor: 1.0, TWO)) == 2


def test_the_same_seed_gives_the_same_scenario():
    first, second = (list(generate_batches(Scenario(batches=3))) for _ in range(2))
    assert all((a.records == b.records).all() for a, b in zip(first, second, strict=True))
    other = next(generate_batches(Scenario(batches=1, seed=2)))
    assert (other.records != first[0].records).any()


@pytest.mark.filterwarnings("error")
def test_offsets_beyond_64_bits_are_refused(capsys):
    wild = ["simulate", "--noise", "10", "--records", "1000000000000", "--partitions", "4"]
    assert main.run([*wild, "--executors", "2", "--batches", "5", "--assignors", "spark"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1] == (
        "assignor: the scenario has more than 9,223,372,036,854,775,807 records by batch 3: choose "
        "fewer records or batches, or less noise"
    )
    large = Scenario(partitions=4, executors=2, batches=9, records=10**18, lags="uniform", noise=0)
    assert all(p.seconds > 0 for p in compare(large, ["lag-aware-sticky"])[0].batches)
    with pytest.raises(OptionError, match="records by batch 9"):
        list(generate_batches(replace(large, batches=10)))


def list_lost(every: int) -> list[str]:
    """Return the executors that are lost in each batch."""
    scenario = Scenario(partitions=1, executors=4, batches=12, churn_every=every)
    present = [{e.id for e in step.executors} for step in generate_batches(scenario)]
    return ["".join(e.id for e in scenario.topology if e.id not in ids) for ids in present]


def test_an_executor_is_lost_every_n_batches_for_half_of_them():
    assert list_lost(0) == [""] * 12
    assert list_lost(4) == ["", "", "", "", "1", "1", "", "", "2", "2", "", ""]
    assert list_lost(3) == ["", "", "", "1", "", "", "2", "", "", "3", "", ""]
    assert list_lost(1) == ["", *"12301230123"]


def test_the_reader_of_a_tail_does_not_own_its_partition():
    scenario = Scenario(16, 4, batches=12, lags="uniform", noise=0, service_noise=0.4)
    # Noise may look like a slow executor; without a limit, no slot hands a partition over for it.
    options = {"assignor.tail": "auto", "assignor.maxImbalance": "1"}
    query = SimulatedQuery("lag-aware-sticky", scenario, options)
    late = play(query)[6:]
    assert max(batch.tasks for batch in late) > 4
    assert max(batch.cold_partitions for batch in late) > 2
    assert max(batch.moved_partitions for batch in late) == 0


def test_comparison():
    scenario = Scenario(partitions=16, executors=4, batches=5, records=4000, churn_every=4)
    rows = compare(scenario, ["spark", "minPartitions=20", "maxRecordsPerPartition=100", "range",
                              "lag-aware-sticky"])  # fmt: skip
    assert rows[-1].median_seconds <= min(row.median_seconds for row in rows[:1])


def test_zones_are_simulated(capsys):
    """With two replicas in three zones, no read has to cross; Spark's hash ignores zones."""
    small = ["simulate", "--executors", "6", "--batches", "4", "--lags", "uniform"]
    asked = ["--zones", "3", "--replication", "2", "--assignors", "spark,lag-aware-sticky"]
    assert main.run([*small, *asked, "--json"]) == 0
    spark, ours = map(json.loads, capsys.readouterr().out.splitlines())
    assert spark["crossZoneShare"] > 0.1
    assert ours["crossZoneShare"] == 0
    assert main.run([*small, *asked]) == 0
    assert "0.0%" in capsys.readouterr().out.splitlines()[-2]
    assert main.run([*small, "--assignors", "spark", "--json"]) == 0
    assert "crossZoneShare" not in json.loads(capsys.readouterr().out)
    assert main.run([*small, "--zones", "2", "--replication", "3"]) == 2
    said = capsys.readouterr().err
    assert said == "assignor: --replication is 3: at least as many --zones are expected\n"
