"""Test which causes a report names: a table of runs, each with its expected causes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from assignor_bridge.model import Partition
from streaming.report.diagnosis import diagnose
from streaming.report.source_facts import SourceBatch, SourceFacts

EVEN = {f"t-{p}": 100 for p in range(6)}


def offsets(by_name: Mapping[str, int]) -> dict[Partition, int]:
    split = {name: name.rpartition("-") for name in by_name}
    return {Partition(t, int(n)): by_name[name] for name, (t, _, n) in split.items()}


def batch(number: int, read: Mapping[str, int], **known: Any) -> SourceBatch:
    """Return a batch on three slots that was planned evenly, read as planned, and took 2 s."""
    by_partition, third = offsets(read), sum(read.values()) / 3
    facts = SourceBatch(
        number, by_partition, unread_offsets=by_partition, start_s=2.0 * number, seconds=2.0,
        slots=3, piece_offsets={tp: min(n, round(third)) for tp, n in by_partition.items()},
        slot_seconds={f"{e}/0": 1.9 for e in range(3)}, hit_rate=1.0,
        share_elsewhere=dict.fromkeys("012", 0.0),
    )  # fmt: skip
    return replace(facts, **known)


def source(batches: Sequence[SourceBatch], **known: Any) -> SourceFacts:
    slowness = {"0": 1.0, "1": 1.1, "2": 0.95}
    facts = SourceFacts(batches, slowness=slowness, hosts={"1": "h1"})
    return replace(facts, **known)


def run(read: Mapping[str, int] = EVEN, count: int = 8, **known: Any) -> list[SourceBatch]:
    return [batch(number, read, **known) for number in range(count)]


def whole(read: Mapping[str, int]) -> dict[str, Any]:
    return {"piece_offsets": offsets(read)}


def growing(step: int, *, read: Mapping[str, int] = EVEN, **known: Any) -> list[SourceBatch]:
    """Return batches between which the lag of each partition grows by `step` records."""
    return [
        batch(n, read, unread_offsets=offsets({k: v + step * n for k, v in read.items()}), **known)
        for n in range(8)
    ]


def two_topics(small: int, *, of: int = 90, **known: Any) -> list[SourceBatch]:
    """Return batches of a topic with a backlog and one that has `of` records and gets `small`."""
    return [
        batch(
            n, {"big-0": 300 - small, "big-1": 300, "small-0": small},
            unread_offsets=offsets({"big-0": 90_000, "big-1": 90_000, "small-0": of}), **known,
        )
        for n in range(6)
    ]  # fmt: skip


HOT = {"t-0": 700, "t-1": 60, "t-2": 60, "t-3": 60, "t-4": 60, "t-5": 60}
SLOW = {"0": 1.0, "1": 3.0, "2": 1.0}
IDLE = {"slot_seconds": {f"{e}/0": 0.3 for e in range(3)}}
ELSEWHERE = {"hit_rate": 0.4, "share_elsewhere": {"0": 0.0, "1": 1.0, "2": 0.9}}
LATE = {n: {"t-0": 100 if n < 6 else 700, "t-1": 100, "t-2": 100} for n in range(8)}


@pytest.mark.parametrize(
    ("facts", "titles"),
    [
        # No cause.
        pytest.param(SourceFacts(), [], id="no batch"),
        pytest.param(source(run()), [], id="all is even"),
        pytest.param(source(run(HOT)), [], id="a hot partition that is split"),
        pytest.param(source([batch(n, LATE[n], **whole(LATE[n])) for n in range(8)]), [],
                     id="two batches with a burst"),
        pytest.param(source(run(HOT, count=2, **whole(HOT))), [], id="too few batches"),
        pytest.param(source(run(EVEN | {"t-0": 200}, **whole(EVEN | {"t-0": 200}))), [],
                     id="a large partition that fits into a slot"),
        pytest.param(source(run({"t-0": 3}, slot_seconds={}, **whole({"t-0": 3}))), [],
                     id="a quiet topic"),
        pytest.param(source(run(HOT, **whole(HOT), **IDLE)), [], id="reading takes no time"),
        pytest.param(source(run(), slowness={"0": 1.0, "1": 1.4, "2": 1.0}), [],
                     id="an executor that is hardly slower"),
        pytest.param(source(run(), slowness={"0": 5.0}), [], id="one executor has no others"),
        pytest.param(source([*run(count=2, **ELSEWHERE), *run()]), [],
                     id="two batches that ran elsewhere"),
        pytest.param(source(growing(2)), [], id="lag that creeps"),
        pytest.param(source(growing(-10)), [], id="a backlog that is read"),
        pytest.param(source([batch(n, {"t-0": 90 + 7 * (n * 5 % 8)}) for n in range(8)],
                            slowness={}), [], id="lag that goes up and down"),
        pytest.param(source(two_topics(90)), [], id="a small topic that gets all it has"),
        pytest.param(source(two_topics(40)), [], id="half of what it has is enough"),
        pytest.param(source(two_topics(5), weights={"small": 0.01}), [],
                     id="a topic with a small weight"),
        pytest.param(source(run(unread_offsets={}, start_s=None, seconds=None, slots=None,
                                piece_offsets={}, slot_seconds={}, hit_rate=None,
                                share_elsewhere={}),
                            slowness={}),
                     [],
                     id="nothing but offsets is known"),
        # One cause.
        pytest.param(source(run(HOT, **whole(HOT)), split=False), ["Hot key: t-0"], id="hot key"),
        pytest.param(source(run(**whole(EVEN)), relative_costs={Partition("t", 4): 20.0}),
                     ["Hot key: t-4"], id="a partition with costly records"),
        pytest.param(source(run({"t-0": 600, "t-1": 0}, piece_offsets=offsets({"t-0": 600}))),
                     ["Hot key: t-0"], id="the others are empty"),
        pytest.param(source(run({"t-0": 300, "t-1": 300}, slots=8,
                                piece_offsets=offsets({"t-0": 300, "t-1": 300}))),
                     ["Few partitions: 2 for 8 slots"], id="few partitions"),
        pytest.param(source(run(), slowness=SLOW), ["Slow executor: 1 on h1"], id="slow executor"),
        pytest.param(source(run(), slowness={"0": 0.58, "1": 1.73}, hosts={}),
                     ["Slow executor: 1"], id="two executors are compared with each other"),
        pytest.param(source(run(**ELSEWHERE)), ["Busy cluster: executors 1, 2"], id="busy cluster"),
        pytest.param(source(run(hit_rate=0.5, share_elsewhere={})), ["Busy cluster"],
                     id="executors unknown"),
        pytest.param(source(growing(100)), ["Too few slots"], id="too few slots"),
        pytest.param(source(growing(100, slot_seconds={}, slots=None)), ["Too few slots"],
                     id="without knowing how busy they are"),
        pytest.param(source(growing(100, **IDLE)), ["Overhead"], id="overhead"),
        pytest.param(source([replace(b, start_s=20.0 * b.batch) for b in growing(100)]),
                     ["Overhead"], id="a trigger interval that is too long"),
        pytest.param(source(two_topics(2)), ["Starved topic: small"], id="starved topic"),
        pytest.param(source(two_topics(0, held_back_by="time")), ["Alignment: small"],
                     id="alignment"),
        # Two causes, the costlier one first.
        pytest.param(source(run(HOT, **whole(HOT)), slowness=SLOW, split=False),
                     ["Hot key: t-0", "Slow executor: 1 on h1"], id="hot key and slow executor"),
        pytest.param(source(run(**ELSEWHERE), slowness=SLOW),
                     ["Busy cluster: executors 1, 2", "Slow executor: 1 on h1"],
                     id="busy cluster and slow executor"),
        pytest.param(source(growing(400), slowness=SLOW),
                     ["Too few slots", "Slow executor: 1 on h1"],
                     id="with a usual executor there would still be too few slots"),
        pytest.param(source(growing(20), slowness=SLOW), ["Slow executor: 1 on h1"],
                     id="with a usual executor there would be enough slots"),
        pytest.param(source(two_topics(2), slowness=SLOW),
                     ["Starved topic: small", "Slow executor: 1 on h1"],
                     id="starved topic and slow executor"),
    ],
)  # fmt: skip
def test_causes_are_named(facts: SourceFacts, titles: list[str]) -> None:
    assert [cause.title for cause in diagnose(facts)] == titles


def explain_only_cause(facts: SourceFacts) -> tuple[str, str]:
    [cause] = diagnose(facts)
    return cause.why, cause.remedy


def test_cause_has_the_figures_of_the_run() -> None:
    why, remedy = explain_only_cause(source(run(HOT, **whole(HOT)), split=False))
    assert "has 70% of the work" in why
    assert "2.1 times as long as if all 3 slots shared the work" in why
    assert "assignor.split=false" in remedy
    why, _ = explain_only_cause(source(run(), slowness=SLOW))
    assert "3.0 times as long as the others" in why
    assert "costs 22%" in why  # the throughput of two and a third executors instead of three
    why, remedy = explain_only_cause(source(growing(100)))
    assert "2.00 times as fast as they are read by 3 slots, busy for 95% of the batch time" in why
    assert "about 6 slots would keep up" in remedy
    why, _ = explain_only_cause(source(growing(100, **IDLE)))
    assert "reading takes only 15% of the time" in why
    why, _ = explain_only_cause(source(run(**ELSEWHERE)))
    assert "only 40% of the reads ran on their planned executors" in why
    why, remedy = explain_only_cause(source(two_topics(2)))
    assert "got 2% of its even share in 6 limited batches; big got 100% of the records" in why
    assert "assignor.fairness=even" in remedy


@pytest.mark.parametrize("order", [list, reversed], ids=["original", "reversed"])
def test_the_order_of_partitions_and_executors_does_not_matter(
    order: Callable[[Any], Any],
) -> None:
    ordered = dict(order(list(HOT.items())))
    facts = source(run(ordered, **whole(ordered)), slowness=dict(order(list(SLOW.items()))))
    assert titles(facts) == ["Hot key: t-0", "Slow executor: 1 on h1"]


def titles(facts: SourceFacts) -> list[str]:
    return [cause.title for cause in diagnose(facts)]


def test_idle_query_has_overhead_even_if_reading_times_are_unknown() -> None:
    batches = [
        replace(b, start_s=20.0 * b.batch, held_back_by="records")
        for b in growing(100, slot_seconds={})
    ]  # fmt: skip
    why, _ = explain_only_cause(source(batches))
    assert "reading takes at most 11% of the time; for 89%, no batch runs" in why


@pytest.mark.parametrize(
    ("by", "known", "title"),
    [
        ("records", {"slot_seconds": {}}, "Small batches"),
        ("records", {}, "Too few slots"),
        ("nothing", {"slot_seconds": {}}, "Too few slots"),
        ("seconds", {"slot_seconds": {}}, "Too few slots"),
        ("spark", {"slot_seconds": {}}, "Too few slots"),
    ],
)
def test_a_limit_that_caps_batches_is_not_reported_as_too_few_slots(
    by: str, known: dict[str, Any], title: str
) -> None:
    assert titles(source(growing(100, held_back_by=by, **known))) == [title]


def test_a_few_fallback_batches_are_not_reported_as_a_hot_key() -> None:
    planned = run(HOT, count=17, piece_offsets={})
    assert titles(source([*planned, *run(HOT, count=3, **whole(HOT))])) == []


def test_a_busy_cluster_does_not_hide_too_few_slots() -> None:
    facts = source(growing(1000, hit_rate=0.05, share_elsewhere={}))
    assert titles(facts) == ["Busy cluster", "Too few slots"]


BIG = {f"big-{p}": 100_000 for p in range(4)}


@pytest.mark.parametrize(
    ("read", "title"),
    [
        pytest.param(BIG | {f"small-{p}": 10 for p in range(8)},
                     "Few partitions: 4 large partitions of 12 for 16 slots", id="others are tiny"),
        pytest.param(BIG | {f"small-{p}": 0 for p in range(60)},
                     "Few partitions: 4 large partitions of 64 for 16 slots",
                     id="others are empty"),
        pytest.param(BIG | {"big-2": 160_000}, "Few partitions: 4 for 16 slots",
                     id="somewhat larger"),
        pytest.param(BIG | {f"small-{p}": 10 for p in range(8)} | {"big-2": 160_000},
                     "Hot key: big-2", id="much larger than the next"),
        pytest.param({"t-0": 500, "t-1": 400, "t-2": 10, "t-3": 10}, "Hot key: t-0",
                     id="half of the work"),
    ],
)  # fmt: skip
def test_several_equally_hot_partitions_are_reported_as_too_few(
    read: Mapping[str, int], title: str
) -> None:
    slots = 16 if "big-0" in read else 3
    assert titles(source(run(read, slots=slots, **whole(read)))) == [title]


def test_time_between_two_runs_is_not_idle_time() -> None:
    batches = [
        replace(b, run_id="old" if b.batch < 8 else "new",
                start_s=2.0 * b.batch + 3600 * (b.batch >= 8))
        for b in (*growing(100), *(replace(b, batch=b.batch + 8) for b in growing(100)))
    ]  # fmt: skip
    facts = source(batches)
    assert facts.running_share == 1.0
    assert facts.arrival_ratio == source(growing(100)).arrival_ratio
    assert titles(facts) == ["Too few slots"]


def test_waiting_and_read_partitions_may_be_disjoint() -> None:
    assert titles(source(run(unread_offsets=offsets({"u-0": 9000}), **whole(EVEN)))) == []
