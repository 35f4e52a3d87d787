"""Test replays of an offset log: sums that are easy to verify, answers, and pictures."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from assignor_bridge.model import Executor, OffsetRange, Partition
from streaming.replay.answers import list_assumptions, replay_to_json, write_summary
from streaming.replay.cluster import Cluster
from streaming.replay.log import ReplayBatch
from streaming.replay.player import replay
from streaming.replay.replayed import DEFAULT_NAMES
from streaming.report.replays import HEAD, build_rows, draw_replay, write_replays
from streaming.simulator.mappings import PlacedTask

TWO = Cluster((Executor("1", "h1"), Executor("2", "h2")), cost_s=0.001)


def log(*batches: dict[int, int], topic: str = "t") -> list[ReplayBatch]:
    """Return batches of records by partition, with consecutive offsets."""
    at: dict[int, int] = {}
    replay_batches = []
    for number, counts in enumerate(batches):
        ranges = []
        for partition, records in counts.items():
            start = at.get(partition, 0)
            at[partition] = start + records
            ranges.append(OffsetRange(topic, partition, start, start + records))
        replay_batches.append(ReplayBatch(number, ranges))
    return replay_batches


def test_sparks_default_does_not_split_a_hot_partition():
    """All records on one of two slots take twice the ideal; split in two, they take the ideal."""
    done = replay("c", log({0: 1000, 1: 0}, {0: 1000, 1: 0}), TWO)
    spark, ours = done.find_result("spark"), done.find_result("lag-aware-sticky")
    assert spark.times_ideal == pytest.approx(2.0)
    assert spark.seconds == pytest.approx(2.0)  # 2 x 1,000 records of a millisecond
    assert spark.mean_tasks == 1
    assert ours.times_ideal == pytest.approx(1.0, abs=0.05)
    assert ours.mean_moved_partitions == 0
    assert replay_to_json(done)["mappings"][3]["timeRatio"] == pytest.approx(0.5, abs=0.03)
    text = write_summary(done)
    assert text.startswith("Over 2 batches, Spark's default would take 2.00 times the ideal")
    assert "51% of the time" in text
    assert "Spark's own" in text  # minPartitions splits the partition too


def test_regret_is_the_time_above_the_best_in_hindsight():
    """A record costs 3 ms in partition 0 and 1 ms in partition 1: 4 s of work for two slots."""
    dear = replace(TWO, unusual_costs={Partition("t", 0): 0.003})
    done = replay("c", log(*[{0: 1000, 1: 1000}] * 8), dear)
    spark, ours = done.find_result("spark"), done.find_result("lag-aware-sticky")
    assert [p.bound_seconds for p in spark.batches] == pytest.approx([2.0] * 8)
    assert spark.mean_regret_seconds == pytest.approx(
        1.0
    )  # one partition per slot: 3 s instead of 2
    # All records cost the same at first; later plans use the costs that readers reported.
    assert ours.batches[0].regret_share == pytest.approx(0.5)
    assert ours.batches[-1].regret_share < 0.06
    assert ours.batches[0].planned_imbalance == pytest.approx(0.0, abs=0.01)
    assert replay_to_json(done)["mappings"][0]["regret"] == pytest.approx(0.5)
    assert "Regret of lag-aware-sticky: " in write_summary(done)
    assert " (batch 0); " in write_summary(done)


def test_a_single_record_has_no_regret():
    done = replay("c", log({0: 1}), TWO, ["spark", "lag-aware-sticky"])
    assert {m.mean_regret_seconds for m in done.mappings} == {0.0}
    assert "Regret" not in write_summary(done)


def test_the_plans_of_the_query_itself_are_replayed_too():
    batches = log({0: 1000, 1: 0}, {0: 1000})
    whole = {1: [PlacedTask("1", tuple(batches[1].ranges))]}
    done = replay("c", batches, TWO, logged_tasks=whole)
    assert [b.batch for b in done.batches] == [1]
    itself = done.find_result("this query")
    assert itself.times_ideal == pytest.approx(2.0)
    assert "Regret of this query: 500 ms a batch (100.0%)" in write_summary(done)


def test_answer_without_a_gain_gives_the_reason():
    # The hashes of partitions 0 and 1 go to different executors.
    even = log({0: 500, 1: 500}, {0: 500, 1: 500})
    done = replay("c", even, TWO)
    assert done.find_result("spark").times_ideal == pytest.approx(1.0)
    assert "less than 5% would be saved" in write_summary(done)
    assert "balanced enough" in write_summary(done)


def test_one_partition_that_cannot_be_split_leaves_no_gain():
    done = replay("c", log({0: 1000}), TWO, options={"assignor.split": "false"})
    assert "less than 5% would be saved" in write_summary(done)
    assert "lag-aware-sticky is hardly better balanced" in write_summary(done)


def test_an_empty_log_has_no_answer():
    done = replay("c", log({0: 0}), TWO)
    assert write_summary(done) == "No batch in the log has data, so there is nothing to compare"
    ElementTree.fromstring(draw_replay(done))  # noqa: S314  (our own)


def test_all_assignors_and_mappings_are_replayed_on_two_topics():
    batches = [
        ReplayBatch(b.batch, [*b.ranges, *other.ranges])
        for b, other in zip(
            log({0: 90, 1: 10}, {0: 5, 2: 60}), log({7: 7}, {7: 9}, topic="u"), strict=True
        )
    ]
    done = replay("c", batches, TWO)
    assert [m.name for m in done.mappings] == list(DEFAULT_NAMES)
    assert [m.name for m in done.mappings if m.error] == []
    assert (done.partition_count, done.offset_count) == (4, 181)
    for mapping in done.mappings:
        assert mapping.times_ideal >= 1 - 1e-9, mapping.name
        assert sum(sum(p.busy_seconds.values()) for p in mapping.batches) == pytest.approx(0.181)


def test_an_assignor_that_refuses_is_reported_and_the_others_are_replayed():
    done = replay("c", log({0: 10}), TWO, ["spark", "nobody"])
    assert done.find_result("nobody") is None
    refused = build_rows(done)[1]
    assert refused[1].startswith("failed: unknown assignor 'nobody'")
    assert "a comparison needs 'spark' and 'lag-aware-sticky'" in write_summary(done)


def test_a_task_waits_for_its_executor_for_the_locality_wait():
    """Two partitions of 10 s hash to one executor; the other one takes the second after 3 s."""
    batches = log({0: 10_000, 2: 10_000})
    waited = replay("c", batches, TWO, ["spark"]).find_result("spark")
    assert waited.seconds == pytest.approx(13.0)
    stubborn = Cluster(TWO.executors, TWO.cost_s, locality_wait_s=60)
    waited = replay("c", batches, stubborn, ["spark"]).find_result("spark")
    assert waited.seconds == pytest.approx(20.0)


def test_assumptions_name_the_origin_of_the_executors():
    given = replace(TWO, origins={"executors": "as given"})
    done = replay("c", log({0: 1}), given, ["spark"])
    executors_text = list_assumptions(done)[0]
    assert executors_text == "2 executors with 1 slot, the same in every batch (as given)"


@pytest.mark.parametrize("partitions", [1, 12, 300])
def test_pictures_are_well_formed_and_the_page_opens_offline(partitions):
    done = replay("a <b>", log({p: 10 * (p + 1) for p in range(partitions)}), TWO)
    ElementTree.fromstring(draw_replay(done))  # noqa: S314  (our own)
    text = write_replays([done, done])
    assert "<script" not in text
    assert "http" not in text.replace("http://www.w3.org", "")
    assert "a &lt;b&gt;" in text
    assert all(name in text for name in HEAD[1:3])
    json.dumps(replay_to_json(done))
