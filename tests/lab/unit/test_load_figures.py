"""What the pages of load say is counted right: connections, offsets, what stayed."""

from __future__ import annotations

import os
import socket
from collections import Counter

import pytest

from tests.lab.benchmarks.broker_counts import FETCH, Counts
from tests.lab.benchmarks.load_run import connections_of
from tests.lab.benchmarks.test_bench_large import (
    assert_each_offset_once,
    busiest_over_ideal,
    pieces,
    share_that_stayed,
)
from tests.lab.benchmarks.test_bench_load import SHARED, row_of


def test_connections_are_those_of_the_process_to_these_ports() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        ports = [server.getsockname()[1] for server in (one, other)]
        with (
            socket.create_connection(("127.0.0.1", ports[0])),
            socket.create_connection(("127.0.0.1", ports[0])) as left,
            socket.create_connection(("::ffff:127.0.0.1", ports[1])),  # as Java does
        ):
            assert connections_of(os.getpid(), set(ports)) == 3
            assert connections_of(os.getpid(), {ports[0]}) == 2
            assert connections_of(os.getppid(), set(ports)) == 0
            left.close()
            assert connections_of(os.getpid(), set(ports)) == 2


def test_counts_of_a_while_leave_out_what_was_before() -> None:
    before = Counts(Counter({FETCH: 5, "Metadata": 2}), made=3, sessions=7, evicted=1)
    now = Counts(Counter({FETCH: 9, "Metadata": 2, "ListOffsets": 1}), 4, sessions=2, evicted=1)
    assert now.since(before) == Counts(Counter({FETCH: 4, "ListOffsets": 1}), 1, 2, 0)


def test_a_row_is_by_batch_but_what_is_held_is_of_the_larger_executor() -> None:
    held = {"heap_mb": 50.4, "peak_rss_mb": 300.0, "files": 90, "connections": 2}
    told = {
        "records": 30, "seconds": [1.0, 2.0, 2.0], "made": 3, "sessions": 2,
        "requests": {FETCH: 12, "ListOffsets": 6, "Metadata": 4, "Produce": 99},
        "executors": [held, held | {"heap_mb": 60.6, "files": 80}],
        "driver": held | {"heap_mb": 70.2},
    }  # fmt: skip
    row = row_of(told, 10, 1, SHARED, 3)
    assert [row[f"{what} a batch"] for what in ("fetches", "ListOffsets")] == [4, 2]
    assert row["records a fetch"] == 7.5
    assert row["requests a second"] == round(22 / 5)
    assert (row["heap, MB"], row["open files"], row["connections made a batch"]) == (61, 90, 1)
    assert (row["driver: heap, MB"], row["driver: peak resident, MB"]) == (70, 300)


def plan(*placed: tuple[str, int, int, int, int]) -> dict[str, object]:
    """Tasks of one range each: executor, slot, partition, start, end."""
    tasks = [
        {
            "executor": executor, "slot": slot,
            "ranges": [{"topic": "t", "partition": partition, "start": start, "end": end}],
        }
        for executor, slot, partition, start, end in placed
    ]  # fmt: skip
    return {"tasks": tasks, "metrics": {"slots": 4}}


RANGES = [{"topic": "t", "partition": 0, "start": 5, "end": 9}]


@pytest.mark.parametrize(
    "edges",
    [((5, 7), (8, 9)), ((5, 7), (6, 9)), ((5, 7), (7, 8)), ((6, 9),), ((5, 9), (5, 9))],
    ids=["gap", "overlap", "short", "late", "twice"],
)
def test_offsets_that_are_not_read_once_are_seen(edges: tuple[tuple[int, int], ...]) -> None:
    assert_each_offset_once(RANGES, pieces(plan(("0", 0, 0, 7, 9), ("1", 0, 0, 5, 7))))
    with pytest.raises(AssertionError):
        assert_each_offset_once(RANGES, pieces(plan(*(("0", 0, 0, *edge) for edge in edges))))


def test_a_partition_that_no_range_was_asked_for_is_seen() -> None:
    with pytest.raises(AssertionError):
        assert_each_offset_once(RANGES, pieces(plan(("0", 0, 0, 5, 9), ("0", 0, 1, 5, 9))))


def test_a_slot_above_the_bound_is_seen() -> None:
    even = plan(*(("0", slot, slot, 0, 100) for slot in range(4)))
    assert busiest_over_ideal(even, 1) == 1
    with pytest.raises(AssertionError):
        busiest_over_ideal(plan(("0", 0, 0, 0, 100), ("0", 1, 1, 0, 100)), 1)


def test_a_partition_stays_where_its_end_was_read() -> None:
    before = pieces(plan(("0", 0, 0, 0, 5), ("1", 0, 0, 5, 9), ("2", 0, 1, 0, 9)))
    now = pieces(plan(("1", 0, 0, 9, 12), ("0", 0, 1, 9, 12)))
    assert share_that_stayed(before, now, executors=3) == 0.5
    assert share_that_stayed(before, now, executors=2) == 1  # 2 is gone
