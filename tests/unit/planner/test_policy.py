"""Tables of the planner's policy: which executor reads what, and what moves after changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assignor_bridge.assignors.registry import lookup
from assignor_bridge.errors import OptionError
from assignor_bridge.model import Executor, OffsetRange
from tests.support.planning import Observation, Snapshot, plan
from tests.support.strategies_snapshots import find_head_and_tail, generate_lags, sum_loads


def executors(*slots: int, first: int = 0, hosts: int | None = None) -> tuple[Executor, ...]:
    return tuple(
        Executor(f"e{first + i}", f"h{i % (hosts or 99)}", count) for i, count in enumerate(slots)
    )


def batch(sizes, members, state=None, start=0, observed=(), **options) -> Snapshot:
    given = {f"assignor.{key}": str(value) for key, value in options.items()}
    return Snapshot(
        members,
        tuple(OffsetRange("t", i, start, start + size) for i, size in enumerate(sizes)),
        given,
        observed,
        state,
    )


@pytest.mark.parametrize(
    ("sizes", "slots", "expected"),
    [
        pytest.param([100_000, 60_000, 50_000, 5_000, 3_000, 2_000, 1_000, 0], [1, 1],
                     [110_500, 110_500], id="the skewed topic of the issue is split in half"),
        pytest.param([900], [1, 1, 1], [300, 300, 300], id="one partition is read by all"),
        pytest.param([300, 300, 300], [3], [300, 300, 300], id="what fits whole stays whole"),
        pytest.param([100, 100, 100, 100], [3, 1], [100] * 4, id="slots count, not executors"),
        pytest.param([1], [2, 2], [1], id="one record is one task"),
        pytest.param([0, 0], [2], [], id="nothing to read is no task"),
        pytest.param([2, 1], [4], [1, 1, 1], id="more slots than records"),
    ],
)  # fmt: skip
def test_a_first_batch_is_ideal(sizes, slots, expected):
    made = plan(batch(sizes, executors(*slots)))
    assert sorted(sum_loads(made).values(), reverse=True) == expected


@pytest.mark.parametrize("slots", [[1] * 8, [4] * 8, [1, 2, 4, 8, 16] * 4, [16] * 500])
@pytest.mark.parametrize(
    "shape", ["zipf-0.8", "zipf-1.2", "zipf-2.0", "lognormal", "one-hot", "uniform"]
)
@pytest.mark.parametrize("partitions", [64, 1000])
def test_makespan_is_within_five_percent_of_the_bound(slots, shape, partitions):
    total = 1000 * sum(slots)
    sizes = generate_lags(shape, partitions, total)
    first = plan(batch(sizes, executors(*slots)))
    bound = sum(sizes) / sum(slots)
    assert max(sum_loads(first).values()) <= 1.05 * bound
    # The next batch has other lags; remembered owners must not cost balance.
    other = generate_lags(shape, partitions, total, seed=2)
    second = plan(batch(other, executors(*slots), first.state))
    assert max(sum_loads(second).values()) <= 1.05 * sum(other) / sum(slots)


@pytest.mark.parametrize("shape", ["zipf-0.8", "zipf-1.2", "lognormal", "uniform"])
@pytest.mark.parametrize("slots", [[1] * 8, [4, 2, 1, 1]])
def test_whole_partitions_are_within_five_percent_of_greedy(shape, slots):
    state = None
    for seed in range(4):
        sizes = generate_lags(shape, 200, 8000, seed)
        made = plan(batch(sizes, executors(*slots), state, split="false"))
        greedy = [0] * sum(slots)
        for size in sorted(sizes, reverse=True):
            greedy[greedy.index(min(greedy))] += size
        assert max(sum_loads(made).values()) <= 1.05 * max(greedy)
        assert made.metrics["splitPartitions"] == 0
        state = made.state


def test_nothing_moves_when_nothing_changed():
    members = executors(2, 2, 2)
    sizes = generate_lags("zipf-0.8", 60, 60_000)
    made = plan(batch(sizes, members))
    for step in range(1, 4):
        before = find_head_and_tail(made)
        again = plan(batch(sizes, members, made.state, start=step * 100_000))
        assert again.metrics["movedPartitions"] == 0
        assert all(find_head_and_tail(again)[tp][0] == tail for tp, (_, tail) in before.items())
        made = again


def test_the_next_batch_of_a_cut_partition_starts_at_its_last_reader():
    members = executors(1, 1, 1)
    state, last = None, None
    for step in range(5):
        made = plan(batch([9000, 100, 100], members, state, start=step * 9000))
        ends = find_head_and_tail(made)["t", 0]
        assert last is None or ends[0] == last
        state, last = made.state, ends[1]


def test_a_lost_executor_moves_only_its_partitions_and_a_returning_one_only_its_share():
    members = executors(*[1] * 20)
    sizes = [100 + i % 7 for i in range(200)]
    made = plan(batch(sizes, members))
    for step in (1, 2):
        made = plan(batch(sizes, members, made.state, start=1000 * step))
    before = find_head_and_tail(made)
    without = plan(batch(sizes, members[1:], made.state, start=3000))
    gone = {tp for tp, (_, tail) in before.items() if tail == "e0"}
    moved = {tp for tp, (head, _) in find_head_and_tail(without).items() if head != before[tp][1]}
    assert gone <= moved
    assert len(moved - gone) <= 0.02 * len(sizes)
    steady = plan(batch(sizes, members[1:], without.state, start=4000))
    after = find_head_and_tail(steady)
    back = plan(batch(sizes, members, steady.state, start=5000))
    touched = {
        tp
        for tp, (head, tail) in find_head_and_tail(back).items()
        if head != after[tp][1] or tail != after[tp][1]
    }
    assert len(touched) <= (1 / 20 + 0.02) * len(sizes)


def test_replaced_executors_take_over_on_their_host():
    members = executors(2, 2, 2, 2, hosts=2)
    sizes = [100] * 80
    made = plan(batch(sizes, members))
    host = {e.id: e.host for e in members}
    before = {tp: host[tail] for tp, (_, tail) in find_head_and_tail(made).items()}
    restarted = tuple(
        Executor(f"e{50 + i}", host, 2) for i, host in enumerate(["h1", "h1", "h0", "h0"])
    )
    later = [100 + i % 3 for i in range(80)]
    again = plan(batch(later, restarted, made.state, start=100))
    host = {e.id: e.host for e in restarted}
    same = [host[head] == before[tp] for tp, (head, _) in find_head_and_tail(again).items()]
    assert sum(same) == len(same)
    assert again.metrics["generation"] == 2
    assert again.metrics["imbalance"] <= 0.05


def test_partitions_stay_where_reports_say_they_were_read():
    members = executors(1, 1)
    made = plan(batch([100, 100], members))
    swapped = tuple(
        Observation("t", p, {"e0": "e1", "e1": "e0"}[head], 100, 100, 0.0)
        for (_, p), (head, _) in find_head_and_tail(made).items()
    )
    again = plan(batch([100, 100], members, made.state, start=100, observed=swapped))
    assert {p: head for (_, p), (head, _) in find_head_and_tail(again).items()} == {
        o.partition: o.executor for o in swapped
    }
    assert again.metrics["plannedHitRate"] == 0
    assert "spark.locality.wait" in again.metrics["advice"]


def test_local_mode_has_no_hit_rate():
    """Reports of the driver were once compared with no executor, which gave 0% hits."""
    made = plan(batch([100, 100], ()))
    seen = tuple(Observation("t", p, "driver", 100, 100, 0.1) for p in range(2))
    again = plan(batch([100, 100], (), made.state, start=100, observed=seen))
    assert "plannedHitRate" not in again.metrics
    assert "advice" not in again.metrics


def test_thousands_of_tiny_partitions_become_few_tasks():
    sizes = [i % 21 for i in range(5000)]
    made = plan(batch(sizes, executors(4, 4, 4, 4)))
    assert len(made.tasks) <= 32


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        pytest.param({}, 4, id="a task a slot"),
        pytest.param({"tasksPerSlot": 3}, 12, id="up to three a slot"),
        pytest.param({"maxRecordsPerTask": 100}, 40, id="a cap makes more of them"),
        pytest.param({"minRecordsPerTask": 2000}, 2, id="a minimum leaves slots idle"),
        pytest.param({"minRecordsPerTask": 9999}, 1, id="and ends at one task"),
    ],
)
def test_packing(options, tasks):
    made = plan(batch([100] * 40, executors(2, 2), **options))
    assert len(made.tasks) == tasks
    sizes = [task.size for task in made.tasks]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("name", ["sticky", "range", "roundrobin", "lag-aware", "streams"])
def test_a_minimum_joins_whole_partitions_of_other_assignors_without_cutting(name):
    sizes = [900, 3, 10, 60, 200, 900, 3, 10, 60, 200, 900, 3]
    given = {"assignor": name, "assignor.minRecordsPerTask": "400"}
    made = plan(replace(batch(sizes, executors(2, 2, 2, 2)), options=given))
    assert made.metrics["splitPartitions"] == 0
    assert min(task.size for task in made.tasks) >= 400


def test_the_task_limit_applies_after_slots_are_topped_up():
    options = {"minRecordsPerTask": 500, "maxRecordsPerTask": 500, "maxImbalance": 10}
    before = plan(batch([500, 500], executors(1, 1), **options))
    made = plan(batch([1013, 487], executors(1, 1), before.state, start=500, **options))
    assert [task.size for task in made.tasks] == [500, 500, 500]


def test_costs_are_learned_per_partition_and_survive_in_the_state():
    members = executors(1, 1)
    seen = (
        Observation("t", 0, "e0", 1000, 1000, 5.0),
        Observation("t", 1, "e1", 1000, 1000, 0.1),
        Observation("t", 2, "e1", 1000, 1000, 0.1),
    )
    made = plan(batch([1000] * 3, members, observed=seen))
    again = plan(batch([1000] * 3, members, made.state, start=1000))
    for each in (made, again):
        assert each.metrics["weights"] == "seconds"
        assert each.metrics["splitPartitions"] == 1
        assert len(find_head_and_tail(each)) == 3
    outlier = tuple(Observation("t", p, "e1", 1000, 1000, 90.0) for p in (1,))
    spike = plan(batch([1000] * 3, members, again.state, start=2000, observed=outlier))
    assert spike.metrics["imbalance"] <= 0.05
    assert spike.metrics["movedPartitions"] == 0


def test_bytes_are_used_until_seconds_are_reported():
    seen = tuple(Observation("t", p, "e0", 10, 10_000 if p == 0 else 100, 0.0) for p in range(3))
    made = plan(batch([1000] * 3, executors(1, 1), observed=seen))
    assert made.metrics["weights"] == "bytes"
    assert made.metrics["splitPartitions"] == 1


def test_offsets_without_records_weigh_less():
    seen = (
        Observation("t", 0, "e0", 100, 100, 0.0, offsets=10_000),
        Observation("t", 1, "e1", 1000, 1000, 0.0, offsets=1000),
    )
    sizes = [10_000, 100]
    made = plan(batch(sizes, executors(1, 1), observed=seen))
    assert made.metrics["imbalance"] <= 0.05
    assert sum_loads(made, {("t", 0): 0.01, ("t", 1): 1.0})


def test_failover_uses_only_the_executors_of_highest_priority():
    members = (
        Executor("1", "spot-1", 2),
        Executor("2", "ondemand-1", 2),
        Executor("3", "ondemand-2", 2),
    )
    options = {"assignor": "failover", "assignor.priorities": "ondemand-*=10,spot-*=1"}
    asked = tuple(OffsetRange("t", p, 0, 100) for p in range(8))
    made = plan(Snapshot(members, asked, options))
    assert {task.executor for task in made.tasks} == {"2", "3"}
    assert set(sum_loads(made).values()) == {200}
    alone = plan(Snapshot(members[:1], asked, options, state=made.state))
    assert {task.executor for task in alone.tasks} == {"1"}


def test_streams_places_standbys_on_other_executors():
    options = {"assignor": "streams", "assignor.standbyReplicas": "1"}
    asked = tuple(OffsetRange(t, p, 0, 100) for t in ("a", "b") for p in range(6))
    made = plan(Snapshot(executors(1, 1, 1), asked, options))
    for task in made.tasks:
        assert len(task.standbys) == 1
        assert task.standbys[0] != task.executor
    assert all(
        {r.partition for r in task.ranges if r.topic == "a"}
        == {r.partition for r in task.ranges if r.topic == "b"}
        for task in made.tasks
    )


def test_every_assignor_keeps_the_owners_of_partitions_without_data():
    members = executors(2, 2)
    full = batch([10] * 12, members)
    made = plan(Snapshot(members, full.ranges, {"assignor": "sticky"}))
    before = find_head_and_tail(made)
    half = tuple(OffsetRange("t", p, 10, 20) for p in range(0, 12, 2))
    again = plan(Snapshot(members, half, {"assignor": "sticky"}, state=made.state))
    assert all(head == before[tp][1] for tp, (head, _) in find_head_and_tail(again).items())
    third = plan(Snapshot(members, full.ranges, {"assignor": "sticky"}, state=again.state))
    assert find_head_and_tail(third) == before


def test_a_fallback_to_the_next_assignor_has_a_reason():
    asked = (OffsetRange("a", 0, 0, 5), OffsetRange("b", 1, 0, 5))
    made = plan(Snapshot(executors(1), asked, {"assignor": "streams,sticky"}))
    assert made.assignor == made.metrics["strategy"] == "sticky"
    assert "streams" in str(made.metrics["fallbackReason"])
    assert any("streams" in reason for reason in made.reasons)
    with pytest.raises(OptionError, match="unknown assignor 'nobody'"):
        plan(Snapshot(executors(1), asked, {"assignor": "nobody"}))


def test_the_planners_own_strategies_do_not_assign_a_group():
    """The group was once assigned, and the answer discarded."""

    def assign(_group):
        raise AssertionError

    asked = (OffsetRange("a", 0, 0, 5), OffsetRange("b", 1, 0, 5))
    made = plan(
        Snapshot(executors(1), asked, {"assignor": "streams,lag-aware-sticky"}),
        find=lambda name: replace(lookup(name), assign=assign),
    )
    assert made.assignor == "lag-aware-sticky"
    assert "streams" in str(made.metrics["fallbackReason"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            {"executors": (Executor("1", "h"), Executor("1", "h"))}, "listed twice", id="twice"
        ),
        pytest.param({"executors": (Executor("1", "h", 0),)}, "has 0 slots", id="no slots"),
        pytest.param({"ranges": (OffsetRange("t", 0, 5, 4),)}, "impossible", id="backwards"),
        pytest.param(
            {"ranges": (OffsetRange("t", 0, 0, 4), OffsetRange("t", 0, 3, 6))},
            "overlap",
            id="overlap",
        ),
        pytest.param({"parallelism": 0}, "expected 1 to 1,000,000 slots", id="no parallelism"),
    ],
)
def test_invalid_snapshots_are_refused(change, message):
    given = {"executors": (), "ranges": (), **change}
    with pytest.raises(OptionError, match=message):
        plan(Snapshot(**given))


@pytest.mark.parametrize("asked", [(), (OffsetRange("t", 0, 0, 10),)], ids=["none", "one"])
@pytest.mark.parametrize(
    ("topic", "partition"), [("x", 0), ("x", 2**32 - 1), ("x", 2**40), ("t", 2**32), ("t", -5)]
)
def test_reports_of_unknown_partitions_are_ignored(asked, topic, partition):
    seen = (Observation(topic, partition, "e0", 10, 100, 0.5, 10),)
    made = plan(Snapshot(executors(2), asked, {}, seen))
    assert made == plan(Snapshot(executors(2), asked, {}))


def test_adjacent_ranges_of_a_partition_are_joined():
    asked = (OffsetRange("t", 0, 50, 100), OffsetRange("t", 0, 0, 50))
    made = plan(Snapshot((), asked))
    assert [task.ranges for task in made.tasks] == [(OffsetRange("t", 0, 0, 100),)]


def test_partitions_of_a_removed_slot_move_to_another_slot():
    made = plan(batch([100] * 8, executors(4)))
    again = plan(batch([100] * 8, executors(2), made.state, start=100))
    assert again.metrics["movedPartitions"] == 0
    assert sorted(sum_loads(again).values()) == [400, 400]
