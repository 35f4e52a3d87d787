"""What is exposed, sample by sample: lag, counters, and that what has gone is gone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from streaming.metrics.board import Board
from streaming.metrics.log_ends import LogEnds
from streaming.metrics.names import KAFKA, METRICS
from streaming.observe.query_progress import read_progress
from tests.unit.metrics.samples import QUERY, progress

RECORDED = Path(__file__).with_name("recorded_progress.jsonl")
PLAN = {
    "strategy": "lag-aware-sticky", "tasks": "4", "executors": "2", "slots": "4",
    "splitPartitions": "1", "generation": "3", "imbalance": "0.02", "localityHitRate": "0.75",
    "planMillis": "30", "movedPartitions": "2", "fallbacks": "1", "readBytes": "1000",
    "commitFailures": "0", "movedOffsets": "0.25",
    "freshnessSeconds": "0.8", "freshnessSecondsMax": "2.5",
    "admittedRecords": "30", "heldBackBy": "seconds", "offsetsLost": "3",
}  # fmt: skip


def exposed(board: Board) -> dict[str, dict[tuple[str, ...], float]]:
    """Every sample by name and label values, after a round trip through the text."""
    registry = CollectorRegistry()
    registry.register(board)
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels = tuple(sample.labels.get(name, "") for name in METRICS[sample.name].labels)
            assert labels not in found.setdefault(sample.name, {}), "a series twice"
            found[sample.name][labels] = sample.value
    return found


def board(*events: dict) -> Board:
    made = Board("prod")
    for event in events:
        made.update(read_progress(event))
    return made


def test_lag_is_what_the_brokers_measured_under_the_names_of_kafka_lag_exporter():
    """Without limits a batch reads to the end that was planned: by that end, lag is always 0."""
    made = board(progress(start={"0": 0, "1": 0}, end={"0": 10, "1": 5}))
    for time_s, end in ((1e10, 10), (1e10 + 4, 30)):
        ends = {"0": {"t": {"0": end, "1": 5, "2": 7}}}
        assert made.measure({QUERY: ends, "of another session": ends}, time_s)
    found = exposed(made)
    member = ("prod", "orders", "t")
    assert found["kafka_consumergroup_group_offset"][(*member, "0", "", "", "")] == 10
    assert found["kafka_consumergroup_group_lag"] == {
        (*member, "0", "", "", ""): 20,
        (*member, "1", "", "", ""): 0,
    }
    assert found["kafka_consumergroup_group_lag_seconds"] == {
        (*member, "0", "", "", ""): 4,
        (*member, "1", "", "", ""): 0,
    }
    assert found["kafka_consumergroup_group_max_lag"] == {("prod", "orders", "true"): 20}
    assert found["kafka_consumergroup_group_max_lag_seconds"] == {("prod", "orders", "true"): 4}
    assert found["kafka_consumergroup_group_sum_lag"] == {("prod", "orders"): 20}
    assert found["kafka_consumergroup_group_topic_sum_lag"] == {member: 20}
    assert found["kafka_partition_latest_offset"][("prod", "t", "0")] == 30
    assert list(found["assignor_held_back_records"].values()) == [0]
    assert made.measure({}, 1e10 + 5) is False


def test_without_a_measurement_lag_is_what_was_unread_when_the_batch_began():
    made = board(progress(start={"0": 4, "1": 0}, end={"0": 10, "1": 5}, latest={"0": 30, "1": 5}))
    found = exposed(made)
    assert list(found["kafka_consumergroup_group_lag"].values()) == [26, 5]
    assert list(found["assignor_held_back_records"].values()) == [20]
    [at_s] = found["spark_streaming_last_progress_timestamp_seconds"].values()
    made.idle(QUERY, at_s + 60)  # it has read all that its limits allow
    assert list(exposed(made)["kafka_consumergroup_group_lag"].values()) == [20, 0]


def test_what_a_batch_left_that_is_run_again_is_unknown_not_0():
    """Spark does not tell where the logs ended for it."""
    found = exposed(board(progress(start={"0": 0}, end={"0": 10}, untold=("latestOffset",))))
    assert found["kafka_consumergroup_group_offset"]
    assert [name for name in found if "lag" in name and name.startswith("kafka")] == []


def test_the_group_is_the_one_that_is_committed_to_else_the_query():
    named = board(progress(start={}, end={"0": 1}, commitGroup="billing"))
    assert ("prod", "billing") in exposed(named)["kafka_consumergroup_group_sum_lag"]
    nameless = board(progress(start={}, end={"0": 1}, name=None))
    assert ("prod", QUERY) in exposed(nameless)["kafka_consumergroup_group_sum_lag"]


@pytest.mark.parametrize("year", ["55840", "+55840"])
def test_a_watermark_beyond_the_year_9999_is_none(year: str):
    """Such a batch was no batch: all metrics of the query stood still from then on."""
    event = progress(start={"0": 0}, end={"0": 30})
    event["eventTime"] = {"watermark": f"{year}-01-01T00:00:00.000Z"}
    found = exposed(board(event))
    assert found["spark_streaming_input_rows_total"]["orders", QUERY] == 30
    assert "spark_streaming_event_time_watermark_timestamp_seconds" not in found


def test_sparks_and_our_figures_are_in_base_units():
    found = exposed(board(progress(start={"0": 0}, end={"0": 30}, latest={"0": 100}, **PLAN)))
    query, source = ("orders", QUERY), ("orders", QUERY, "0")
    assert found["spark_streaming_latency_seconds"][query] == 0.75
    assert found["spark_streaming_duration_seconds"][(*query, "addBatch")] == 0.5
    assert found["spark_streaming_input_rows_total"][query] == 30
    assert found["spark_streaming_states_used_bytes"][query] == 900
    assert "spark_streaming_event_time_watermark_timestamp_seconds" not in found
    assert found["assignor_plan_seconds"][source] == 0.03
    assert found["assignor_freshness_seconds"][source] == 0.8
    assert found["assignor_freshness_max_seconds"][source] == 2.5
    assert found["assignor_admitted_records"][source] == 30
    assert found["assignor_held_back_records"][source] == 70
    assert found["assignor_offsets_lost_total"][source] == 3
    assert found["assignor_held_back_info"] == {(*source, "seconds"): 1}
    assert found["assignor_imbalance_ratio"][source] == 0.02
    assert found["assignor_moved_offsets_ratio"][source] == 0.25
    assert found["assignor_locality_hit_ratio"][source] == 0.75
    assert found["assignor_info"] == {(*source, "lag-aware-sticky"): 1}
    assert set(found) <= set(METRICS)


def test_an_idle_query_has_no_freshness_left():
    first = progress(1, start={"0": 0}, end={"0": 10}, **PLAN)
    without = {key: value for key, value in PLAN.items() if not key.startswith("freshness")}
    idle = progress(1, start={"0": 10}, end={"0": 10}, **without)
    assert "assignor_freshness_seconds" in exposed(board(first))
    assert "assignor_freshness_seconds" not in exposed(board(first, idle))


def test_a_query_with_nothing_to_read_is_alive_and_has_no_freshness_left():
    """Its last batch was exposed for good, and alerts on old rows and dead queries went off."""
    made = board(progress(1, start={"0": 0}, end={"0": 10}, **PLAN))
    [at_s] = exposed(made)["spark_streaming_last_progress_timestamp_seconds"].values()
    made.idle(QUERY, at_s + 60)
    made.idle("of no batch yet", at_s + 60)
    found = exposed(made)
    assert list(found["spark_streaming_last_progress_timestamp_seconds"].values()) == [at_s + 60]
    assert "assignor_freshness_seconds" not in found
    assert "assignor_freshness_max_seconds" not in found
    assert found["assignor_imbalance_ratio"]
    made.update(read_progress(progress(2, start={"0": 10}, end={"0": 11}, second=90, **PLAN)))
    assert "assignor_freshness_seconds" in exposed(made)


def test_counters_count_a_batch_once_and_go_on_over_a_restart():
    first = progress(1, start={"0": 0}, end={"0": 10}, **PLAN)
    idle = progress(1, start={"0": 10}, end={"0": 10}, **PLAN)
    second = progress(2, start={"0": 10}, end={"0": 30}, **{**PLAN, "readBytes": "1500"})
    again = progress(
        3, start={"0": 30}, end={"0": 31}, run_id="other", **{**PLAN, "readBytes": "50"}
    )
    found = exposed(board(first, first, idle, second, again))
    source = ("orders", QUERY, "0")
    assert found["spark_streaming_batches_total"]["orders", QUERY] == 3
    assert found["spark_streaming_input_rows_total"]["orders", QUERY] == 31
    assert found["assignor_moved_partitions_total"][source] == 6  # 2 a batch
    assert found["assignor_reader_bytes_total"][source] == 1550
    assert found["assignor_fallbacks_total"][source] == 2  # 1 in each run


def test_counters_of_a_query_that_has_ended_begin_anew_with_its_next_run():
    """It was said that they survive; as its other figures, they are gone when it has ended."""
    made = board(progress(1, start={"0": 0}, end={"0": 10}, **PLAN))
    made.remove(QUERY)
    made.update(read_progress(progress(2, start={"0": 10}, end={"0": 12}, run_id="other", **PLAN)))
    found = exposed(made)
    assert found["spark_streaming_batches_total"]["orders", QUERY] == 1
    assert found["spark_streaming_input_rows_total"]["orders", QUERY] == 2
    assert found["assignor_reader_bytes_total"]["orders", QUERY, "0"] == 1000


def test_a_vanished_partition_topic_or_query_is_not_exposed_any_more():
    shrunk = board(
        progress(1, start={}, end={"0": 1, "1": 1}),
        progress(2, start={"0": 1}, end={"0": 2}),
    )
    partitions = {labels[3] for labels in exposed(shrunk)["kafka_consumergroup_group_lag"]}
    assert partitions == {"0"}
    assert set(exposed(shrunk)["kafka_partition_latest_offset"]) == {("prod", "t", "0")}
    assert shrunk.remove(QUERY) is False
    assert exposed(shrunk) == {}


def test_two_queries_that_read_one_topic_for_one_group_make_one_series():
    ahead = progress(1, start={"0": 2}, end={"0": 9}, latest={"0": 10}, commitGroup="g")
    behind = progress(
        1,
        start={"0": 0},
        end={"0": 4},
        latest={"0": 9},
        query_id="other",
        name="b",
        commitGroup="g",
    )
    found = exposed(board(ahead, behind))
    assert found["kafka_consumergroup_group_lag"] == {("prod", "g", "t", "0", "", "", ""): 9}
    assert found["kafka_partition_latest_offset"] == {("prod", "t", "0"): 10}


def test_a_source_that_is_not_kafkas_counts_rows_only():
    event = progress(1, start={}, end={"0": 3})
    event["sources"] = [{"description": "RateSource", "startOffset": 0, "endOffset": 3}]
    found = exposed(board(event))
    assert found["spark_streaming_input_rows_total"]["orders", QUERY] == 3
    assert not [name for name in found if name.startswith(("kafka", "assignor"))]


@pytest.mark.parametrize(
    ("points", "offset", "seconds"),
    [
        pytest.param([], 5, None, id="nothing known"),
        pytest.param([(0, 10)], 10, 0.0, id="caught up"),
        pytest.param([(0, 10)], 5, None, id="one point says no rate"),
        pytest.param([(0, 0), (10, 100)], 50, 5.0, id="half way"),
        pytest.param([(0, 0), (10, 100), (30, 100)], 100, 0.0, id="standstill, caught up"),
        pytest.param([(0, 0), (10, 100), (30, 100)], 50, 25.0, id="standstill, behind"),
        pytest.param([(0, 100), (10, 200)], 0, 20.0, id="before the first point, by mean rate"),
        pytest.param([(0, 100), (10, 100)], 50, None, id="no rate, no guess"),
        pytest.param([(0, 100), (10, 3)], 3, 0.0, id="made anew"),
        pytest.param([(0, 0), (10, 100), (10, 100)], 50, 5.0, id="told twice"),
        pytest.param([(0, 0), (10, 100), (9, 200)], 150, 2.5, id="a clock that went back a little"),
        pytest.param([(3600, 0), (3610, 100), (10, 120), (20, 220)], 170, 5.0,
                     id="a clock that went back an hour"),
    ],
)  # fmt: skip
def test_lag_in_seconds(points, offset, seconds):
    ends = LogEnds()
    for time_s, end in points:
        ends.add(time_s, end)
    assert ends.lag_s(offset) == seconds


def test_lag_in_seconds_is_exposed():
    found = exposed(
        board(
            progress(1, start={}, end={"0": 0}, latest={"0": 0}, second=0),
            progress(2, start={"0": 0}, end={"0": 50}, latest={"0": 100}, second=10),
        )
    )
    assert list(found["kafka_consumergroup_group_lag_seconds"].values()) == [10.0]
    assert found["kafka_consumergroup_group_max_lag_seconds"] == {("prod", "orders", "true"): 10.0}


def test_progress_of_a_real_run_is_read():
    """Recorded with Spark 4.0.4 and Kafka 4.1.0: 12 partitions, 1,500 records per batch."""
    lines = RECORDED.read_text(encoding="utf-8").splitlines()
    found = exposed(board(*map(json.loads, lines)))
    assert len(found["kafka_consumergroup_group_lag"]) == 12
    assert found["spark_streaming_batches_total"].popitem()[1] == 3
    assert list(found["kafka_consumergroup_group_sum_lag"].values()) == [11_615 - 2 * 1_495]
    assert list(found["assignor_held_back_records"].values()) == [11_615 - 3 * 1_495]
    assert found["assignor_info"].popitem()[0][-1] == "lag-aware-sticky"
    assert found["assignor_reader_bytes_total"].popitem()[1] > 10_000
    # No watermark, commits, limits of ours and racks; recorded before lag was measured.
    unused = {
        "assignor_admitted_records",
        "assignor_held_back_info",
        "assignor_offsets_lost_total",
        "assignor_time_to_loss_seconds",
        "spark_streaming_event_time_watermark_timestamp_seconds",
        "assignor_commit_failures_total",
        "assignor_cross_zone_bytes_total",
        "assignor_cross_zone_ratio",
        "assignor_received_bytes_total",
        "assignor_event_time_spread_seconds",
        "kafka_consumergroup_group_lag_seconds",
        "kafka_consumergroup_group_max_lag_seconds",
    }
    assert set(METRICS) - set(found) == unused


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_names_follow_prometheus_rules(metric):
    """As `promtool check metrics`: counters end in _total, units are base units and come last."""
    assert re.fullmatch(r"[a-z_:][a-z0-9_:]*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert not re.search(r"_(ms|millis\w*|minutes|hours|kb|mb|kilobytes|percent)(_|$)", metric.name)
    for unit in ("seconds", "bytes"):
        if f"_{unit}" in metric.name:
            assert metric.name.removesuffix("_total").endswith(unit)
    assert metric.help.endswith(".")
    assert len(set(metric.labels)) == len(metric.labels)
    assert "le" not in metric.labels
    assert "quantile" not in metric.labels


def test_the_labels_of_kafkas_metrics_are_those_of_kafka_lag_exporter():
    assert KAFKA[1].labels == (
        "cluster_name", "group", "topic", "partition", "member_host", "consumer_id", "client_id",
    )  # fmt: skip


@pytest.mark.parametrize("offset", [2**63, -(2**63) - 1, 10**30, 1e300])
def test_offsets_beyond_64_bits_are_not_kafkas(offset):
    event = progress(start={"0": 1}, end={"0": 2})
    assert len(read_progress(event).sources) == 1
    event["sources"][0]["endOffset"] = {"t": {"0": offset}}
    assert read_progress(event).sources == ()
