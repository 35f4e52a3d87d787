"""Tests of the exported samples: lag, counters, and removal of deleted partitions."""

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
from streaming.observe.query_progress import parse_progress
from tests.unit.metrics.samples import QUERY, progress

RECORDED = Path(__file__).with_name("recorded_progress.jsonl")
PLAN = {
    "strategy": "lag-aware-sticky", "tasks": "4", "executors": "2", "slots": "4",
    "splitPartitions": "1", "generation": "3", "imbalance": "0.02", "localityHitRate": "0.75",
    "planMillis": "30", "movedPartitions": "2", "fallbacks": "1", "readBytes": "1000",
    "commitFailures": "0", "movedOffsets": "0.25",
    "tailShare": "0.4512", "tailTasks": "12", "unpredictability": "0.3",
    "freshnessSeconds": "0.8", "freshnessSecondsMax": "2.5",
    "admittedRecords": "30", "heldBackBy": "seconds", "offsetsLost": "3",
}  # fmt: skip


def collect(board: Board) -> dict[str, dict[tuple[str, ...], float]]:
    """Return all samples by name and label values, parsed from the text format."""
    registry = CollectorRegistry()
    registry.register(board)
    samples: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            labels = tuple(sample.labels.get(name, "") for name in METRICS[sample.name].labels)
            assert labels not in samples.setdefault(sample.name, {}), "a series twice"
            samples[sample.name][labels] = sample.value
    return samples


def fill_board(*events: dict) -> Board:
    board = Board("prod")
    for event in events:
        board.update(parse_progress(event))
    return board


def test_measured_lag_has_the_names_of_kafka_lag_exporter():
    """Compared with the planned end of a batch without limits, lag would always be 0."""
    board = fill_board(progress(start={"0": 0, "1": 0}, end={"0": 10, "1": 5}))
    for time_s, end in ((1e10, 10), (1e10 + 4, 30)):
        ends = {"0": {"t": {"0": end, "1": 5, "2": 7}}}
        assert board.update_log_ends({QUERY: ends, "of another session": ends}, time_s)
    samples = collect(board)
    member = ("prod", "orders", "t")
    assert samples["kafka_consumergroup_group_offset"][(*member, "0", "", "", "")] == 10
    assert samples["kafka_consumergroup_group_lag"] == {
        (*member, "0", "", "", ""): 20,
        (*member, "1", "", "", ""): 0,
    }
    assert samples["kafka_consumergroup_group_lag_seconds"] == {
        (*member, "0", "", "", ""): 4,
        (*member, "1", "", "", ""): 0,
    }
    assert samples["kafka_consumergroup_group_max_lag"] == {("prod", "orders", "true"): 20}
    assert samples["kafka_consumergroup_group_max_lag_seconds"] == {("prod", "orders", "true"): 4}
    assert samples["kafka_consumergroup_group_sum_lag"] == {("prod", "orders"): 20}
    assert samples["kafka_consumergroup_group_topic_sum_lag"] == {member: 20}
    assert samples["kafka_partition_latest_offset"][("prod", "t", "0")] == 30
    assert list(samples["assignor_held_back_records"].values()) == [0]
    assert board.update_log_ends({}, 1e10 + 5) is False


def test_without_a_measurement_lag_is_that_at_the_begin_of_the_batch():
    board = fill_board(
        progress(start={"0": 4, "1": 0}, end={"0": 10, "1": 5}, latest={"0": 30, "1": 5})
    )
    samples = collect(board)
    assert list(samples["kafka_consumergroup_group_lag"].values()) == [26, 5]
    assert list(samples["assignor_held_back_records"].values()) == [20]
    [at_s] = samples["spark_streaming_last_progress_timestamp_seconds"].values()
    board.mark_idle(QUERY, at_s + 60)  # it has read all that its limits allow
    assert list(collect(board)["kafka_consumergroup_group_lag"].values()) == [20, 0]


def test_the_lag_of_a_batch_that_is_run_again_is_unknown():
    """Spark does not report the latest offsets of such a batch."""
    samples = collect(
        fill_board(progress(start={"0": 0}, end={"0": 10}, null_keys=("latestOffset",)))
    )
    assert samples["kafka_consumergroup_group_offset"]
    assert [name for name in samples if "lag" in name and name.startswith("kafka")] == []


def test_the_group_is_the_commit_group_or_the_query():
    with_group = fill_board(progress(start={}, end={"0": 1}, commitGroup="billing"))
    assert ("prod", "billing") in collect(with_group)["kafka_consumergroup_group_sum_lag"]
    nameless = fill_board(progress(start={}, end={"0": 1}, name=None))
    assert ("prod", QUERY) in collect(nameless)["kafka_consumergroup_group_sum_lag"]


@pytest.mark.parametrize("year", ["55840", "+55840"])
def test_a_watermark_beyond_the_year_9999_is_not_exported(year: str):
    """Such batches were once ignored, so the query's metrics stopped changing."""
    event = progress(start={"0": 0}, end={"0": 30})
    event["eventTime"] = {"watermark": f"{year}-01-01T00:00:00.000Z"}
    samples = collect(fill_board(event))
    assert samples["spark_streaming_input_rows_total"]["orders", QUERY] == 30
    assert "spark_streaming_event_time_watermark_timestamp_seconds" not in samples


def test_metrics_are_in_base_units():
    samples = collect(
        fill_board(progress(start={"0": 0}, end={"0": 30}, latest={"0": 100}, **PLAN))
    )
    query, source = ("orders", QUERY), ("orders", QUERY, "0")
    assert samples["spark_streaming_latency_seconds"][query] == 0.75
    assert samples["spark_streaming_duration_seconds"][(*query, "addBatch")] == 0.5
    assert samples["spark_streaming_input_rows_total"][query] == 30
    assert samples["spark_streaming_states_used_bytes"][query] == 900
    assert "spark_streaming_event_time_watermark_timestamp_seconds" not in samples
    assert samples["assignor_plan_seconds"][source] == 0.03
    assert samples["assignor_freshness_seconds"][source] == 0.8
    assert samples["assignor_freshness_max_seconds"][source] == 2.5
    assert samples["assignor_admitted_records"][source] == 30
    assert samples["assignor_held_back_records"][source] == 70
    assert samples["assignor_offsets_lost_total"][source] == 3
    assert samples["assignor_held_back_info"] == {(*source, "seconds"): 1}
    assert samples["assignor_imbalance_ratio"][source] == 0.02
    assert samples["assignor_moved_offsets_ratio"][source] == 0.25
    assert samples["assignor_tail_ratio"][source] == 0.4512
    assert samples["assignor_tail_tasks"][source] == 12
    assert samples["assignor_unpredictability_ratio"][source] == 0.3
    assert samples["assignor_locality_hit_ratio"][source] == 0.75
    assert samples["assignor_info"] == {(*source, "lag-aware-sticky"): 1}
    assert set(samples) <= set(METRICS)


def test_an_idle_progress_has_no_freshness():
    first = progress(1, start={"0": 0}, end={"0": 10}, **PLAN)
    without = {key: value for key, value in PLAN.items() if not key.startswith("freshness")}
    idle = progress(1, start={"0": 10}, end={"0": 10}, **without)
    assert "assignor_freshness_seconds" in collect(fill_board(first))
    assert "assignor_freshness_seconds" not in collect(fill_board(first, idle))


def test_an_idle_query_is_alive_and_has_no_freshness():
    """Its last batch was once exported forever, so alerts on stale and dead queries fired."""
    board = fill_board(progress(1, start={"0": 0}, end={"0": 10}, **PLAN))
    [at_s] = collect(board)["spark_streaming_last_progress_timestamp_seconds"].values()
    board.mark_idle(QUERY, at_s + 60)
    board.mark_idle("of no batch yet", at_s + 60)
    samples = collect(board)
    assert list(samples["spark_streaming_last_progress_timestamp_seconds"].values()) == [at_s + 60]
    assert "assignor_freshness_seconds" not in samples
    assert "assignor_freshness_max_seconds" not in samples
    assert samples["assignor_imbalance_ratio"]
    board.update(parse_progress(progress(2, start={"0": 10}, end={"0": 11}, second=90, **PLAN)))
    assert "assignor_freshness_seconds" in collect(board)


def test_counters_count_a_batch_once_and_survive_a_restart():
    first = progress(1, start={"0": 0}, end={"0": 10}, **PLAN)
    idle = progress(1, start={"0": 10}, end={"0": 10}, **PLAN)
    second = progress(2, start={"0": 10}, end={"0": 30}, **{**PLAN, "readBytes": "1500"})
    again = progress(
        3, start={"0": 30}, end={"0": 31}, run_id="other", **{**PLAN, "readBytes": "50"}
    )
    samples = collect(fill_board(first, first, idle, second, again))
    source = ("orders", QUERY, "0")
    assert samples["spark_streaming_batches_total"]["orders", QUERY] == 3
    assert samples["spark_streaming_input_rows_total"]["orders", QUERY] == 31
    assert samples["assignor_moved_partitions_total"][source] == 6  # 2 a batch
    assert samples["assignor_reader_bytes_total"][source] == 1550
    assert samples["assignor_fallbacks_total"][source] == 2  # 1 in each run


def test_counters_of_an_ended_query_start_again_at_0():
    """They are removed when the query ends, like its other metrics."""
    board = fill_board(progress(1, start={"0": 0}, end={"0": 10}, **PLAN))
    board.remove(QUERY)
    event = progress(2, start={"0": 10}, end={"0": 12}, run_id="other", **PLAN)
    board.update(parse_progress(event))
    samples = collect(board)
    assert samples["spark_streaming_batches_total"]["orders", QUERY] == 1
    assert samples["spark_streaming_input_rows_total"]["orders", QUERY] == 2
    assert samples["assignor_reader_bytes_total"]["orders", QUERY, "0"] == 1000


def test_deleted_partitions_topics_and_queries_are_not_exported():
    shrunk = fill_board(
        progress(1, start={}, end={"0": 1, "1": 1}),
        progress(2, start={"0": 1}, end={"0": 2}),
    )
    partitions = {labels[3] for labels in collect(shrunk)["kafka_consumergroup_group_lag"]}
    assert partitions == {"0"}
    assert set(collect(shrunk)["kafka_partition_latest_offset"]) == {("prod", "t", "0")}
    assert shrunk.remove(QUERY) is False
    assert collect(shrunk) == {}


def test_two_queries_of_one_group_share_a_series():
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
    samples = collect(fill_board(ahead, behind))
    assert samples["kafka_consumergroup_group_lag"] == {("prod", "g", "t", "0", "", "", ""): 9}
    assert samples["kafka_partition_latest_offset"] == {("prod", "t", "0"): 10}


def test_a_source_other_than_kafka_only_counts_rows():
    event = progress(1, start={}, end={"0": 3})
    event["sources"] = [{"description": "RateSource", "startOffset": 0, "endOffset": 3}]
    samples = collect(fill_board(event))
    assert samples["spark_streaming_input_rows_total"]["orders", QUERY] == 3
    assert not [name for name in samples if name.startswith(("kafka", "assignor"))]


@pytest.mark.parametrize(
    ("points", "offset", "seconds"),
    [
        pytest.param([], 5, None, id="no point"),
        pytest.param([(0, 10)], 10, 0.0, id="caught up"),
        pytest.param([(0, 10)], 5, None, id="one point has no rate"),
        pytest.param([(0, 0), (10, 100)], 50, 5.0, id="half way"),
        pytest.param([(0, 0), (10, 100), (30, 100)], 100, 0.0, id="standstill, caught up"),
        pytest.param([(0, 0), (10, 100), (30, 100)], 50, 25.0, id="standstill, behind"),
        pytest.param([(0, 100), (10, 200)], 0, 20.0, id="before the first point, by mean rate"),
        pytest.param([(0, 100), (10, 100)], 50, None, id="no rate, no guess"),
        pytest.param([(0, 100), (10, 3)], 3, 0.0, id="re-created"),
        pytest.param([(0, 0), (10, 100), (10, 100)], 50, 5.0, id="measured twice"),
        pytest.param([(0, 0), (10, 100), (9, 200)], 150, 2.5, id="a clock that went back a little"),
        pytest.param([(3600, 0), (3610, 100), (10, 120), (20, 220)], 170, 5.0,
                     id="a clock that went back an hour"),
    ],
)  # fmt: skip
def test_lag_in_seconds(points, offset, seconds):
    ends = LogEnds()
    for time_s, end in points:
        ends.add(time_s, end)
    assert ends.estimate_lag_s(offset) == seconds


def test_lag_in_seconds_is_exported():
    samples = collect(
        fill_board(
            progress(1, start={}, end={"0": 0}, latest={"0": 0}, second=0),
            progress(2, start={"0": 0}, end={"0": 50}, latest={"0": 100}, second=10),
        )
    )
    assert list(samples["kafka_consumergroup_group_lag_seconds"].values()) == [10.0]
    assert samples["kafka_consumergroup_group_max_lag_seconds"] == {
        ("prod", "orders", "true"): 10.0
    }


def test_progress_of_a_real_run_is_read():
    """Recorded with Spark 4.0.4 and Kafka 4.1.0: 12 partitions, 1,500 records per batch."""
    lines = RECORDED.read_text(encoding="utf-8").splitlines()
    samples = collect(fill_board(*map(json.loads, lines)))
    assert len(samples["kafka_consumergroup_group_lag"]) == 12
    assert samples["spark_streaming_batches_total"].popitem()[1] == 3
    assert list(samples["kafka_consumergroup_group_sum_lag"].values()) == [11_615 - 2 * 1_495]
    assert list(samples["assignor_held_back_records"].values()) == [11_615 - 3 * 1_495]
    assert samples["assignor_info"].popitem()[0][-1] == "lag-aware-sticky"
    assert samples["assignor_reader_bytes_total"].popitem()[1] > 10_000
    # The run had no watermark, commits, limits, racks, or tail, and did not measure lag.
    unused = {
        "assignor_tail_ratio",
        "assignor_tail_tasks",
        "assignor_unpredictability_ratio",
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
    assert set(METRICS) - set(samples) == unused


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_names_follow_prometheus_rules(metric):
    """The rules are those of `promtool check metrics`: counters end in _total, units come last."""
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


def test_kafka_metrics_have_the_labels_of_kafka_lag_exporter():
    assert KAFKA[1].labels == (
        "cluster_name", "group", "topic", "partition", "member_host", "consumer_id", "client_id",
    )  # fmt: skip


@pytest.mark.parametrize("offset", [2**63, -(2**63) - 1, 10**30, 1e300])
def test_offsets_beyond_64_bits_are_ignored(offset):
    event = progress(start={"0": 1}, end={"0": 2})
    assert len(parse_progress(event).sources) == 1
    event["sources"][0]["endOffset"] = {"t": {"0": offset}}
    assert parse_progress(event).sources == ()
