"""Lag figures of a partition are computed from known values; others stay unknown."""

from __future__ import annotations

import json
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME

from assignor_bridge.model import Partition
from streaming.cli import main
from streaming.kafka.brokers import Retention
from streaming.lag.first_unread import find_first_unread
from streaming.lag.lag_records import Row, _add_missing_positions, select_rows
from streaming.lag.lag_table import (
    find_alarms,
    format_duration,
    format_summary,
    format_table,
    sum_up,
    to_json,
)
from streaming.lag.positions import Position
from tests.unit.lag.checkpoint_files import write_query

DAY_S = 86_400.0
WEEK = Retention(deletes=True, time_s=7 * DAY_S, size_bytes=None)


def row(offset=10, begin=0, end=30, behind=60.0, retention=WEEK, partition=0, **more) -> Row:
    return Row(Position("g", "t", partition, offset), begin, end, behind, retention, **more)


def test_each_source_of_a_topic_has_all_its_partitions():
    """If a topic is joined with itself, both sources read its new partitions."""
    read = [Position(owner, "t", 0, 5) for owner in ("sources/0", "sources/1")]
    both = _add_missing_positions(read, {"t": frozenset({0, 1}), "gone": frozenset()})
    assert [(p.owner, p.partition, p.offset) for p in both] == [
        ("sources/0", 0, 5), ("sources/0", 1, None), ("sources/1", 0, 5), ("sources/1", 1, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("lag_row", "lag", "lost", "at_risk", "to_loss"),
    [
        pytest.param(row(), 20, 0, True, 7 * DAY_S - 60, id="behind"),
        pytest.param(row(offset=30, behind=0.0), 0, 0, False, None, id="read to the end"),
        pytest.param(row(offset=None, behind=None), None, None, None, None, id="never read"),
        pytest.param(row(end=None, begin=None, behind=None, retention=None), None, None, None, None,
                     id="topic is gone"),
        pytest.param(row(begin=12), 20, 2, True, 0.0, id="behind the earliest offset"),
        pytest.param(row(behind=None), 20, 0, True, None, id="time of the record unknown"),
        pytest.param(row(behind=8 * DAY_S), 20, 0, True, 0.0, id="older than retention"),
        pytest.param(row(retention=None), 20, 0, None, None, id="retention unknown"),
        pytest.param(row(retention=Retention(False, DAY_S, None)), 20, 0, False, None,
                     id="only compacted"),
        pytest.param(row(retention=Retention(True, None, None)), 20, 0, False, None,
                     id="kept for ever"),
        pytest.param(row(retention=Retention(True, DAY_S, 1)), 20, 0, True, None,
                     id="limited by size, which depends on writes"),
        pytest.param(row(offset=40), -10, 0, None, None, id="ahead of the log: re-created"),
        pytest.param(row(offset=29, behind=0.0, only_markers=True), 1, 0, False, None,
                     id="only the marker of a transaction"),
    ],
)  # fmt: skip
def test_figures_of_a_partition(lag_row, lag, lost, at_risk, to_loss):
    assert (lag_row.lag, lag_row.lost, lag_row.at_risk, lag_row.seconds_to_loss) == (
        lag, lost, at_risk, to_loss,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("lag_row", "state", "to_loss", "alarm"),
    [
        pytest.param(row(), "behind", "6d23h", None, id="behind"),
        pytest.param(row(offset=30, behind=0.0), "read", "none", None, id="read to the end"),
        pytest.param(row(offset=29, only_markers=True), "markers", "markers", None, id="markers"),
        pytest.param(row(offset=None), "never read", "-", None, id="never read"),
        pytest.param(row(end=None), "unknown", "-", None, id="unknown"),
        pytest.param(row(offset=100, end=1), "ahead", "ahead",
                     "positions beyond the log's end: t-0 at 100 (log ends at 1); the topic was ",
                     id="beyond the end"),
        pytest.param(row(begin=12), "lost", "lost",
                     "records were deleted unread: t-0 at 10 (log begins at 12); ", id="lost"),
        pytest.param(row(end=None, gone=True), "gone", "gone",
                     "missing partitions: t-0; the topic was probably recreated",
                     id="gone"),
    ],
)  # fmt: skip
def test_each_state_has_its_name_and_some_raise_an_alarm(lag_row, state, to_loss, alarm):
    assert lag_row.state == lag_row.as_json()["state"] == state
    assert format_table([lag_row]).splitlines()[1].split()[-1] == to_loss
    lines = find_alarms([lag_row], set())
    assert len(lines) == (alarm is not None)
    assert all(line.startswith(alarm) for line in lines)


def test_alarms_name_a_few_partitions_and_each_topic_once():
    rows = [row(offset=99, partition=number) for number in range(5)]
    rows += [row(end=None, gone=True, partition=number) for number in range(2)]
    ahead, topic = find_alarms(rows, {"t"})
    assert ahead.count("(log ends at 30)") == 3
    assert "and 2 more; the topic was" in ahead
    assert topic == "topic 't' no longer exists"
    assert "5 beyond the log's end" not in format_summary(rows)
    assert "5 partitions beyond the log's end" in format_summary(rows)


def test_json_has_null_for_unknown_and_never_0():
    figures = row(offset=None, begin=None, end=None, behind=None, retention=None).as_json()
    unknown = {name for name, value in figures.items() if value is None}
    assert unknown == set(figures) - {"group", "topic", "partition", "state"}


def test_text_has_0_for_0_and_a_dash_for_unknown():
    rows = [row(offset=0, end=0, behind=0.0), row(offset=None, end=None, behind=None, partition=1)]
    first, second = (line.split() for line in format_table(rows).splitlines()[1:3])
    assert first == ["g", "t", "0", "0", "0", "0", "-", "-", "-", "-", "0.0", "none"]
    assert second == ["g", "t", "1", *"-" * 9]


def test_rows_are_sorted_worst_first_with_unknown_last():
    rows = [
        row(partition=0, offset=None, behind=None), row(partition=1, offset=30, behind=0.0),
        row(partition=2, offset=29, behind=90.0), row(partition=3, offset=0, behind=5.0),
    ]  # fmt: skip

    def order(**how: object) -> list[int]:
        return [lag_row.position.partition for lag_row in select_rows(rows, **how)]  # type: ignore[arg-type]

    assert order() == [0, 1, 2, 3]
    assert order(order="lag") == [3, 2, 1, 0]
    assert order(order="seconds") == [2, 3, 1, 0]
    assert order(order="loss") == [2, 3, 0, 1]
    assert order(only_with_lag=True) == [0, 2, 3]
    beyond = row(offset=31, partition=4)
    assert select_rows([beyond], only_with_lag=True) == [beyond]


def test_a_total_counts_known_and_unknown_lag():
    rows = [
        row(), row(offset=None, behind=None), row(begin=15, behind=3.0), row(offset=30),
        row(offset=31),
    ]  # fmt: skip
    total = sum_up(rows)
    assert (total.partitions, total.with_lag, total.lag, total.unknown_lag) == (5, 2, 40, 1)
    assert (total.lost, total.seconds_behind, total.seconds_to_loss) == (5, 60.0, 0.0)
    assert format_summary(rows) == (
        "5 partitions, 2 with lag: 40 offsets behind, at most 60.0 s, lag of 1 partition unknown, "
        "1 partition beyond the log's end, 5 offsets deleted unread"
    )
    assert sum_up([]).seconds_behind is None


def test_a_table_starts_with_the_columns_of_kafkas_tool():
    narrow = format_table([row(), row(partition=1, offset=None, behind=None)], 80).splitlines()
    assert max(map(len, narrow)) <= 80
    assert narrow[0].split()[:4] == ["TOPIC", "PART", "OFFSET", "END"]
    lines = format_table([row(), row(partition=1, offset=None, behind=None)]).splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID",
         "HOST", "CLIENT-ID", "EXECUTOR", "SECONDS-BEHIND", "TIME-TO-LOSS"],
        ["g", "t", "0", "10", "30", "20", "-", "-", "-", "-", "60.0", "6d23h"],
        ["g", "t", "1", "-", "30", "-", "-", "-", "-", "-", "-", "-"],
    ]  # fmt: skip
    assert lines[3] == ""
    assert lines[4].startswith("2 partitions, 1 with lag")
    json.dumps(to_json([row()]), allow_nan=False)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59.9, "59s"), (3600, "1h"), (3661, "1h1m"), (90_061, "1d1h"), (86_401, "1d1s")],
)
def test_a_duration_is_printed_in_its_two_largest_units(seconds, text):
    assert format_duration(seconds) == text


def test_a_query_without_a_completed_batch_has_unknown_offsets(tmp_path, capsys):
    query = write_query(tmp_path / "c", {"t": {0: 9, 1: 4}}, batch=3)
    (tmp_path / "c/commits/3").unlink()
    (tmp_path / "c/sources/0/0").unlink()
    assert main.run(["lag", "--checkpoint", query, "--json"]) == 0
    partitions = json.loads(capsys.readouterr().out)["partitions"]
    assert [(row["partition"], row["current_offset"], row["lag"]) for row in partitions] == [
        (0, None, None), (1, None, None),
    ]  # fmt: skip


def test_a_record_with_a_time_in_nanoseconds_has_unknown_age():
    """Its time would be far in the future, so that it would look 0.0 s behind."""

    def message(partition: int, time_ms: int) -> SimpleNamespace:
        values = {"topic": "t", "partition": partition, "offset": 7, "error": None}
        made = {name: lambda value=value: value for name, value in values.items()}
        return SimpleNamespace(**made, timestamp=lambda: (TIMESTAMP_CREATE_TIME, time_ms))

    times = (1_700_000_000_000, 1_700_000_000_000_000_000, -1)
    consumer = MagicMock(consume=lambda *_: [message(n, at) for n, at in enumerate(times)])
    brokers = SimpleNamespace(make_consumer=lambda *_, **__: consumer)
    unread = {Partition("t", n): 7 for n in range(3)}
    first_records = find_first_unread(brokers, unread, 1.0, {})  # type: ignore[arg-type]
    assert first_records == {Partition("t", 0): (7, 1_700_000_000.0)}


def test_a_total_of_unknown_lag_counts_no_records(tmp_path, capsys):
    """Without brokers, the lag is unknown and must not look like 0."""
    assert main.run(["lag", "--checkpoint", write_query(tmp_path / "c", {"t": {0: 9, 1: 4}})]) == 0
    assert capsys.readouterr().out.endswith("\n2 partitions, lag of 2 partitions unknown\n")


def test_a_total_gives_a_lower_bound_if_an_age_is_unknown():
    """The oldest of the known ages is no upper bound."""
    rows = [row(behind=7.7), row(partition=1, offset=0, behind=None)]
    assert sum_up(rows).unknown_seconds == 1
    assert "50 offsets behind, 7.7 s or more (unknown for 1 partition)" in format_summary(rows)
